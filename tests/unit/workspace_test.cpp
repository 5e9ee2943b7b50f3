// Workspaces that own their memory.

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include <gradkern/convolution.hpp>
#include <gradkern/workspace.hpp>

namespace {

namespace gk = gradkern;

static_assert(!std::is_copy_constructible_v<gk::growing_workspace> &&
              !std::is_copy_assignable_v<gk::growing_workspace>);
static_assert(std::is_nothrow_move_constructible_v<gk::growing_workspace> &&
              std::is_nothrow_move_assignable_v<gk::growing_workspace>);
static_assert(noexcept(std::declval<gk::growing_workspace&>().of(1)));

[[nodiscard]] std::uintptr_t address(std::span<std::byte> bytes) {
    return reinterpret_cast<std::uintptr_t>(bytes.data());
}

TEST(growing_workspace, has_as_many_bytes_as_are_asked_for) {
    gk::growing_workspace memory;
    EXPECT_EQ(memory.size(), 0U);
    EXPECT_TRUE(memory.of(0).empty());
    for (const std::size_t bytes : {1U, 100U, 64U, 5000U, 7U, 100000U}) {
        const std::span<std::byte> span = memory.of(bytes);
        ASSERT_EQ(span.size(), bytes);
        EXPECT_EQ(address(span) % gk::workspace::alignment, 0U);
        std::memset(span.data(), 0x5a, span.size());
    }
}

TEST(growing_workspace, grows_and_does_not_shrink) {
    gk::growing_workspace memory;
    const auto first = address(memory.of(1000));
    EXPECT_EQ(memory.size(), 1000U);
    EXPECT_EQ(address(memory.of(10)), first);
    EXPECT_EQ(address(memory.of(1000)), first);
    EXPECT_EQ(memory.size(), 1000U);
    EXPECT_EQ(memory.of(1001).size(), 1001U);
    EXPECT_EQ(memory.size(), 1001U);
    EXPECT_EQ(memory.of(0).size(), 0U);
    EXPECT_EQ(memory.size(), 1001U);
}

TEST(growing_workspace, is_empty_where_memory_cannot_be_had_and_keeps_what_it_has) {
    gk::growing_workspace memory;
    const auto first = address(memory.of(256));
    EXPECT_TRUE(memory.of(SIZE_MAX).empty());
    EXPECT_TRUE(memory.of(SIZE_MAX / 2).empty());
    EXPECT_EQ(memory.size(), 256U);
    EXPECT_EQ(address(memory.of(256)), first);
}

TEST(growing_workspace, gives_its_memory_away) {
    gk::growing_workspace a;
    const auto first = address(a.of(300));
    gk::growing_workspace b(std::move(a));
    EXPECT_EQ(a.size(), 0U);  // NOLINT(bugprone-use-after-move): what a moved-from object is, is the question
    EXPECT_EQ(address(b.of(300)), first);
    EXPECT_EQ(a.of(20).size(), 20U);
    a = std::move(b);
    EXPECT_EQ(address(a.of(300)), first);
    EXPECT_EQ(b.size(), 0U);  // NOLINT(bugprone-use-after-move)
}

// An empty span is an error of run(), not a crash.
TEST(growing_workspace, serves_plans) {
    const gk::convolution_attributes conv{.strides = {1, 1}, .dilations = {1, 1}};
    const auto plan = gk::plan_convolution<float>({1, 9, 9, 40}, {3, 3, 40, 24}, {}, conv);
    ASSERT_TRUE(plan.has_value());
    ASSERT_GT(plan->workspace_bytes(), 0U);
    const std::vector<float> src(9 * 9 * 40, 1.0F);
    const std::vector<float> weights(9 * 40 * 24, 0.5F);
    std::vector<float> dst(7 * 7 * 24, -1.0F);
    gk::growing_workspace memory;
    EXPECT_EQ(plan->run(src.data(), weights.data(), nullptr, dst.data(), memory.of(SIZE_MAX)).code(),
              gk::errc::workspace_too_small);
    EXPECT_EQ(dst[0], -1.0F);
    EXPECT_TRUE(plan->run(src.data(), weights.data(), nullptr, dst.data(), memory.of(plan->workspace_bytes())).ok());
    EXPECT_EQ(dst[0], 180.0F);
}

}  // namespace
