// Whether this CPU can run what a file was compiled for.
//
// Kernels use the instruction set that their file is compiled for (-march=); nothing is chosen at run time. On a CPU without
// it, the program ends with an illegal instruction. A program that may run on such a CPU checks first:
//
//     int main() {
//         if (const char* missing = gradkern::missing_cpu_feature()) {
//             std::fprintf(stderr, "This program was compiled for CPUs with %s, and this one has none.\n", missing);
//             return 1;
//         }
//         return run();
//     }
//
// The compiler may use any instruction of the target in the rest of that function, so the rest should be one call.
// Constructors of global objects run before the check. The safest way is a main.cpp that is compiled for the oldest CPU. The
// files with kernels then export a constant with the features that they need, and one program may contain several builds:
//
//     extern const gradkern::cpu_features kernels_v4_need = gradkern::needed_cpu_features;  // kernels_v4.cpp
//
//     extern const gradkern::cpu_features kernels_v4_need;                                  // main.cpp
//     if (gradkern::missing_cpu_feature(kernels_v4_need) == nullptr) run_v4();
//
// On x86-64 the check uses CPUID, on AArch64 under Linux the auxiliary vector (the length of SVE registers is not compared).
// On other targets every CPU passes.
#pragma once

#include <cstdint>

#include <gradkern/detail/config.hpp>

#if defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#endif

// The features of a file and the functions that check them are static, since other files are compiled for other features.
/// Whether one of the compiler's macros is defined as a number; otherwise its text is its name.
#define GRADKERN_DETAIL_CPU_NEEDS(macro) (GRADKERN_DETAIL_TEXT(macro)[0] != '_')

/// A row of the table of features.
#define GRADKERN_DETAIL_CPU_ROW(name, macro, word, bit) \
    { name, word, bit, GRADKERN_DETAIL_CPU_NEEDS(macro) }

// Instructions that every CPU of the architecture has, whatever the file is compiled for.
#if defined(__x86_64__)
#define GRADKERN_DETAIL_ANY_CPU \
    __attribute__((noinline, target("arch=x86-64,no-sse3,no-avx,no-bmi,no-bmi2,no-lzcnt,no-popcnt,no-movbe,no-adx")))
#elif defined(__aarch64__) && !defined(__clang__)
#define GRADKERN_DETAIL_ANY_CPU __attribute__((noinline, target("arch=armv8-a")))
#else
#define GRADKERN_DETAIL_ANY_CPU GRADKERN_NOINLINE
#endif

GRADKERN_NAMESPACE_BEGIN

/// Features of CPUs that compilers use unasked. Bit i is row i of the table of the architecture.
struct cpu_features {
    std::uint64_t bits = 0;  ///< a set of rows
};

namespace cpu {

/// Where the CPU or the system reports a feature, and whether this file needs it.
struct feature {
    const char* name;
    unsigned word;
    unsigned bit;
    bool is_needed;
};

#if defined(__x86_64__)

/// CPUID's answers: leaf and register. The last word is the registers that the operating system saves.
enum word : unsigned { leaf1_c, leaf7_b, leaf7_c, leaf7_d, leaf7_1_a, leaf7_1_d, extended_c, saved, word_count };

[[maybe_unused]] static constexpr feature rows[] = {
    GRADKERN_DETAIL_CPU_ROW("sse3", __SSE3__, leaf1_c, 0),
    GRADKERN_DETAIL_CPU_ROW("ssse3", __SSSE3__, leaf1_c, 9),
    GRADKERN_DETAIL_CPU_ROW("sse4.1", __SSE4_1__, leaf1_c, 19),
    GRADKERN_DETAIL_CPU_ROW("sse4.2", __SSE4_2__, leaf1_c, 20),
    GRADKERN_DETAIL_CPU_ROW("popcnt", __POPCNT__, leaf1_c, 23),
    GRADKERN_DETAIL_CPU_ROW("cmpxchg16b", __GCC_HAVE_SYNC_COMPARE_AND_SWAP_16, leaf1_c, 13),
    GRADKERN_DETAIL_CPU_ROW("movbe", __MOVBE__, leaf1_c, 22),
    GRADKERN_DETAIL_CPU_ROW("aes", __AES__, leaf1_c, 25),
    GRADKERN_DETAIL_CPU_ROW("pclmulqdq", __PCLMUL__, leaf1_c, 1),
    GRADKERN_DETAIL_CPU_ROW("lzcnt", __LZCNT__, extended_c, 5),
    GRADKERN_DETAIL_CPU_ROW("bmi", __BMI__, leaf7_b, 3),
    GRADKERN_DETAIL_CPU_ROW("bmi2", __BMI2__, leaf7_b, 8),
    GRADKERN_DETAIL_CPU_ROW("adx", __ADX__, leaf7_b, 19),
    GRADKERN_DETAIL_CPU_ROW("sha", __SHA__, leaf7_b, 29),
    GRADKERN_DETAIL_CPU_ROW("gfni", __GFNI__, leaf7_c, 8),
    GRADKERN_DETAIL_CPU_ROW("tbm", __TBM__, extended_c, 21),
    GRADKERN_DETAIL_CPU_ROW("avx", __AVX__, leaf1_c, 28),
    GRADKERN_DETAIL_CPU_ROW("avx registers (saved by the operating system)", __AVX__, saved, 2),
    GRADKERN_DETAIL_CPU_ROW("f16c", __F16C__, leaf1_c, 29),
    GRADKERN_DETAIL_CPU_ROW("fma", __FMA__, leaf1_c, 12),
    GRADKERN_DETAIL_CPU_ROW("fma4", __FMA4__, extended_c, 16),
    GRADKERN_DETAIL_CPU_ROW("xop", __XOP__, extended_c, 11),
    GRADKERN_DETAIL_CPU_ROW("avx2", __AVX2__, leaf7_b, 5),
    GRADKERN_DETAIL_CPU_ROW("vaes", __VAES__, leaf7_c, 9),
    GRADKERN_DETAIL_CPU_ROW("vpclmulqdq", __VPCLMULQDQ__, leaf7_c, 10),
    GRADKERN_DETAIL_CPU_ROW("avxvnni", __AVXVNNI__, leaf7_1_a, 4),
    GRADKERN_DETAIL_CPU_ROW("avxifma", __AVXIFMA__, leaf7_1_a, 23),
    GRADKERN_DETAIL_CPU_ROW("avxvnniint8", __AVXVNNIINT8__, leaf7_1_d, 4),
    GRADKERN_DETAIL_CPU_ROW("avxneconvert", __AVXNECONVERT__, leaf7_1_d, 5),
    GRADKERN_DETAIL_CPU_ROW("avxvnniint16", __AVXVNNIINT16__, leaf7_1_d, 10),
    GRADKERN_DETAIL_CPU_ROW("avx10", __AVX10_1__, leaf7_1_d, 19),
    GRADKERN_DETAIL_CPU_ROW("apx", __APX_F__, leaf7_1_d, 21),
    GRADKERN_DETAIL_CPU_ROW("apx registers (saved by the operating system)", __APX_F__, saved, 19),
    GRADKERN_DETAIL_CPU_ROW("sse4a", __SSE4A__, extended_c, 6),
    GRADKERN_DETAIL_CPU_ROW("avx512f", __AVX512F__, leaf7_b, 16),
    GRADKERN_DETAIL_CPU_ROW("avx512 registers (saved by the operating system)", __AVX512F__, saved, 7),
    GRADKERN_DETAIL_CPU_ROW("avx512cd", __AVX512CD__, leaf7_b, 28),
    GRADKERN_DETAIL_CPU_ROW("avx512dq", __AVX512DQ__, leaf7_b, 17),
    GRADKERN_DETAIL_CPU_ROW("avx512bw", __AVX512BW__, leaf7_b, 30),
    GRADKERN_DETAIL_CPU_ROW("avx512vl", __AVX512VL__, leaf7_b, 31),
    GRADKERN_DETAIL_CPU_ROW("avx512er", __AVX512ER__, leaf7_b, 27),
    GRADKERN_DETAIL_CPU_ROW("avx512pf", __AVX512PF__, leaf7_b, 26),
    GRADKERN_DETAIL_CPU_ROW("avx512ifma", __AVX512IFMA__, leaf7_b, 21),
    GRADKERN_DETAIL_CPU_ROW("avx512vbmi", __AVX512VBMI__, leaf7_c, 1),
    GRADKERN_DETAIL_CPU_ROW("avx512vbmi2", __AVX512VBMI2__, leaf7_c, 6),
    GRADKERN_DETAIL_CPU_ROW("avx512vnni", __AVX512VNNI__, leaf7_c, 11),
    GRADKERN_DETAIL_CPU_ROW("avx512bitalg", __AVX512BITALG__, leaf7_c, 12),
    GRADKERN_DETAIL_CPU_ROW("avx512vpopcntdq", __AVX512VPOPCNTDQ__, leaf7_c, 14),
    GRADKERN_DETAIL_CPU_ROW("avx512vp2intersect", __AVX512VP2INTERSECT__, leaf7_d, 8),
    GRADKERN_DETAIL_CPU_ROW("avx512bf16", __AVX512BF16__, leaf7_1_a, 5),
    GRADKERN_DETAIL_CPU_ROW("avx512fp16", __AVX512FP16__, leaf7_d, 23),
};

[[maybe_unused]] GRADKERN_DETAIL_ANY_CPU static void read_cpuid(unsigned leaf, unsigned part,
                                                                unsigned (&out)[4]) noexcept {
    __asm__ __volatile__("cpuid" : "=a"(out[0]), "=b"(out[1]), "=c"(out[2]), "=d"(out[3]) : "0"(leaf), "2"(part));
}

[[maybe_unused]] GRADKERN_DETAIL_ANY_CPU static void read_words(std::uint64_t (&out)[word_count]) noexcept {
    unsigned r[4];  // eax, ebx, ecx, edx
    read_cpuid(0, 0, r);
    const unsigned last = r[0];
    read_cpuid(1, 0, r);
    out[leaf1_c] = r[2];
    out[saved] = 0;
    if ((out[leaf1_c] >> 27 & 1) != 0) {  // OSXSAVE: bits 1, 2: registers of SSE, AVX; 5 to 7: AVX-512; 19: APX
        unsigned low = 0;
        unsigned high = 0;
        __asm__ __volatile__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
        out[saved] = ((low & 0x06) == 0x06 ? std::uint64_t{1} << 2 : 0) |
                     ((low & 0xe6) == 0xe6 ? std::uint64_t{1} << 7 : 0) | (low & std::uint64_t{1} << 19);
    }
    out[leaf7_b] = out[leaf7_c] = out[leaf7_d] = out[leaf7_1_a] = out[leaf7_1_d] = out[extended_c] = 0;
    if (last >= 7) {
        read_cpuid(7, 0, r);
        const unsigned last_part = r[0];
        out[leaf7_b] = r[1];
        out[leaf7_c] = r[2];
        out[leaf7_d] = r[3];
        if (last_part >= 1) {
            read_cpuid(7, 1, r);
            out[leaf7_1_a] = r[0];
            out[leaf7_1_d] = r[3];
        }
    }
    read_cpuid(0x80000000, 0, r);
    if (r[0] >= 0x80000001) {
        read_cpuid(0x80000001, 0, r);
        out[extended_c] = r[2];
    }
}

#elif defined(__aarch64__) && defined(__linux__)

/// AT_HWCAP and AT_HWCAP2 of the auxiliary vector.
enum word : unsigned { hwcap, hwcap2, word_count };

[[maybe_unused]] static constexpr feature rows[] = {
    GRADKERN_DETAIL_CPU_ROW("crc32", __ARM_FEATURE_CRC32, hwcap, 7),
    GRADKERN_DETAIL_CPU_ROW("aes", __ARM_FEATURE_AES, hwcap, 3),
    GRADKERN_DETAIL_CPU_ROW("sha2", __ARM_FEATURE_SHA2, hwcap, 6),
    GRADKERN_DETAIL_CPU_ROW("sha3", __ARM_FEATURE_SHA3, hwcap, 17),
    GRADKERN_DETAIL_CPU_ROW("sha512", __ARM_FEATURE_SHA512, hwcap, 21),
    GRADKERN_DETAIL_CPU_ROW("lse atomics", __ARM_FEATURE_ATOMICS, hwcap, 8),
    GRADKERN_DETAIL_CPU_ROW("rdm", __ARM_FEATURE_QRDMX, hwcap, 12),
    GRADKERN_DETAIL_CPU_ROW("fp16", __ARM_FEATURE_FP16_SCALAR_ARITHMETIC, hwcap, 9),
    GRADKERN_DETAIL_CPU_ROW("fp16 vectors", __ARM_FEATURE_FP16_VECTOR_ARITHMETIC, hwcap, 10),
    GRADKERN_DETAIL_CPU_ROW("fp16fml", __ARM_FEATURE_FP16_FML, hwcap, 23),
    GRADKERN_DETAIL_CPU_ROW("rcpc", __ARM_FEATURE_RCPC, hwcap, 15),
    GRADKERN_DETAIL_CPU_ROW("dotprod", __ARM_FEATURE_DOTPROD, hwcap, 20),
    GRADKERN_DETAIL_CPU_ROW("i8mm", __ARM_FEATURE_MATMUL_INT8, hwcap2, 13),
    GRADKERN_DETAIL_CPU_ROW("bf16", __ARM_FEATURE_BF16_VECTOR_ARITHMETIC, hwcap2, 14),
    GRADKERN_DETAIL_CPU_ROW("sve", __ARM_FEATURE_SVE, hwcap, 22),
    GRADKERN_DETAIL_CPU_ROW("sve2", __ARM_FEATURE_SVE2, hwcap2, 1),
};

[[maybe_unused]] GRADKERN_DETAIL_ANY_CPU static void read_words(std::uint64_t (&out)[word_count]) noexcept {
    out[hwcap] = getauxval(AT_HWCAP);
    out[hwcap2] = getauxval(AT_HWCAP2);
}

#else

enum word : unsigned { word_count = 1 };
[[maybe_unused]] static constexpr feature rows[] = {{"", 0, 0, false}};
[[maybe_unused]] static void read_words(std::uint64_t (&out)[word_count]) noexcept { out[0] = 0; }

#endif

[[maybe_unused]] static constexpr unsigned row_count = sizeof rows / sizeof rows[0];
static_assert(row_count <= 64);

[[nodiscard]] static constexpr cpu_features needed_features() noexcept {
    cpu_features needed;
    for (unsigned i = 0; i < row_count; ++i)
        if (rows[i].is_needed) needed.bits |= std::uint64_t{1} << i;
    return needed;
}

}  // namespace cpu

/// The features that the including file was compiled for. It is a constant, so no instruction computes it.
[[maybe_unused]] static constexpr cpu_features needed_cpu_features = cpu::needed_features();

/// The first needed feature that this CPU or its operating system lacks, for example "avx512bw"; null if it has all of them.
/// Uses only instructions that every CPU of the architecture has.
[[nodiscard, maybe_unused]] GRADKERN_DETAIL_ANY_CPU static const char* missing_cpu_feature(
    cpu_features needed = needed_cpu_features) noexcept {
    std::uint64_t words[cpu::word_count];
    cpu::read_words(words);
    for (unsigned i = 0; i < cpu::row_count; ++i) {
        const cpu::feature& row = cpu::rows[i];
        if ((needed.bits >> i & 1) != 0 && (words[row.word] >> row.bit & 1) == 0) return row.name;
    }
    return nullptr;
}

/// Whether this CPU can run what this file was compiled for.
[[nodiscard, maybe_unused]] GRADKERN_DETAIL_ANY_CPU static bool cpu_runs_this_build() noexcept {
    return missing_cpu_feature() == nullptr;
}

GRADKERN_NAMESPACE_END

#undef GRADKERN_DETAIL_ANY_CPU
#undef GRADKERN_DETAIL_CPU_NEEDS
#undef GRADKERN_DETAIL_CPU_ROW
