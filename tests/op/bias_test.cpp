// The bias gradient: exact on integers, within the published bound on reals, the same bits by every layout and lane.

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include <gradkern/accuracy.hpp>
#include <gradkern/bias.hpp>
#include <gradkern/error_text.hpp>
#include <gradkern/ref/bias.hpp>

#include "support/executors.hpp"
#include "support/guarded.hpp"
#include "support/random.hpp"
#include "support/tensor.hpp"

namespace gradkern_test {
namespace {

namespace gk = gradkern;

struct bias_case {
    gk::extents shape{};
    gk::bias_attributes attributes{};
    std::int64_t channels = 0;
    gk::output_mode mode = gk::output_mode::overwrite;
};

gk::extents shape_of(gk::data_format f, std::int64_t n, std::int64_t c, const gk::extents& space) {
    gk::extents e{n};
    if (f == gk::data_format::ncx) e.push_back(c);
    for (const std::int64_t v : space.values()) e.push_back(v);
    if (f == gk::data_format::nxc) e.push_back(c);
    return e;
}

bias_case random_case(random_source& random) {
    bias_case b;
    const auto r = static_cast<std::size_t>(random.integer(1, 3));
    b.channels = random.pick<std::int64_t>({1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 100, 129});
    gk::extents space;
    for (std::size_t i = 0; i < r; ++i)
        space.push_back(random.chance(1, 5) ? 1 : random.integer(1, r == 1 ? 900 : r == 2 ? 40 : 12));
    b.attributes.data_format = random.pick({gk::data_format::ncx, gk::data_format::nxc});
    b.shape = shape_of(b.attributes.data_format, random.chance(1, 20) ? 0 : random.integer(1, 4), b.channels, space);
    b.mode = random.pick({gk::output_mode::overwrite, gk::output_mode::accumulate});
    return b;
}

template <class T, class G>
gk::status run(const bias_case& b, const test_tensor<T>& x, const test_tensor<G>& db, std::ptrdiff_t lanes = 1,
               std::size_t shift = 0) {
    const auto plan = gk::plan_bias_backward<T, G>(x.layout(), b.attributes, db.layout(), {.output = b.mode});
    if (!plan) return plan.error();
    const guarded_bytes workspace(plan->workspace_bytes(lanes), touching::end, shift);
    shuffling_executor executor(lanes);
    return plan->run(x.data(), db.data(), {workspace.data(), workspace.size()}, executor);
}

template <class T, class G>
struct types {
    using input = T;
    using output = G;
};
template <class Types>
class bias_backward : public ::testing::Test {};
using all_types = ::testing::Types<types<float, float>, types<gk::float16, gk::float16>,
                                   types<gk::bfloat16, gk::bfloat16>, types<gk::float16, float>>;
TYPED_TEST_SUITE(bias_backward, all_types);

TYPED_TEST(bias_backward, integers_are_exact) {
    using T = typename TypeParam::input;
    using G = typename TypeParam::output;
    random_source random("bias.integers");
    for (int i = 0; i < 150; ++i, random.next_case()) {
        GRADKERN_TRACE_SEED(random);
        const bias_case b = random_case(random);
        const bool strided = random.chance(1, 3);
        const test_tensor<T> x(b.shape, strided ? random_input_strides(random, b.shape) : gk::extents{});
        x.fill([&](std::int64_t) { return static_cast<float>(random.integer(-3, 3)); });
        const test_tensor<G> out({b.channels}, strided ? random_output_strides(random, {b.channels}) : gk::extents{});
        const test_tensor<G> expected({b.channels});
        if (b.mode == gk::output_mode::accumulate) {
            expected.fill([](std::int64_t k) { return static_cast<float>(k % 9 - 4); });
            for (std::int64_t k = 0; k < b.channels; ++k) out[k] = expected[k];
        }
        const gk::status r =
            gk::ref::bias_backward(x.const_view(), b.attributes, expected.view(), {.plan = {.output = b.mode}});
        ASSERT_TRUE(r.ok()) << gk::to_string(r);
        const gk::status s = run(b, x, out);
        ASSERT_TRUE(s.ok()) << gk::to_string(s);
        ASSERT_TRUE(out.equals(expected));
        ASSERT_TRUE(out.surroundings_intact());
    }
}

TYPED_TEST(bias_backward, reals_keep_the_bound_and_their_bits) {
    using T = typename TypeParam::input;
    using G = typename TypeParam::output;
    random_source random("bias.reals");
    for (int i = 0; i < 100; ++i, random.next_case()) {
        GRADKERN_TRACE_SEED(random);
        bias_case b = random_case(random);
        b.mode = gk::output_mode::overwrite;
        const test_tensor<T> x(b.shape);
        x.fill_random(random);
        const test_tensor<G> out({b.channels});
        ASSERT_TRUE(run(b, x, out).ok());
        const test_tensor<double> exact({b.channels});
        const test_tensor<double> sizes({b.channels});
        const test_tensor<double> wide(b.shape);
        wide.fill([&](std::int64_t k) { return static_cast<double>(x.value(k)); });
        ASSERT_TRUE(gk::ref::bias_backward(wide.const_view(), b.attributes, exact.view()).ok());
        wide.fill([&](std::int64_t k) { return std::fabs(static_cast<double>(x.value(k))); });
        ASSERT_TRUE(gk::ref::bias_backward(wide.const_view(), b.attributes, sizes.view()).ok());
        const double factor = gk::accuracy::bias_backward(b.shape, b.attributes) * gk::accuracy::unit_roundoff;
        for (std::int64_t k = 0; k < b.channels; ++k) {
            const double sum_error = factor * sizes.value(k);
            ASSERT_LE(std::fabs(static_cast<double>(out.value(k)) - exact.value(k)),
                      sum_error + gk::accuracy::result_roundoff<G> * (std::fabs(exact.value(k)) + sum_error) + 0x1p-25);
        }
        // lanes, the other layout, strides
        const test_tensor<G> again({b.channels});
        ASSERT_TRUE(run(b, x, again, 3, static_cast<std::size_t>(random.integer(0, 70))).ok());
        ASSERT_TRUE(again.equals(out));
        bias_case other = b;
        const bool ncx = b.attributes.data_format == gk::data_format::ncx;
        other.attributes.data_format = ncx ? gk::data_format::nxc : gk::data_format::ncx;
        const std::size_t rank = b.shape.rank();
        gk::extents strides = dense_strides(b.shape);
        gk::extents shape = b.shape;
        for (std::size_t a = 1; a < rank; ++a) {  // the same memory under the other name
            const std::size_t from = ncx ? (a + 1 < rank ? a + 1 : 1) : (a == 1 ? rank - 1 : a - 1);
            shape[a] = b.shape[from];
            strides[a] = dense_strides(b.shape)[from];
        }
        const auto plan = gk::plan_bias_backward<T, G>({shape, strides}, other.attributes);
        ASSERT_TRUE(plan);
        std::vector<std::byte> workspace(plan->workspace_bytes());
        again.fill([](std::int64_t) { return 0.0F; });
        ASSERT_TRUE(plan->run(x.data(), again.data(), workspace).ok());
        ASSERT_TRUE(again.equals(out));
        // the other layout in memory
        const test_tensor<T> moved(shape);
        for (std::int64_t k = 0; k < moved.count(); ++k) {
            std::int64_t rest = k;
            std::int64_t at = 0;
            for (std::size_t a = rank; a-- > 0;) {
                at += rest % shape[a] * strides[a];
                rest /= shape[a];
            }
            moved[k] = x.data()[at];
        }
        ASSERT_TRUE(run(other, moved, again).ok());
        ASSERT_TRUE(again.equals(out));
    }
}

TEST(bias_backward_errors, shapes_and_memory) {
    std::array<float, 12> x{};
    std::array<float, 3> db{7, 7, 7};
    const gk::bias_attributes a{.data_format = gk::data_format::ncx};
    const auto code = [&](const gk::tensor_layout& in, const gk::tensor_layout& out) {
        return gk::bias_backward(gk::tensor_view<const float>(x.data(), in), a, gk::tensor_view<float>(db.data(), out))
            .code();
    };
    EXPECT_EQ(gk::infer_bias_backward({2, 3, 2}, a).value(), gk::extents{3});
    EXPECT_EQ(code({2, 3, 2}, {3}), gk::errc::ok);
    EXPECT_EQ(code({2, 3, 2}, {}), gk::errc::ok);
    EXPECT_EQ(code({2, 3}, {3}), gk::errc::unsupported);
    EXPECT_EQ(code({1, 1, 1, 1, 1, 1}, {1}), gk::errc::unsupported);
    EXPECT_EQ(code({2, 3, 2}, {3, 1}), gk::errc::unsupported);
    EXPECT_EQ(code({2, 3, 2}, {2}), gk::errc::invalid_shape);
    EXPECT_EQ(code({-1, 3, 2}, {3}), gk::errc::invalid_shape);
    EXPECT_EQ(code({2, 0, 2}, {3}), gk::errc::invalid_shape);
    EXPECT_EQ(code({2, 3, 0}, {3}), gk::errc::invalid_shape);
    EXPECT_EQ(code({INT64_C(1) << 31, 3, INT64_C(1) << 31}, {3}), gk::errc::overflow);
    EXPECT_EQ(code({2, 3, 2}, {gk::extents{3}, gk::extents{0}}), gk::errc::invalid_argument);
    EXPECT_EQ(
        gk::bias_backward(gk::tensor_view<const float>(nullptr, {2, 3, 2}), a, gk::tensor_view<float>(db.data(), {3}))
            .code(),
        gk::errc::null_pointer);
    EXPECT_EQ(
        gk::bias_backward(gk::tensor_view<const float>(x.data(), {2, 3, 2}), a, gk::tensor_view<float>(x.data(), {3}))
            .code(),
        gk::errc::invalid_argument);
    db = {7, 7, 7};
    EXPECT_EQ(
        gk::bias_backward(gk::tensor_view<const float>(nullptr, {0, 3, 2}), a, gk::tensor_view<float>(db.data(), {3}))
            .code(),
        gk::errc::ok);
    EXPECT_EQ(db, (std::array<float, 3>{0, 0, 0}));
}

TEST(bias_backward_values, non_finite_stays_in_its_channel) {
    for (const gk::data_format f : {gk::data_format::ncx, gk::data_format::nxc}) {
        const bias_case b{shape_of(f, 2, 19, {3, 5}), {f}, 19, gk::output_mode::overwrite};
        const test_tensor<float> x(b.shape);
        for (std::int64_t at = 0; at < x.count(); ++at) {
            x.fill([](std::int64_t) { return 1.0F; });
            x.set(at, std::numeric_limits<float>::infinity());
            const std::int64_t channel = f == gk::data_format::ncx ? at / 15 % 19 : at % 19;
            const test_tensor<float> out({19});
            ASSERT_TRUE(run(b, x, out).ok());
            for (std::int64_t c = 0; c < 19; ++c)
                ASSERT_EQ(out.value(c), c == channel ? std::numeric_limits<float>::infinity() : 30.0F);
        }
    }
}

}  // namespace
}  // namespace gradkern_test
