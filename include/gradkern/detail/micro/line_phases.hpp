// Lines whose elements are permuted where windows move by a stride: its phases separated, two phases interleaved, each element
// repeated. A phase f of a line is its elements f, f + stride, ...
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#include <gradkern/detail/config.hpp>
#include <gradkern/detail/micro/bound.hpp>
#include <gradkern/detail/own.hpp>
#include <gradkern/detail/simd.hpp>
#include <gradkern/detail/target.hpp>
#include <gradkern/half.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail {

/// How many numbers of this type one shuffle of the target permutes.
template <class Number>
inline constexpr int shuffled_numbers = sizeof(Number) > sizeof(float) ? target.tile.shuffled_floats / 2
                                                                       : target.tile.shuffled_floats;
/// Vectors of `Width` numbers: functions take two of them for a line of twice as many, or one.
template <class Number, int Width = shuffled_numbers<Number>>
struct shuffles_of {
    static constexpr int width = Width;
#if GRADKERN_DETAIL_HAS_BUILTINS
    using vector __attribute__((vector_size(width * sizeof(Number)))) = Number;
#else
    struct vector {
        Number numbers[width];
    };
#endif
    using indices = std::make_integer_sequence<int, width>;

    [[nodiscard]] GRADKERN_ALWAYS_INLINE static vector load(const void* p) noexcept {
        vector v;
        std::memcpy(&v, p, sizeof v);
        return v;
    }
    GRADKERN_ALWAYS_INLINE static void store(void* p, const vector& v) noexcept { std::memcpy(p, &v, sizeof v); }

    /// The numbers of a and b, one behind the other, with these indices.
    template <int... Index>
    [[nodiscard]] GRADKERN_ALWAYS_INLINE static vector shuffled([[maybe_unused]] const vector& a,
                                                                [[maybe_unused]] const vector& b) noexcept {
#if GRADKERN_DETAIL_HAS_BUILTINS
        return __builtin_shufflevector(a, b, Index...);
#else
        return {(Index < width ? a.numbers[Index % width] : b.numbers[Index % width])...};
#endif
    }

    /// Every second number, from the first or the second on.
    template <int First, int... I>
    [[nodiscard]] GRADKERN_ALWAYS_INLINE static vector every_second(const vector& a, const vector& b,
                                                                    std::integer_sequence<int, I...>) noexcept {
        return shuffled<(2 * I + First)...>(a, b);
    }
    /// Each number `Times` times: part number `Part` of the `Times` vectors that this makes.
    template <int Times, int Part, int... I>
    [[nodiscard]] GRADKERN_ALWAYS_INLINE static vector each(const vector& a,
                                                            std::integer_sequence<int, I...>) noexcept {
        return shuffled<((Part * width + I) / Times)...>(a, a);
    }
    /// Numbers of a and b interleaved, from number `First` of each on.
    template <int First, int... I>
    [[nodiscard]] GRADKERN_ALWAYS_INLINE static vector interleaved(const vector& a, const vector& b,
                                                                   std::integer_sequence<int, I...>) noexcept {
        return shuffled<(First + I / 2 + I % 2 * width)...>(a, b);
    }
};

/// out[2 * i] = even[i], out[2 * i + 1] = odd[i] for i < n. (Elements may be written twice, with the same value.)
template <class Real>
inline void interleave_two(const Real* even, const Real* odd, std::ptrdiff_t n, Real* out) noexcept {
    std::ptrdiff_t i = 0;
    using s = shuffles_of<Real>;
    for (; i < n && n >= s::width; i += s::width) {
        i = std::min<std::ptrdiff_t>(i, n - s::width);  // the last vectors overlap their predecessors
        const typename s::vector a = s::load(even + i);
        const typename s::vector b = s::load(odd + i);
        s::store(out + 2 * i, s::template interleaved<0>(a, b, typename s::indices{}));
        s::store(out + 2 * i + s::width, s::template interleaved<s::width / 2>(a, b, typename s::indices{}));
    }
    for (; i < n; ++i) {
        out[2 * i] = even[i];
        out[2 * i + 1] = odd[i];
    }
}

/// separate() of 2 or 4 phases, of `n` elements each: whole vectors, if there is one. Returns how many elements are done.
template <int Phases, class Real>
[[nodiscard]] inline std::ptrdiff_t separate_vectors(const Real* line, std::ptrdiff_t n, std::ptrdiff_t pitch,
                                                     Real* to) noexcept {
    using s = shuffles_of<Real>;
    if (n < s::width) return 0;
    for (std::ptrdiff_t i = 0; i < n; i += s::width) {
        i = std::min<std::ptrdiff_t>(i, n - s::width);  // the last vectors overlap their predecessors
        const Real* const from = line + Phases * i;
        typename s::vector v[bound(Phases)];
        GRADKERN_UNROLL
        for (int f = 0; f < Phases; ++f) v[f] = s::load(from + f * s::width);
        GRADKERN_UNROLL
        for (int round = 1; round < Phases; round *= 2) {  // each halves what lies between elements of a phase
            typename s::vector halves[bound(Phases)];
            GRADKERN_UNROLL
            for (int f = 0; f < Phases / 2; ++f) {
                halves[f] = s::template every_second<0>(v[2 * f], v[2 * f + 1], typename s::indices{});
                halves[Phases / 2 + f] = s::template every_second<1>(v[2 * f], v[2 * f + 1], typename s::indices{});
            }
            GRADKERN_UNROLL
            for (int f = 0; f < Phases; ++f) v[f] = halves[f];
        }
        GRADKERN_UNROLL
        for (int f = 0; f < Phases; ++f) s::store(to + f * pitch + i, v[f]);
    }
    return n;
}

/// to[phase * pitch + i] = line[i * phases + phase] for the n elements of a line. (Elements may be written twice, with the
/// same value.)
template <class Real>
inline void separate(const Real* line, std::ptrdiff_t n, std::ptrdiff_t phases, std::ptrdiff_t pitch,
                     Real* to) noexcept {
    std::ptrdiff_t whole = 0;  // of i: done for all phases
    if (phases == 2) whole = separate_vectors<2>(line, n / 2, pitch, to);
    if (phases == 4) whole = separate_vectors<4>(line, n / 4, pitch, to);
    for (std::ptrdiff_t f = 0; f < phases; ++f)
        for (std::ptrdiff_t i = whole; i * phases + f < n; ++i) to[f * pitch + i] = line[i * phases + f];
}

/// repeat_each for a known number of times, in vectors of `Width` numbers, or of half or a quarter as many (four at least) where the line
/// is shorter. Returns false, and writes nothing, where even these are longer than the line.
template <int Width, element T, int... Part>
[[nodiscard]] inline bool repeat_vectors(const T* line, std::ptrdiff_t n, T* out,
                                         std::integer_sequence<int, Part...> parts) noexcept {
    using s = shuffles_of<std::conditional_t<sizeof(T) == 2, std::uint16_t, accumulate_t<T>>, Width>;
    static_assert(sizeof(typename s::vector) == s::width * sizeof(T));
    constexpr auto times = static_cast<int>(sizeof...(Part));
    if (n < Width) {
        if constexpr (Width > 4) return repeat_vectors<Width / 2>(line, n, out, parts);
        return false;
    }
    for (std::ptrdiff_t i = 0; i < n; i += s::width) {
        i = std::min<std::ptrdiff_t>(i, n - s::width);  // the last vectors overlap their predecessors
        const typename s::vector v = s::load(line + i);
        (s::store(out + i * times + Part * s::width, s::template each<times, Part>(v, typename s::indices{})), ...);
    }
    return true;
}

/// Whether repeat_each shuffles whole vectors, on all targets, and does not write number by number.
[[nodiscard]] constexpr bool repeats_by_shuffles(std::int64_t n, std::int64_t times) noexcept {
    return n >= 4 && times >= 2 && times <= 4;
}

/// out[i * times + j] = line[i] for i < n, j < times.
template <element T>
inline void repeat_each(const T* line, std::ptrdiff_t n, std::ptrdiff_t times, T* out) noexcept {
    constexpr std::ptrdiff_t lanes = simd::wide_lanes<T>;
    constexpr int width = shuffled_numbers<accumulate_t<T>>;
    if (times == 2 && repeat_vectors<width>(line, n, out, std::make_integer_sequence<int, 2>{})) return;
    if (times == 3 && repeat_vectors<width>(line, n, out, std::make_integer_sequence<int, 3>{})) return;
    if (times == 4 && repeat_vectors<width>(line, n, out, std::make_integer_sequence<int, 4>{})) return;
    std::ptrdiff_t i = 0;
    if (times <= lanes) {
        // whole vectors in ascending order: each overwrites what its predecessor wrote too far
        for (; i * times + lanes <= n * times; ++i)
            simd::store_narrow(out + i * times, simd::broadcast(load_element(line + i)));
        for (; i < n; ++i) own::fill_n(out + i * times, times, line[i]);
        return;
    }
    for (; i < n; ++i) {
        const simd::wide_vec<T> v = simd::broadcast(load_element(line + i));
        T* const to = out + i * times;
        for (std::ptrdiff_t j = 0; j + lanes <= times; j += lanes) simd::store_narrow(to + j, v);
        simd::store_narrow(to + (times - lanes), v);
    }
}

/// `n` finished sums as elements: themselves, or rounded to `room`.
template <element T>
[[nodiscard]] inline const T* as_elements(const accumulate_t<T>* line, std::ptrdiff_t n,
                                          accumulate_t<T>* room) noexcept {
    if constexpr (simd::is_wide<T>) {
        return line;
    } else {
        T* const elements = reinterpret_cast<T*>(room);
        simd::narrow(line, elements, n);
        return elements;
    }
}

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END
