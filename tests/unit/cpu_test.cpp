#include <gradkern/cpu.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <iterator>
#include <string>

namespace {

namespace gk = gradkern;

// Known while compiling: a file may tell it without running an instruction.
[[maybe_unused]] constexpr gk::cpu_features constant = gk::needed_cpu_features;
#if defined(__AVX2__) && defined(__x86_64__)
static_assert(gk::needed_cpu_features.bits != 0);
#endif

// ctest runs this program where the CPU has what it was compiled for.
TEST(cpu, this_program_runs_here) {
    EXPECT_STREQ(gk::missing_cpu_feature(), nullptr);
    EXPECT_TRUE(gk::cpu_runs_this_build());
}

TEST(cpu, nothing_needed_is_never_missing) { EXPECT_STREQ(gk::missing_cpu_feature(gk::cpu_features{}), nullptr); }

TEST(cpu, names_the_first_missing_feature) {
#if defined(__x86_64__)
    // No CPU has both AMD's XOP and Intel's AVX512ER.
    const char* missing = gk::missing_cpu_feature({~std::uint64_t{0}});
    ASSERT_NE(missing, nullptr);
    EXPECT_FALSE(std::string(missing).empty());
#endif
}

TEST(cpu, each_feature_has_a_row_of_its_own) {
    for (unsigned i = 0; i < gk::cpu::row_count; ++i)
        for (unsigned j = 0; j < i; ++j) {
            EXPECT_STRNE(gk::cpu::rows[i].name, gk::cpu::rows[j].name);
            EXPECT_FALSE(gk::cpu::rows[i].word == gk::cpu::rows[j].word && gk::cpu::rows[i].bit == gk::cpu::rows[j].bit)
                << gk::cpu::rows[i].name << " and " << gk::cpu::rows[j].name;
        }
}

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
// The compiler's own library asks the CPU, too.
TEST(cpu, agrees_with_the_compiler_about_this_cpu) {
    struct answer {
        std::string feature;
        bool is_here;
    };
#define ANSWER(feature) \
    answer { feature, __builtin_cpu_supports(feature) != 0 }
    const answer answers[] = {
        ANSWER("sse3"),
        ANSWER("ssse3"),
        ANSWER("sse4.1"),
        ANSWER("sse4.2"),
        ANSWER("popcnt"),
        ANSWER("movbe"),
        ANSWER("aes"),
        ANSWER("lzcnt"),
        ANSWER("bmi"),
        ANSWER("bmi2"),
        ANSWER("adx"),
        ANSWER("sha"),
        ANSWER("gfni"),
        ANSWER("tbm"),
        ANSWER("avx"),
        ANSWER("f16c"),
        ANSWER("fma"),
        ANSWER("fma4"),
        ANSWER("xop"),
        ANSWER("avx2"),
        ANSWER("vaes"),
        ANSWER("vpclmulqdq"),
        ANSWER("avxvnni"),
        ANSWER("avx512f"),
        ANSWER("avx512cd"),
        ANSWER("avx512dq"),
        ANSWER("avx512bw"),
        ANSWER("avx512vl"),
        ANSWER("avx512ifma"),
        ANSWER("avx512vbmi"),
        ANSWER("avx512vbmi2"),
        ANSWER("avx512vnni"),
        ANSWER("avx512bitalg"),
        ANSWER("avx512vpopcntdq"),
        ANSWER("avx512vp2intersect"),
        ANSWER("avx512bf16"),
    };
#undef ANSWER
    unsigned known = 0;
    for (const answer& a : answers)
        for (unsigned i = 0; i < gk::cpu::row_count; ++i) {
            if (gk::cpu::rows[i].name != a.feature) continue;
            EXPECT_EQ(gk::missing_cpu_feature({std::uint64_t{1} << i}) == nullptr, a.is_here) << a.feature;
            ++known;
        }
    EXPECT_EQ(known, std::size(answers));
}
#endif

}  // namespace
