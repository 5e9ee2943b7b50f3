// The problem of the engine of weight gradients: checked facts. Nothing is decided here.
//
//     dw[s, l, k]  =  sum over n, o with p(o, k) inside of  small[n, s, o] * large[n, channel(s, l), p(o, k)]
//
// where s counts the channels of the small side over all groups and l those of the large side in the group of s. The
// pixels o are summed in chunks (order/summation.hpp). No path and no number of workers splits a chunk.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include <gradkern/detail/axes/collapse.hpp>
#include <gradkern/detail/config.hpp>
#include <gradkern/detail/micro/tile_call.hpp>
#include <gradkern/detail/micro/tile_sizes.hpp>
#include <gradkern/detail/order/summation.hpp>
#include <gradkern/detail/simd.hpp>
#include <gradkern/detail/target.hpp>
#include <gradkern/options.hpp>
#include <gradkern/shape/axis.hpp>
#include <gradkern/shape/checked.hpp>
#include <gradkern/shape/layout.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail::conv_weights {

/// Whose channels lie in the lanes: those of `small` here.
enum class sides : std::uint8_t {
    as_given,
    swapped,         ///< of 1x1 kernels, whose product has no sides
    swapped_windows  ///< of others: what lies in the lanes is read a tap away from the pixel
};

/// How kernels may read activations. Packing widens all of them to the type of the sums.
enum class activations : std::uint8_t {
    wide,          ///< they are of that type: where they are
    native_16bit,  ///< kernels of depthwise layers read them where they are
    packed_16bit   ///< no kernel does
};

template <class T>
inline constexpr activations activations_of = simd::is_wide<T>                   ? activations::wide
                                              : is_native_16bit<lane_operand<T>> ? activations::native_16bit
                                                                                 : activations::packed_16bit;

/// The facts that runs read, too: every plan begins with them.
struct tensors {
    real_type real{};
    std::array<shape::axis, 3> axes{};
    std::int64_t batch = 0;
    std::int64_t groups = 1;
    std::int64_t small_channels = 0;  // of one group
    std::int64_t large_channels = 0;
    shape::canonical_strides small{};
    shape::canonical_strides large{};
    shape::canonical_strides weights{};
    conv_weights::sides sides = conv_weights::sides::as_given;
    gradkern::summation summation = gradkern::summation::joint;
    bool accumulate = false;
    bool wide_results = false;  // diff_weights has the type of the sums

    [[nodiscard]] constexpr std::int64_t taps() const noexcept {
        return axes[0].kernel * axes[1].kernel * axes[2].kernel;
    }
    /// Results one behind the other, each of so many elements.
    [[nodiscard]] constexpr std::int64_t results() const noexcept { return results_of(summation, batch); }
    [[nodiscard]] constexpr std::int64_t result_pointer() const noexcept {
        return groups * small_channels * large_channels * taps();
    }
    /// Whether sums begin with the previous results, or those are added in the end.
    [[nodiscard]] constexpr bool continues_results() const noexcept {
        return accumulate && begins_with_results(summation);
    }
    [[nodiscard]] constexpr bool adds_results() const noexcept { return accumulate && !begins_with_results(summation); }
    [[nodiscard]] constexpr bool is_empty() const noexcept { return small_channels == 0 || large_channels == 0; }
    [[nodiscard]] constexpr bool is_depthwise() const noexcept {
        return groups > 1 && small_channels == 1 && large_channels == 1;
    }
    [[nodiscard]] constexpr bool has_unit_axes() const noexcept {
        return axes[0].is_unit() && axes[1].is_unit() && axes[2].is_unit();
    }
    /// Whether what lies in the lanes is read a tap away from the pixel: the sides are swapped.
    [[nodiscard]] constexpr bool moves_lanes() const noexcept { return sides == conv_weights::sides::swapped_windows; }
    /// Whether neighbouring channels are neighbours in both tensors.
    [[nodiscard]] constexpr bool has_neighbouring_channels() const noexcept { return large[1] == 1 && small[1] == 1; }
    /// Whether tiles of 1x1 kernels would wait for pixels: those of the next chunk are prefetched.
    [[nodiscard]] constexpr bool waits_for_pixels() const noexcept {
        if (taps() != 1 || !has_neighbouring_channels()) return false;
        shape::checked read(large_channels);
        shape::checked other(small_channels);
        for (const shape::axis& a : axes) {
            read *= a.large;
            other *= a.small;
        }
        const shape::checked bytes = (read + other) * groups * batch * real.bytes;
        return !bytes.ok() || bytes.value() > target.cache.tensor_in_l2;
    }
    /// Whether pixels are copied then on both sides, unless they are close and need no conversion.
    [[nodiscard]] constexpr bool copies_pixels() const noexcept {
        return target.weight_gradients.copies_pixels && waits_for_pixels();
    }
    /// Whether pixels are so short that tiles read both sides in place as fast as packed copies: 1x1 kernels are 1.02 to 1.3 times as fast
    /// with AVX-512, 1.0 to 1.09 with AVX2 (28 and 20 layers, Emerald Rapids). Not where a CPU waits for the last level of its caches.
    [[nodiscard]] constexpr bool has_close_pixels() const noexcept {
        const std::int64_t far = real.in_memory_of(target.weight_gradients.close_pixels);
        const bool waits = target.quirk.waits_for_last_level && copies_pixels();
        return has_neighbouring_channels() && !waits && small[4] < far && axes[2].stride_in(large[4]) < far - small[4];
    }
};

struct problem : tensors {
    conv_weights::activations activations = conv_weights::activations::wide;
    bool dot_bf16 = false;  // relaxed precision, bf16 activations, and a target with dot products of their pairs

    [[nodiscard]] constexpr bool is_wide() const noexcept { return activations == conv_weights::activations::wide; }

    /// The same problem with the channels of one group swapped: those of the large side lie in the lanes. The axes stay.
    [[nodiscard]] constexpr problem with_swapped_sides() const noexcept {
        problem p = *this;
        p.sides = has_unit_axes() ? conv_weights::sides::swapped : conv_weights::sides::swapped_windows;
        std::swap(p.small_channels, p.large_channels);
        std::swap(p.small, p.large);
        std::swap(p.weights[0], p.weights[1]);
        return p;
    }

    /// The same problem with lines that are contiguous in both tensors collapsed to one, where kernels are 1x1. It
    /// changes the chunks, and so the order of sums: strict sums keep their lines.
    [[nodiscard]] constexpr problem with_collapsed_lines() const noexcept {
        problem p = *this;
        if (batch == 0 || is_empty()) return p;  // extents of empty tensors know no bounds
        shape::axis& line = p.axes[2];
        for (const std::size_t outer : {1U, 0U}) {
            if (!line.is_unit() || !p.axes[outer].is_unit() || !continues(small[outer + 2], line.small, small[4]) ||
                !continues(large[outer + 2], line.small, large[4]))
                break;
            line.small = line.large = line.small * p.axes[outer].small;
            p.axes[outer] = shape::axis{};
        }
        return p;
    }
};

}  // namespace detail::conv_weights
GRADKERN_ISA_NAMESPACE_END
