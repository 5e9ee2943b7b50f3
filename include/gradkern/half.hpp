#ifndef GRADKERN_HALF_HPP
#define GRADKERN_HALF_HPP

/// \file
/// \brief Element types: `float16`, `bfloat16`, and the trait that opens the library to other 16-bit types.
///
/// All arithmetic of the library is in `float`, or in `double` for tensors of `double`; 16-bit types are formats for memory.
/// Conversion to `float` is exact, conversion from it rounds to nearest, ties to even, keeps subnormals, and keeps a NaN a NaN (quiet,
/// with its sign and the upper bits of its payload).

#include <compare>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include <gradkern/detail/config.hpp>  // before what it says

#if GRADKERN_DETAIL_HAS_F16C
#include <immintrin.h>
#endif

#if defined(__has_include)
#if __has_include(<stdfloat>)
#include <stdfloat>
#endif
#endif

#include <gradkern/detail/own.hpp>

GRADKERN_NAMESPACE_BEGIN

/// \brief The 16-bit formats as integers: conversions by integer arithmetic from and to `float`, usable in constant expressions.
///
/// The vector forms give the same bits for all inputs, NaN included. Forced inline: a shared copy of such a small function could have
/// been compiled for another instruction set than its caller.
namespace half_bits {

/// \brief Value of an IEEE binary16 pattern: exact; a signalling NaN becomes quiet.
[[nodiscard]] GRADKERN_ALWAYS_INLINE constexpr float f16_to_f32(std::uint16_t half) noexcept {
    const std::uint32_t sign = (std::uint32_t{half} & 0x8000u) << 16;
    const std::uint32_t exponent = (std::uint32_t{half} >> 10) & 0x1fu;
    const std::uint32_t fraction = std::uint32_t{half} & 0x3ffu;
    std::uint32_t magnitude = 0;
    if (exponent == 0x1fu) {
        magnitude = 0x7f800000u | (fraction << 13) | (fraction != 0 ? 0x00400000u : 0u);
    } else if (exponent != 0) {
        magnitude = ((exponent + 112u) << 23) | (fraction << 13);
    } else if (fraction != 0) {
        // fraction * 2^-24 is a normal float: its leading bit becomes the hidden one.
        const auto leading = static_cast<std::uint32_t>(own::bit_width(fraction)) - 1u;
        magnitude = ((leading + 103u) << 23) | ((fraction << (23u - leading)) & 0x007fffffu);
    }
    return own::bit_cast<float>(sign | magnitude);
}

/// \brief Nearest IEEE binary16 pattern, ties to even; infinite from 65520 on.
[[nodiscard]] GRADKERN_ALWAYS_INLINE constexpr std::uint16_t f32_to_f16(float value) noexcept {
    const auto word = own::bit_cast<std::uint32_t>(value);
    const std::uint32_t sign = (word >> 16) & 0x8000u;
    const std::uint32_t magnitude = word & 0x7fffffffu;
    std::uint32_t half = 0;
    if (magnitude > 0x7f800000u) {
        half = 0x7e00u | ((magnitude >> 13) & 0x3ffu);
    } else if (magnitude >= 0x477ff000u) {  // 65520, half way between the largest number and the next one
        half = 0x7c00u;
    } else if (magnitude >= 0x38800000u) {  // 2^-14, the smallest normal number
        // A carry out of the fraction raises the exponent, as it should.
        half = (magnitude - 0x38000000u + 0x0fffu + ((magnitude >> 13) & 1u)) >> 13;
    } else if (magnitude > 0x33000000u) {  // above 2^-25, half of the smallest subnormal number
        const std::uint32_t significand = (magnitude & 0x007fffffu) | 0x00800000u;
        const std::uint32_t shift = 126u - (magnitude >> 23);  // 14 ... 24
        const std::uint32_t odd = (significand >> shift) & 1u;
        half = (significand + (1u << (shift - 1u)) - 1u + odd) >> shift;
    }
    return static_cast<std::uint16_t>(sign | half);
}

/// \brief Value of a bfloat16 pattern: exact, and a signalling NaN stays as it is.
[[nodiscard]] GRADKERN_ALWAYS_INLINE constexpr float bf16_to_f32(std::uint16_t half) noexcept {
    return own::bit_cast<float>(std::uint32_t{half} << 16);
}

/// \brief Nearest bfloat16 pattern, ties to even.
[[nodiscard]] GRADKERN_ALWAYS_INLINE constexpr std::uint16_t f32_to_bf16(float value) noexcept {
    const auto word = own::bit_cast<std::uint32_t>(value);
    if ((word & 0x7fffffffu) > 0x7f800000u) {
        return static_cast<std::uint16_t>((word >> 16) | 0x40u);
    }
    return static_cast<std::uint16_t>((word + 0x7fffu + ((word >> 16) & 1u)) >> 16);
}

}  // namespace half_bits

/// \brief IEEE 754 binary16: 1 sign, 5 exponent and 10 fraction bits.
///
/// Two bytes with explicit conversions from and to `float`; comparisons are those of the values (so `-0 == +0`, and a NaN equals nothing).
struct float16 {
    /// \brief The pattern in memory. A default-initialised object holds any; `float16{}` is +0.
    std::uint16_t bits;

    GRADKERN_PER_ISA float16() = default;

    /// \brief Rounds to nearest, ties to even; infinite from 65520 on.
    GRADKERN_ALWAYS_INLINE explicit constexpr float16(float value) noexcept : bits(half_bits::f32_to_f16(value)) {}

    /// \brief Deleted for wider types: through `float` the value would be rounded twice.
    template <std::floating_point Wider>
    requires(sizeof(Wider) > sizeof(float)) explicit float16(Wider) = delete;

    /// \brief Exact.
    [[nodiscard]] GRADKERN_ALWAYS_INLINE explicit constexpr operator float() const noexcept {
        return half_bits::f16_to_f32(bits);
    }

    /// \brief The number with these bits.
    [[nodiscard]] GRADKERN_ALWAYS_INLINE static constexpr float16 from_bits(std::uint16_t pattern) noexcept {
        float16 value{};
        value.bits = pattern;
        return value;
    }

    /// \brief Equality of the values.
    [[nodiscard]] GRADKERN_ALWAYS_INLINE friend constexpr bool operator==(float16 a, float16 b) noexcept {
        return static_cast<float>(a) == static_cast<float>(b);
    }
    /// \brief Order of the values; unordered with a NaN.
    [[nodiscard]] GRADKERN_ALWAYS_INLINE friend constexpr std::partial_ordering operator<=>(float16 a,
                                                                                            float16 b) noexcept {
        return static_cast<float>(a) <=> static_cast<float>(b);
    }
};

/// \brief bfloat16: the upper half of a `float`, with 1 sign, 8 exponent and 7 fraction bits.
///
/// Two bytes with explicit conversions from and to `float`; comparisons are those of the values (so `-0 == +0`, and a NaN equals nothing).
struct bfloat16 {
    /// \brief The pattern in memory. A default-initialised object holds any; `bfloat16{}` is +0.
    std::uint16_t bits;

    GRADKERN_PER_ISA bfloat16() = default;

    /// \brief Rounds to nearest, ties to even; a NaN stays a NaN.
    GRADKERN_ALWAYS_INLINE explicit constexpr bfloat16(float value) noexcept : bits(half_bits::f32_to_bf16(value)) {}

    /// \brief Deleted for wider types: through `float` the value would be rounded twice.
    template <std::floating_point Wider>
    requires(sizeof(Wider) > sizeof(float)) explicit bfloat16(Wider) = delete;

    /// \brief Exact.
    [[nodiscard]] GRADKERN_ALWAYS_INLINE explicit constexpr operator float() const noexcept {
        return half_bits::bf16_to_f32(bits);
    }

    /// \brief The number with these bits.
    [[nodiscard]] GRADKERN_ALWAYS_INLINE static constexpr bfloat16 from_bits(std::uint16_t pattern) noexcept {
        bfloat16 value{};
        value.bits = pattern;
        return value;
    }

    /// \brief Equality of the values.
    [[nodiscard]] GRADKERN_ALWAYS_INLINE friend constexpr bool operator==(bfloat16 a, bfloat16 b) noexcept {
        return static_cast<float>(a) == static_cast<float>(b);
    }
    /// \brief Order of the values; unordered with a NaN.
    [[nodiscard]] GRADKERN_ALWAYS_INLINE friend constexpr std::partial_ordering operator<=>(bfloat16 a,
                                                                                            bfloat16 b) noexcept {
        return static_cast<float>(a) <=> static_cast<float>(b);
    }
};

static_assert(sizeof(float16) == 2 && alignof(float16) == alignof(std::uint16_t));
static_assert(sizeof(bfloat16) == 2 && alignof(bfloat16) == alignof(std::uint16_t));
static_assert(std::is_trivially_copyable_v<float16> && std::is_standard_layout_v<float16>);
static_assert(std::is_trivially_copyable_v<bfloat16> && std::is_standard_layout_v<bfloat16>);
static_assert(std::is_trivially_default_constructible_v<float16> &&
              std::is_trivially_default_constructible_v<bfloat16>);
static_assert(std::numeric_limits<float>::is_iec559, "gradkern needs IEEE 754 binary32 floats");

/// \brief The formats of elements in memory; names a type at run time.
enum class data_type : std::uint8_t {
    f32,   ///< IEEE binary32
    f16,   ///< IEEE binary16
    bf16,  ///< the upper half of a binary32
    f64    ///< IEEE binary64
};

/// \brief Bytes of one element.
[[nodiscard]] GRADKERN_ALWAYS_INLINE constexpr std::size_t size_of(data_type type) noexcept {
    switch (type) {
        case data_type::f32: return 4;
        case data_type::f16: return 2;
        case data_type::bf16: return 2;
        case data_type::f64: return 8;
    }
    return 0;
}

/// \brief Base for `element_traits` of a type that is an IEEE binary32 in memory.
struct f32_storage {
    static constexpr data_type type = data_type::f32;  ///< format in memory
    using accumulate_type = float;                     ///< type of sums
};

/// \brief Base for `element_traits` of a type that is an IEEE binary16 in memory.
struct f16_storage {
    static constexpr data_type type = data_type::f16;  ///< format in memory
    using accumulate_type = float;                     ///< type of sums
};

/// \brief Base for `element_traits` of a type that is a bfloat16 in memory.
struct bf16_storage {
    static constexpr data_type type = data_type::bf16;  ///< format in memory
    using accumulate_type = float;                      ///< type of sums
};

/// \brief Base for `element_traits` of a type that is an IEEE binary64 in memory.
struct f64_storage {
    static constexpr data_type type = data_type::f64;  ///< format in memory
    using accumulate_type = double;                    ///< type of sums
};

/// \brief The memory format of elements of type `T`. Specialise it to use your own type without copies:
/// \code
/// template <> struct gradkern::element_traits<c10::Half> : gradkern::f16_storage {};
/// \endcode
/// The type must be trivially copyable and of the format's size and alignment; it is only read and written as bytes.
template <class T>
struct element_traits;

/// \brief `float` is binary32.
template <>
struct element_traits<float> : f32_storage {};
/// \brief `double` is binary64.
template <>
struct element_traits<double> : f64_storage {};
/// \brief `float16` is binary16.
template <>
struct element_traits<float16> : f16_storage {};
/// \brief `bfloat16` is bfloat16.
template <>
struct element_traits<bfloat16> : bf16_storage {};

// g++ also defines the macro where its C++ front end lacks _Float16 (before 13, except x86).
#if defined(__FLT16_MANT_DIG__) && (defined(__clang__) || __GNUC__ >= 13 || defined(__SSE2__))
/// \brief `_Float16` is binary16.
template <>
struct element_traits<_Float16> : f16_storage {};
#elif defined(__STDCPP_FLOAT16_T__)
/// \brief `std::float16_t` is binary16. (The same type as `_Float16` where that exists.)
template <>
struct element_traits<std::float16_t> : f16_storage {};
#endif

#if defined(__ARM_FP16_FORMAT_IEEE)
/// \brief `__fp16` is binary16.
template <>
struct element_traits<__fp16> : f16_storage {};
#endif

#if defined(__BFLT16_MANT_DIG__) || defined(__ARM_FEATURE_BF16)
/// \brief `__bf16` is bfloat16.
template <>
struct element_traits<__bf16> : bf16_storage {};
#elif defined(__STDCPP_BFLOAT16_T__)
/// \brief `std::bfloat16_t` is bfloat16. (The same type as `__bf16` where that exists.)
template <>
struct element_traits<std::bfloat16_t> : bf16_storage {};
#endif

namespace half_bits {

/// Not satisfied if the trait is missing. If the trait is wrong, compilation fails with a message.
template <class T>
[[nodiscard]] consteval bool check_element() noexcept {
    static_assert(std::is_trivially_copyable_v<T>, "gradkern: an element type must be trivially copyable");
    static_assert(sizeof(T) == size_of(element_traits<T>::type),
                  "gradkern: element_traits names a format of another size");
    static_assert(size_of(element_traits<T>::type) != 2 || alignof(T) == alignof(std::uint16_t),
                  "gradkern: a 16-bit element type must be aligned as std::uint16_t is");
    return true;
}

}  // namespace half_bits

/// \brief A type that `element_traits` describes.
template <class T>
concept element = requires {
    { element_traits<T>::type } -> std::convertible_to<data_type>;
    typename element_traits<T>::accumulate_type;
}
&&half_bits::check_element<T>();

/// \brief The type in which sums over elements of type `T` are kept.
template <element T>
using accumulate_t = typename element_traits<T>::accumulate_type;

GRADKERN_NAMESPACE_END

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail {

/// \brief The element as the type that sums are kept in; exact.
template <element T>
[[nodiscard]] GRADKERN_ALWAYS_INLINE accumulate_t<T> load_element(const T* source) noexcept {
    // Bytes, not a cast: the type is the user's, and its conversions (if any) may do anything.
    if constexpr (element_traits<T>::type == data_type::f16 || element_traits<T>::type == data_type::bf16) {
        std::uint16_t bits;
        std::memcpy(&bits, source, sizeof bits);
        if constexpr (element_traits<T>::type == data_type::f16) {
#if GRADKERN_DETAIL_HAS_F16C
            return _cvtsh_ss(bits);  // the same bits in one instruction
#else
            return half_bits::f16_to_f32(bits);
#endif
        } else {
            return half_bits::bf16_to_f32(bits);
        }
    } else {
        accumulate_t<T> value;
        std::memcpy(&value, source, sizeof value);
        return value;
    }
}

/// \brief Writes `value`, rounded once to the element's format.
template <element T>
GRADKERN_ALWAYS_INLINE void store_element(T* to, accumulate_t<T> value) noexcept {
    if constexpr (element_traits<T>::type == data_type::f16 || element_traits<T>::type == data_type::bf16) {
        std::uint16_t bits;
        if constexpr (element_traits<T>::type == data_type::f16) {
#if GRADKERN_DETAIL_HAS_F16C
            // _cvtss_sh, which is a macro of another language than C++ in clang's headers.
            // A cast, since accumulate_t depends on T: whoever imports the module does not see intrinsics that are looked up late.
            const __m128i halves = _mm_cvtps_ph(_mm_set_ss(static_cast<float>(value)), _MM_FROUND_TO_NEAREST_INT);
            bits = static_cast<std::uint16_t>(_mm_cvtsi128_si32(halves));
#else
            bits = half_bits::f32_to_f16(value);
#endif
        } else {
            bits = half_bits::f32_to_bf16(value);
        }
        std::memcpy(static_cast<void*>(to), &bits, sizeof bits);
    } else {
        std::memcpy(static_cast<void*>(to), &value, sizeof value);
    }
}

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END

/// \cond  members that the standard describes

/// \brief Limits of binary16.
template <>
class std::numeric_limits<gradkern::float16> {
    using type = gradkern::float16;

public:
    static constexpr bool is_specialized = true;
    static constexpr bool is_signed = true;
    static constexpr bool is_integer = false;
    static constexpr bool is_exact = false;
    static constexpr bool has_infinity = true;
    static constexpr bool has_quiet_NaN = true;
    static constexpr bool has_signaling_NaN = true;
    static constexpr std::float_denorm_style has_denorm = std::denorm_present;
    static constexpr bool has_denorm_loss = false;
    static constexpr std::float_round_style round_style = std::round_to_nearest;
    static constexpr bool is_iec559 = true;
    static constexpr bool is_bounded = true;
    static constexpr bool is_modulo = false;
    static constexpr int digits = 11;
    static constexpr int digits10 = 3;
    static constexpr int max_digits10 = 5;
    static constexpr int radix = 2;
    static constexpr int min_exponent = -13;
    static constexpr int min_exponent10 = -4;
    static constexpr int max_exponent = 16;
    static constexpr int max_exponent10 = 4;
    static constexpr bool traps = false;
    static constexpr bool tinyness_before = false;

    [[nodiscard]] GRADKERN_PER_ISA static constexpr type(min)() noexcept { return type::from_bits(0x0400); }  // 2^-14
    [[nodiscard]] GRADKERN_PER_ISA static constexpr type lowest() noexcept {
        return type::from_bits(0xfbff);
    }                                                                                                         // -65504
    [[nodiscard]] GRADKERN_PER_ISA static constexpr type(max)() noexcept { return type::from_bits(0x7bff); }  // 65504
    [[nodiscard]] GRADKERN_PER_ISA static constexpr type epsilon() noexcept {
        return type::from_bits(0x1400);
    }  // 2^-10
    [[nodiscard]] GRADKERN_PER_ISA static constexpr type round_error() noexcept {
        return type::from_bits(0x3800);
    }  // 0.5
    [[nodiscard]] GRADKERN_PER_ISA static constexpr type infinity() noexcept { return type::from_bits(0x7c00); }
    [[nodiscard]] GRADKERN_PER_ISA static constexpr type quiet_NaN() noexcept { return type::from_bits(0x7e00); }
    [[nodiscard]] GRADKERN_PER_ISA static constexpr type signaling_NaN() noexcept { return type::from_bits(0x7d00); }
    [[nodiscard]] GRADKERN_PER_ISA static constexpr type denorm_min() noexcept {
        return type::from_bits(0x0001);
    }  // 2^-24
};

/// \brief Limits of bfloat16.
template <>
class std::numeric_limits<gradkern::bfloat16> {
    using type = gradkern::bfloat16;

public:
    static constexpr bool is_specialized = true;
    static constexpr bool is_signed = true;
    static constexpr bool is_integer = false;
    static constexpr bool is_exact = false;
    static constexpr bool has_infinity = true;
    static constexpr bool has_quiet_NaN = true;
    static constexpr bool has_signaling_NaN = true;
    static constexpr std::float_denorm_style has_denorm = std::denorm_present;
    static constexpr bool has_denorm_loss = false;
    static constexpr std::float_round_style round_style = std::round_to_nearest;
    static constexpr bool is_iec559 = false;  // no interchange format of IEEE 754
    static constexpr bool is_bounded = true;
    static constexpr bool is_modulo = false;
    static constexpr int digits = 8;
    static constexpr int digits10 = 2;
    static constexpr int max_digits10 = 4;
    static constexpr int radix = 2;
    static constexpr int min_exponent = -125;
    static constexpr int min_exponent10 = -37;
    static constexpr int max_exponent = 128;
    static constexpr int max_exponent10 = 38;
    static constexpr bool traps = false;
    static constexpr bool tinyness_before = false;

    [[nodiscard]] GRADKERN_PER_ISA static constexpr type(min)() noexcept { return type::from_bits(0x0080); }  // 2^-126
    [[nodiscard]] GRADKERN_PER_ISA static constexpr type lowest() noexcept { return type::from_bits(0xff7f); }
    [[nodiscard]] GRADKERN_PER_ISA static constexpr type(max)() noexcept {
        return type::from_bits(0x7f7f);
    }  // (2 - 2^-7) * 2^127
    [[nodiscard]] GRADKERN_PER_ISA static constexpr type epsilon() noexcept { return type::from_bits(0x3c00); }  // 2^-7
    [[nodiscard]] GRADKERN_PER_ISA static constexpr type round_error() noexcept {
        return type::from_bits(0x3f00);
    }  // 0.5
    [[nodiscard]] GRADKERN_PER_ISA static constexpr type infinity() noexcept { return type::from_bits(0x7f80); }
    [[nodiscard]] GRADKERN_PER_ISA static constexpr type quiet_NaN() noexcept { return type::from_bits(0x7fc0); }
    [[nodiscard]] GRADKERN_PER_ISA static constexpr type signaling_NaN() noexcept { return type::from_bits(0x7fa0); }
    [[nodiscard]] GRADKERN_PER_ISA static constexpr type denorm_min() noexcept {
        return type::from_bits(0x0001);
    }  // 2^-133
};
/// \endcond

#endif  // GRADKERN_HALF_HPP
