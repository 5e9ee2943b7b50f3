// Errors as values: codes, messages, status and result.

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <limits>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <type_traits>

#include <gradkern/error_text.hpp>
#include <gradkern/status.hpp>
#include <gradkern/tensor_view.hpp>

namespace {

namespace gk = gradkern;

static_assert(gk::status{}.ok());
static_assert(!gk::status(gk::error{gk::errc::overflow}).ok());
static_assert(gk::result<int>(3).value() == 3 && *gk::result<int>(3) == 3 && gk::result<int>(3).value_or(5) == 3);
static_assert(gk::result<int>(gk::error{gk::errc::unsupported}).value_or(5) == 5);
static_assert(!gk::result<int>(gk::error{gk::errc::unsupported}));
static_assert(gk::result<int>(gk::error{gk::errc::unsupported}).error().code == gk::errc::unsupported);
static_assert(gk::error{gk::errc::overflow, "a", "b", 1, 2, 3} == gk::error{gk::errc::overflow, "a", "b", 1, 2, 3});
static_assert(gk::to_string(gk::errc::workspace_too_small) == "workspace_too_small");
static_assert(gk::to_string(static_cast<gk::errc>(200)) == "unknown");

TEST(status, messages_name_operator_argument_axis_and_numbers) {
    const gk::error e{gk::errc::invalid_argument, "convolution", "strides", 1, 0, 1, gk::expectation::at_least};
    EXPECT_EQ(gk::to_string(e), "convolution: strides[1]: got 0, expected at least 1 (invalid_argument)");
    EXPECT_EQ(gk::to_string(
                  gk::error{gk::errc::missing_shape, "avg_pool_backward", "diff_src", -1, 0, 0, gk::expectation::none}),
              "avg_pool_backward: diff_src (missing_shape)");
    EXPECT_EQ(gk::to_string(gk::error{gk::errc::invalid_shape, "op", "x", 0, std::numeric_limits<std::int64_t>::min(),
                                      std::numeric_limits<std::int64_t>::max()}),
              "op: x[0]: got -9223372036854775808, expected 9223372036854775807 (invalid_shape)");
    EXPECT_EQ(gk::to_string(gk::error{gk::errc::invalid_shape, "op", "x", -1, 7, 2, gk::expectation::multiple_of}),
              "op: x: got 7, expected a multiple of 2 (invalid_shape)");
    EXPECT_EQ(gk::to_string(gk::error{gk::errc::invalid_argument, "op", "x", -1, 0, 0, gk::expectation::not_equal}),
              "op: x: got 0, expected other than 0 (invalid_argument)");
    EXPECT_EQ(gk::to_string(gk::error{gk::errc::invalid_argument, "op", "x", -1, 4, 4, gk::expectation::below}),
              "op: x: got 4, expected below 4 (invalid_argument)");
    EXPECT_EQ(gk::to_string(gk::error{}), "ok");
    EXPECT_EQ(gk::to_string(gk::status{}), "ok");
    std::ostringstream out;
    out << e << '\n' << gk::status(e);
    EXPECT_EQ(out.str(), gk::to_string(e) + "\n" + gk::to_string(gk::status(e)));
}

// What only explains does not make a difference: errors can be compared with ones that are written down in short.
static_assert(gk::error{gk::errc::overflow, "a", "b", 1, 2, 3, gk::expectation::equal, gk::quantity::rank, "c", "d"} ==
              gk::error{gk::errc::overflow, "a", "b", 1, 2, 3});
static_assert(gk::error{gk::errc::overflow, "a", "b", 1, 2, 3} != gk::error{gk::errc::overflow, "a", "b", 1, 2, 4});
static_assert(std::is_trivially_copyable_v<gk::error> && std::is_aggregate_v<gk::error>);
static_assert(gk::error{gk::errc::unsupported, "op", "x", -1, 6, 5, gk::expectation::at_most, gk::quantity::rank}
                  .format({}) == std::string_view("op: x: got rank 6, expected at most 5 (unsupported)").size());

TEST(status, messages_say_what_numbers_count) {
    using gk::expectation;
    using gk::quantity;
    const auto text = [](quantity what, std::int64_t got, std::int64_t expected, expectation relation,
                         std::string_view other = {}, std::string_view why = {}) {
        return gk::to_string(
            gk::error{gk::errc::unsupported, "op", "x", -1, got, expected, relation, what, other, why});
    };
    EXPECT_EQ(text(quantity::entries, 0, 2, expectation::equal), "op: x: got 0 entries, expected 2 (unsupported)");
    EXPECT_EQ(text(quantity::entries, 1, 2, expectation::equal), "op: x: got 1 entry, expected 2 (unsupported)");
    EXPECT_EQ(text(quantity::strides, 3, 4, expectation::equal), "op: x: got 3 strides, expected 4 (unsupported)");
    EXPECT_EQ(text(quantity::bytes, 0, 64, expectation::at_least),
              "op: x: got 0 bytes, expected at least 64 (unsupported)");
    EXPECT_EQ(text(quantity::type, 3, 1, expectation::equal, "src"),
              "op: x: got f64, expected f16, the type of src (unsupported)");
    EXPECT_EQ(text(quantity::type, 2, 0, expectation::none, {}, "f32"), "op: x: got bf16, expected f32 (unsupported)");
    EXPECT_EQ(text(quantity::type, -4, 77, expectation::equal), "op: x: got type -4, expected type 77 (unsupported)");
    EXPECT_EQ(text(quantity::word, 7, 1, expectation::at_most, {}, "a or b"),
              "op: x: got 7, expected a or b (unsupported)");
    EXPECT_EQ(text(quantity::word, 0, 0, expectation::none, {}, "a or b"),
              "op: x: unknown word, expected a or b (unsupported)");
    EXPECT_EQ(text(quantity::value, 3, 4, expectation::equal, "src", "half of it"),
              "op: x: got 3, expected 4, to match src: half of it (unsupported)");
    EXPECT_EQ(text(quantity::value, 0, 0, expectation::none, "src", "shares memory with"),
              "op: x: shares memory with src (unsupported)");
    // whatever the members are, there is a text
    EXPECT_EQ(text(quantity::word, 7, 1, expectation::at_most), "op: x: got 7, expected at most 1 (unsupported)");
    EXPECT_EQ(text(quantity::word, 7, 1, expectation::none), "op: x (unsupported)");
    EXPECT_EQ(text(quantity::type, 7, 1, expectation::none), "op: x (unsupported)");
    EXPECT_EQ(text(static_cast<quantity>(99), 7, 1, static_cast<expectation>(99)),
              "op: x: got 7, expected 1 (unsupported)");
}

TEST(status, messages_are_cut_to_the_span) {
    const gk::error e{gk::errc::invalid_argument, "convolution", "strides", 1, 0, 1, gk::expectation::at_least};
    const std::string whole = gk::to_string(e);
    for (std::size_t n = 0; n <= whole.size() + 2; ++n) {
        std::array<char, 128> text;
        text.fill('#');
        EXPECT_EQ(e.format(std::span<char>(text.data(), n)), whole.size());
        const std::size_t kept = n < whole.size() ? n : whole.size();
        EXPECT_EQ(std::string_view(text.data(), kept), std::string_view(whole).substr(0, kept));
        EXPECT_EQ(text[kept], '#');
    }
}

TEST(status, result_holds_a_default_value_beside_an_error) {
    const gk::result<gk::extents> failed(gk::error{gk::errc::overflow, "op"});
    EXPECT_FALSE(failed.has_value());
    EXPECT_TRUE(failed.value().empty());
    EXPECT_EQ(failed->rank(), 0U);
    const gk::result<gk::extents> good(gk::extents{1, 2});
    EXPECT_TRUE(good);
    EXPECT_EQ(good->rank(), 2U);
    EXPECT_EQ(good.error().code, gk::errc::ok);
}

}  // namespace
