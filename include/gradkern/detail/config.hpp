#ifndef GRADKERN_DETAIL_CONFIG_HPP
#define GRADKERN_DETAIL_CONFIG_HPP

/// \file
/// \brief Every macro of the library: attributes and the two inline namespaces.
///
/// Two inline namespaces and a tag keep differently compiled objects apart without keeping their users apart. Of an inline function
/// that two objects define, the linker keeps one body, and it may hold instructions that the other object must not run:
///
/// - `GRADKERN_NAMESPACE_BEGIN` / `_END`: `gradkern::v0_1`, for the vocabulary (status, extents, views, half types, traits, attributes).
///   It names the version only, so that a user's function taking these types links across objects built for different instruction sets.
///   Every function in it is `GRADKERN_PER_ISA`, or `GRADKERN_ALWAYS_INLINE` where a constructor that the compiler writes calls it.
/// - `GRADKERN_ISA_NAMESPACE_BEGIN` / `_END`: `gradkern::v0_1_<instruction set>_x<xsimd version>`, for kernels and plans.
///
/// The instruction set of the name holds whatever changes a body or lets the compiler choose other instructions.
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
///   macro it may unless AMX_BF16 or AVX512_FP16 is there, too: these CPUs run them at half the rate of f32 multiply-adds. (Virtual
///   machines may hide AMX alone.) With `GRADKERN_SIMD_EMULATE_LANES`, 1 emulates them.
/// - `GRADKERN_TUNE=cpu`: the CPU that sizes of blocks and prefetches are chosen for (generic, cascade_lake, ice_lake,
///   sapphire_rapids, granite_rapids, zen3, zen4, zen5): speed only, never a bit of a result, and no instruction that others lack.
///   Without the macro it is the CPU that the compiler was told to tune for, where that is one of these, else generic.
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
/// For what is called from many places: it keeps the text small.
#define GRADKERN_NOINLINE __attribute__((noinline))
/// For what plans call through pointers, the rows of tables above all, for what is called from there alone, and for what runs after a
/// mistake: compiled for size. So are shape rules, which run once for each plan. Never called on all ways through a function that may be
/// inlined: g++ takes what always calls a cold function for cold as well, up to functions of users. A check that may return before the
/// call, in a function that is not inlined, keeps it from going on.
#define GRADKERN_COLD __attribute__((noinline, cold))
#elif defined(_MSC_VER)
#define GRADKERN_ALWAYS_INLINE __forceinline
#define GRADKERN_INLINE_LAMBDA
#define GRADKERN_NOINLINE __declspec(noinline)
#define GRADKERN_COLD __declspec(noinline)
#else
#define GRADKERN_ALWAYS_INLINE inline
#define GRADKERN_INLINE_LAMBDA
#define GRADKERN_NOINLINE
#define GRADKERN_COLD
#endif

/// For every function of the vocabulary, member functions included (`constexpr status() noexcept = default;` is one): its symbol gets the
/// name of the instruction set, `status::status[abi:v0_1_avx2_x8_1]()`, so that each object calls the body of its own kind. Types keep
/// their names, and so do users' functions that take them. Where a compiler has no such attribute (Microsoft's names), objects of
/// different instruction sets must not meet in one program.
#if defined(__has_attribute)
#if __has_attribute(abi_tag)
#define GRADKERN_PER_ISA __attribute__((abi_tag(GRADKERN_DETAIL_TEXT(GRADKERN_ISA_NAMESPACE))))
#endif
#endif
#if !defined(GRADKERN_PER_ISA)
#define GRADKERN_PER_ISA
#endif

/// Between two stores: they are not joined into one of a vector register. For the members of aggregates: their default constructors are
/// the compiler's own and shared by all objects, so what is inlined there must be the same instructions everywhere. Nothing in constant
/// expressions.
#if defined(__GNUC__)
#define GRADKERN_DETAIL_STORE_APART()                                                    \
    do {                                                                                 \
        if (!__builtin_is_constant_evaluated()) __asm__ __volatile__("" : : : "memory"); \
    } while (false)
#else
#define GRADKERN_DETAIL_STORE_APART() static_cast<void>(0)
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

// The same for a vector; `constraint` names the registers it may be in.
#if defined(__GNUC__) || defined(__clang__)
#define GRADKERN_DETAIL_OPAQUE_VECTOR(constraint, value) __asm__("" : constraint(value))
#else
#define GRADKERN_DETAIL_OPAQUE_VECTOR(constraint, value) static_cast<void>(value)
#endif

// In a function that only asks for memory and is not inlined: g++ drops its calls otherwise, as if it did nothing.
#if defined(__GNUC__)
#define GRADKERN_DETAIL_KEEP_CALLS() __asm__ __volatile__("")
#else
#define GRADKERN_DETAIL_KEEP_CALLS() static_cast<void>(0)
#endif

/// GRADKERN_NO_UNROLL before a loop whose body fills the registers: an unrolled one would spill.
/// GRADKERN_UNROLL before a loop over an array that is to be kept in registers: it is unrolled whole.
/// GRADKERN_UNROLL_FOUR before a loop whose iterations are so short that counting them shows.
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

// ------------------------------------------------------------------------------------------------ instruction set, as one identifier

// Each piece below is empty or a part of the name. Not only what the kernels test for is listed: whatever makes the compiler choose
// other instructions belongs to the name, since a body using them must not be picked for an object built without.

// Arguments are expanded on the way from JOINn to PASTEn, and pasted there.
#define GRADKERN_DETAIL_PASTE2(a, b) a##b
#define GRADKERN_DETAIL_JOIN2(a, b) GRADKERN_DETAIL_PASTE2(a, b)
#define GRADKERN_DETAIL_PASTE4(a, b, c, d) a##b##c##d
#define GRADKERN_DETAIL_JOIN4(a, b, c, d) GRADKERN_DETAIL_PASTE4(a, b, c, d)
#define GRADKERN_DETAIL_PASTE8(a, b, c, d, e, f, g, h) a##b##c##d##e##f##g##h
#define GRADKERN_DETAIL_JOIN8(a, b, c, d, e, f, g, h) GRADKERN_DETAIL_PASTE8(a, b, c, d, e, f, g, h)
#define GRADKERN_DETAIL_TEXT2(x) #x
#define GRADKERN_DETAIL_TEXT(x) GRADKERN_DETAIL_TEXT2(x)

// PIECE(macro, name): `name` where the macro is defined as 1, as compilers define those of instruction sets; else nothing. A 1 becomes
// a second argument in front of the name, which moves that to the third place; the place is empty otherwise.
#define GRADKERN_DETAIL_SHIFT_1 ,
#define GRADKERN_DETAIL_SECOND(first, second, ...) second
#define GRADKERN_DETAIL_SECOND_OF(...) GRADKERN_DETAIL_SECOND(__VA_ARGS__)
#define GRADKERN_DETAIL_PIECE(macro, name) \
    GRADKERN_DETAIL_SECOND_OF(GRADKERN_DETAIL_JOIN2(GRADKERN_DETAIL_SHIFT_, macro) name, , )

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

// Microsoft's compiler has one macro for AVX2 and what came with it.
#if defined(__FMA__) || (defined(_MSC_VER) && defined(__AVX2__))
#define GRADKERN_DETAIL_HAS_FMA 1
#else
#define GRADKERN_DETAIL_HAS_FMA 0
#endif
#if defined(__F16C__) || (defined(_MSC_VER) && defined(__AVX2__))
#define GRADKERN_DETAIL_HAS_F16C 1
#else
#define GRADKERN_DETAIL_HAS_F16C 0
#endif

#if GRADKERN_DETAIL_HAS_FMA
#define GRADKERN_DETAIL_ISA_FMA _fma
#elif defined(__FMA4__)
#define GRADKERN_DETAIL_ISA_FMA _fma4
#else
#define GRADKERN_DETAIL_ISA_FMA
#endif

#if defined(__BMI__) && defined(__BMI2__)
#define GRADKERN_DETAIL_ISA_BMI _bmi2
#elif defined(__BMI2__)
#define GRADKERN_DETAIL_ISA_BMI _bmi2alone
#elif defined(__BMI__)
#define GRADKERN_DETAIL_ISA_BMI _bmi
#else
#define GRADKERN_DETAIL_ISA_BMI
#endif

// Any of them lets compilers prefetch a line to be written.
#if defined(__PRFCHW__) || defined(__PREFETCHWT1__) || defined(__3dNOW__)
#define GRADKERN_DETAIL_ISA_PREFETCHW _prfchw
#else
#define GRADKERN_DETAIL_ISA_PREFETCHW
#endif

// Scalar instructions of x86.
#define GRADKERN_DETAIL_ISA_SCALAR                                                                              \
    GRADKERN_DETAIL_JOIN8(GRADKERN_DETAIL_ISA_BMI, GRADKERN_DETAIL_PIECE(__LZCNT__, _lzcnt),                    \
                          GRADKERN_DETAIL_PIECE(__POPCNT__, _popcnt), GRADKERN_DETAIL_PIECE(__MOVBE__, _movbe), \
                          GRADKERN_DETAIL_PIECE(__TBM__, _tbm), GRADKERN_DETAIL_PIECE(__ADX__, _adx),           \
                          GRADKERN_DETAIL_ISA_PREFETCHW, GRADKERN_DETAIL_PIECE(__APX_F__, _apx))

// The group of AVX-512, `_512fbwdqvl...`. Letters: VBMI or VBMI2, CD, IFMA, VPOPCNTDQ, BITALG, VP2INTERSECT.
#if defined(__AVX512VBMI__) && defined(__AVX512VBMI2__)
#define GRADKERN_DETAIL_ISA_512VBMI vbmi2
#elif defined(__AVX512VBMI2__)
#define GRADKERN_DETAIL_ISA_512VBMI vbmi2alone
#else
#define GRADKERN_DETAIL_ISA_512VBMI GRADKERN_DETAIL_PIECE(__AVX512VBMI__, vbmi)
#endif
#define GRADKERN_DETAIL_512_NAME                                                                              \
    GRADKERN_DETAIL_JOIN8(GRADKERN_DETAIL_PIECE(__AVX512F__, _512f), GRADKERN_DETAIL_PIECE(__AVX512BW__, bw), \
                          GRADKERN_DETAIL_PIECE(__AVX512DQ__, dq), GRADKERN_DETAIL_PIECE(__AVX512VL__, vl),   \
                          GRADKERN_DETAIL_ISA_512VBMI, GRADKERN_DETAIL_PIECE(__AVX512VNNI__, vnni),           \
                          GRADKERN_DETAIL_PIECE(__AVX512BF16__, bf16), GRADKERN_DETAIL_PIECE(__AVX512FP16__, fp16))
#define GRADKERN_DETAIL_512_MORE                                                                                       \
    GRADKERN_DETAIL_JOIN8(GRADKERN_DETAIL_PIECE(__AVX512CD__, cd), GRADKERN_DETAIL_PIECE(__AVX512IFMA__, ifma),        \
                          GRADKERN_DETAIL_PIECE(__AVX512VPOPCNTDQ__, pop),                                             \
                          GRADKERN_DETAIL_PIECE(__AVX512BITALG__, bit),                                                \
                          GRADKERN_DETAIL_PIECE(__AVX512VP2INTERSECT__, vp2), GRADKERN_DETAIL_PIECE(__AVX512ER__, er), \
                          GRADKERN_DETAIL_PIECE(__AVX10_1__, _avx10), GRADKERN_DETAIL_PIECE(__AVX10_2__, p2))

// Further vectors of x86.
#define GRADKERN_DETAIL_ISA_VECTORS                                                                                   \
    GRADKERN_DETAIL_JOIN8(GRADKERN_DETAIL_PIECE(__SSE4A__, _sse4a), GRADKERN_DETAIL_PIECE(__XOP__, _xop),             \
                          GRADKERN_DETAIL_PIECE(__GFNI__, _gfni), GRADKERN_DETAIL_PIECE(__AVXVNNI__, _vnni),          \
                          GRADKERN_DETAIL_PIECE(__AVXIFMA__, _ifma), GRADKERN_DETAIL_PIECE(__AVXNECONVERT__, _necvt), \
                          GRADKERN_DETAIL_PIECE(__AVXVNNIINT8__, _vnni8),                                             \
                          GRADKERN_DETAIL_PIECE(__AVXVNNIINT16__, _vnni16))

// Not a fact of the compiler's but a choice: whether kernels with dot products of bf16 are there for plans to take.
#if defined(GRADKERN_DOT_BF16) && GRADKERN_DOT_BF16 + 0 == 0
#define GRADKERN_DETAIL_DOT_BF16 0
#elif defined(GRADKERN_SIMD_EMULATE_LANES) && defined(GRADKERN_DOT_BF16)
#define GRADKERN_DETAIL_DOT_BF16 1
#elif defined(__AVX512BF16__) && !defined(GRADKERN_SIMD_ARCH) && !defined(GRADKERN_SIMD_EMULATE_LANES) && \
    (defined(GRADKERN_DOT_BF16) || !(defined(__AMX_BF16__) || defined(__AVX512FP16__)))
#define GRADKERN_DETAIL_DOT_BF16 1
#else
#define GRADKERN_DETAIL_DOT_BF16 0
#endif
#if GRADKERN_DETAIL_DOT_BF16
#define GRADKERN_DETAIL_ISA_DOT _dot
#else
#define GRADKERN_DETAIL_ISA_DOT
#endif

// The CPU that choices of speed are made for. Each has a number; what has none is no CPU.
#define GRADKERN_DETAIL_CPU_generic 1
#define GRADKERN_DETAIL_CPU_cascade_lake 2
#define GRADKERN_DETAIL_CPU_ice_lake 3
#define GRADKERN_DETAIL_CPU_sapphire_rapids 4
#define GRADKERN_DETAIL_CPU_granite_rapids 5
#define GRADKERN_DETAIL_CPU_zen3 6
#define GRADKERN_DETAIL_CPU_zen4 7
#define GRADKERN_DETAIL_CPU_zen5 8
#if defined(GRADKERN_TUNE)
#define GRADKERN_DETAIL_TUNE GRADKERN_TUNE
#elif defined(__tune_skylake_avx512__) || defined(__tune_cascadelake__) || defined(__tune_cooperlake__)
#define GRADKERN_DETAIL_TUNE cascade_lake
// Compilers call CPUs of Intel's that are newer than they know Rocket Lakes, which have no AMX.
#elif defined(__tune_sapphirerapids__) || (defined(__tune_rocketlake__) && defined(__AMX_TILE__))
#define GRADKERN_DETAIL_TUNE sapphire_rapids
#elif defined(__tune_icelake_client__) || defined(__tune_icelake_server__) || defined(__tune_rocketlake__) || \
    defined(__tune_tigerlake__)
#define GRADKERN_DETAIL_TUNE ice_lake
#elif defined(__tune_graniterapids__) || defined(__tune_graniterapids_d__)
#define GRADKERN_DETAIL_TUNE granite_rapids
#elif defined(__tune_znver3__)
#define GRADKERN_DETAIL_TUNE zen3
#elif defined(__tune_znver4__)
#define GRADKERN_DETAIL_TUNE zen4
#elif defined(__tune_znver5__)
#define GRADKERN_DETAIL_TUNE zen5
#endif
#if defined(GRADKERN_DETAIL_TUNE)
#define GRADKERN_DETAIL_TUNED_CPU GRADKERN_DETAIL_JOIN2(GRADKERN_DETAIL_CPU_, GRADKERN_DETAIL_TUNE)
#define GRADKERN_DETAIL_ISA_TUNE GRADKERN_DETAIL_JOIN2(_tune_, GRADKERN_DETAIL_TUNE)
#if GRADKERN_DETAIL_TUNED_CPU + 0 == 0
#error \
    "gradkern: GRADKERN_TUNE names none of generic, cascade_lake, ice_lake, sapphire_rapids, granite_rapids, zen3, zen4, zen5"
#endif
#else
#define GRADKERN_DETAIL_TUNED_CPU GRADKERN_DETAIL_CPU_generic
#define GRADKERN_DETAIL_ISA_TUNE
#endif

#if defined(__ARM_FEATURE_SVE_BITS) && __ARM_FEATURE_SVE_BITS + 0 > 0
#define GRADKERN_DETAIL_ISA_SVE GRADKERN_DETAIL_JOIN2(_sve, __ARM_FEATURE_SVE_BITS)
#elif defined(__ARM_FEATURE_SVE)
#define GRADKERN_DETAIL_ISA_SVE _sve
#else
#define GRADKERN_DETAIL_ISA_SVE
#endif
// Arm: vectors, then scalars.
#define GRADKERN_DETAIL_ISA_ARM                                                                                     \
    GRADKERN_DETAIL_JOIN8(                                                                                          \
        GRADKERN_DETAIL_ISA_SVE, GRADKERN_DETAIL_PIECE(__ARM_FEATURE_SVE2, 2),                                      \
        GRADKERN_DETAIL_PIECE(__ARM_FEATURE_FP16_VECTOR_ARITHMETIC, _fp16),                                         \
        GRADKERN_DETAIL_PIECE(__ARM_FEATURE_FP16_FML, fml), GRADKERN_DETAIL_PIECE(__ARM_FEATURE_DOTPROD, _dotprod), \
        GRADKERN_DETAIL_PIECE(__ARM_FEATURE_BF16, _bf16), GRADKERN_DETAIL_PIECE(__ARM_FEATURE_MATMUL_INT8, _i8mm),  \
        GRADKERN_DETAIL_PIECE(__ARM_FEATURE_QRDMX, _rdm))
#define GRADKERN_DETAIL_ISA_ARM_SCALAR                                                                        \
    GRADKERN_DETAIL_JOIN8(                                                                                    \
        GRADKERN_DETAIL_PIECE(__ARM_FEATURE_ATOMICS, _lse), GRADKERN_DETAIL_PIECE(__ARM_FEATURE_CRC32, _crc), \
        GRADKERN_DETAIL_PIECE(__ARM_FEATURE_JCVT, _jcvt), GRADKERN_DETAIL_PIECE(__ARM_FEATURE_FRINT, _frint), \
        GRADKERN_DETAIL_PIECE(__ARM_FEATURE_MOPS, _mops), GRADKERN_DETAIL_PIECE(__ARM_FEATURE_CSSC, _cssc),   \
        GRADKERN_DETAIL_PIECE(__ARM_FEATURE_PAUTH, _pauth), GRADKERN_DETAIL_PIECE(__ARM_FEATURE_SME, _sme))

// RISC-V, whose macros hold versions; IBM's z and Power, by generation.
#if defined(__riscv_v_fixed_vlen)
#define GRADKERN_DETAIL_ISA_OTHER GRADKERN_DETAIL_JOIN2(_vlen, __riscv_v_fixed_vlen)
#elif defined(__riscv_v_min_vlen)
#define GRADKERN_DETAIL_ISA_OTHER GRADKERN_DETAIL_JOIN2(_zvl, __riscv_v_min_vlen)
#elif defined(__s390x__) && defined(__ARCH__)
#define GRADKERN_DETAIL_ISA_OTHER GRADKERN_DETAIL_JOIN2(_arch, __ARCH__)
#elif defined(_ARCH_PWR10)
#define GRADKERN_DETAIL_ISA_OTHER _pwr10
#elif defined(_ARCH_PWR9)
#define GRADKERN_DETAIL_ISA_OTHER _pwr9
#else
#define GRADKERN_DETAIL_ISA_OTHER
#endif
#if defined(__riscv_zba)
#define GRADKERN_DETAIL_ISA_ZBA _zba
#else
#define GRADKERN_DETAIL_ISA_ZBA
#endif
#if defined(__riscv_zbb)
#define GRADKERN_DETAIL_ISA_ZBB _zbb
#else
#define GRADKERN_DETAIL_ISA_ZBB
#endif
#if defined(__riscv_zbs)
#define GRADKERN_DETAIL_ISA_ZBS _zbs
#else
#define GRADKERN_DETAIL_ISA_ZBS
#endif
#if defined(__riscv_zfh)
#define GRADKERN_DETAIL_ISA_ZFH _zfh
#else
#define GRADKERN_DETAIL_ISA_ZFH
#endif
#define GRADKERN_DETAIL_ISA_MORE                                                                                      \
    GRADKERN_DETAIL_JOIN8(GRADKERN_DETAIL_ISA_OTHER, GRADKERN_DETAIL_ISA_ZBA, GRADKERN_DETAIL_ISA_ZBB,                \
                          GRADKERN_DETAIL_ISA_ZBS, GRADKERN_DETAIL_ISA_ZFH,                                           \
                          GRADKERN_DETAIL_PIECE(__loongarch_sx, _lsx), GRADKERN_DETAIL_PIECE(__loongarch_asx, _lasx), \
                          GRADKERN_DETAIL_PIECE(__wasm_relaxed_simd__, _relaxed))

// What a user or a sanitizer chooses.
#if defined(GRADKERN_DETAIL_SANITIZED)
#define GRADKERN_DETAIL_ISA_SANITIZED _sanitized
#else
#define GRADKERN_DETAIL_ISA_SANITIZED
#endif
#if defined(GRADKERN_SIMD_EMULATE_LANES)
#define GRADKERN_DETAIL_ISA_OVERRIDE GRADKERN_DETAIL_JOIN2(_lanes, GRADKERN_SIMD_EMULATE_LANES)
#elif defined(GRADKERN_SIMD_ARCH)
#define GRADKERN_DETAIL_ISA_OVERRIDE GRADKERN_DETAIL_JOIN2(_on_, GRADKERN_SIMD_ARCH)
#else
#define GRADKERN_DETAIL_ISA_OVERRIDE
#endif

// ---------------------------------------------------------------------------------------------------------------------- namespaces

#define GRADKERN_DETAIL_VERSION_NAME GRADKERN_DETAIL_JOIN4(v, GRADKERN_VERSION_MAJOR, _, GRADKERN_VERSION_MINOR)
#define GRADKERN_DETAIL_X86_NAME                                                                                       \
    GRADKERN_DETAIL_JOIN8(GRADKERN_DETAIL_ISA_FMA, GRADKERN_DETAIL_PIECE(__F16C__, _f16c), GRADKERN_DETAIL_ISA_SCALAR, \
                          GRADKERN_DETAIL_512_NAME, GRADKERN_DETAIL_512_MORE, GRADKERN_DETAIL_ISA_VECTORS, , )
#define GRADKERN_DETAIL_CHOICE_NAME                                                                        \
    GRADKERN_DETAIL_JOIN8(GRADKERN_DETAIL_ISA_OVERRIDE, GRADKERN_DETAIL_ISA_DOT, GRADKERN_DETAIL_ISA_MATH, \
                          GRADKERN_DETAIL_ISA_SANITIZED, GRADKERN_DETAIL_ISA_TUNE, , , )
#define GRADKERN_DETAIL_ISA_NAME                                                                       \
    GRADKERN_DETAIL_JOIN8(GRADKERN_DETAIL_ISA_BASE, GRADKERN_DETAIL_X86_NAME, GRADKERN_DETAIL_ISA_ARM, \
                          GRADKERN_DETAIL_ISA_ARM_SCALAR, GRADKERN_DETAIL_ISA_MORE, GRADKERN_DETAIL_CHOICE_NAME, , )
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
