// Packs weights for the gather engine (gather.hpp), each panel just before its first use.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include <gradkern/detail/config.hpp>
#include <gradkern/detail/conv/plan.hpp>
#include <gradkern/detail/micro/register_tile.hpp>
#include <gradkern/detail/order/summation.hpp>
#include <gradkern/detail/pack/pairs.hpp>
#include <gradkern/detail/pack/panels.hpp>
#include <gradkern/detail/target.hpp>
#include <gradkern/half.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail {

/// Element i of an f32, f16 or bf16 array as f32.
[[nodiscard]] inline float load_as_float(const void* p, data_type type, std::int64_t i) noexcept {
    switch (type) {
        case data_type::f16: return load_element(static_cast<const float16*>(p) + i);
        case data_type::bf16: return load_element(static_cast<const bfloat16*>(p) + i);
        default: return load_element(static_cast<const float*>(p) + i);
    }
}

/// The weights of one panel, or of neighbouring lanes of it with room for `width`, as [block of 64 k][tap][k][lane], taps
/// in the order in which they are read.
template <class T>
inline void pack_weight_panel(const gather_plan& g, const T* w, std::int64_t group, std::int64_t first_lane,
                              std::int64_t lanes_used, std::int64_t width, float* panel) noexcept {
    // Lanes far apart are a page each, often in few sets of the cache: not too many at a time.
    if (g.w_out != 1 && !g.channelwise && lanes_used > narrow_lanes) {
        pack_weight_panel(g, w, group, first_lane, narrow_lanes, narrow_lanes, panel);
        pack_weight_panel(g, w, group, first_lane + narrow_lanes, lanes_used - narrow_lanes, width - narrow_lanes,
                          panel + narrow_lanes);
        return;
    }
    const std::int64_t kd = g.axes[0].kernel;
    const std::int64_t kh = g.axes[1].kernel;
    const std::int64_t kw = g.axes[2].kernel;
    const std::int64_t taps = g.taps();
    w += g.w_first;
    // One run of lanes with a uniform step, or one run per group where lanes cross groups of several outputs.
    // `both`: pairs have a second number.
    const auto pack = [&](std::int64_t offset, std::int64_t source_step, std::int64_t count, float* out,
                          std::int64_t out_step, bool both = true) {
        clear_lanes(g.octets() && lanes_used < width ? 0 : lanes_used, width, count, out, out_step);
        if constexpr (has_pairs<T>) {
            if (g.pairs && !g.channelwise) {
                pack_pairs<T>({w + group * g.w_group + first_lane * g.w_out + offset, g.w_reduce, both}, g.w_out,
                              lanes_used, source_step, count, out, out_step);
                return;
            }
        }
        if (!g.channelwise || g.out_channels == 1) {
            const std::int64_t step = g.channelwise ? g.w_group : g.w_out;
            pack_lanes(w + group * g.w_group + first_lane * step + offset, step, lanes_used, source_step, count, out,
                       out_step);
        } else {
            for (std::int64_t j = 0; j < lanes_used;) {
                const std::int64_t of = (first_lane + j) / g.out_channels;
                const std::int64_t c = (first_lane + j) % g.out_channels;
                const std::int64_t run = std::min(lanes_used - j, g.octets() ? 4 : g.out_channels - c);
                const T* const from = w + of * g.w_group + c * g.w_out + offset;
                float* const to = out + g.packed_place(j);
                j += run;
                if constexpr (has_pairs<T>) {
                    if (g.pairs) {
                        pack_pairs<T>({from, g.w_reduce, true}, g.w_out, run, source_step, count, to, out_step);
                        continue;
                    }
                }
                pack_lanes(from, g.w_out, run, source_step, count, to, out_step);
            }
        }
    };
    // Walk the filter along whichever axis is contiguous, so that pages and lines are read once.
    const bool taps_contiguous = g.w_tap[2] == 1 && (kh == 1 || g.w_tap[1] == kw) && (kd == 1 || g.w_tap[0] == kw * kh);
    const std::int64_t term_step = g.pairs ? 2 * g.w_reduce : g.w_reduce;
    const std::int64_t pairs = g.pairs ? g.in_channels / 2 : g.terms;  // terms without a last one of one number
    for (std::int64_t k0 = 0; k0 < g.terms; k0 += channel_block) {
        const std::int64_t kl = std::min(channel_block, g.terms - k0);
        float* block = panel + k0 / channel_block * taps * g.tap_pitch;
        if (taps_contiguous && taps > 1) {
            const std::int64_t step = g.outputs == shape::side::small ? g.tap_pitch : -g.tap_pitch;
            // A term's weights, where they are one piece, and the next term's lie pages apart: asked for some terms ahead.
            constexpr std::int64_t terms_ahead = target.prefetch.packed_terms;
            const bool asks = g.w_out == taps && !g.channelwise && g.terms > terms_ahead;
            const std::int64_t piece = asks ? lanes_used * taps : 0;
            const std::int64_t ahead = asks ? terms_ahead * term_step + group * g.w_group + first_lane * g.w_out : 0;
            for (std::int64_t k = 0; k < kl; ++k) {
                const std::int64_t from = (k0 + k) * term_step;
                for (std::int64_t i = 0; i < piece; i += simd::line_elements<T>) simd::prefetch(w, from + ahead + i);
                pack(from, 1, taps, block + g.tap_place(0) * g.tap_pitch + k * g.panel_width, step, k0 + k < pairs);
            }
            continue;
        }
        std::int64_t tap = 0;
        for (std::int64_t d = 0; d < kd; ++d)
            for (std::int64_t h = 0; h < kh; ++h)
                for (std::int64_t x = 0; x < kw; ++x, ++tap) {
                    const std::int64_t from = k0 * term_step + d * g.w_tap[0] + h * g.w_tap[1] + x * g.w_tap[2];
                    const std::int64_t whole = std::min(kl, pairs - k0);
                    float* const out = block + g.tap_place(tap) * g.tap_pitch;
                    pack(from, term_step, whole, out, g.panel_width);
                    if (whole < kl)
                        pack(from + whole * term_step, term_step, 1, out + whole * g.panel_width, g.panel_width, false);
                }
    }
}

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END
