// Panels of packed weights: how they lie in memory, and packing them, each just before its first use.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include <gradkern/detail/config.hpp>
#include <gradkern/detail/conv/problem.hpp>
#include <gradkern/detail/micro/tile_call.hpp>
#include <gradkern/detail/micro/tile_sizes.hpp>
#include <gradkern/detail/order/summation.hpp>
#include <gradkern/detail/pack/panels.hpp>
#include <gradkern/detail/pack/tensor_pointer.hpp>
#include <gradkern/detail/simd.hpp>
#include <gradkern/detail/target.hpp>
#include <gradkern/half.hpp>
#include <gradkern/shape/checked.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail {

/// Which activations a lane meets, and so which output channels lie in the lanes.
enum class lane_inputs : std::uint8_t {
    broadcast,           ///< those of one group, broadcast to all lanes, which are its output channels
    broadcast_in_group,  ///< those of its own group, which lie in one register; lanes are output channels of all groups
    own                  ///< a number for each lane; lanes are output channels of all groups
};

/// What tiles read and write.
enum class tile_numbers : std::uint8_t {
    f32,
    native_16bit,  ///< activations of 16 bits as they are; weights are f32
    bf16_pairs     ///< two neighbouring channels in place of a float, of both operands (pack/pairs.hpp)
};

/// What tiles take that broadcast the channels of one group.
[[nodiscard]] constexpr tile_numbers broadcast_numbers(const conv_problem& p) noexcept {
    return p.bf16_pairs && p.in_channels > 1 ? tile_numbers::bf16_pairs : tile_numbers::f32;
}

/// The packed weights of a panel of output channels: [block of 64 terms][tap][term][lane], taps in the order in which they are
/// read. Lengths are in floats; a term is a channel, or a pair of them.
struct weight_panels {
    lane_inputs inputs = lane_inputs::broadcast;
    tile_numbers numbers = tile_numbers::f32;
    std::int64_t terms = 0;       // of a tap
    std::int64_t width = 0;       // lanes
    std::int64_t tap_pitch = 0;   // from tap to tap of a block
    std::int64_t last_pitch = 0;  // of the last block
    std::int64_t floats = 0;      // with room for the bias in front

    [[nodiscard]] constexpr bool across_groups() const noexcept { return inputs != lane_inputs::broadcast; }
    [[nodiscard]] constexpr bool has_pairs() const noexcept { return numbers == tile_numbers::bf16_pairs; }
    /// Channels of a term.
    [[nodiscard]] constexpr std::int64_t term_channels() const noexcept { return has_pairs() ? 2 : 1; }
    [[nodiscard]] constexpr std::int64_t blocks() const noexcept { return shape::ceil_div(terms, channel_block); }
    /// From tap to tap of the block of term k.
    [[nodiscard]] constexpr std::int64_t tap_pitch_at(std::int64_t k) const noexcept {
        return k / channel_block + 1 == blocks() ? last_pitch : tap_pitch;
    }
    /// Output channels that share panels.
    [[nodiscard]] constexpr std::int64_t lane_channels(const conv_equation& e) const noexcept {
        return across_groups() ? e.total_out_channels() : e.out_channels;
    }
    /// Groups of eight: packed weights of two vectors are in the order of their sums (micro/group_terms.hpp), half of the
    /// outputs of each group and then the others.
    [[nodiscard]] constexpr bool splits_groups(const conv_equation& e) const noexcept {
        return inputs == lane_inputs::broadcast_in_group && e.in_channels == 8;
    }
    /// Where four lanes from a multiple of four on lie then.
    [[nodiscard]] static constexpr std::int64_t split_lane(std::int64_t lane) noexcept {
        const std::int64_t in_two = lane & (2 * vector_lanes - 1);
        return lane - in_two + (in_two & 4) * (vector_lanes / 4) + (in_two & ~std::int64_t{7}) / 2;
    }
};

[[nodiscard]] GRADKERN_COLD constexpr weight_panels make_weight_panels(const conv_equation& e, lane_inputs inputs,
                                                                       tile_numbers numbers,
                                                                       std::int64_t width) noexcept {
    weight_panels p{.inputs = inputs, .numbers = numbers, .width = width};
    p.terms = shape::ceil_div(e.in_channels, p.term_channels());
    // A multiple of 4 KB would send the stores of all taps to one cache set. Not where there is one block of channels: taps that
    // are contiguous in both memories are one K segment then.
    const std::int64_t whole_blocks = std::max<std::int64_t>(p.blocks() - 1, 0);
    const auto pitch_of = [&](std::int64_t block_terms) {
        const std::int64_t pitch = block_terms * width;
        const bool is_page = pitch % e.real.in_memory_of(1024) == 0;
        return is_page && whole_blocks > 0 ? pitch + e.real.in_memory_of(32) : pitch;
    };
    p.tap_pitch = pitch_of(channel_block);
    p.last_pitch = pitch_of(p.terms - whole_blocks * channel_block);
    p.floats = width + e.taps() * (whole_blocks * p.tap_pitch + p.last_pitch);
    return p;
}

/// Floats of a buffer of packed activations: lines of less are too short for a CPU to prefetch them.
inline constexpr std::int64_t most_packed_floats = 128 * 1024;
/// Floats of the packed weights of a task, which stay in L2.
inline constexpr std::int64_t task_weight_floats = 64 * 1024;

/// Element i of an array of a type whose sums are Real, as that.
template <class Real>
[[nodiscard]] inline Real load_as(const void* p, data_type type, std::int64_t i) noexcept {
    if constexpr (std::is_same_v<Real, float>) {
        if (type == data_type::f16) return load_element(static_cast<const float16*>(p) + i);
        if (type == data_type::bf16) return load_element(static_cast<const bfloat16*>(p) + i);
    }
    return load_element(static_cast<const Real*>(p) + i);
}

/// The bias of an output channel.
template <class Real>
[[nodiscard]] inline Real load_bias(const conv_equation& e, const void* bias, std::int64_t channel) noexcept {
    return load_as<Real>(bias, e.bias_type, channel % e.bias_channels * e.bias_stride);
}

/// Packs neighbouring lanes of a panel.
template <class Real>
struct weight_packer {
    const conv_equation& e;
    const weight_panels& panels;
    tensor_pointer<Real> w{};  // of the first tap and channel of the first lane's group
    std::int64_t first_lane = 0;
    std::int64_t used = 0;   // lanes with a channel
    std::int64_t width = 0;  // lanes that there is room for; those without a channel become 0

    void pack(Real* panel) const noexcept {
        // Along whichever axis of the filter is contiguous, so that pages and lines are read once.
        const filter_strides& s = e.weights;
        const std::int64_t kw = e.axes[2].kernel;
        const std::int64_t kh = e.axes[1].kernel;
        const bool taps_contiguous =
            s.tap[2] == 1 && (kh == 1 || s.tap[1] == kw) && (e.axes[0].kernel == 1 || s.tap[0] == kw * kh);
        for (std::int64_t k = 0; k < panels.terms; k += channel_block) {
            Real* const block = panel + k / channel_block * e.taps() * panels.tap_pitch;
            const std::int64_t terms = std::min(channel_block, panels.terms - k);
            if (taps_contiguous && e.taps() > 1) {
                pack_by_terms(k, terms, block);
            } else {
                pack_by_taps(k, terms, block);
            }
        }
    }

private:
    [[nodiscard]] std::int64_t term_stride() const noexcept { return e.weights.in * panels.term_channels(); }
    /// Terms but for a last one that is one number of a pair.
    [[nodiscard]] std::int64_t whole_terms() const noexcept { return e.in_channels / panels.term_channels(); }

    /// One term after the other, all taps of each.
    void pack_by_terms(std::int64_t first, std::int64_t count, Real* block) const noexcept {
        const std::int64_t taps = e.taps();
        const std::int64_t pitch = panels.tap_pitch_at(first);
        const std::int64_t step = e.is_forward() ? pitch : -pitch;
        // Where a term's weights are one piece, the next term's lie pages apart: prefetched some terms ahead.
        constexpr std::int64_t terms_ahead = target.prefetch.packed_terms;
        const bool prefetches = e.weights.out == taps && !panels.across_groups() && panels.terms > terms_ahead;
        const std::int64_t piece = prefetches ? used * taps : 0;
        const std::int64_t ahead = prefetches ? terms_ahead * term_stride() + first_lane * e.weights.out : 0;
        for (std::int64_t k = 0; k < count; ++k) {
            const std::int64_t from = (first + k) * term_stride();
            for (std::int64_t i = 0; i < piece; i += w.per_cache_line()) w.prefetch(from + ahead + i);
            pack_run(from, 1, taps, block + e.packed_tap(0) * pitch + k * panels.width, step,
                     first + k < whole_terms());
        }
    }

    /// One tap after the other, all terms of each.
    void pack_by_taps(std::int64_t first, std::int64_t count, Real* block) const noexcept {
        const std::int64_t step = term_stride();
        const std::int64_t whole = std::min(count, whole_terms() - first);
        std::int64_t tap = 0;
        for (std::int64_t d = 0; d < e.axes[0].kernel; ++d)
            for (std::int64_t h = 0; h < e.axes[1].kernel; ++h)
                for (std::int64_t x = 0; x < e.axes[2].kernel; ++x, ++tap) {
                    const std::int64_t from =
                        first * step + d * e.weights.tap[0] + h * e.weights.tap[1] + x * e.weights.tap[2];
                    Real* const out = block + e.packed_tap(tap) * panels.tap_pitch_at(first);
                    pack_run(from, step, whole, out, panels.width);
                    if (whole < count)
                        pack_run(from + whole * step, step, 1, out + whole * panels.width, panels.width, false);
                }
    }

    /// All lanes of `count` weights, `step` elements apart. `both`: pairs have a second number.
    void pack_run(std::int64_t offset, std::int64_t step, std::int64_t count, Real* out, std::int64_t out_step,
                  bool both = true) const noexcept {
        const bool splits = panels.splits_groups(e);
        clear_lanes(splits && used < width ? 0 : used, width, count, out, out_step);
        const filter_strides& s = e.weights;
        const bool single = s.run == 1;  // runs of one channel are one run
        std::int64_t at = first_lane / s.run;
        std::int64_t channel = first_lane % s.run;
        for (std::int64_t j = 0; j < used;) {
            const std::int64_t lanes = single ? used : std::min(used - j, splits ? 4 : s.run - channel);
            pack_lanes_of(w + (at * s.group + channel * s.out + offset), single ? s.group : s.out, lanes, both, step,
                          count, out + (splits ? weight_panels::split_lane(j) : j), out_step);
            j += lanes;
            channel += lanes;
            if (channel < s.run) continue;
            channel = 0;
            ++at;
        }
    }

    /// Lanes of one run.
    void pack_lanes_of(const tensor_pointer<Real>& from, std::int64_t lane_step, std::int64_t lanes, bool both,
                       std::int64_t step, std::int64_t count, Real* out, std::int64_t out_step) const noexcept {
        const pack_functions<Real>& type = *from.type;
        if constexpr (simd::has_dot_bf16 && std::is_same_v<Real, float>) {
            if (panels.has_pairs())
                return type.pack_pairs(from.first, e.weights.in, both, lane_step, lanes, step, count, out, out_step);
        }
        if (step == 1 && lane_step > count)  // what is packed next lies behind these weights
            return type.pack_columns(from.first, lane_step, lanes, count, out, out_step);
        type.pack_lanes(from.first, lane_step, lanes, step, count, out, out_step);
    }
};

/// The weights of one panel, whose lanes from `first_lane` on are output channels of `group`, or of all.
template <class Real>
inline void pack_weight_panel(const conv_equation& e, const weight_panels& panels, const tensor_pointer<Real>& weights,
                              std::int64_t group, std::int64_t first_lane, std::int64_t used, Real* panel) noexcept {
    const tensor_pointer<Real> w = weights + (e.weights.first + group * e.weights.group);
    // Lanes far apart are a page each, often in few sets of the cache: not too many at a time.
    const std::int64_t step = e.weights.out != 1 && !panels.across_groups() ? narrow_lanes_of<Real> : used;
    for (std::int64_t j = 0; j < used; j += step) {
        const bool is_last = j + step >= used;
        weight_packer<Real>{e, panels, w, first_lane + j, is_last ? used - j : step, is_last ? panels.width - j : step}
            .pack(panel + j);
    }
}

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END
