// Sums, quotients and interleaving of lines: the streams that pooling consists of. Lines are f32 scratch or tensor
// memory; nothing outside the n elements named is read or written.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <utility>

#include <gradkern/detail/config.hpp>
#include <gradkern/detail/simd.hpp>
#include <gradkern/half.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail {

/// How many lines one call of sum_lines takes; longer lists are added in several.
inline constexpr std::ptrdiff_t lines_at_once = 32;

/// out[x] = T(line[x]) for x < n, as a part of a stream of stores.
template <simd::float_element T>
inline void write_line(const float* line, std::ptrdiff_t n, T* out) noexcept {
    constexpr std::ptrdiff_t lanes = simd::lanes;
    std::ptrdiff_t x = 0;
    for (; x + 4 * lanes <= n; x += 4 * lanes) {
        simd::ask_to_write(out + x, 4 * lanes);
        for (std::ptrdiff_t i = x; i < x + 4 * lanes; i += lanes) simd::store_narrow(out + i, simd::load(line + i));
    }
    if (x < n) simd::narrow(line + x, out + x, n - x);
}

/// out[i * out_step + x] = T(line[x]) for x < n and i < times.
template <simd::float_element T>
inline void repeat_line(const float* line, std::ptrdiff_t n, std::ptrdiff_t times, T* out,
                        std::ptrdiff_t out_step) noexcept {
    constexpr std::ptrdiff_t lanes = simd::lanes;
    if (n < lanes || n >= 4 * lanes) {
        for (std::ptrdiff_t i = 0; i < times; ++i) write_line(line, n, out + i * out_step);
        return;
    }
    for (std::ptrdiff_t next = 0; next < n; next += lanes) {
        const std::ptrdiff_t x = next + lanes <= n ? next : n - lanes;  // the last vector ends with the line
        const simd::vec v = simd::load(line + x);
        for (std::ptrdiff_t i = 0; i < times; ++i) simd::store_narrow(out + i * out_step + x, v);
    }
}

/// What becomes of a finished sum: nothing.
struct as_it_is {
    [[nodiscard]] GRADKERN_ALWAYS_INLINE simd::vec operator()(simd::vec sum) const noexcept { return sum; }
};

/// The finished sum of element x, or of the vector from there on: some ways to finish depend on the place, some do not. Those
/// that do are asked for any x < n, for some elements twice, and for lanes up to a vector behind n.
template <class Finish>
[[nodiscard]] GRADKERN_ALWAYS_INLINE simd::vec finished(const Finish& finish, [[maybe_unused]] std::ptrdiff_t x,
                                                        simd::vec sum) noexcept {
    if constexpr (requires { finish(x, sum); }) {
        return finish(x, sum);
    } else {
        return finish(sum);
    }
}

/// Whether sum_lines asks for what it reads, and for what it writes, ahead. Lines that overlap, of which the last one alone is
/// new, had better be asked for; a CPU follows neighbours by itself, best in long stretches, and is slower where it is asked
/// for some of them. Memory that is written had better be asked for; scratch is in the cache.
enum class ahead : std::uint8_t { ask, leave };

/// V vectors of the sums of sum_lines.
template <std::ptrdiff_t V, bool Continue, ahead Reads, ahead Writes, simd::float_element In, simd::float_element Out,
          class Finish>
GRADKERN_ALWAYS_INLINE void sum_vectors(const In* const* lines, std::ptrdiff_t count, std::ptrdiff_t x, Out* out,
                                        const Finish& finish) noexcept {
    constexpr std::ptrdiff_t lanes = simd::lanes;
    simd::vec s[V];
    GRADKERN_UNROLL
    for (std::ptrdiff_t v = 0; v < V; ++v) s[v] = Continue ? simd::load_wide(out + x + v * lanes) : simd::zero();
    if constexpr (Reads == ahead::ask) {
        if (count > 0) simd::ask_to_read(lines[count - 1] + x, V * lanes);
    }
    if constexpr (Writes == ahead::ask) simd::ask_to_write(out + x, V * lanes);
    for (std::ptrdiff_t k = 0; k < count; ++k) {
        const In* const line = lines[k] + x;
        GRADKERN_UNROLL
        for (std::ptrdiff_t v = 0; v < V; ++v) s[v] = simd::add(s[v], simd::load_wide(line + v * lanes));
    }
    GRADKERN_UNROLL
    for (std::ptrdiff_t v = 0; v < V; ++v)
        simd::store_narrow(out + x + v * lanes, finished(finish, x + v * lanes, s[v]));
}

/// out[x] = finish((Continue ? out[x] : +0) + lines[0][x] + ... + lines[count - 1][x]) for x < n, added in this order.
/// `out` must not overlap the lines.
template <bool Continue, ahead Reads = ahead::ask, ahead Writes = ahead::ask, simd::float_element In,
          simd::float_element Out, class Finish = as_it_is>
inline void sum_lines(const In* const* lines, std::ptrdiff_t count, std::ptrdiff_t n, Out* out,
                      const Finish& finish = {}) noexcept {
    constexpr std::ptrdiff_t lanes = simd::lanes;
    std::ptrdiff_t x = 0;
    if constexpr (Reads == ahead::leave) {
        for (; x + 8 * lanes <= n; x += 8 * lanes)
            sum_vectors<8, Continue, Reads, Writes>(lines, count, x, out, finish);
    }
    for (; x + 4 * lanes <= n; x += 4 * lanes) sum_vectors<4, Continue, Reads, Writes>(lines, count, x, out, finish);
    for (; x < n; x += lanes) {
        if (x + lanes > n) {
            if (Continue || n < lanes) break;
            x = n - lanes;  // the last vector ends with the line: the same sums again
        }
        simd::vec sum = simd::zero();
        if constexpr (Continue) sum = simd::load_wide(out + x);
        for (std::ptrdiff_t k = 0; k < count; ++k) sum = simd::add(sum, simd::load_wide(lines[k] + x));
        simd::store_narrow(out + x, finished(finish, x, sum));
    }
    if (x < n) {
        const std::ptrdiff_t rest = n - x;
        simd::vec sum = simd::zero();
        if constexpr (Continue) sum = simd::load_wide_partial(out + x, rest);
        for (std::ptrdiff_t k = 0; k < count; ++k) sum = simd::add(sum, simd::load_wide_partial(lines[k] + x, rest));
        simd::store_narrow_partial(out + x, finished(finish, x, sum), rest);
    }
}

/// The same of f32 lines that have no ends of their own, but count in some columns only: line k where
/// inside[k][x % period] is more than 0. `inside` lines have 4 vectors more than a period.
template <ahead Writes, simd::float_element Out, class Finish = as_it_is>
inline void sum_lines_inside(const float* const* lines, const float* const* inside, std::ptrdiff_t count,
                             std::ptrdiff_t period, std::ptrdiff_t n, Out* out, const Finish& finish = {}) noexcept {
    constexpr std::ptrdiff_t lanes = simd::lanes;
    const auto here = [](const float* counts, simd::vec v) GRADKERN_INLINE_LAMBDA {
        return simd::select(simd::greater(simd::load(counts), simd::zero()), v, simd::zero());
    };
    std::ptrdiff_t x = 0;
    std::ptrdiff_t column = 0;  // x % period
    const std::ptrdiff_t turn = 4 * lanes % period;
    for (; x + 4 * lanes <= n; x += 4 * lanes) {
        if constexpr (Writes == ahead::ask) simd::ask_to_write(out + x, 4 * lanes);
        simd::vec s[4]{simd::zero(), simd::zero(), simd::zero(), simd::zero()};
        for (std::ptrdiff_t k = 0; k < count; ++k) {
            const float* const line = lines[k] + x;
            const float* const counts = inside[k] + column;
            GRADKERN_UNROLL
            for (int v = 0; v < 4; ++v) s[v] = simd::add(s[v], here(counts + v * lanes, simd::load(line + v * lanes)));
        }
        GRADKERN_UNROLL
        for (int v = 0; v < 4; ++v) simd::store_narrow(out + x + v * lanes, finished(finish, x + v * lanes, s[v]));
        column += column + turn < period ? turn : turn - period;
    }
    for (; x < n; x += lanes) {
        if (x + lanes > n && n >= lanes) x = n - lanes;  // the last vector ends with the line: the same sums again
        column = x % period;
        simd::vec sum = simd::zero();
        for (std::ptrdiff_t k = 0; k < count; ++k)
            sum = simd::add(sum, here(inside[k] + column, simd::load_partial(lines[k] + x, n - x)));
        simd::store_narrow_partial(out + x, finished(finish, x, sum), n - x);
    }
}

/// Sums as those of sum_lines for `positions` positions of n neighbours each, at least a vector, that read alike: line k
/// of position i is first + i * advance + k * step, its result out + i * out_step. For so few neighbours that sum_lines,
/// called for each position, takes longer to begin than to add.
template <simd::float_element In, simd::float_element Out, class Finish = as_it_is>
inline void sum_positions(const In* first, std::ptrdiff_t count, std::ptrdiff_t step, std::ptrdiff_t n,
                          std::ptrdiff_t positions, std::ptrdiff_t advance, Out* out, std::ptrdiff_t out_step,
                          const Finish& finish = {}) noexcept {
    constexpr std::ptrdiff_t lanes = simd::lanes;
    for (std::ptrdiff_t next = 0; next < n; next += lanes) {
        const std::ptrdiff_t x = next + lanes <= n ? next : n - lanes;  // the last vector ends with the position
        for (std::ptrdiff_t i = 0; i < positions; ++i) {
            const In* line = first + (count > 0 ? i * advance + x : 0);
            simd::vec sum = simd::zero();
            for (std::ptrdiff_t k = 0; k < count; ++k) sum = simd::add(sum, simd::load_wide(line + k * step));
            simd::store_narrow(out + i * out_step + x, finish(sum));
        }
    }
}

/// Adds any number of lines of n elements into out, which starts from +0.
template <simd::float_element In, ahead Reads = ahead::ask>
class line_list {
public:
    line_list(std::ptrdiff_t n, float* out) noexcept : n_(n), out_(out) {}
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
        if (is_first_) {
            sum_lines<false, Reads, ahead::leave>(lines_.data(), count_, n_, out_);
        } else {
            sum_lines<true, Reads, ahead::leave>(lines_.data(), count_, n_, out_);
        }
        is_first_ = false;
        count_ = 0;
    }

    std::array<const In*, static_cast<std::size_t>(lines_at_once)> lines_;
    std::ptrdiff_t count_ = 0;
    std::ptrdiff_t n_;
    float* out_;
    bool is_first_ = true;
};

/// A divisor that a whole stretch of a line shares, a whole number. Dividing by a power of two is the same as multiplying
/// by its reciprocal, bit for bit, as both round the same number once.
struct divisor {
    float value = 1.0F;       ///< not 0
    float reciprocal = 1.0F;  ///< a NaN where it is of no use
    bool is_power_of_two = true;

    constexpr divisor() noexcept = default;
    explicit constexpr divisor(float d) noexcept : value(d) {
        const auto word = std::bit_cast<std::uint32_t>(d);
        const std::uint32_t exponent = (word >> 23) & 0xffU;
        is_power_of_two = (word & 0x7fffffU) == 0 && exponent >= 1 && exponent <= 253;  // the reciprocal is normal
        const bool is_small = d >= 1.0F && d < 0x1p20F;                                 // as simd::div_whole asks for
        reciprocal = is_power_of_two || is_small ? 1.0F / d : std::numeric_limits<float>::quiet_NaN();
    }
};

/// What quotients are added to.
enum class addend : std::uint8_t {
    none,   ///< they are the result
    zero,   ///< +0, the beginning of every sum
    output  ///< what the output holds
};

/// out[x] = onto + source[x] / divisor for x < n; divide(x, v) gives the quotients of the vector at x.
template <addend Onto, simd::float_element In, class Divide>
GRADKERN_ALWAYS_INLINE void quotients(const In* source, std::ptrdiff_t n, float* out, const Divide& divide) noexcept {
    constexpr std::ptrdiff_t lanes = simd::lanes;
    std::ptrdiff_t x = 0;
    for (; x + lanes <= n; x += lanes) {
        simd::vec q = divide(x, simd::load_wide(source + x));
        if constexpr (Onto == addend::zero) q = simd::add(simd::zero(), q);
        if constexpr (Onto == addend::output) q = simd::add(simd::load(out + x), q);
        simd::store(out + x, q);
    }
    if (x < n) {
        simd::vec q = divide(x, simd::load_wide_partial(source + x, n - x));
        if constexpr (Onto == addend::zero) q = simd::add(simd::zero(), q);
        if constexpr (Onto == addend::output) q = simd::add(simd::load_partial(out + x, n - x), q);
        simd::store_partial(out + x, q, n - x);
    }
}

/// Calls f(divide), where divide(v) gives the quotients of a vector by d.
template <class F>
GRADKERN_ALWAYS_INLINE void with_division(const divisor& d, const F& f) noexcept {
    if (d.is_power_of_two) {
        f([r = simd::broadcast(d.reciprocal)](simd::vec v) GRADKERN_INLINE_LAMBDA { return simd::mul(v, r); });
    } else {
        f([by = simd::broadcast(d.value), r = simd::broadcast(d.reciprocal)](simd::vec v)
              GRADKERN_INLINE_LAMBDA { return simd::div_whole(v, by, r); });
    }
}

/// The quotients by one divisor.
template <addend Onto, simd::float_element In>
inline void divide_by_one(const In* source, std::ptrdiff_t n, const divisor& d, float* out) noexcept {
    with_division(d, [&](const auto& divide) {
        quotients<Onto>(source, n, out, [&](std::ptrdiff_t, simd::vec v) { return divide(v); });
    });
}

/// The quotients by a divisor for each element; `divisors` is readable, and not 0, for a vector behind its end.
template <addend Onto, simd::float_element In>
inline void divide_by_each(const In* source, std::ptrdiff_t n, const float* divisors, float* out) noexcept {
    quotients<Onto>(source, n, out,
                    [&](std::ptrdiff_t x, simd::vec v) { return simd::div(v, simd::load(divisors + x)); });
}

/// out[x] = T(f32(out[x]) + line[x]) for x < n.
template <simd::float_element T>
inline void accumulate_line(const float* line, std::ptrdiff_t n, T* out) noexcept {
    constexpr std::ptrdiff_t lanes = simd::lanes;
    std::ptrdiff_t x = 0;
    for (; x + lanes <= n; x += lanes)
        simd::store_narrow(out + x, simd::add(simd::load_wide(out + x), simd::load(line + x)));
    if (x < n) {
        const simd::vec sum = simd::add(simd::load_wide_partial(out + x, n - x), simd::load_partial(line + x, n - x));
        simd::store_narrow_partial(out + x, sum, n - x);
    }
}

#if defined(__GNUC__)
/// Vectors of as many floats as the target shuffles at once: each function takes two of them for one line of twice as many.
struct shuffles {
#if defined(__AVX512F__)
    static constexpr int width = 16;
#elif defined(__AVX2__)
    static constexpr int width = 8;
#else
    static constexpr int width = 4;
#endif
    using floats __attribute__((vector_size(width * sizeof(float)))) = float;
    using places = std::make_integer_sequence<int, width>;

    [[nodiscard]] GRADKERN_ALWAYS_INLINE static floats load(const float* p) noexcept {
        floats v;
        std::memcpy(&v, p, sizeof v);
        return v;
    }
    GRADKERN_ALWAYS_INLINE static void store(float* p, const floats& v) noexcept { std::memcpy(p, &v, sizeof v); }

    /// Every second number, from the first or the second on.
    template <int First, int... I>
    [[nodiscard]] GRADKERN_ALWAYS_INLINE static floats every_second(const floats& a, const floats& b,
                                                                    std::integer_sequence<int, I...>) noexcept {
        return __builtin_shufflevector(a, b, (2 * I + First)...);
    }
    /// Each number `Times` times: part number `Part` of the `Times` vectors that this makes.
    template <int Times, int Part, int... I>
    [[nodiscard]] GRADKERN_ALWAYS_INLINE static floats each(const floats& a,
                                                            std::integer_sequence<int, I...>) noexcept {
        return __builtin_shufflevector(a, a, ((Part * width + I) / Times)...);
    }
    /// Numbers of a and b in turns, from those in place `First` on.
    template <int First, int... I>
    [[nodiscard]] GRADKERN_ALWAYS_INLINE static floats in_turns(const floats& a, const floats& b,
                                                                std::integer_sequence<int, I...>) noexcept {
        return __builtin_shufflevector(a, b, (First + I / 2 + I % 2 * width)...);
    }
};
#endif

/// out[2 * i] = even[i], out[2 * i + 1] = odd[i] for i < n. (Elements may be written twice, with the same value.)
inline void interleave_two(const float* even, const float* odd, std::ptrdiff_t n, float* out) noexcept {
    std::ptrdiff_t i = 0;
#if defined(__GNUC__)
    using s = shuffles;
    for (; i < n && n >= s::width; i += s::width) {
        i = std::min<std::ptrdiff_t>(i, n - s::width);  // the last vectors overlap their predecessors
        const s::floats a = s::load(even + i);
        const s::floats b = s::load(odd + i);
        s::store(out + 2 * i, s::in_turns<0>(a, b, s::places{}));
        s::store(out + 2 * i + s::width, s::in_turns<s::width / 2>(a, b, s::places{}));
    }
#endif
    for (; i < n; ++i) {
        out[2 * i] = even[i];
        out[2 * i + 1] = odd[i];
    }
}

/// to[phase * pitch + i] = line[i * phases + phase] for the n elements of a line. (Elements may be written twice, with the
/// same value.)
inline void separate(const float* line, std::ptrdiff_t n, std::ptrdiff_t phases, std::ptrdiff_t pitch,
                     float* to) noexcept {
    std::ptrdiff_t whole = 0;  // of i: done for all phases
#if defined(__GNUC__)
    using s = shuffles;
    const std::ptrdiff_t all = n / phases;
    if (phases == 2) {
        for (; whole < all && all >= s::width; whole += s::width) {
            whole = std::min<std::ptrdiff_t>(whole, all - s::width);  // the last vectors overlap their predecessors
            const s::floats a = s::load(line + 2 * whole);
            const s::floats b = s::load(line + 2 * whole + s::width);
            s::store(to + whole, s::every_second<0>(a, b, s::places{}));
            s::store(to + pitch + whole, s::every_second<1>(a, b, s::places{}));
        }
    } else if (phases == 4) {
        for (; whole < all && all >= s::width; whole += s::width) {
            whole = std::min<std::ptrdiff_t>(whole, all - s::width);
            const float* const from = line + 4 * whole;
            const s::floats a = s::load(from);
            const s::floats b = s::load(from + s::width);
            const s::floats c = s::load(from + 2 * s::width);
            const s::floats d = s::load(from + 3 * s::width);
            const s::floats even_ab = s::every_second<0>(a, b, s::places{});
            const s::floats even_cd = s::every_second<0>(c, d, s::places{});
            const s::floats odd_ab = s::every_second<1>(a, b, s::places{});
            const s::floats odd_cd = s::every_second<1>(c, d, s::places{});
            s::store(to + whole, s::every_second<0>(even_ab, even_cd, s::places{}));
            s::store(to + pitch + whole, s::every_second<0>(odd_ab, odd_cd, s::places{}));
            s::store(to + 2 * pitch + whole, s::every_second<1>(even_ab, even_cd, s::places{}));
            s::store(to + 3 * pitch + whole, s::every_second<1>(odd_ab, odd_cd, s::places{}));
        }
    }
#endif
    for (std::ptrdiff_t f = 0; f < phases; ++f)
        for (std::ptrdiff_t i = whole; i * phases + f < n; ++i) to[f * pitch + i] = line[i * phases + f];
}

#if defined(__GNUC__)
/// repeat_each of a known number of times, and n of at least a vector.
template <int... Part>
inline void repeat_vectors(const float* line, std::ptrdiff_t n, float* out,
                           std::integer_sequence<int, Part...>) noexcept {
    using s = shuffles;
    constexpr auto times = static_cast<int>(sizeof...(Part));
    for (std::ptrdiff_t i = 0; i < n; i += s::width) {
        i = std::min<std::ptrdiff_t>(i, n - s::width);  // the last vectors overlap their predecessors
        const s::floats v = s::load(line + i);
        (s::store(out + i * times + Part * s::width, s::each<times, Part>(v, s::places{})), ...);
    }
}
#endif

/// out[i * times + j] = line[i] for i < n, j < times.
inline void repeat_each(const float* line, std::ptrdiff_t n, std::ptrdiff_t times, float* out) noexcept {
    constexpr std::ptrdiff_t lanes = simd::lanes;
#if defined(__GNUC__)
    if (n >= shuffles::width) {
        if (times == 2) return repeat_vectors(line, n, out, std::make_integer_sequence<int, 2>{});
        if (times == 3) return repeat_vectors(line, n, out, std::make_integer_sequence<int, 3>{});
        if (times == 4) return repeat_vectors(line, n, out, std::make_integer_sequence<int, 4>{});
    }
#endif
    std::ptrdiff_t i = 0;
    if (times <= lanes) {
        // whole vectors in ascending order: each overwrites what its predecessor wrote too far
        for (; i * times + lanes <= n * times; ++i) simd::store(out + i * times, simd::broadcast(line[i]));
        for (; i < n; ++i)
            for (std::ptrdiff_t j = 0; j < times; ++j) out[i * times + j] = line[i];
        return;
    }
    for (; i < n; ++i) {
        const simd::vec v = simd::broadcast(line[i]);
        float* const to = out + i * times;
        for (std::ptrdiff_t j = 0; j + lanes <= times; j += lanes) simd::store(to + j, v);
        simd::store(to + (times - lanes), v);
    }
}

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END
