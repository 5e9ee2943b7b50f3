// The micro-kernel of max pooling's gradient in gather form: every pixel adds the gradients of the windows whose maximum it is.
// Lanes are channels.
//
//     sum(q) = sum of gradient(o) over the windows o that reach q and have offset(o) == q, in ascending order of o
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include <gradkern/detail/axes/span.hpp>
#include <gradkern/detail/config.hpp>
#include <gradkern/detail/micro/window_max.hpp>
#include <gradkern/detail/simd.hpp>
#include <gradkern/detail/target.hpp>
#include <gradkern/shape/axis.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail {

inline constexpr std::int64_t gathered_at_once = 32;  ///< pixels of a phase of the stride

/// The windows of one axis without dilation that reach one pixel, [first, last), and then those of later pixels.
class reaching_windows : public shape::axis::position_range {
public:
    reaching_windows(const shape::axis& a, std::int64_t pixel) noexcept
        : position_range(read_span_inside(a, shape::side::large, pixel, pixel + 1)),
          axis_(a),
          at_(pixel + a.pad_begin) {}
    /// On to the next pixel.
    void next() noexcept {
        ++at_;
        if (last < axis_.small && at_ == last * axis_.stride) ++last;
        if (first < last && at_ >= first * axis_.stride + axis_.kernel) ++first;
    }
    /// On by `strides` strides, between pixels that all their windows reach.
    void skip(std::int64_t strides) noexcept {
        first += strides;
        last += strides;
        at_ += strides * axis_.stride;
    }

private:
    const shape::axis& axis_;
    std::int64_t at_;
};

/// Where the results of one line of windows are: their offsets, as window_max has left them, and their gradients.
template <class G>
struct window_line {
    const accumulate_t<G>* offset;
    const G* gradient;
};

/// How far results and gradients lie apart from window to window, and outputs from pixel to pixel.
struct gather_steps {
    std::int64_t offset = 0;
    std::int64_t gradient = 0;
    std::int64_t out = 0;
};

/// What is prefetched while pixels are written: the elements `first`, `first + step`, ... of a tensor for one pixel after the
/// other, and those of the output some pixels on. Nothing where there is no tensor.
template <class T>
struct gather_prefetch {
    const T* tensor = nullptr;
    std::int64_t first = 0;
    std::int64_t step = 0;
};

/// The sums of `runs` pixels, or fours of pixels, of the same phase of the stride: V vectors each, which are
/// neighbouring channels of one pixel or, where `fours`, the same ones of four that lie a stride apart. Vectors are
/// whole, or have `used` lanes. `count` windows of every line reach the first pixel, of which the first one lies
/// `skip` behind the line's; those a stride on are reached by windows one further each.
template <bool fours, bool whole, std::size_t V, class G, class O>
GRADKERN_ALWAYS_INLINE void gather_of(std::span<const window_line<G>> lines, const gather_steps& step,
                                      std::int64_t stride, std::int64_t skip, std::int64_t count, std::int64_t runs,
                                      std::int64_t pixel, std::ptrdiff_t channel, std::ptrdiff_t used,
                                      O* out) noexcept {
    const std::ptrdiff_t next_offset = fours ? step.offset : std::ptrdiff_t{simd::wide_lanes<G>};
    const std::ptrdiff_t next_gradient = fours ? step.gradient : std::ptrdiff_t{simd::wide_lanes<G>};
    const std::ptrdiff_t next_out = fours ? stride * step.out : std::ptrdiff_t{simd::wide_lanes<G>};
    for (std::int64_t run = 0; run < runs; ++run) {
        const std::int64_t strides = fours ? run * std::int64_t{V} : run;  // from the first pixel to here
        const std::ptrdiff_t offset_at = (skip + strides) * step.offset + channel;
        const std::ptrdiff_t gradient_at = (skip + strides) * step.gradient + channel;
        std::array<simd::wide_vec<G>, V> sum;
        std::array<simd::wide_vec<G>, V> here;
        GRADKERN_UNROLL
        for (std::size_t v = 0; v < V; ++v) {
            sum[v] = simd::zero<accumulate_t<G>>();
            here[v] = v > 0 && !fours
                          ? here[0]
                          : broadcast_bits<accumulate_t<G>>(pixel + (strides + static_cast<std::int64_t>(v)) * stride);
        }
        for (const window_line<G>& line : lines) {
            const accumulate_t<G>* offset = line.offset + offset_at;
            const G* gradient = line.gradient + gradient_at;
            for (std::int64_t i = 0; i < count; ++i) {  // no pointer moves on behind the last window
                GRADKERN_UNROLL
                for (std::size_t v = 0; v < V; ++v) {
                    const auto n = static_cast<std::ptrdiff_t>(v);
                    const auto m = simd::equal_bits(simd::load(offset + i * step.offset + n * next_offset), here[v]);
                    const G* const from = gradient + i * step.gradient + n * next_gradient;
                    const simd::wide_vec<G> g = whole ? simd::load_wide(from) : simd::load_wide_partial(from, used);
                    sum[v] = simd::select(m, simd::add(sum[v], g), sum[v]);
                }
            }
        }
        GRADKERN_UNROLL
        for (std::size_t v = 0; v < V; ++v) {
            O* const to = out + strides * stride * step.out + channel + static_cast<std::ptrdiff_t>(v) * next_out;
            if constexpr (whole) {
                simd::store_narrow(to, sum[v]);
            } else {
                simd::store_narrow_partial(to, sum[v], used);
            }
        }
    }
}

/// The sums of the pixels [first, last) of a line, `used` channels of each, from these lines of windows, whose first
/// one is number `first_window`. `pixel` is the number of the first pixel, `out` its element of the first channel.
template <class G, class O, class A>
void gather_gradients(std::span<const window_line<G>> lines, const gather_steps& step, const shape::axis& columns,
                      std::int64_t first_window, std::int64_t first, std::int64_t last, std::int64_t pixel,
                      std::ptrdiff_t used, O* out, const gather_prefetch<A>& ahead) noexcept {
    constexpr std::ptrdiff_t lanes = simd::wide_lanes<G>;
    const std::int64_t stride = columns.stride;
    std::int64_t x = first;
    reaching_windows windows(columns, x);
    // `pixels` of one phase from x + phase on
    const auto gather = [&](std::int64_t phase, std::int64_t pixels) {
        const std::int64_t count = windows.last - windows.first;
        const std::int64_t skip = count > 0 ? windows.first - first_window : 0;
        const std::int64_t here = pixel + (x - first) + phase;
        O* const to = out + (x - first + phase) * step.out;
        std::ptrdiff_t j = 0;
        for (; used - j >= 4 * lanes; j += 4 * lanes)
            gather_of<false, true, 4>(lines, step, stride, skip, count, pixels, here, j, lanes, to);
        const std::int64_t fours = pixels / 4;
        const std::int64_t done = 4 * fours;
        const auto rest = [&]<bool whole>(std::ptrdiff_t n) GRADKERN_INLINE_LAMBDA {
            if (fours > 0) gather_of<true, whole, 4>(lines, step, stride, skip, count, fours, here, j, n, to);
            if (done < pixels)
                gather_of<false, whole, 1>(lines, step, stride, skip + done, count, pixels - done, here + done * stride,
                                           j, n, to + done * stride * step.out);
        };
        for (; used - j >= lanes; j += lanes) rest.template operator()<true>(lanes);
        if (j < used) rest.template operator()<false>(used - j);
    };
    const auto prefetch = [&](std::int64_t pixels) GRADKERN_INLINE_LAMBDA {
        if (ahead.tensor == nullptr) return;
        for (std::int64_t i = x - first; i < x - first + pixels; ++i) {
            for (std::ptrdiff_t j = 0; j < used; j += simd::line_elements<A>)
                simd::prefetch(ahead.tensor, ahead.first + i * ahead.step + j);
            for (std::ptrdiff_t j = 0; j < used; j += simd::line_elements<O>)
                simd::prefetch_to_write(out, (i + target.prefetch.gathered_pixels) * step.out + j);
        }
    };
    const auto singly = [&](std::int64_t end) {
        for (; x < end; ++x, windows.next()) {
            prefetch(1);
            gather(0, 1);
        }
    };
    // Few channels: between borders, where windows that reach pixels a stride on are one further each, phase by phase,
    // so many at a time that memory is still written in order.
    if (used < 4 * lanes) {
        singly(std::clamp(columns.kernel - 1 - columns.pad_begin, x, last));
        // sums with a stride that nobody takes may not fit
        const std::int64_t last_window = columns.position(columns.small - 1, 0);
        const std::int64_t end = last_window >= last - std::min(stride, last) ? last : last_window + stride;
        while (stride <= end - x) {
            const std::int64_t pixels = std::min((end - x) / stride, gathered_at_once);
            prefetch(pixels * stride);
            for (std::int64_t phase = 0; phase < stride - 1; ++phase, windows.next()) gather(phase, pixels);
            gather(stride - 1, pixels);
            windows.skip(pixels - 1);
            windows.next();
            x += pixels * stride;
        }
    }
    singly(last);
}

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END
