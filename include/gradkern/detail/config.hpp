#ifndef GRADKERN_DETAIL_CONFIG_HPP
#define GRADKERN_DETAIL_CONFIG_HPP

/// \file
/// \brief Every macro of the library: attributes, assertions and the two inline namespaces.
///
/// Two inline namespaces keep differently compiled objects apart without keeping their users apart:
///
/// - `GRADKERN_NAMESPACE_BEGIN` / `_END`: `gradkern::v0_1`, for the vocabulary (status, extents, views, half types, traits, attributes).
///   It names the version only, so that a user's function taking these types links across objects built for different instruction sets.
/// - `GRADKERN_ISA_NAMESPACE_BEGIN` / `_END`: `gradkern::v0_1_<instruction set>_x<xsimd version>`, for kernels and plans: two objects
///   built with different flags then never share one body (a linker keeps one copy of an inline function, and it may be the wrong one).
///
/// The nested namespace `gradkern::detail` belongs to the second kind alone. Opened in both, the name would be ambiguous; internals of the
/// vocabulary take other names (`gradkern::shape`, `gradkern::half_bits`).
///
/// Switches that a user may define, the same in every translation unit of a program or not (they are part of the namespace's name):
///
/// - `GRADKERN_SIMD_ARCH=name`: use `xsimd::name` (sse2, sse4_2, avx, avx2, avx512bw, neon64, ...) in place of the best one compiled for.
/// - `GRADKERN_SIMD_EMULATE_LANES=n`: no vector registers, but arrays of n (1, 2, 4, ... 64) floats with an exact fused multiply-add: walks
///   the code paths of another vector length on any machine. For tests.
/// - `GRADKERN_DOT_BF16=0` or `1`: whether `precision::relaxed` may use the dot products of AVX512_BF16, where compiled for it. Without the
///   macro it may unless AMX_BF16 is there, too: CPUs that have both run them at half the rate of f32 multiply-adds. With
///   `GRADKERN_SIMD_EMULATE_LANES`, 1 emulates them.
/// - `GRADKERN_ENABLE_ASSERT`: check the library's own invariants, and trap when one is broken.
///
/// What the library needs of a compiler and its options, and the macros that allow more, are in detail/requirements.hpp.

#include <gradkern/detail/requirements.hpp>

#include <xsimd/config/xsimd_config.hpp>

#include <gradkern/version.hpp>

// ---------------------------------------------------------------------------------------------------------------------- attributes

#if defined(__GNUC__) || defined(__clang__)
#define GRADKERN_ALWAYS_INLINE inline __attribute__((always_inline))
/// For a lambda, between its parameters and its body: `[&](auto i) GRADKERN_INLINE_LAMBDA { ... }`.
#define GRADKERN_INLINE_LAMBDA __attribute__((always_inline))
/// For what is called from many places where it need not be quick, plans above all: it keeps the text small.
#define GRADKERN_NOINLINE __attribute__((noinline))
#elif defined(_MSC_VER)
#define GRADKERN_ALWAYS_INLINE __forceinline
#define GRADKERN_INLINE_LAMBDA
#define GRADKERN_NOINLINE __declspec(noinline)
#else
#define GRADKERN_ALWAYS_INLINE inline
#define GRADKERN_INLINE_LAMBDA
#define GRADKERN_NOINLINE
#endif

// Hides from the optimiser where a float (in a register) or any object (in memory) got its value, so that a product and a later sum are
// not contracted into one rounding, which compilers do by default or on request, across statements and functions.
#if (defined(__x86_64__) || defined(__SSE2__)) && defined(__GNUC__)
#define GRADKERN_DETAIL_OPAQUE_FLOAT(value) __asm__("" : "+x"(value))
#define GRADKERN_DETAIL_OPAQUE(value) __asm__("" : "+m"(value))
#elif defined(__aarch64__) && defined(__GNUC__)
#define GRADKERN_DETAIL_OPAQUE_FLOAT(value) __asm__("" : "+w"(value))
#define GRADKERN_DETAIL_OPAQUE(value) __asm__("" : "+m"(value))
#elif defined(__GNUC__)
#define GRADKERN_DETAIL_OPAQUE_FLOAT(value) __asm__("" : "+m"(value))
#define GRADKERN_DETAIL_OPAQUE(value) __asm__("" : "+m"(value))
#else
#define GRADKERN_DETAIL_OPAQUE_FLOAT(value) static_cast<void>(value)
#define GRADKERN_DETAIL_OPAQUE(value) static_cast<void>(value)
#endif

// In a function that only asks for memory and is not inlined: g++ drops its calls otherwise, as if it did nothing.
#if defined(__GNUC__)
#define GRADKERN_DETAIL_KEEP_CALLS() __asm__ __volatile__("")
#else
#define GRADKERN_DETAIL_KEEP_CALLS() static_cast<void>(0)
#endif

/// GRADKERN_NO_UNROLL before a loop whose body fills the registers: an unrolled one would spill.
/// GRADKERN_UNROLL before a loop over an array that is to be kept in registers: it is unrolled whole.
/// GRADKERN_UNROLL_FOUR before a loop whose turns are so short that counting them shows.
#if defined(__clang__)
#define GRADKERN_NO_UNROLL _Pragma("clang loop unroll(disable)")
#define GRADKERN_UNROLL _Pragma("clang loop unroll(full)")
#define GRADKERN_UNROLL_FOUR _Pragma("clang loop unroll_count(4)")
#elif defined(__GNUC__)
#define GRADKERN_NO_UNROLL _Pragma("GCC unroll 1")
#define GRADKERN_UNROLL _Pragma("GCC unroll 64")
#define GRADKERN_UNROLL_FOUR _Pragma("GCC unroll 4")
#else
#define GRADKERN_NO_UNROLL
#define GRADKERN_UNROLL
#define GRADKERN_UNROLL_FOUR
#endif

/// Defined where a sanitizer watches reads: it does not see those of assembly.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define GRADKERN_DETAIL_SANITIZED
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(memory_sanitizer) || __has_feature(thread_sanitizer)
#define GRADKERN_DETAIL_SANITIZED
#endif
#endif

// ---------------------------------------------------------------------------------------------------------------------- assertions

/// For invariants of the library itself; what callers pass is checked in every build and answered by an error value.
#if !defined(GRADKERN_ENABLE_ASSERT)
#define GRADKERN_ASSERT(condition) static_cast<void>(sizeof(!(condition)))
#elif defined(__GNUC__) || defined(__clang__)
#define GRADKERN_ASSERT(condition) ((condition) ? static_cast<void>(0) : __builtin_trap())
#else
#include <cstdlib>
#define GRADKERN_ASSERT(condition) ((condition) ? static_cast<void>(0) : std::abort())
#endif

// ------------------------------------------------------------------------------------------------ instruction set, as one identifier

// Each letter group below is empty or a piece of the name. Not only what the kernels test for is listed: whatever makes the compiler
// choose other instructions belongs to the name, since a body using them must not be picked for an object built without.

#if defined(__AVX2__)
#define GRADKERN_DETAIL_ISA_BASE avx2
#elif defined(__AVX__)
#define GRADKERN_DETAIL_ISA_BASE avx
#elif defined(__SSE4_2__)
#define GRADKERN_DETAIL_ISA_BASE sse42
#elif defined(__SSE4_1__)
#define GRADKERN_DETAIL_ISA_BASE sse41
#elif defined(__SSSE3__)
#define GRADKERN_DETAIL_ISA_BASE ssse3
#elif defined(__SSE3__)
#define GRADKERN_DETAIL_ISA_BASE sse3
#elif defined(__SSE2__) || defined(_M_X64)
#define GRADKERN_DETAIL_ISA_BASE sse2
#elif defined(__aarch64__) || defined(_M_ARM64)
#define GRADKERN_DETAIL_ISA_BASE aarch64
#elif defined(__ARM_NEON)
#define GRADKERN_DETAIL_ISA_BASE arm32neon
#elif defined(__VSX__)
#define GRADKERN_DETAIL_ISA_BASE vsx
#elif defined(__wasm_simd128__)
#define GRADKERN_DETAIL_ISA_BASE wasm
#elif defined(__riscv_vector)
#define GRADKERN_DETAIL_ISA_BASE rvv
#else
#define GRADKERN_DETAIL_ISA_BASE scalar
#endif

#if defined(__FMA__)
#define GRADKERN_DETAIL_ISA_FMA _fma
#elif defined(__FMA4__)
#define GRADKERN_DETAIL_ISA_FMA _fma4
#else
#define GRADKERN_DETAIL_ISA_FMA
#endif

#if defined(__F16C__)
#define GRADKERN_DETAIL_ISA_F16C _f16c
#else
#define GRADKERN_DETAIL_ISA_F16C
#endif

#if defined(__BMI2__)
#define GRADKERN_DETAIL_ISA_BMI _bmi2
#elif defined(__BMI__)
#define GRADKERN_DETAIL_ISA_BMI _bmi
#else
#define GRADKERN_DETAIL_ISA_BMI
#endif

#if defined(__AVX512F__)
#define GRADKERN_DETAIL_ISA_512F _512f
#else
#define GRADKERN_DETAIL_ISA_512F
#endif
#if defined(__AVX512BW__)
#define GRADKERN_DETAIL_ISA_512BW bw
#else
#define GRADKERN_DETAIL_ISA_512BW
#endif
#if defined(__AVX512DQ__)
#define GRADKERN_DETAIL_ISA_512DQ dq
#else
#define GRADKERN_DETAIL_ISA_512DQ
#endif
#if defined(__AVX512VL__)
#define GRADKERN_DETAIL_ISA_512VL vl
#else
#define GRADKERN_DETAIL_ISA_512VL
#endif
#if defined(__AVX512VBMI2__)
#define GRADKERN_DETAIL_ISA_512VBMI vbmi2
#elif defined(__AVX512VBMI__)
#define GRADKERN_DETAIL_ISA_512VBMI vbmi
#else
#define GRADKERN_DETAIL_ISA_512VBMI
#endif
#if defined(__AVX512VNNI__)
#define GRADKERN_DETAIL_ISA_512VNNI vnni
#else
#define GRADKERN_DETAIL_ISA_512VNNI
#endif
#if defined(__AVX512BF16__)
#define GRADKERN_DETAIL_ISA_512BF16 bf16
#else
#define GRADKERN_DETAIL_ISA_512BF16
#endif
#if defined(__AVX512FP16__)
#define GRADKERN_DETAIL_ISA_512FP16 fp16
#else
#define GRADKERN_DETAIL_ISA_512FP16
#endif

// Not a fact of the compiler's but a choice: whether kernels with dot products of bf16 are there for plans to take.
#if defined(GRADKERN_DOT_BF16) && GRADKERN_DOT_BF16 + 0 == 0
#define GRADKERN_DETAIL_DOT_BF16 0
#elif defined(GRADKERN_SIMD_EMULATE_LANES) && defined(GRADKERN_DOT_BF16)
#define GRADKERN_DETAIL_DOT_BF16 1
#elif defined(__AVX512BF16__) && !defined(GRADKERN_SIMD_ARCH) && !defined(GRADKERN_SIMD_EMULATE_LANES) && \
    (defined(GRADKERN_DOT_BF16) || !defined(__AMX_BF16__))
#define GRADKERN_DETAIL_DOT_BF16 1
#else
#define GRADKERN_DETAIL_DOT_BF16 0
#endif
#if GRADKERN_DETAIL_DOT_BF16
#define GRADKERN_DETAIL_ISA_DOT _dot
#else
#define GRADKERN_DETAIL_ISA_DOT
#endif

#if defined(__ARM_FEATURE_SVE_BITS) && __ARM_FEATURE_SVE_BITS + 0 > 0
#define GRADKERN_DETAIL_ISA_SVE GRADKERN_DETAIL_JOIN2(_sve, __ARM_FEATURE_SVE_BITS)
#elif defined(__ARM_FEATURE_SVE)
#define GRADKERN_DETAIL_ISA_SVE _sve
#else
#define GRADKERN_DETAIL_ISA_SVE
#endif
#if defined(__ARM_FEATURE_FP16_VECTOR_ARITHMETIC)
#define GRADKERN_DETAIL_ISA_ARMFP16 _fp16
#else
#define GRADKERN_DETAIL_ISA_ARMFP16
#endif

#if defined(GRADKERN_SIMD_EMULATE_LANES)
#define GRADKERN_DETAIL_ISA_OVERRIDE GRADKERN_DETAIL_JOIN2(_lanes, GRADKERN_SIMD_EMULATE_LANES)
#elif defined(GRADKERN_SIMD_ARCH)
#define GRADKERN_DETAIL_ISA_OVERRIDE GRADKERN_DETAIL_JOIN2(_on_, GRADKERN_SIMD_ARCH)
#else
#define GRADKERN_DETAIL_ISA_OVERRIDE
#endif

// ---------------------------------------------------------------------------------------------------------------------- namespaces

// Arguments are expanded on the way from JOINn to PASTEn, and pasted there.
#define GRADKERN_DETAIL_PASTE2(a, b) a##b
#define GRADKERN_DETAIL_JOIN2(a, b) GRADKERN_DETAIL_PASTE2(a, b)
#define GRADKERN_DETAIL_PASTE4(a, b, c, d) a##b##c##d
#define GRADKERN_DETAIL_JOIN4(a, b, c, d) GRADKERN_DETAIL_PASTE4(a, b, c, d)
#define GRADKERN_DETAIL_PASTE8(a, b, c, d, e, f, g, h) a##b##c##d##e##f##g##h
#define GRADKERN_DETAIL_JOIN8(a, b, c, d, e, f, g, h) GRADKERN_DETAIL_PASTE8(a, b, c, d, e, f, g, h)

#define GRADKERN_DETAIL_VERSION_NAME GRADKERN_DETAIL_JOIN4(v, GRADKERN_VERSION_MAJOR, _, GRADKERN_VERSION_MINOR)
#define GRADKERN_DETAIL_512_NAME                                                                               \
    GRADKERN_DETAIL_JOIN8(GRADKERN_DETAIL_ISA_512F, GRADKERN_DETAIL_ISA_512BW, GRADKERN_DETAIL_ISA_512DQ,      \
                          GRADKERN_DETAIL_ISA_512VL, GRADKERN_DETAIL_ISA_512VBMI, GRADKERN_DETAIL_ISA_512VNNI, \
                          GRADKERN_DETAIL_ISA_512BF16, GRADKERN_DETAIL_ISA_512FP16)
#define GRADKERN_DETAIL_CHOICE_NAME \
    GRADKERN_DETAIL_JOIN4(GRADKERN_DETAIL_ISA_OVERRIDE, GRADKERN_DETAIL_ISA_DOT, GRADKERN_DETAIL_ISA_MATH, )
#define GRADKERN_DETAIL_ISA_NAME                                                                       \
    GRADKERN_DETAIL_JOIN8(GRADKERN_DETAIL_ISA_BASE, GRADKERN_DETAIL_ISA_FMA, GRADKERN_DETAIL_ISA_F16C, \
                          GRADKERN_DETAIL_ISA_BMI, GRADKERN_DETAIL_512_NAME, GRADKERN_DETAIL_ISA_SVE,  \
                          GRADKERN_DETAIL_ISA_ARMFP16, GRADKERN_DETAIL_CHOICE_NAME)
#define GRADKERN_DETAIL_XSIMD_NAME GRADKERN_DETAIL_JOIN4(_x, XSIMD_VERSION_MAJOR, _, XSIMD_VERSION_MINOR)

/// The inline namespace of kernels and plans, for example `v0_1_avx2_fma_f16c_bmi2_x8_1`.
#define GRADKERN_ISA_NAMESPACE \
    GRADKERN_DETAIL_JOIN4(GRADKERN_DETAIL_VERSION_NAME, _, GRADKERN_DETAIL_ISA_NAME, GRADKERN_DETAIL_XSIMD_NAME)

#define GRADKERN_NAMESPACE_BEGIN \
    namespace gradkern {         \
    inline namespace GRADKERN_DETAIL_VERSION_NAME {
#define GRADKERN_NAMESPACE_END \
    }                          \
    }

#define GRADKERN_ISA_NAMESPACE_BEGIN \
    namespace gradkern {             \
    inline namespace GRADKERN_ISA_NAMESPACE {
#define GRADKERN_ISA_NAMESPACE_END \
    }                              \
    }

#endif  // GRADKERN_DETAIL_CONFIG_HPP
