// Sums, quotients and interleaving of lines: the streams that pooling consists of. Lines are f32 scratch or tensor
// memory; nothing outside the n elements named is read or written.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>

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

/// What becomes of a finished sum: nothing.
struct as_it_is {
    [[nodiscard]] GRADKERN_ALWAYS_INLINE simd::vec operator()(simd::vec sum) const noexcept { return sum; }
};

/// out[x] = finish((Continue ? out[x] : +0) + lines[0][x] + ... + lines[count - 1][x]) for x < n, added in this order.
/// `out` must not overlap the lines.
template <bool Continue, simd::float_element In, simd::float_element Out, class Finish = as_it_is>
inline void sum_lines(const In* const* lines, std::ptrdiff_t count, std::ptrdiff_t n, Out* out,
                      const Finish& finish = {}) noexcept {
    constexpr std::ptrdiff_t lanes = simd::lanes;
    std::ptrdiff_t x = 0;
    for (; x + 4 * lanes <= n; x += 4 * lanes) {
        simd::vec s0 = simd::zero();
        simd::vec s1 = simd::zero();
        simd::vec s2 = simd::zero();
        simd::vec s3 = simd::zero();
        if constexpr (Continue) {
            s0 = simd::load_wide(out + x);
            s1 = simd::load_wide(out + x + lanes);
            s2 = simd::load_wide(out + x + 2 * lanes);
            s3 = simd::load_wide(out + x + 3 * lanes);
        }
        if (count > 0)
            simd::ask_to_read(lines[count - 1] + x, 4 * lanes);  // others have been read as the last one before
        simd::ask_to_write(out + x, 4 * lanes);
        for (std::ptrdiff_t k = 0; k < count; ++k) {
            const In* line = lines[k] + x;
            s0 = simd::add(s0, simd::load_wide(line));
            s1 = simd::add(s1, simd::load_wide(line + lanes));
            s2 = simd::add(s2, simd::load_wide(line + 2 * lanes));
            s3 = simd::add(s3, simd::load_wide(line + 3 * lanes));
        }
        simd::store_narrow(out + x, finish(s0));
        simd::store_narrow(out + x + lanes, finish(s1));
        simd::store_narrow(out + x + 2 * lanes, finish(s2));
        simd::store_narrow(out + x + 3 * lanes, finish(s3));
    }
    for (; x < n; x += lanes) {
        if (x + lanes > n) {
            if (Continue || n < lanes) break;
            x = n - lanes;  // the last vector ends with the line: the same sums again
        }
        simd::vec sum = simd::zero();
        if constexpr (Continue) sum = simd::load_wide(out + x);
        for (std::ptrdiff_t k = 0; k < count; ++k) sum = simd::add(sum, simd::load_wide(lines[k] + x));
        simd::store_narrow(out + x, finish(sum));
    }
    if (x < n) {
        const std::ptrdiff_t rest = n - x;
        simd::vec sum = simd::zero();
        if constexpr (Continue) sum = simd::load_wide_partial(out + x, rest);
        for (std::ptrdiff_t k = 0; k < count; ++k) sum = simd::add(sum, simd::load_wide_partial(lines[k] + x, rest));
        simd::store_narrow_partial(out + x, finish(sum), rest);
    }
}

/// Adds any number of lines of n elements into out, which starts from +0.
template <simd::float_element In>
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
            sum_lines<false>(lines_.data(), count_, n_, out_);
        } else {
            sum_lines<true>(lines_.data(), count_, n_, out_);
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
        simd::ask_to_write(out + x, lanes);
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
using float_quad __attribute__((vector_size(16))) = float;
#endif

/// out[2 * i] = even[i], out[2 * i + 1] = odd[i] for i < n.
inline void interleave_two(const float* even, const float* odd, std::ptrdiff_t n, float* out) noexcept {
    std::ptrdiff_t i = 0;
#if defined(__GNUC__)
    for (; i + 4 <= n; i += 4) {
        float_quad a;
        float_quad b;
        std::memcpy(&a, even + i, sizeof a);
        std::memcpy(&b, odd + i, sizeof b);
        const float_quad low = __builtin_shufflevector(a, b, 0, 4, 1, 5);
        const float_quad high = __builtin_shufflevector(a, b, 2, 6, 3, 7);
        std::memcpy(out + 2 * i, &low, sizeof low);
        std::memcpy(out + 2 * i + 4, &high, sizeof high);
    }
#endif
    for (; i < n; ++i) {
        out[2 * i] = even[i];
        out[2 * i + 1] = odd[i];
    }
}

/// even[i] = line[2 * i], odd[i] = line[2 * i + 1] for i < n.
inline void separate_two(const float* line, std::ptrdiff_t n, float* even, float* odd) noexcept {
    std::ptrdiff_t i = 0;
#if defined(__GNUC__)
    for (; i + 4 <= n; i += 4) {
        float_quad a;
        float_quad b;
        std::memcpy(&a, line + 2 * i, sizeof a);
        std::memcpy(&b, line + 2 * i + 4, sizeof b);
        const float_quad first = __builtin_shufflevector(a, b, 0, 2, 4, 6);
        const float_quad second = __builtin_shufflevector(a, b, 1, 3, 5, 7);
        std::memcpy(even + i, &first, sizeof first);
        std::memcpy(odd + i, &second, sizeof second);
    }
#endif
    for (; i < n; ++i) {
        even[i] = line[2 * i];
        odd[i] = line[2 * i + 1];
    }
}

/// to[phase * pitch + i] = line[i * phases + phase] for the n elements of a line.
inline void separate(const float* line, std::ptrdiff_t n, std::ptrdiff_t phases, std::ptrdiff_t pitch,
                     float* to) noexcept {
    std::ptrdiff_t whole = 0;  // of i: done for all phases
    if (phases == 2) {
        whole = n / 2;
        separate_two(line, whole, to, to + pitch);
    } else if (phases == 4) {
#if defined(__GNUC__)
        for (; whole + 4 <= n / 4; whole += 4) {
            float_quad q[4];
            std::memcpy(q, line + 4 * whole, sizeof q);
            const float_quad a = __builtin_shufflevector(q[0], q[1], 0, 4, 1, 5);
            const float_quad b = __builtin_shufflevector(q[2], q[3], 0, 4, 1, 5);
            const float_quad c = __builtin_shufflevector(q[0], q[1], 2, 6, 3, 7);
            const float_quad d = __builtin_shufflevector(q[2], q[3], 2, 6, 3, 7);
            q[0] = __builtin_shufflevector(a, b, 0, 1, 4, 5);
            q[1] = __builtin_shufflevector(a, b, 2, 3, 6, 7);
            q[2] = __builtin_shufflevector(c, d, 0, 1, 4, 5);
            q[3] = __builtin_shufflevector(c, d, 2, 3, 6, 7);
            for (std::ptrdiff_t f = 0; f < 4; ++f) std::memcpy(to + f * pitch + whole, &q[f], sizeof q[f]);
        }
#endif
    }
    for (std::ptrdiff_t f = 0; f < phases; ++f)
        for (std::ptrdiff_t i = whole; i * phases + f < n; ++i) to[f * pitch + i] = line[i * phases + f];
}

/// out[i * times + j] = line[i] for i < n, j < times.
inline void repeat_each(const float* line, std::ptrdiff_t n, std::ptrdiff_t times, float* out) noexcept {
    constexpr std::ptrdiff_t lanes = simd::lanes;
    if (times == 2) return interleave_two(line, line, n, out);
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
