// Sums of lines: the streams that average pooling consists of. Each element has a sum of its own, which starts from +0 and
// runs over the lines in order. Lines are scratch or tensor memory; nothing outside the n elements named is read or
// written.
//
// Loops: block of eight, four, two or one vectors > line.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>

#include <gradkern/detail/config.hpp>
#include <gradkern/detail/micro/bound.hpp>
#include <gradkern/detail/micro/prefetch.hpp>
#include <gradkern/detail/own.hpp>
#include <gradkern/detail/simd.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail {

/// How many lines one call of sum_lines takes; longer lists are added in several.
inline constexpr std::ptrdiff_t lines_at_once = 32;

/// What becomes of the finished sum of element x, or of the vector from there on: nothing. Ways to finish are called for any
/// x < n, for some elements twice, and for lanes up to a vector behind n.
struct as_it_is {
    template <class Vec>
    [[nodiscard]] GRADKERN_ALWAYS_INLINE Vec operator()(std::ptrdiff_t, Vec sum) const noexcept {
        return sum;
    }
};

/// V vectors of the sums of sum_lines. It prefetches what it reads: lines that overlap, of which the last one alone is new, are
/// read faster so; neighbours a CPU prefetches by itself, best in long blocks, and is slower where some of them are prefetched.
/// It prefetches what it writes: memory; scratch is in the cache.
template <std::ptrdiff_t V, bool Continue, prefetch Reads, prefetch Writes, element In, element Out, class Finish>
GRADKERN_ALWAYS_INLINE void sum_vectors(const In* const* lines, std::ptrdiff_t count, std::ptrdiff_t x, Out* out,
                                        const Finish& finish) noexcept {
    constexpr std::ptrdiff_t lanes = simd::wide_lanes<In>;
    simd::wide_vec<In> s[bound(V)];
    GRADKERN_UNROLL
    for (std::ptrdiff_t v = 0; v < V; ++v)
        s[v] = Continue ? simd::load_wide(out + x + v * lanes) : simd::zero<accumulate_t<In>>();
    if constexpr (Reads == prefetch::ahead) {
        if (count > 0) simd::prefetch_stream(lines[count - 1] + x, V * lanes);
    }
    if constexpr (Writes == prefetch::ahead) simd::prefetch_stream_to_write(out + x, V * lanes);
    for (std::ptrdiff_t k = 0; k < count; ++k) {
        const In* const line = lines[k] + x;
        GRADKERN_UNROLL
        for (std::ptrdiff_t v = 0; v < V; ++v) s[v] = simd::add(s[v], simd::load_wide(line + v * lanes));
    }
    GRADKERN_UNROLL
    for (std::ptrdiff_t v = 0; v < V; ++v) simd::store_narrow(out + x + v * lanes, finish(x + v * lanes, s[v]));
}

/// out[x] = finish((Continue ? out[x] : +0) + lines[0][x] + ... + lines[count - 1][x]) for x < n, added in this order.
/// `out` must not overlap the lines.
template <bool Continue, prefetch Reads = prefetch::ahead, prefetch Writes = prefetch::ahead, element In, element Out,
          class Finish = as_it_is>
inline void sum_lines(const In* const* lines, std::ptrdiff_t count, std::ptrdiff_t n, Out* out,
                      const Finish& finish = {}) noexcept {
    constexpr std::ptrdiff_t lanes = simd::wide_lanes<In>;
    std::ptrdiff_t x = 0;
    if constexpr (Reads == prefetch::none) {
        for (; x + 8 * lanes <= n; x += 8 * lanes)
            sum_vectors<8, Continue, Reads, Writes>(lines, count, x, out, finish);
    }
    for (; x + 4 * lanes <= n; x += 4 * lanes) sum_vectors<4, Continue, Reads, Writes>(lines, count, x, out, finish);
    // The last vectors end with the line: the same sums again.
    for (; !Continue && x < n && n >= 2 * lanes; x += 2 * lanes)
        sum_vectors<2, Continue, Reads, Writes>(lines, count, x = std::min(x, n - 2 * lanes), out, finish);
    for (; x < n && (x + lanes <= n || (!Continue && n >= lanes)); x += lanes)
        sum_vectors<1, Continue, prefetch::none, prefetch::none>(lines, count, x = std::min(x, n - lanes), out, finish);
    if (x < n) {
        const std::ptrdiff_t rest = n - x;
        simd::wide_vec<In> sum = simd::zero<accumulate_t<In>>();
        if constexpr (Continue) sum = simd::load_wide_partial(out + x, rest);
        for (std::ptrdiff_t k = 0; k < count; ++k) sum = simd::add(sum, simd::load_wide_partial(lines[k] + x, rest));
        simd::store_narrow_partial(out + x, finish(x, sum), rest);
    }
}

/// The same of lines of sums that have no ends of their own, but count in some columns only: line k where
/// inside[k][x % period] is more than 0. `inside` lines have 4 vectors more than a period.
template <prefetch Writes, element Out, class Finish = as_it_is>
inline void sum_lines_inside(const accumulate_t<Out>* const* lines, const accumulate_t<Out>* const* inside,
                             std::ptrdiff_t count, std::ptrdiff_t period, std::ptrdiff_t n, Out* out,
                             const Finish& finish = {}) noexcept {
    constexpr std::ptrdiff_t lanes = simd::wide_lanes<Out>;
    const auto here = [](const accumulate_t<Out>* counts, simd::wide_vec<Out> v) GRADKERN_INLINE_LAMBDA {
        return simd::select(simd::greater(simd::load(counts), simd::zero<accumulate_t<Out>>()), v,
                            simd::zero<accumulate_t<Out>>());
    };
    std::ptrdiff_t x = 0;
    std::ptrdiff_t column = 0;  // x % period
    const std::ptrdiff_t step = 4 * lanes % period;
    for (; x + 4 * lanes <= n; x += 4 * lanes) {
        if constexpr (Writes == prefetch::ahead) simd::prefetch_stream_to_write(out + x, 4 * lanes);
        simd::wide_vec<Out> s[4]{simd::zero<accumulate_t<Out>>(), simd::zero<accumulate_t<Out>>(),
                                 simd::zero<accumulate_t<Out>>(), simd::zero<accumulate_t<Out>>()};
        for (std::ptrdiff_t k = 0; k < count; ++k) {
            const accumulate_t<Out>* const line = lines[k] + x;
            const accumulate_t<Out>* const counts = inside[k] + column;
            GRADKERN_UNROLL
            for (int v = 0; v < 4; ++v) s[v] = simd::add(s[v], here(counts + v * lanes, simd::load(line + v * lanes)));
        }
        GRADKERN_UNROLL
        for (int v = 0; v < 4; ++v) simd::store_narrow(out + x + v * lanes, finish(x + v * lanes, s[v]));
        column += column + step < period ? step : step - period;
    }
    for (; x < n; x += lanes) {
        if (x + lanes > n && n >= lanes) x = n - lanes;  // the last vector ends with the line: the same sums again
        column = x % period;
        simd::wide_vec<Out> sum = simd::zero<accumulate_t<Out>>();
        for (std::ptrdiff_t k = 0; k < count; ++k)
            sum = simd::add(sum, here(inside[k] + column, simd::load_partial(lines[k] + x, n - x)));
        simd::store_narrow_partial(out + x, finish(x, sum), n - x);
    }
}

/// Lines of totals in f64 of long sums, whose parts are lines of sums (order/summation.hpp). They start from +0.
class line_totals {
public:
    GRADKERN_NOINLINE line_totals(double* totals, std::ptrdiff_t n) noexcept : totals_(totals), n_(n) {
        own::fill_n(totals, n, 0.0);
    }
    template <class Real>
    GRADKERN_NOINLINE void add(const Real* part) noexcept {
        for (std::ptrdiff_t x = 0; x < n_; ++x) totals_[x] += static_cast<double>(part[x]);
    }
    template <class Real>
    GRADKERN_NOINLINE void round_to(Real* out) const noexcept {
        for (std::ptrdiff_t x = 0; x < n_; ++x) out[x] = static_cast<Real>(totals_[x]);
    }

private:
    double* totals_;
    std::ptrdiff_t n_;
};

/// Adds any number of lines of n elements into out, which starts from +0.
template <element In, prefetch Reads = prefetch::ahead>
class line_list {
public:
    line_list(std::ptrdiff_t n, accumulate_t<In>* out) noexcept : n_(n), out_(out) {}
    void push(const In* line) noexcept {
        if (count_ == lines_at_once) flush();
        lines_[static_cast<std::size_t>(count_++)] = line;
    }
    /// After the last line. Without any the sums are +0.
    void finish() noexcept {
        if (count_ > 0 || is_first_) flush();
    }

private:
    void flush() noexcept {
        is_first_ ? sum_lines<false, Reads, prefetch::none>(lines_.data(), count_, n_, out_)
                  : sum_lines<true, Reads, prefetch::none>(lines_.data(), count_, n_, out_);
        is_first_ = false;
        count_ = 0;
    }

    std::array<const In*, lines_at_once> lines_;
    std::ptrdiff_t count_ = 0;
    std::ptrdiff_t n_;
    accumulate_t<In>* out_;
    bool is_first_ = true;
};

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END
