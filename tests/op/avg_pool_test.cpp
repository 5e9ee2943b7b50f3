// Average pooling against the reference, bit by bit: random shapes, types, layouts, strides, executors and workspaces.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <gradkern/avg_pool.hpp>
#include <gradkern/ref/avg_pool.hpp>

#if defined(__linux__)
#include <sys/mman.h>
#endif

#include "support/executors.hpp"
#include "support/guarded.hpp"
#include "support/pool_problem.hpp"
#include "support/random.hpp"
#include "support/tensor.hpp"

namespace {

using gradkern::algorithm;
using gradkern::auto_pad;
using gradkern::avg_pool_attributes;
using gradkern::bfloat16;
using gradkern::data_format;
using gradkern::extents;
using gradkern::float16;
using gradkern::output_mode;
using gradkern::rounding_type;
using gradkern_test::random_source;
using gradkern_test::test_tensor;
using gradkern_test::touching;

/// A user's type that is a binary16 in memory.
struct foreign_half {
    unsigned char bytes alignas(2)[2];
};
/// A user's type that is a binary32 in memory.
struct foreign_float {
    unsigned char bytes alignas(4)[4];
};

}  // namespace

template <>
struct gradkern::element_traits<foreign_half> : gradkern::f16_storage {};
template <>
struct gradkern::element_traits<foreign_float> : gradkern::f32_storage {};

namespace {

using pool_problem = gradkern_test::pool_problem<avg_pool_attributes>;

/// A path of the engine.
algorithm random_path(random_source& random) {
    constexpr auto& table = gradkern::detail::avg_pool::paths;
    return table[static_cast<std::size_t>(random.integer(0, static_cast<std::int64_t>(table.size()) - 1))].name;
}

/// Spatial sizes and attributes at random; `widest` limits the last axis.
pool_problem random_case(random_source& random, std::int64_t widest) {
    for (;;) {
        pool_problem p;
        avg_pool_attributes& a = p.attributes;
        const std::int64_t rank = random.integer(1, 3);
        a.data_format = random.chance(1, 2) ? data_format::nxc : data_format::ncx;
        a.exclude_pad = random.chance(1, 2);
        a.auto_pad = random.pick({auto_pad::none, auto_pad::none, auto_pad::none, auto_pad::valid, auto_pad::same_upper,
                                  auto_pad::same_lower});
        a.rounding_type = random.pick({rounding_type::floor, rounding_type::ceil, rounding_type::ceil_torch});
        if (random.chance(1, 6)) a.divisor_override = random.pick<std::int64_t>({1, -1, 3, -4, 1000, 16777217});
        const bool dilated = random.chance(1, 3);
        const bool global = random.chance(1, 12);
        const bool tiled = random.chance(1, 5);
        const std::int64_t channels =
            random.pick<std::int64_t>({1, 1, 2, 3, 3, 4, 5, 6, 7, 8, 9, 12, 15, 16, 17, 24, 31, 32, 33, 64, 65, 130});
        const std::int64_t batch = random.chance(1, 30) ? 0 : random.integer(1, 3);
        extents space;
        for (std::int64_t i = 0; i < rank; ++i) {
            const std::int64_t limit = i + 1 == rank ? widest : rank == 3 ? 5 : 9;
            std::int64_t size = random.chance(1, 6) ? 1 : random.integer(1, limit);
            std::int64_t kernel = random.integer(1, random.chance(1, 4) ? 9 : 3);
            std::int64_t stride = random.integer(1, random.chance(1, 4) ? 7 : 3);
            if (tiled) {
                stride = kernel;
                if (random.chance(1, 2)) size = std::max<std::int64_t>(1, size / stride) * stride;
            }
            if (global) kernel = size;
            const bool padded = random.chance(1, 2) && !global;
            space.push_back(size);
            a.kernel.push_back(kernel);
            a.strides.push_back(stride);
            a.pads_begin.push_back(padded ? random.integer(0, random.chance(1, 8) ? 2 * kernel : kernel - 1) : 0);
            a.pads_end.push_back(padded ? random.integer(0, random.chance(1, 8) ? 2 * kernel : kernel - 1) : 0);
            if (dilated) a.dilations.push_back(random.integer(1, 4));
        }
        p.src.push_back(batch);
        if (a.data_format == data_format::ncx) p.src.push_back(channels);
        for (const std::int64_t v : space.values()) p.src.push_back(v);
        if (a.data_format == data_format::nxc) p.src.push_back(channels);
        const auto dst = gradkern::infer_avg_pool(p.src, a);
        if (!dst) continue;  // a window larger than the padded input
        p.dst = *dst;
        return p;
    }
}

/// A random workspace for a plan, with an odd alignment and any size that it must accept.
template <class Plan>
gradkern_test::guarded_bytes random_workspace(random_source& random, const Plan& plan, std::ptrdiff_t workers) {
    const auto least = static_cast<std::int64_t>(plan.workspace_bytes());
    const auto most = static_cast<std::int64_t>(plan.workspace_bytes(workers));
    return gradkern_test::guarded_bytes(static_cast<std::size_t>(random.integer(least, most)),
                                        random.pick({touching::begin, touching::end}),
                                        static_cast<std::size_t>(random.integer(0, 65)));
}

template <class T>
void put(const test_tensor<T>& t, random_source& random, bool with_special) {
    t.fill_random(random);
    if (random.chance(1, 10)) t.fill([](std::int64_t) { return -0.0F; });
    if (!with_special || t.count() == 0) return;
    const std::int64_t places = random.integer(1, 3);
    for (std::int64_t i = 0; i < places; ++i)
        t.set(random.integer(0, t.count() - 1),
              random.pick({std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
                           std::numeric_limits<float>::quiet_NaN(), 1e-41F, 3e38F}));
}

/// One random case in one direction, against the reference. Both compute from the same input.
template <class T>
void check(random_source& random, bool backward, const pool_problem& p, bool strided) {
    SCOPED_TRACE(p.description() + (backward ? " backward" : " forward"));
    const extents& in_shape = backward ? p.dst : p.src;
    const extents& out_shape = backward ? p.src : p.dst;
    const auto side = random.pick({touching::begin, touching::end});
    test_tensor<T> in(in_shape, strided ? random_input_strides(random, in_shape) : extents{}, side);
    test_tensor<T> out(out_shape, strided ? random_output_strides(random, out_shape) : extents{}, side);
    test_tensor<T> expected(out_shape);
    put(in, random, random.chance(1, 3));
    gradkern::call_options options;
    if (random.chance(1, 4)) {
        options.plan.output = output_mode::accumulate;
        out.fill_random(random);
        expected.fill([&](std::int64_t i) { return out.value(i); });
    }
    const auto in_before = in.snapshot();

    const std::ptrdiff_t workers = random.pick<std::ptrdiff_t>({1, 2, 3, 7});
    gradkern_test::shuffling_executor executor(workers);
    // every path of the engine, where it fits
    if (random.chance(1, 2)) options.plan.algorithm = random_path(random);
    SCOPED_TRACE(gradkern::name_of(options.plan.algorithm));
    const auto run = [&](const auto& make) {
        auto plan = make();
        if (!plan && options.plan.algorithm != algorithm::automatic) {
            EXPECT_EQ(plan.error().code, gradkern::errc::unsupported);
            EXPECT_EQ(plan.error().argument, "algorithm");
            options.plan.algorithm = algorithm::automatic;
            plan = make();
        }
        ASSERT_TRUE(plan.has_value()) << static_cast<int>(plan.error().code) << " " << plan.error().argument;
        const gradkern_test::guarded_bytes workspace = random_workspace(random, *plan, workers);
        ASSERT_TRUE(plan->run(in.data(), out.data(), std::span(workspace.data(), workspace.size()), executor).ok());
        EXPECT_TRUE(workspace.zones_intact());
    };
    const gradkern::call_options reference{.plan = {.output = options.plan.output}};
    if (backward) {
        run([&] { return gradkern::plan_avg_pool_backward<T>(in.layout(), p.attributes, out.layout(), options.plan); });
        ASSERT_TRUE(
            gradkern::ref::avg_pool_backward<T>(in.const_view(), p.attributes, expected.view(), reference).ok());
    } else {
        run([&] { return gradkern::plan_avg_pool<T>(in.layout(), p.attributes, out.layout(), options.plan); });
        ASSERT_TRUE(gradkern::ref::avg_pool<T>(in.const_view(), p.attributes, expected.view(), reference).ok());
    }
    EXPECT_TRUE(out.equals(expected));
    EXPECT_TRUE(out.surroundings_intact());
    EXPECT_EQ(in_before, in.snapshot());
}

template <class T>
class AvgPoolAgainstReference : public testing::Test {};
using element_types = testing::Types<float, float16, bfloat16, double, foreign_half, foreign_float>;
TYPED_TEST_SUITE(AvgPoolAgainstReference, element_types);

template <class T>
constexpr int share = std::is_same_v<T, float>                                    ? 1500
                      : std::is_same_v<T, float16> || std::is_same_v<T, bfloat16> ? 700
                                                                                  : 200;

TYPED_TEST(AvgPoolAgainstReference, dense_shapes) {
    random_source random("avg_pool.dense");
    for (int i = 0; i < share<TypeParam> && !this->HasFailure(); ++i, random.next_case()) {
        GRADKERN_TRACE_SEED(random);
        const pool_problem p = random_case(random, random.chance(1, 10) ? 150 : 33);
        check<TypeParam>(random, true, p, false);
        check<TypeParam>(random, false, p, false);
    }
}

TYPED_TEST(AvgPoolAgainstReference, strided_tensors) {
    random_source random("avg_pool.strided");
    for (int i = 0; i < share<TypeParam> && !this->HasFailure(); ++i, random.next_case()) {
        GRADKERN_TRACE_SEED(random);
        const pool_problem p = random_case(random, 19);
        check<TypeParam>(random, true, p, true);
        check<TypeParam>(random, false, p, true);
    }
}

/// Shapes that do not fit one scratch line, and kernels of any length.
TYPED_TEST(AvgPoolAgainstReference, long_lines_and_kernels) {
    random_source random("avg_pool.long");
    for (int i = 0; i < share<TypeParam> / 20 && !this->HasFailure(); ++i, random.next_case()) {
        GRADKERN_TRACE_SEED(random);
        pool_problem p;
        avg_pool_attributes& a = p.attributes;
        const bool two = random.chance(1, 3);
        const std::int64_t width = random.pick<std::int64_t>({1000, 4095, 4097, 9000, 20000});
        const std::int64_t channels = random.pick<std::int64_t>({1, 2, 3, 16, 40});
        const std::int64_t kernel = random.pick<std::int64_t>({1, 2, 3, 7, 17, 40, 300});
        a.data_format = random.chance(1, 2) ? data_format::nxc : data_format::ncx;
        a.exclude_pad = random.chance(1, 2);
        a.rounding_type = random.pick({rounding_type::floor, rounding_type::ceil, rounding_type::ceil_torch});
        if (two) {
            a.kernel = a.strides = {random.integer(1, 2)};
            a.pads_begin = a.pads_end = {0};
            a.dilations = {1};
        }
        a.kernel.push_back(kernel);
        a.strides.push_back(random.pick<std::int64_t>({1, 2, 3, kernel, 5 * kernel, 1000}));
        a.dilations.push_back(random.pick<std::int64_t>({1, 1, 1, 2, 3, 40}));
        a.pads_begin.push_back(random.chance(1, 2) ? random.integer(0, kernel) : 0);
        a.pads_end.push_back(random.chance(1, 2) ? random.integer(0, kernel) : 0);
        p.src = {random.integer(1, 2)};
        if (a.data_format == data_format::ncx) p.src.push_back(channels);
        if (two) p.src.push_back(2);
        p.src.push_back(width / (channels > 3 ? 8 : 1));
        if (a.data_format == data_format::nxc) p.src.push_back(channels);
        const auto dst = gradkern::infer_avg_pool(p.src, a);
        if (!dst) continue;
        p.dst = *dst;
        check<TypeParam>(random, true, p, random.chance(1, 4));
        check<TypeParam>(random, false, p, random.chance(1, 4));
    }
}

/// Windows of more than 512 taps, and positions that more than 512 windows reach, along one axis or several.
TYPED_TEST(AvgPoolAgainstReference, long_windows) {
    random_source random("avg_pool.long_windows");
    for (int i = 0; i < share<TypeParam> / 20 && !this->HasFailure(); ++i, random.next_case()) {
        GRADKERN_TRACE_SEED(random);
        pool_problem p;
        avg_pool_attributes& a = p.attributes;
        const std::int64_t rank = random.integer(1, 3);
        const std::int64_t long_axis = random.integer(0, rank - 1);
        const bool by_product = rank > 1 && random.chance(1, 3);  // no axis is long by itself
        a.data_format = random.chance(1, 2) ? data_format::nxc : data_format::ncx;
        a.exclude_pad = random.chance(1, 2);
        if (random.chance(1, 6)) a.divisor_override = 5;
        const std::int64_t channels = random.pick<std::int64_t>({1, 2, 3, 7, 16, 40});
        extents space;
        for (std::int64_t axis = 0; axis < rank; ++axis) {
            const bool is_long = !by_product && axis == long_axis;
            std::int64_t size = random.integer(1, 3);
            std::int64_t kernel = random.integer(1, 3);
            if (is_long) {
                size = random.pick<std::int64_t>({513, 600, 1024, 1025, 1700, 20'000});
                kernel = random.pick<std::int64_t>({512, 513, 700, 1024, 1025, size, 3 * size});
            } else if (by_product) {
                size = rank == 2 ? random.integer(20, 40) : random.integer(8, 14);
                kernel = random.integer(size / 2, size + 2);
            }
            space.push_back(size);
            a.kernel.push_back(kernel);
            const std::int64_t most = kernel * 2 > size && random.chance(1, 2) ? kernel : kernel / 3;
            a.pads_begin.push_back(random.chance(1, 2) ? random.integer(0, most) : 0);
            a.pads_end.push_back(random.chance(1, 2) ? random.integer(0, most) : 0);
            a.dilations.push_back(random.pick<std::int64_t>({1, 1, 1, 2, 3}));
            a.strides.push_back(is_long ? random.pick<std::int64_t>({1, 1, 2, 3, 7, 300, kernel})
                                        : random.integer(1, 3));
        }
        p.src = {random.integer(1, 2)};
        if (a.data_format == data_format::ncx) p.src.push_back(channels);
        for (const std::int64_t v : space.values()) p.src.push_back(v);
        if (a.data_format == data_format::nxc) p.src.push_back(channels);
        const auto dst = gradkern::infer_avg_pool(p.src, a);
        if (!dst) continue;
        p.dst = *dst;
        std::int64_t work = 1;  // of the reference
        for (const std::int64_t v : p.dst.values()) work *= v;
        for (const std::int64_t k : a.kernel.values()) work *= k;
        if (work > 6'000'000) continue;
        check<TypeParam>(random, true, p, random.chance(1, 4));
        check<TypeParam>(random, false, p, random.chance(1, 4));
    }
}

/// Planes narrower than a vector, of many channels that lie far apart.
TYPED_TEST(AvgPoolAgainstReference, narrow_planes) {
    random_source random("avg_pool.narrow");
    for (int i = 0; i < share<TypeParam> / 5 && !this->HasFailure(); ++i, random.next_case()) {
        GRADKERN_TRACE_SEED(random);
        pool_problem p;
        avg_pool_attributes& a = p.attributes;
        a.data_format = data_format::ncx;
        a.exclude_pad = random.chance(1, 2);
        const bool deep = random.chance(1, 4);
        p.src = {random.integer(1, 2), random.integer(32, 90)};
        for (int k = deep ? 0 : 1; k < 3; ++k) {
            const std::int64_t size = random.integer(1, k == 0 ? 3 : 9);
            const bool global = random.chance(1, 2);
            p.src.push_back(size);
            a.kernel.push_back(global ? size : random.integer(1, std::min<std::int64_t>(size, 3)));
            a.strides.push_back(random.integer(1, 3));
            a.pads_begin.push_back(global ? 0 : random.integer(0, 1));
            a.pads_end.push_back(global ? 0 : random.integer(0, 1));
        }
        const auto dst = gradkern::infer_avg_pool(p.src, a);
        if (!dst) continue;
        p.dst = *dst;
        check<TypeParam>(random, false, p, random.chance(1, 8));
        check<TypeParam>(random, true, p, random.chance(1, 8));
    }
}

/// Whether a plan says that it takes this path.
template <class Plan>
bool takes(const Plan& plan, std::string_view path) {
    std::array<char, 256> text{};
    const std::string_view line(text.data(), std::min(text.size(), plan.describe(text)));
    return line.substr(line.find(": ") + 2).starts_with(path);
}

/// Small planes whose windows keep their size: many planes are then computed at a time.
TYPED_TEST(AvgPoolAgainstReference, windows_that_keep_the_size_of_small_planes) {
    random_source random("avg_pool.joined_planes");
    int collapsed = 0;
    for (int i = 0; i < share<TypeParam> / 5 && !this->HasFailure(); ++i, random.next_case()) {
        GRADKERN_TRACE_SEED(random);
        pool_problem p;
        avg_pool_attributes& a = p.attributes;
        a.data_format = data_format::ncx;
        a.exclude_pad = random.chance(2, 3);
        if (random.chance(1, 8)) a.divisor_override = random.pick<std::int64_t>({-3, 7});
        p.src = {random.integer(1, 3), random.integer(1, 90)};
        for (int k = 0; k < 2; ++k) {
            const std::int64_t kernel = random.integer(1, 5);
            const std::int64_t dilation = random.integer(1, 2);
            const std::int64_t reach = (kernel - 1) * dilation;
            const std::int64_t size = random.chance(1, 8)   ? random.integer(1, 100)
                                      : random.chance(1, 4) ? random.integer(1, 16)
                                                            : random.integer(std::max<std::int64_t>(1, 2 * reach), 16);
            p.src.push_back(size);
            a.kernel.push_back(kernel);
            a.dilations.push_back(dilation);
            a.strides.push_back(1);
            const std::int64_t begin = random.chance(1, 2) ? reach / 2 : random.integer(0, reach);
            a.pads_begin.push_back(begin);
            a.pads_end.push_back(reach - begin);
        }
        p.dst = *gradkern::infer_avg_pool(p.src, a);
        ASSERT_EQ(p.dst, p.src);
        const auto plan = gradkern::plan_avg_pool<TypeParam>(p.src, a);
        ASSERT_TRUE(plan);
        if (takes(*plan, "collapsed_lines, planes,")) ++collapsed;
        check<TypeParam>(random, false, p, random.chance(1, 8));
        check<TypeParam>(random, true, p, random.chance(1, 8));
    }
    EXPECT_GT(collapsed, share<TypeParam> / 20);
}

/// Planes of several lines whose windows keep the number of columns, or divide it by their stride: lines are then
/// computed many at a time.
TYPED_TEST(AvgPoolAgainstReference, windows_that_keep_the_width) {
    random_source random("avg_pool.joined");
    int collapsed = 0;
    int collapsed_backward = 0;  // with a stride
    for (int i = 0; i < share<TypeParam> / 5 && !this->HasFailure(); ++i, random.next_case()) {
        GRADKERN_TRACE_SEED(random);
        pool_problem p;
        avg_pool_attributes& a = p.attributes;
        a.data_format = data_format::ncx;
        a.exclude_pad = random.chance(2, 3);
        if (random.chance(1, 8)) a.divisor_override = random.pick<std::int64_t>({-3, 7});
        const bool deep = random.chance(1, 2);
        const bool many = random.chance(1, 8);  // channels, and enough outputs for larger blocks
        p.src = {random.integer(1, 2), many ? random.integer(30, 40) : random.integer(1, 3)};
        const bool tall = !many && random.chance(1, 8);
        const std::int64_t stride = random.chance(1, 2) ? 1 : random.pick<std::int64_t>({2, 2, 2, 3, 4});
        const bool side_by_side = stride > 1 && random.chance(1, 2);
        for (int k = deep ? 0 : 1; k < 3; ++k) {
            const bool is_tall = tall && k == 1;
            const bool abuts = side_by_side && k == 2;
            const std::int64_t kernel = abuts ? stride : random.integer(1, is_tall ? 150 : 5);
            const std::int64_t dilation = side_by_side ? 1 : random.integer(1, 2);
            const std::int64_t reach = (kernel - 1) * dilation;
            const std::int64_t size = is_tall  ? random.integer(60, 300)
                                      : k == 0 ? random.integer(1, many ? 2 : 6)
                                               : random.integer(random.chance(1, 4) ? 2 : 8,
                                                                random.chance(1, 6) && !tall && !many ? 200 : 40);
            p.src.push_back(k == 2 ? size / stride * stride : size);
            a.kernel.push_back(kernel);
            a.dilations.push_back(dilation);
            a.strides.push_back(k == 2         ? stride
                                : side_by_side ? kernel + random.integer(0, 1)
                                : k == 0       ? random.integer(1, 2)
                                : stride == 1  ? random.pick<std::int64_t>({1, 1, 1, 2})
                                               : random.integer(1, 3));
            const std::int64_t begin = abuts ? 0 : random.integer(0, k == 2 ? reach : reach + 1);
            a.pads_begin.push_back(begin);
            a.pads_end.push_back(k == 2 ? std::max<std::int64_t>(0, reach + 1 - stride - begin) : random.integer(0, 3));
        }
        const auto dst = gradkern::infer_avg_pool(p.src, a);
        if (!dst) continue;
        p.dst = *dst;
        const auto plan = gradkern::plan_avg_pool<TypeParam>(p.src, a);
        ASSERT_TRUE(plan);
        if (takes(*plan, "collapsed_lines,")) ++collapsed;
        const auto backward = gradkern::plan_avg_pool_backward<TypeParam>(p.dst, a, p.src);
        ASSERT_TRUE(backward);
        if (stride > 1 && takes(*backward, "collapsed_lines,")) ++collapsed_backward;
        check<TypeParam>(random, false, p, random.chance(1, 8));
        check<TypeParam>(random, true, p, random.chance(1, 8));
    }
    EXPECT_GT(collapsed, share<TypeParam> / 20);
    EXPECT_GT(collapsed_backward, share<TypeParam> / 50);
}

/// Channels that are neighbours in memory and fill one vector to a few.
TYPED_TEST(AvgPoolAgainstReference, few_channels_as_neighbours) {
    random_source random("avg_pool.few_channels");
    for (int i = 0; i < share<TypeParam> / 5 && !this->HasFailure(); ++i, random.next_case()) {
        GRADKERN_TRACE_SEED(random);
        pool_problem p;
        avg_pool_attributes& a = p.attributes;
        a.data_format = data_format::nxc;
        a.exclude_pad = random.chance(1, 2);
        p.src = {random.integer(1, 2)};
        for (int k = 0; k < 2; ++k) {
            const std::int64_t kernel = random.integer(1, 4);
            p.src.push_back(random.integer(kernel, 12));
            a.kernel.push_back(kernel);
            a.strides.push_back(random.integer(1, 4));
            a.dilations.push_back(random.integer(1, 2));
            a.pads_begin.push_back(random.integer(0, kernel));
            a.pads_end.push_back(random.integer(0, kernel));
        }
        p.src.push_back(random.pick<std::int64_t>({4, 7, 8, 9, 15, 16, 17, 24, 31, 33, 47, 63, 64, 65}));
        const auto dst = gradkern::infer_avg_pool(p.src, a);
        if (!dst) continue;
        p.dst = *dst;
        check<TypeParam>(random, false, p, random.chance(1, 4));
        check<TypeParam>(random, true, p, random.chance(1, 4));
    }
}

/// One window of more channels than are summed at a time, and than fit one strip.
TYPED_TEST(AvgPoolAgainstReference, global_windows_of_many_channels) {
    random_source random("avg_pool.global");
    for (const std::int64_t channels : {250, 256, 300, 777, 8200}) {
        GRADKERN_TRACE_SEED(random);
        pool_problem p;
        avg_pool_attributes& a = p.attributes;
        a.data_format = data_format::nxc;
        p.src = {random.integer(1, 2)};
        for (int k = 0; k < 2; ++k) {
            const std::int64_t size = random.integer(1, 5);
            p.src.push_back(size);
            a.kernel.push_back(size);
            a.strides.push_back(1);
            a.pads_begin.push_back(0);
            a.pads_end.push_back(0);
        }
        p.src.push_back(channels);
        p.dst = *gradkern::infer_avg_pool(p.src, a);
        check<TypeParam>(random, false, p, random.chance(1, 4));
        check<TypeParam>(random, true, p, random.chance(1, 4));
        random.next_case();
    }
}

/// Tensors larger than the assumed last-level cache, which are prefetched on some CPUs.
TYPED_TEST(AvgPoolAgainstReference, large_tensors) {
    random_source random("avg_pool.large");
    for (const data_format format : {data_format::ncx, data_format::nxc}) {
        GRADKERN_TRACE_SEED(random);
        pool_problem p;
        avg_pool_attributes& a = p.attributes;
        a.data_format = format;
        a.kernel = {3, 3, 3};
        a.strides = {2, 2, 2};
        a.pads_begin = {1, 1, 1};
        a.pads_end = {0, 0, 0};
        p.src =
            format == data_format::ncx ? gradkern::extents{1, 129, 9, 60, 62} : gradkern::extents{1, 9, 60, 62, 129};
        p.dst = *gradkern::infer_avg_pool(p.src, a);
        check<TypeParam>(random, false, p, false);
        random.next_case();
    }
}

/// More lines and channels than one block of them holds.
TYPED_TEST(AvgPoolAgainstReference, tall_and_deep_tensors) {
    random_source random("avg_pool.tall");
    for (int i = 0; i < share<TypeParam> / 20 && !this->HasFailure(); ++i, random.next_case()) {
        GRADKERN_TRACE_SEED(random);
        pool_problem p;
        avg_pool_attributes& a = p.attributes;
        const bool tall = random.chance(1, 2);
        const std::int64_t channels =
            tall ? random.pick<std::int64_t>({1, 3, 20}) : random.pick<std::int64_t>({513, 530, 1030});
        a.data_format = random.chance(1, 2) ? data_format::nxc : data_format::ncx;
        a.exclude_pad = random.chance(1, 2);
        a.rounding_type = random.pick({rounding_type::floor, rounding_type::ceil, rounding_type::ceil_torch});
        for (int k = 0; k < 2; ++k) {
            a.kernel.push_back(random.integer(1, 5));
            a.strides.push_back(random.integer(1, 4));
            a.dilations.push_back(random.integer(1, 2));
            a.pads_begin.push_back(random.integer(0, 3));
            a.pads_end.push_back(random.integer(0, 3));
        }
        p.src = {random.integer(1, 2)};
        if (a.data_format == data_format::ncx) p.src.push_back(channels);
        p.src.push_back(tall ? random.integer(900, 3000) : random.integer(1, 9));
        p.src.push_back(random.integer(1, 12));
        if (a.data_format == data_format::nxc) p.src.push_back(channels);
        const auto dst = gradkern::infer_avg_pool(p.src, a);
        if (!dst) continue;
        p.dst = *dst;
        check<TypeParam>(random, true, p, random.chance(1, 4));
        check<TypeParam>(random, false, p, random.chance(1, 4));
    }
}

/// The bits must not depend on the order of the axes in memory.
TEST(AvgPool, layouts_agree) {
    random_source random("avg_pool.layouts");
    for (int i = 0; i < 300; ++i, random.next_case()) {
        GRADKERN_TRACE_SEED(random);
        pool_problem p = random_case(random, 33);
        SCOPED_TRACE(p.description());
        const auto swapped = [&](const extents& e) {  // to the other format
            extents s;
            const auto v = e.values();
            s.push_back(v[0]);
            if (p.attributes.data_format == data_format::nxc) s.push_back(v.back());
            for (std::size_t k = p.attributes.data_format == data_format::nxc ? 1 : 2;
                 k < v.size() - (p.attributes.data_format == data_format::nxc ? 1 : 0); ++k)
                s.push_back(v[k]);
            if (p.attributes.data_format == data_format::ncx) s.push_back(v[1]);
            return s;
        };
        test_tensor<float> in(p.dst);
        in.fill_random(random);
        test_tensor<float> other(swapped(p.dst));
        test_tensor<float> out(p.src);
        test_tensor<float> other_out(swapped(p.src));
        const auto moved = [&](std::int64_t flat, const extents& from) {  // flat index in the other format
            std::int64_t count = 1;
            for (const std::int64_t e : from.values()) count *= e;
            const bool to_ncx = p.attributes.data_format == data_format::nxc;
            const std::int64_t c = to_ncx ? from.values().back() : from[1];
            const std::int64_t space = from[0] == 0 ? 1 : count / from[0] / c;
            const std::int64_t n = flat / (c * space);
            const std::int64_t rest = flat % (c * space);
            return to_ncx ? (n * c + rest % c) * space + rest / c : (n * space + rest % space) * c + rest / space;
        };
        for (std::int64_t k = 0; k < in.count(); ++k) other.set(moved(k, p.dst), in.value(k));
        avg_pool_attributes a = p.attributes;
        a.data_format = a.data_format == data_format::nxc ? data_format::ncx : data_format::nxc;
        std::vector<std::byte> workspace(1U << 22);
        const gradkern::call_options options{.workspace = workspace};
        ASSERT_TRUE(gradkern::avg_pool_backward(in.const_view(), p.attributes, out.view(), options).ok());
        ASSERT_TRUE(gradkern::avg_pool_backward(other.const_view(), a, other_out.view(), options).ok());
        for (std::int64_t k = 0; k < out.count(); ++k) ASSERT_EQ(out.value(k), other_out.value(moved(k, p.src)));
    }
}

/// One non-finite value reaches the positions of its windows and no others; NaN and Inf are those of the reference.
TEST(AvgPool, non_finite_values_stay_where_they_belong) {
    random_source random("avg_pool.non_finite");
    for (int i = 0; i < 300; ++i, random.next_case()) {
        GRADKERN_TRACE_SEED(random);
        const pool_problem p = random_case(random, 33);
        if (p.src[0] == 0) continue;
        SCOPED_TRACE(p.description());
        test_tensor<float> in(p.dst);
        test_tensor<float> out(p.src);
        in.fill([](std::int64_t) { return 1.0F; });
        const std::int64_t place = random.integer(0, in.count() - 1);
        in.set(place, std::numeric_limits<float>::quiet_NaN());
        std::vector<std::byte> workspace(1U << 22);
        const gradkern::call_options options{.workspace = workspace};
        ASSERT_TRUE(gradkern::avg_pool_backward(in.const_view(), p.attributes, out.view(), options).ok());
        // the positions it reaches, by linearity: those where a unit gradient is not zero
        test_tensor<float> unit(p.dst);
        unit.fill([&](std::int64_t k) { return k == place ? 1.0F : 0.0F; });
        test_tensor<float> reached(p.src);
        ASSERT_TRUE(gradkern::ref::avg_pool_backward(unit.const_view(), p.attributes, reached.view()).ok());
        for (std::int64_t k = 0; k < out.count(); ++k)
            ASSERT_EQ(std::isnan(out.value(k)), reached.value(k) != 0.0F) << "position " << k;
    }
}

/// Every number of workers, real threads and every size of workspace give the same bits.
TEST(AvgPool, threads_and_workspaces_do_not_matter) {
    random_source random("avg_pool.threads");
    const avg_pool_attributes a{.kernel = {3, 3},
                                .strides = {1, 2},
                                .pads_begin = {1, 1},
                                .pads_end = {1, 1},
                                .exclude_pad = true,
                                .data_format = data_format::ncx};
    const extents src{4, 30, 40, 41};
    const extents dst = *gradkern::infer_avg_pool(src, a);
    test_tensor<float> in(dst);
    in.fill_random(random);
    test_tensor<float> expected(src);
    ASSERT_TRUE(gradkern::ref::avg_pool_backward(in.const_view(), a, expected.view()).ok());
    const auto plan = gradkern::plan_avg_pool_backward<float>(dst, a, src);
    ASSERT_TRUE(plan.has_value());
    for (const std::ptrdiff_t workers : {1, 2, 3, 7}) {
        for (std::size_t bytes = plan->workspace_bytes(); bytes <= plan->workspace_bytes(workers); bytes += 777) {
            const gradkern_test::guarded_bytes workspace(bytes, touching::end, bytes % 67);
            test_tensor<float> out(src);
            gradkern_test::thread_executor threads(workers);
            ASSERT_TRUE(plan->run(in.data(), out.data(), std::span(workspace.data(), bytes), threads).ok());
            EXPECT_TRUE(out.equals(expected));
            EXPECT_TRUE(workspace.zones_intact());
            gradkern_test::shuffling_executor shuffling(workers);
            out.poison();
            ASSERT_TRUE(plan->run(in.data(), out.data(), std::span(workspace.data(), bytes), shuffling).ok());
            EXPECT_TRUE(out.equals(expected));
        }
    }
}

/// One image is work for many workers, with the bits of one.
TEST(AvgPool, tasks_of_one_image_follow_the_workers) {
    random_source random("avg_pool.tasks");
    for (const data_format f : {data_format::ncx, data_format::nxc})
        for (const std::int64_t stride : {1, 2, 3}) {
            const avg_pool_attributes a{.kernel = {3, 3},
                                        .strides = {stride, stride},
                                        .pads_begin = {1, 1},
                                        .pads_end = {1, 1},
                                        .data_format = f};
            const extents src = f == data_format::ncx ? extents{1, 16, 128, 128} : extents{1, 128, 128, 16};
            const extents dst = *gradkern::infer_avg_pool(src, a);
            const auto compare = [&](const auto& plan, const extents& from, const extents& to) {
                ASSERT_TRUE(plan.has_value());
                test_tensor<float> in(from);
                in.fill_random(random);
                test_tensor<float> expected(to);
                test_tensor<float> out(to);
                out.poison();
                const gradkern_test::guarded_bytes workspace(plan->workspace_bytes(16));
                gradkern_test::shuffling_executor sixteen(16);
                const std::span<std::byte> scratch(workspace.data(), workspace.size());
                ASSERT_TRUE(plan->run(in.data(), expected.data(), scratch).ok());
                ASSERT_TRUE(plan->run(in.data(), out.data(), scratch, sixteen).ok());
                EXPECT_GE(sixteen.calls(), 12);
                EXPECT_TRUE(out.equals(expected));
            };
            compare(gradkern::plan_avg_pool<float>(src, a, dst), src, dst);
            compare(gradkern::plan_avg_pool_backward<float>(dst, a, src), dst, src);
        }
}

/// Work is bounded by the taps inside: kernels far larger than the input take little time.
TEST(AvgPool, enormous_kernels_take_little_time) {
    constexpr std::int64_t huge = std::int64_t{1} << 40;
    for (const data_format f : {data_format::ncx, data_format::nxc}) {
        const avg_pool_attributes a{.kernel = {huge, 3},
                                    .strides = {1, huge},
                                    .pads_begin = {huge - 3, 0},
                                    .pads_end = {0, 0},
                                    .exclude_pad = true,
                                    .data_format = f};
        const extents src = f == data_format::ncx ? extents{1, 2, 3, 3} : extents{1, 3, 3, 2};
        const auto dst = gradkern::infer_avg_pool(src, a);
        ASSERT_TRUE(dst.has_value());
        test_tensor<float> x(src);
        test_tensor<float> y(*dst);
        x.fill([](std::int64_t i) { return static_cast<float>(i); });
        ASSERT_TRUE(gradkern::avg_pool(x.const_view(), a, y.view()).ok());
        EXPECT_EQ(y.value(0), f == data_format::ncx ? 4.0F : 8.0F);
        ASSERT_TRUE(gradkern::avg_pool_backward(y.const_view(), a, x.view()).ok());
        EXPECT_EQ(x.value(0), (f == data_format::ncx ? 4.0F : 8.0F) / 9.0F);
    }
    const avg_pool_attributes wide{.kernel = {huge},
                                   .strides = {1},
                                   .pads_begin = {huge / 2},
                                   .pads_end = {huge / 2},
                                   .dilations = {1},
                                   .exclude_pad = false,
                                   .data_format = data_format::ncx};
    const extents dst = *gradkern::infer_avg_pool({1, 1, 5}, wide);
    test_tensor<float> y(dst);
    test_tensor<float> x({1, 1, 5});
    test_tensor<float> expected({1, 1, 5});
    y.fill([](std::int64_t i) { return static_cast<float>(i + 1); });
    ASSERT_TRUE(gradkern::avg_pool_backward(y.const_view(), wide, x.view()).ok());
    ASSERT_TRUE(gradkern::ref::avg_pool_backward(y.const_view(), wide, expected.view()).ok());
    EXPECT_TRUE(x.equals(expected));
}

/// The last strip is a single channel: its tiles are written to the output like the others.
TEST(AvgPool, gradients_whose_last_strip_is_one_channel) {
    constexpr std::int64_t channels = 512 * 8192 + 1;
    for (const std::int64_t columns : {1, 2}) {
        const avg_pool_attributes a{.kernel = {columns}, .strides = {columns}, .data_format = data_format::nxc};
        test_tensor<bfloat16> dy({1, 1, channels});
        test_tensor<bfloat16> dx({1, columns, channels});
        dy.fill([](std::int64_t i) { return static_cast<float>(i % 7); });
        const auto plan = *gradkern::plan_avg_pool_backward<bfloat16>(dy.layout(), a, dx.layout());
        const gradkern_test::guarded_bytes workspace(plan.workspace_bytes());
        ASSERT_TRUE(plan.run(dy.data(), dx.data(), {workspace.data(), workspace.size()}).ok());
        for (std::int64_t i = 0; i < dx.count(); ++i)
            ASSERT_EQ(dx.value(i), static_cast<float>(i % channels % 7) / static_cast<float>(columns)) << i;
    }
}

/// Attributes of any size are computed or refused.
TEST(AvgPool, extreme_attributes) {
    random_source random("avg_pool.extreme");
    int computed = 0;
    for (int i = 0; i < 4000; ++i, random.next_case()) {
        GRADKERN_TRACE_SEED(random);
        const auto number = [&] {
            return random.pick<std::int64_t>({1, 1, 2, 3, 7, 1 << 20, std::int64_t{1} << 31, std::int64_t{1} << 40,
                                              (std::int64_t{1} << 62) - 1, INT64_MAX / 2, INT64_MAX - 1, INT64_MAX});
        };
        pool_problem p;
        avg_pool_attributes& a = p.attributes;
        const std::int64_t rank = random.integer(1, 2);
        a.data_format = random.chance(1, 2) ? data_format::nxc : data_format::ncx;
        a.exclude_pad = random.chance(1, 2);
        a.auto_pad = random.pick({auto_pad::none, auto_pad::none, auto_pad::valid, auto_pad::same_upper});
        a.rounding_type = random.pick({rounding_type::floor, rounding_type::ceil, rounding_type::ceil_torch});
        p.src = {1, random.integer(1, 4)};
        for (std::int64_t k = 0; k < rank; ++k) {
            p.src.push_back(random.integer(1, 9));
            a.kernel.push_back(number());
            a.strides.push_back(number());
            if (random.chance(1, 2)) a.dilations.push_back(number());
            a.pads_begin.push_back(random.chance(1, 3) ? number() : 0);
            a.pads_end.push_back(random.chance(1, 3) ? number() : 0);
        }
        const auto dst = gradkern::infer_avg_pool(p.src, a);
        if (!dst) continue;
        std::int64_t count = 1;
        for (const std::int64_t e : dst->values())
            count = std::min<std::int64_t>(count, 10000) * std::min<std::int64_t>(e, 10000);
        if (count > 4000) {  // planned, not run
            EXPECT_TRUE(gradkern::plan_avg_pool<float>(p.src, a).has_value());
            EXPECT_TRUE(gradkern::plan_avg_pool_backward<float>(*dst, a, p.src).has_value());
            continue;
        }
        p.dst = *dst;
        ++computed;
        check<float>(random, true, p, false);
        check<float>(random, false, p, false);
        if (HasFailure()) break;
    }
    EXPECT_GT(computed, 50);
}

/// Short lines of windows that keep the width, with taps so far apart along the height that few are inside.
TEST(AvgPool, far_taps_over_short_lines) {
    constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
    const std::int64_t dilation = most - 63;
    const std::int64_t pads = most - 64;  // 63 windows over 64 lines
    avg_pool_attributes a;
    a.data_format = data_format::ncx;
    a.exclude_pad = true;
    a.kernel = {2, 3};
    a.dilations = {dilation, 1};
    a.strides = {1, 1};
    a.pads_begin = {pads / 2, 1};
    a.pads_end = {pads - pads / 2, 1};
    const extents src{1, 1, 64, 16};
    const auto dst = gradkern::infer_avg_pool(src, a);
    ASSERT_TRUE(dst);
    std::vector<float> diff_dst(static_cast<std::size_t>((*dst)[2] * 16), 1.0F);
    std::vector<float> diff_src(64 * 16, -1.0F);
    std::vector<float> expected(64 * 16);
    ASSERT_TRUE(gradkern::ref::avg_pool_backward<float>({diff_dst.data(), *dst}, a, {expected.data(), src}));
    const auto plan = gradkern::plan_avg_pool_backward<float>(*dst, a, src);
    ASSERT_TRUE(plan);
    std::vector<std::byte> workspace(plan->workspace_bytes());
    ASSERT_TRUE(plan->run(diff_dst.data(), diff_src.data(), workspace));
    EXPECT_EQ(diff_src, expected);
}

/// Multiplication with the reciprocal of a power of two gives the bits of the division.
TEST(AvgPool, quotients_are_exact) {
    random_source random("avg_pool.quotients");
    for (const float d : {1.0F, 2.0F, -4.0F, 8.0F, 0x1p62F, 3.0F, 9.0F, -7.0F, 49.0F, 16777216.0F}) {
        const gradkern::detail::divisor by(d);
        for (int i = 0; i < 3000; ++i) {
            std::array<float, 32> in{};
            std::array<float, 32> out{};
            for (float& x : in) x = std::bit_cast<float>(static_cast<std::uint32_t>(random.bits()));
            const auto n = random.integer(1, 32);
            gradkern::detail::divide_by_one<gradkern::detail::addend::zero>(in.data(), n, by, out.data());
            for (std::size_t k = 0; k < static_cast<std::size_t>(n); ++k)
                ASSERT_TRUE(gradkern_test::same_value(out[k], 0.0F + in[k] / d)) << in[k] << " / " << d;
        }
    }
}

// Two windows that overlap in one column, further apart than most lines are long.
TEST(AvgPool, gradients_of_strides_longer_than_the_line) {
    random_source random("avg_pool.long_strides");
    for (const data_format format : {data_format::ncx, data_format::nxc}) {
        for (std::int64_t width = 1; width <= 120; ++width) {
            const std::int64_t pads = 201 - width;
            const avg_pool_attributes a{.kernel = {101},
                                        .strides = {100},
                                        .pads_begin = {pads / 2},
                                        .pads_end = {pads - pads / 2},
                                        .data_format = format};
            const bool ncx = format == data_format::ncx;
            const extents src = ncx ? extents{1, 3, width} : extents{1, width, 3};
            const extents dst = ncx ? extents{1, 3, 2} : extents{1, 2, 3};
            const test_tensor<float> dy(dst);
            const test_tensor<float> expected(src);
            const test_tensor<float> dx(src);
            dy.fill_random(random);
            ASSERT_TRUE(gradkern::ref::avg_pool_backward(dy.const_view(), a, expected.view()).ok());
            const auto plan = *gradkern::plan_avg_pool_backward<float>(dst, a, src);
            const gradkern_test::guarded_bytes memory(plan.workspace_bytes());
            ASSERT_TRUE(plan.run(dy.data(), dx.data(), {memory.data(), memory.size()}).ok());
            ASSERT_TRUE(dx.equals(expected)) << width;
        }
    }
}

#if defined(__linux__)
// Windows so far apart that columns do not fit into 32 bits; the last one is clipped.
TEST(AvgPool, columns_too_far_for_32_bits) {
    constexpr std::int64_t channels = 16;
    const std::int64_t apart = std::int64_t{1} << 24;
    const std::int64_t windows = 150;
    const std::int64_t columns = apart * (windows - 1) + 1;
    const auto bytes = static_cast<std::size_t>(columns + channels) * sizeof(gradkern::bfloat16);
    void* const memory =
        mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) GTEST_SKIP() << "no address space";
    auto* const far = static_cast<gradkern::bfloat16*>(memory);
    far[columns - 1] = gradkern::bfloat16(5.0F);
    const auto plan = *gradkern::plan_avg_pool<gradkern::bfloat16>(
        {{1, columns, channels}, {columns, 1, 1}},
        {.kernel = {2}, .strides = {apart}, .pads_begin = {0}, .pads_end = {1}, .exclude_pad = true},
        {{1, windows, channels}});
    std::vector<gradkern::bfloat16> out(static_cast<std::size_t>(windows * channels));
    std::vector<std::byte> scratch(plan.workspace_bytes());
    ASSERT_TRUE(plan.run(far, out.data(), scratch).ok());
    munmap(memory, bytes);
    for (std::size_t i = 0; i < out.size(); ++i)
        ASSERT_EQ(static_cast<float>(out[i]), i == out.size() - channels ? 5.0F : 0.0F) << i;
}
#endif

/// Small planes fit the stack.
TEST(AvgPool, small_planes_need_no_workspace) {
    for (const std::int64_t side : {7, 12, 14, 16}) {
        for (std::int64_t kernel = 1; kernel <= 7; kernel += 2) {
            const std::int64_t pad = kernel / 2;
            const avg_pool_attributes attributes{.kernel = {kernel, kernel},
                                                 .strides = {1, 1},
                                                 .pads_begin = {pad, pad},
                                                 .pads_end = {pad, pad},
                                                 .data_format = data_format::ncx};
            const test_tensor<float> in({2, 3, side, side});
            const test_tensor<float> out({2, 3, side, side});
            EXPECT_TRUE(gradkern::avg_pool<float>(in.const_view(), attributes, out.view()).ok())
                << side << " " << kernel;
            EXPECT_TRUE(gradkern::avg_pool_backward<float>(in.const_view(), attributes, out.view()).ok())
                << side << " " << kernel;
        }
    }
}

TEST(AvgPool, describe_names_the_path) {
    const avg_pool_attributes a{.kernel = {2}, .strides = {2}};
    const auto plan = gradkern::plan_avg_pool_backward<float>({1, 3, 8}, a, {1, 6, 8});
    ASSERT_TRUE(plan.has_value());
    std::array<char, 256> text{};
    const std::size_t n = plan->describe(text);
    ASSERT_LT(n, text.size());
    EXPECT_EQ(std::string_view(text.data(), n).substr(0, 35), "avg_pool_backward: non_overlapping,");
    EXPECT_EQ(plan->describe({}), n);

    // Windows side by side, windows that overlap, and one window over more columns than a scratch line holds.
    const auto is = [&](std::string_view path, std::int64_t kernel, std::int64_t stride, std::int64_t extent) {
        const avg_pool_attributes b{.kernel = {kernel}, .strides = {stride}, .data_format = data_format::ncx};
        const extents src{1, 1, extent};
        return takes(*gradkern::plan_avg_pool_backward<float>(*gradkern::infer_avg_pool(src, b), b, src), path);
    };
    EXPECT_TRUE(is("non_overlapping,", 2, 2, 8));
    EXPECT_TRUE(is("lines,", 3, 1, 8));
    EXPECT_TRUE(is("taps,", 200'000, 1, 400'000));
}

}  // namespace
