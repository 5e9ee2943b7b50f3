// The terms of one class of outputs in their order: block of 64 channels > inside taps in row-major order of what they read >
// channel, cut into parts (order/summation.hpp).
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include <gradkern/detail/config.hpp>
#include <gradkern/detail/conv/problem.hpp>
#include <gradkern/detail/conv/weights.hpp>
#include <gradkern/detail/micro/tile_call.hpp>
#include <gradkern/detail/order/summation.hpp>
#include <gradkern/detail/run/tasks.hpp>
#include <gradkern/shape/axis.hpp>
#include <gradkern/shape/check.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail {

/// Where a slice has room for a list of terms.
struct term_list_layout {
    std::int64_t at_segments = 0;
    std::int64_t at_parts = 0;
};
[[nodiscard]] constexpr term_list_layout reserve_terms(slice_layout& slice, const conv_equation& e,
                                                       std::int64_t blocks) noexcept {
    std::int64_t segments = blocks;
    for (const shape::axis& a : e.axes) segments *= std::min(a.kernel, e.is_forward() ? a.large : a.small);
    term_list_layout at;
    at.at_segments = slice.reserve<k_segment>(segments);
    at.at_parts = slice.reserve<std::ptrdiff_t>(std::max<std::int64_t>(segments, 1));  // a part without terms, too
    return at;
}

/// The terms of one class: K segments in the fixed order, and how many of them make up each part.
struct term_list {
    k_segment* segments = nullptr;
    std::ptrdiff_t* parts = nullptr;  // segments in each part
    std::ptrdiff_t part_count = 0;
    std::ptrdiff_t a_step = 1;  // from term to term of a segment
    std::ptrdiff_t b_step = 0;

    term_list(std::byte* slice, const term_list_layout& at) noexcept
        : segments(array_at<k_segment>(slice, at.at_segments)), parts(array_at<std::ptrdiff_t>(slice, at.at_parts)) {}

    /// Lets tiles read the packed weights as `a` and the activations as `b`.
    void swap_operands() noexcept {
        std::swap(a_step, b_step);
        k_segment* s = segments;
        for (std::ptrdiff_t part = 0; part < part_count; ++part)
            for (const k_segment* const end = s + parts[part]; s != end; ++s) std::swap(s->a, s->b);
    }
    /// Runs a tile part by part. `adds`: the first one is added to what the tile finds, too.
    void run(tile_function tile, tile_call& call, bool adds) const noexcept {
        call.list = segments;
        for (std::ptrdiff_t part = 0; part < part_count; ++part) {
            call.count = parts[part];
            call.mode = part == 0 && !adds ? tile_mode::set : tile_mode::add;
            tile(call);
            call.list += call.count;
        }
    }
};

/// Lists the terms of a class that reads activations with strides `in` and `channel_step`, as `a`, and packed weights, as `b`.
/// A segment that continues the one before it is appended to it, which changes neither the order nor the parts.
inline void list_terms(const conv_equation& e, const weight_panels& panels, const std::array<shape::tap_class, 3>& c,
                       const shape::canonical_strides& in, std::int64_t channel_step, term_list& list) noexcept {
    const bool in_group = panels.inputs == lane_inputs::broadcast_in_group;  // the tile has the channels of a tap
    list.a_step = channel_step;
    list.b_step = panels.width;
    if (panels.terms == 1 || in_group) {  // one step a tap: let the taps of a row make up a segment
        list.a_step = c[2].read_per_tap * in[4];
        list.b_step = (c[2].tap_step < 0 ? -c[2].tap_step : c[2].tap_step) * panels.last_pitch;
    }
    k_segment* end = list.segments;
    list.part_count = 0;
    std::int64_t terms = part_terms;  // of the open part; full: the first segment opens one
    for (std::int64_t k0 = 0; k0 < panels.terms; k0 += channel_block) {
        const std::int64_t kl = std::min(channel_block, panels.terms - k0);
        const std::int64_t block = k0 / channel_block * e.taps() * panels.tap_pitch;
        for (std::int64_t d = 0; d < c[0].taps; ++d) {
            for (std::int64_t h = 0; h < c[1].taps; ++h) {
                for (std::int64_t x = 0; x < c[2].taps; ++x) {
                    const std::int64_t tap =
                        ((c[0].first_tap + d * c[0].tap_step) * e.axes[1].kernel + c[1].first_tap + h * c[1].tap_step) *
                            e.axes[2].kernel +
                        c[2].first_tap + x * c[2].tap_step;
                    const std::int64_t steps = in_group ? 1 : kl;
                    const k_segment s{k0 * channel_step + d * c[0].read_per_tap * in[2] +
                                          h * c[1].read_per_tap * in[3] + x * c[2].read_per_tap * in[4],
                                      block + e.packed_tap(tap) * panels.tap_pitch_at(k0), steps};
                    if (terms + kl > part_terms) {
                        terms = 0;
                        list.parts[list.part_count++] = 0;
                    }
                    terms += kl;
                    k_segment* const last = list.parts[list.part_count - 1] > 0 ? end - 1 : nullptr;
                    if (last != nullptr && last->a + last->length * list.a_step == s.a &&
                        last->b + last->length * list.b_step == s.b) {
                        last->length += steps;
                        continue;
                    }
                    *end++ = s;
                    ++list.parts[list.part_count - 1];
                }
            }
        }
    }
    if (list.part_count == 0) list.parts[list.part_count++] = 0;  // no tap inside: one empty part, which writes zeros
}

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END
