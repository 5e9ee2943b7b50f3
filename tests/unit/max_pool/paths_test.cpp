// Every row of the tables of max pooling, forced by name, against the reference. A new row is tested as soon as it is there.

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <vector>

#include <gradkern/max_pool.hpp>
#include <gradkern/ref/max_pool.hpp>

#include "support/random.hpp"
#include "support/tensor.hpp"

namespace {

namespace gk = gradkern;
using gk::algorithm;
using gk::data_format;
using gk::extents;
using gradkern_test::random_source;
using gradkern_test::test_tensor;

/// Spatial sizes and windows; channels are added per layout.
struct layer {
    const char* name;
    extents size;
    extents kernel;
    extents strides;
    extents pads;
    extents dilations;
    std::int64_t channels;
};
const std::array layers{
    layer{"line", {37}, {3}, {2}, {1}, {1}, 21},
    layer{"line, one channel", {40}, {2}, {2}, {0}, {1}, 1},
    layer{"windows side by side", {8, 12}, {2, 2}, {2, 2}, {0, 0}, {1, 1}, 70},
    layer{"overlapping", {11, 13}, {3, 3}, {2, 2}, {1, 1}, {1, 1}, 40},
    layer{"separable", {12, 12}, {5, 5}, {1, 1}, {2, 2}, {1, 1}, 33},
    layer{"dilated", {14, 15}, {3, 2}, {1, 2}, {2, 1}, {2, 3}, 17},
    layer{"strides over pixels", {9, 10}, {1, 2}, {4, 3}, {0, 0}, {1, 1}, 5},
    layer{"volume", {5, 6, 7}, {2, 3, 2}, {2, 1, 2}, {1, 1, 0}, {1, 1, 1}, 18},
};

extents with_channels(const extents& size, std::int64_t channels, data_format f) {
    extents e{2};
    if (f == data_format::ncx) e.push_back(channels);
    for (const std::int64_t s : size.values()) e.push_back(s);
    if (f == data_format::nxc) e.push_back(channels);
    return e;
}

/// Calls f(attributes, src, dst, options) for every layer, layout, rule for NaN and output mode.
template <class F>
void for_each_problem(const F& f) {
    for (const layer& l : layers)
        for (const data_format format : {data_format::ncx, data_format::nxc})
            for (const bool ignore_nan : {false, true})
                for (const gk::output_mode output : {gk::output_mode::overwrite, gk::output_mode::accumulate}) {
                    const gk::max_pool_attributes a{.kernel = l.kernel,
                                                    .strides = l.strides,
                                                    .pads_begin = l.pads,
                                                    .pads_end = l.pads,
                                                    .dilations = l.dilations,
                                                    .ignore_nan = ignore_nan,
                                                    .data_format = format};
                    const extents src = with_channels(l.size, l.channels, format);
                    SCOPED_TRACE(std::string(l.name) + (format == data_format::ncx ? " NCX" : " NXC"));
                    f(a, src, *gk::infer_max_pool(src, a), gk::plan_options{.output = output});
                }
}

/// Few different numbers, so that maxima tie, and some NaN.
template <class T>
void fill_with_ties(const test_tensor<T>& x, random_source& random) {
    x.fill([&](std::int64_t) {
        return random.chance(1, 40) ? __builtin_nanf("") : static_cast<float>(random.integer(-3, 3));
    });
}
template <class T>
void fill_before(const test_tensor<T>& y) {
    y.fill([](std::int64_t k) { return k % 5; });
}

template <class T>
class max_pool_paths : public ::testing::Test {};
using element_types = ::testing::Types<float, gk::bfloat16>;
TYPED_TEST_SUITE(max_pool_paths, element_types, );

TYPED_TEST(max_pool_paths, forward_rows_have_the_references_bits) {
    using T = TypeParam;
    random_source random("max_pool_paths.forward");
    std::set<algorithm> ran;
    for_each_problem([&](const auto& a, const extents& src, const extents& dst, gk::plan_options options) {
        const test_tensor<T> x(src);
        fill_with_ties(x, random);
        const test_tensor<T> expected(dst);
        fill_before(expected);
        std::vector<std::int64_t> expected_index(static_cast<std::size_t>(expected.count()));
        ASSERT_TRUE(
            gk::ref::max_pool(x.const_view(), a, expected.view(), {expected_index.data(), dst}, {.plan = options})
                .ok());
        for (const auto& row : gk::detail::max_pool::paths) {
            options.algorithm = row.name;
            for (const bool with_indices : {true, false}) {
                const auto plan = gk::plan_max_pool<T>(
                    src, a, dst, with_indices ? gk::tensor_layout(dst) : gk::tensor_layout{}, options);
                if (!plan) continue;
                ran.insert(row.name);
                const test_tensor<T> y(dst);
                fill_before(y);
                std::vector<std::int64_t> index(expected_index.size());
                std::vector<std::byte> workspace(plan->workspace_bytes());
                ASSERT_TRUE(plan->run(x.data(), y.data(), index.data(), workspace).ok());
                EXPECT_TRUE(y.equals(expected)) << gk::name_of(row.name);
                if (with_indices) {
                    EXPECT_EQ(index, expected_index) << gk::name_of(row.name);
                }
                EXPECT_TRUE(y.surroundings_intact());
            }
        }
    });
    EXPECT_EQ(ran.size(), gk::detail::max_pool::paths.size());
}

TYPED_TEST(max_pool_paths, backward_rows_have_the_references_bits) {
    using T = TypeParam;
    random_source random("max_pool_paths.backward");
    std::set<algorithm> ran;
    for_each_problem([&](const auto& a, const extents& src, const extents& dst, gk::plan_options options) {
        const test_tensor<T> x(src);
        const test_tensor<T> dy(dst);
        fill_with_ties(x, random);
        dy.fill_random(random);
        const test_tensor<T> expected(src);
        fill_before(expected);
        ASSERT_TRUE(
            gk::ref::max_pool_backward(x.const_view(), dy.const_view(), a, expected.view(), {.plan = options}).ok());
        for (const auto& row : gk::detail::max_pool::backward_paths) {
            options.algorithm = row.name;
            const auto plan = gk::plan_max_pool_backward<T>(src, dst, a, src, options);
            if (!plan) continue;
            ran.insert(row.name);
            const test_tensor<T> dx(src);
            fill_before(dx);
            std::vector<std::byte> workspace(plan->workspace_bytes());
            ASSERT_TRUE(plan->run(x.data(), dy.data(), dx.data(), workspace).ok());
            EXPECT_TRUE(dx.equals(expected)) << gk::name_of(row.name);
            EXPECT_TRUE(dx.surroundings_intact());
        }
    });
    EXPECT_EQ(ran.size(), gk::detail::max_pool::backward_paths.size());
}

}  // namespace
