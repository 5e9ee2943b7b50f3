// Max pooling against its reference, bit by bit, over random problems: every path, layout, type and memory order.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string_view>
#include <vector>

#include <gradkern/max_pool.hpp>
#include <gradkern/ref/max_pool.hpp>

#include "support/executors.hpp"
#include "support/pool_problem.hpp"
#include "support/random.hpp"
#include "support/tensor.hpp"

namespace {

using gradkern::algorithm;
using gradkern::auto_pad;
using gradkern::bfloat16;
using gradkern::call_options;
using gradkern::data_format;
using gradkern::errc;
using gradkern::extents;
using gradkern::float16;
using gradkern::index_base;
using gradkern::index_check;
using gradkern::max_pool_attributes;
using gradkern::max_pool_indices_attributes;
using gradkern::output_mode;
using gradkern::rounding_type;
using gradkern::status;
using gradkern::storage_order;
using gradkern::tensor_layout;
using gradkern::tensor_view;
using gradkern_test::guarded_bytes;
using gradkern_test::random_input_strides;
using gradkern_test::random_output_strides;
using gradkern_test::random_source;
using gradkern_test::shuffling_executor;
using gradkern_test::test_tensor;

/// The path that a plan chooses, and every row of a table.
template <class Path, std::size_t Rows>
constexpr std::array<algorithm, Rows + 1> paths_of(const std::array<Path, Rows>& table) {
    std::array<algorithm, Rows + 1> paths{};  // automatic
    for (std::size_t i = 0; i < Rows; ++i) paths[i + 1] = table[i].name;
    return paths;
}
constexpr auto forward_paths = paths_of(gradkern::detail::max_pool::paths);
constexpr auto backward_paths = paths_of(gradkern::detail::max_pool::backward_paths);

/// Whether a row was refused because it does not fit.
bool does_not_fit(algorithm path, const gradkern::error& e) {
    return path != algorithm::automatic && e.code == errc::unsupported && e.argument == "algorithm";
}

using pool_problem = gradkern_test::pool_problem<max_pool_attributes>;

pool_problem random_case(random_source& random, std::int64_t largest = 9) {
    for (;;) {
        pool_problem p;
        max_pool_attributes& a = p.attributes;
        const std::int64_t rank = random.integer(1, 3);
        const std::int64_t channels = random.pick<std::int64_t>({1, 2, 3, 7, 8, 9, 16, 17, 31, 33, 40});
        a.data_format = random.chance(1, 2) ? data_format::nxc : data_format::ncx;
        a.auto_pad = random.pick({auto_pad::none, auto_pad::none, auto_pad::none, auto_pad::valid, auto_pad::same_upper,
                                  auto_pad::same_lower});
        a.rounding_type = random.pick({rounding_type::floor, rounding_type::ceil, rounding_type::ceil_torch});
        a.ignore_nan = random.chance(1, 2);
        a.index_base = random.pick({index_base::tensor, index_base::plane, index_base::image});
        a.storage_order = random.pick({storage_order::row_major, storage_order::column_major});
        p.src = {random.integer(0, 7) == 0 ? 0 : random.integer(1, 2)};
        if (a.data_format == data_format::ncx) p.src.push_back(channels);
        for (std::int64_t i = 0; i < rank; ++i) {
            p.src.push_back(random.integer(1, rank == 1 ? 4 * largest : rank == 2 ? largest : 5));
            a.kernel.push_back(random.integer(1, 4));
            a.strides.push_back(random.integer(1, 4));
            a.pads_begin.push_back(random.integer(0, 4));
            a.pads_end.push_back(random.integer(0, 4));
        }
        if (random.chance(1, 2))
            for (std::int64_t i = 0; i < rank; ++i) a.dilations.push_back(random.integer(1, 3));
        if (a.data_format == data_format::nxc) p.src.push_back(channels);
        const auto dst = gradkern::infer_max_pool(p.src, a);
        if (!dst) continue;
        p.dst = *dst;
        return p;
    }
}

/// Large overlapping windows, whose rows are compared once for all windows that contain them.
pool_problem overlapping_case(random_source& random) {
    for (;;) {
        pool_problem p;
        max_pool_attributes& a = p.attributes;
        const std::int64_t rank = random.integer(2, 3);
        const std::int64_t channels = random.pick<std::int64_t>({1, 7, 16, 17, 70});
        a.data_format = random.chance(1, 2) ? data_format::nxc : data_format::ncx;
        a.ignore_nan = random.chance(1, 2);
        a.rounding_type = random.pick({rounding_type::floor, rounding_type::ceil});
        a.storage_order = random.pick({storage_order::row_major, storage_order::column_major});
        p.src = {random.integer(1, 2)};
        if (a.data_format == data_format::ncx) p.src.push_back(channels);
        for (std::int64_t i = 0; i < rank; ++i) {
            const bool outer = rank == 3 && i == 0;
            p.src.push_back(random.integer(outer ? 2 : 4, outer ? 4 : 12));
            a.kernel.push_back(outer ? random.integer(1, 3) : random.integer(4, 7));
            a.strides.push_back(random.integer(1, 2));
            a.pads_begin.push_back(random.integer(0, 3));
            a.pads_end.push_back(random.integer(0, 3));
        }
        if (a.data_format == data_format::nxc) p.src.push_back(channels);
        const auto dst = gradkern::infer_max_pool(p.src, a);
        if (!dst) continue;
        p.dst = *dst;
        return p;
    }
}

/// Few different numbers, so that maxima tie; sometimes zeros of both signs, infinities and NaN.
float random_number(random_source& random, bool finite) {
    if (!finite && random.chance(1, 4))
        return random.pick({std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity(),
                            std::numeric_limits<float>::infinity(), -0.0F, 0.0F});
    return static_cast<float>(random.integer(-3, 3));
}

/// Index tensors: guarded memory, some strided; element access as test_tensor's.
class index_tensor {
public:
    index_tensor(const extents& shape, const extents& strides) : places_(shape, strides) {}
    [[nodiscard]] tensor_layout layout() const { return places_.layout(); }
    [[nodiscard]] std::int64_t count() const { return places_.count(); }
    [[nodiscard]] tensor_view<std::int64_t> view() const {
        return {reinterpret_cast<std::int64_t*>(places_.data()), places_.layout()};
    }
    [[nodiscard]] tensor_view<const std::int64_t> const_view() const { return view(); }
    [[nodiscard]] std::int64_t& operator[](std::int64_t i) const { return reinterpret_cast<std::int64_t&>(places_[i]); }
    [[nodiscard]] ::testing::AssertionResult surroundings_intact() const { return places_.surroundings_intact(); }

private:
    test_tensor<double> places_;  // eight bytes as well
};

std::span<std::byte> scratch() {
    static std::vector<std::byte> bytes(4U << 20);
    return bytes;
}

template <class T>
class MaxPool : public ::testing::Test {};
using types = ::testing::Types<float, float16, bfloat16, double>;
TYPED_TEST_SUITE(MaxPool, types);

TYPED_TEST(MaxPool, forward_has_the_references_bits_and_indices) {
    using T = TypeParam;
    random_source random("max_pool.forward");
    for (int i = 0; i < 2000; ++i, random.next_case()) {
        GRADKERN_TRACE_SEED(random);
        const pool_problem p = i % 5 == 0 ? overlapping_case(random) : random_case(random);
        const bool strided = random.chance(1, 2);
        const bool finite = random.chance(1, 2);
        const auto strides = [&](const extents& shape) {
            return strided ? random_output_strides(random, shape) : extents{};
        };
        const test_tensor<T> x(p.src, strided ? random_input_strides(random, p.src) : extents{});
        x.fill([&](std::int64_t) { return random_number(random, finite); });
        call_options options{.workspace = scratch()};
        options.plan.output = random.chance(1, 4) ? output_mode::accumulate : output_mode::overwrite;
        options.plan.index_check = random.pick({index_check::first, index_check::each});
        const auto before = [&](const test_tensor<T>& y) {
            if (options.plan.output == output_mode::accumulate) y.fill([&](std::int64_t k) { return k % 5; });
        };
        const test_tensor<T> expected(p.dst);
        const index_tensor expected_index(p.dst, {});
        before(expected);
        ASSERT_TRUE(
            gradkern::ref::max_pool(x.const_view(), p.attributes, expected.view(), expected_index.view(), options)
                .ok());
        for (const algorithm how : forward_paths) {
            options.plan.algorithm = how;
            const test_tensor<T> y(p.dst, strides(p.dst));
            const index_tensor index(p.dst, strides(p.dst));
            before(y);
            const status s = gradkern::max_pool(x.const_view(), p.attributes, y.view(), index.view(), options);
            if (does_not_fit(how, s.error())) continue;
            ASSERT_TRUE(s.ok()) << static_cast<int>(s.code());
            ASSERT_TRUE(y.equals(expected));
            for (std::int64_t k = 0; k < index.count(); ++k) ASSERT_EQ(index[k], expected_index[k]) << "element " << k;
            ASSERT_TRUE(y.surroundings_intact());
            ASSERT_TRUE(index.surroundings_intact());
            const test_tensor<T> alone(p.dst);
            before(alone);
            ASSERT_TRUE(gradkern::max_pool(x.const_view(), p.attributes, alone.view(), {}, options).ok());
            ASSERT_TRUE(alone.equals(expected));
        }
    }
}

TYPED_TEST(MaxPool, backward_has_the_references_bits) {
    using T = TypeParam;
    random_source random("max_pool.backward");
    for (int i = 0; i < 2000; ++i, random.next_case()) {
        GRADKERN_TRACE_SEED(random);
        const pool_problem p = i % 5 == 0 ? overlapping_case(random) : random_case(random, 7);
        const bool strided = random.chance(1, 2);
        const bool finite = random.chance(1, 2);
        const test_tensor<T> x(p.src, strided ? random_input_strides(random, p.src) : extents{});
        const test_tensor<T> dy(p.dst, strided ? random_input_strides(random, p.dst) : extents{});
        x.fill([&](std::int64_t) { return random_number(random, finite); });
        dy.fill_random(random);
        call_options options{.workspace = scratch()};
        options.plan.output = random.chance(1, 4) ? output_mode::accumulate : output_mode::overwrite;
        options.plan.index_check = random.pick({index_check::first, index_check::each});
        const auto before = [&](const test_tensor<T>& y) {
            if (options.plan.output == output_mode::accumulate) y.fill([&](std::int64_t k) { return k % 5; });
        };
        const test_tensor<T> expected(p.src);
        before(expected);
        ASSERT_TRUE(
            gradkern::ref::max_pool_backward(x.const_view(), dy.const_view(), p.attributes, expected.view(), options)
                .ok());
        for (const algorithm how : backward_paths) {
            options.plan.algorithm = how;
            const test_tensor<T> dx(p.src, strided ? random_output_strides(random, p.src) : extents{});
            before(dx);
            const status s =
                gradkern::max_pool_backward(x.const_view(), dy.const_view(), p.attributes, dx.view(), options);
            if (does_not_fit(how, s.error())) continue;
            ASSERT_TRUE(s.ok()) << static_cast<int>(s.code());
            ASSERT_TRUE(dx.equals(expected));
            ASSERT_TRUE(dx.surroundings_intact());
        }
    }
}

/// Tensors so large that windows between boxes are computed for each, and that src and diff_src are prefetched.
TYPED_TEST(MaxPool, gradients_in_gather_form_over_several_boxes) {
    using T = TypeParam;
    random_source random("max_pool.pulled_boxes");
    int several = 0;
    for (int i = 0; i < 45; ++i, random.next_case()) {
        GRADKERN_TRACE_SEED(random);
        const int rank = i % 3 + 1;
        const extents largest = rank == 1 ? extents{1500} : rank == 2 ? extents{8, 500} : extents{5, 12, 150};
        max_pool_attributes a;
        a.data_format = rank == 1 && random.chance(1, 3) ? data_format::ncx : data_format::nxc;
        const std::int64_t channels = random.pick<std::int64_t>({16, 33, 70, 130});
        extents src{random.integer(1, 2)};
        if (a.data_format == data_format::ncx) src.push_back(channels);
        for (const std::int64_t size : largest.values()) {
            src.push_back(random.integer(size / 3 + 1, size));
            a.kernel.push_back(random.integer(1, 3));
            a.strides.push_back(random.integer(1, 3));
            a.pads_begin.push_back(random.integer(0, a.kernel[a.kernel.rank() - 1] - 1));
            a.pads_end.push_back(random.integer(0, 1));
        }
        if (a.data_format == data_format::nxc) src.push_back(channels);
        const auto dst = gradkern::infer_max_pool(src, a);
        if (!dst) continue;
        const test_tensor<T> x(src);
        const test_tensor<T> dy(*dst);
        x.fill([&](std::int64_t) { return random_number(random, true); });
        dy.fill_random(random);
        call_options options;
        options.plan.output = random.chance(1, 4) ? output_mode::accumulate : output_mode::overwrite;
        const test_tensor<T> expected(src);
        const test_tensor<T> dx(src);
        for (const test_tensor<T>* y : {&expected, &dx})
            if (options.plan.output == output_mode::accumulate) y->fill([&](std::int64_t k) { return k % 5; });
        ASSERT_TRUE(
            gradkern::ref::max_pool_backward(x.const_view(), dy.const_view(), a, expected.view(), options).ok());
        const auto plan = *gradkern::plan_max_pool_backward<T>(src, *dst, a, {}, options.plan);
        std::array<char, 256> text{};
        plan.describe(text);
        const std::string_view line(text.data());
        const auto says = [&](std::string_view words) { return line.find(words) != std::string_view::npos; };
        if (says("gather_form") && !says(" 1 boxes") && !says(" 2 boxes")) ++several;
        const guarded_bytes memory(plan.workspace_bytes(), gradkern_test::touching::end);
        ASSERT_TRUE(plan.run(x.data(), dy.data(), dx.data(), {memory.data(), memory.size()}).ok());
        ASSERT_TRUE(memory.zones_intact());
        ASSERT_TRUE(dx.equals(expected)) << line;
        ASSERT_TRUE(dx.surroundings_intact());
    }
    EXPECT_GE(several, 10);
}

/// Indices from a forward pass, and arbitrary ones: out of their planes, repeated, absent.
TYPED_TEST(MaxPool, backward_from_indices_has_the_references_bits) {
    using T = TypeParam;
    random_source random("max_pool.from_indices");
    for (int i = 0; i < 2000; ++i, random.next_case()) {
        GRADKERN_TRACE_SEED(random);
        const pool_problem p = random_case(random, 7);
        const bool strided = random.chance(1, 2);
        const max_pool_indices_attributes a{.data_format = p.attributes.data_format,
                                            .index_base = p.attributes.index_base,
                                            .storage_order = p.attributes.storage_order};
        const test_tensor<T> dy(p.dst, strided ? random_input_strides(random, p.dst) : extents{});
        dy.fill_random(random);
        const index_tensor index(p.dst, strided ? random_output_strides(random, p.dst) : extents{});
        if (random.chance(1, 2)) {
            const test_tensor<T> x(p.src);
            x.fill([&](std::int64_t) { return random_number(random, true); });
            const test_tensor<T> y(p.dst);
            ASSERT_TRUE(
                gradkern::max_pool(x.const_view(), p.attributes, y.view(), index.view(), {.workspace = scratch()})
                    .ok());
        } else {
            std::int64_t size = 1;
            for (const std::int64_t e : p.src.values()) size *= e;
            const std::size_t rank = p.src.rank() - 2;
            if (a.index_base != index_base::tensor && p.src[0] > 0) size /= p.src[0];
            if (a.index_base == index_base::plane) size /= p.src[a.data_format == data_format::ncx ? 1 : rank + 1];
            for (std::int64_t k = 0; k < index.count(); ++k) index[k] = random.integer(-1, size - 1);
        }
        call_options options{.workspace = scratch()};
        options.plan.output = random.chance(1, 4) ? output_mode::accumulate : output_mode::overwrite;
        options.plan.index_check = random.pick({index_check::first, index_check::each});
        const auto before = [&](const test_tensor<T>& y) {
            if (options.plan.output == output_mode::accumulate) y.fill([&](std::int64_t k) { return k % 5; });
        };
        const test_tensor<T> expected(p.src);
        const test_tensor<T> dx(p.src, strided ? random_output_strides(random, p.src) : extents{});
        before(expected);
        before(dx);
        ASSERT_TRUE(gradkern::ref::max_pool_backward_from_indices(dy.const_view(), index.const_view(), a,
                                                                  expected.view(), options)
                        .ok());
        ASSERT_TRUE(
            gradkern::max_pool_backward_from_indices(dy.const_view(), index.const_view(), a, dx.view(), options).ok());
        ASSERT_TRUE(dx.equals(expected));
        ASSERT_TRUE(dx.surroundings_intact());
    }
}

/// Planes that are added several at a time, in more than one part: indices also point into neighbouring planes.
TYPED_TEST(MaxPool, small_planes_from_indices) {
    using T = TypeParam;
    random_source random("max_pool.small_planes");
    for (int i = 0; i < 12; ++i, random.next_case()) {
        GRADKERN_TRACE_SEED(random);
        const std::int64_t channels = random.pick<std::int64_t>({12, 37, 60});
        const std::int64_t plane = random.integer(8, 15);
        const extents src{random.integer(1, 2), channels, plane, plane};
        const extents dst{src[0], channels, plane / 2, plane / 2};
        const max_pool_indices_attributes a{.data_format = data_format::ncx};
        const test_tensor<T> dy(dst);
        dy.fill_random(random);
        const index_tensor index(dst, {});
        const std::int64_t windows = (plane / 2) * (plane / 2);
        const bool strays = random.chance(1, 2);
        for (std::int64_t k = 0; k < index.count(); ++k) {
            std::int64_t of = k / windows;
            if (strays && random.chance(1, 50)) of = std::min(of + 1, src[0] * channels - 1);
            index[k] = strays && random.chance(1, 50) ? -1 : of * plane * plane + random.integer(0, plane * plane - 1);
        }
        call_options options{.workspace = scratch()};
        options.plan.output = random.chance(1, 4) ? output_mode::accumulate : output_mode::overwrite;
        options.plan.index_check = random.pick({index_check::first, index_check::each});
        const test_tensor<T> expected(src);
        const test_tensor<T> dx(src);
        for (const test_tensor<T>* x : {&expected, &dx})
            if (options.plan.output == output_mode::accumulate) x->fill([](std::int64_t k) { return k % 5; });
        ASSERT_TRUE(gradkern::ref::max_pool_backward_from_indices(dy.const_view(), index.const_view(), a,
                                                                  expected.view(), options)
                        .ok());
        ASSERT_TRUE(
            gradkern::max_pool_backward_from_indices(dy.const_view(), index.const_view(), a, dx.view(), options).ok());
        ASSERT_TRUE(dx.equals(expected));
        ASSERT_TRUE(dx.surroundings_intact());
    }
}

/// Planes of several boxes and blocks, workers in any order, any workspace.
TYPED_TEST(MaxPool, workers_order_and_workspace_do_not_change_bits) {
    using T = TypeParam;
    random_source random("max_pool.lanes");
    for (const data_format format : {data_format::ncx, data_format::nxc}) {
        for (const std::int64_t channels : {5, 40}) {
            const extents src =
                format == data_format::ncx ? extents{2, channels, 90, 80} : extents{2, 90, 80, channels};
            const max_pool_attributes a{
                .kernel = {3, 3}, .strides = {2, 1}, .pads_begin = {1, 1}, .pads_end = {1, 1}, .data_format = format};
            const extents dst = *gradkern::infer_max_pool(src, a);
            const test_tensor<T> x(src);
            const test_tensor<T> dy(dst);
            x.fill_random(random);
            dy.fill_random(random);
            const test_tensor<T> y0(dst);
            const index_tensor i0(dst, {});
            const test_tensor<T> dx0(src);
            ASSERT_TRUE(gradkern::ref::max_pool(x.const_view(), a, y0.view(), i0.view()).ok());
            ASSERT_TRUE(gradkern::ref::max_pool_backward(x.const_view(), dy.const_view(), a, dx0.view()).ok());
            const auto forward = *gradkern::plan_max_pool<T>(src, a, dst, dst);
            const auto backward = *gradkern::plan_max_pool_backward<T>(src, dst, a);
            const auto from_indices =
                *gradkern::plan_max_pool_backward_from_indices<T>(dst, dst, {.data_format = format}, src);
            for (const std::ptrdiff_t workers : {1, 2, 3, 7}) {
                shuffling_executor executor(workers);
                const test_tensor<T> y(dst);
                const index_tensor index(dst, {});
                const test_tensor<T> dx(src);
                const std::size_t shift = static_cast<std::size_t>(random.integer(0, 63));
                guarded_bytes w1(forward.workspace_bytes(workers), gradkern_test::touching::end, shift);
                ASSERT_TRUE(forward.run(x.data(), y.data(), index.view().data, {w1.data(), w1.size()}, executor).ok());
                EXPECT_TRUE(y.equals(y0));
                for (std::int64_t k = 0; k < index.count(); ++k) ASSERT_EQ(index[k], i0[k]);
                guarded_bytes w2(backward.workspace_bytes(random.integer(1, workers)));
                ASSERT_TRUE(backward.run(x.data(), dy.data(), dx.data(), {w2.data(), w2.size()}, executor).ok());
                EXPECT_TRUE(dx.equals(dx0));
                const test_tensor<T> scattered(src);
                guarded_bytes w3(from_indices.workspace_bytes(workers));
                ASSERT_TRUE(
                    from_indices.run(dy.data(), i0.view().data, scattered.data(), {w3.data(), w3.size()}, executor)
                        .ok());
                EXPECT_TRUE(scattered.equals(dx0));
                EXPECT_TRUE(w1.zones_intact() && w2.zones_intact() && w3.zones_intact());
            }
        }
    }
}

/// A plane and a volume of several boxes: each uses only windows that reach it, so nothing is read before the workspace.
TEST(MaxPoolLimits, boxes_stay_in_their_workspace) {
    random_source random("max_pool.boxes");
    struct problem {
        extents ncx, nxc, strides, dilations;
    };
    const problem problems[]{
        {{1, 1, 100, 400}, {1, 100, 400, 1}, {1, 2}, {1, 1}},
        {{1, 1, 100, 400}, {1, 100, 400, 1}, {1, 2}, {2, 3}},
        {{1, 3, 40, 44, 44}, {1, 40, 44, 44, 3}, {2, 2, 2}, {1, 1, 1}},
        {{1, 3, 40, 44, 44}, {1, 40, 44, 44, 3}, {1, 3, 2}, {3, 1, 2}},
    };
    for (const problem& p : problems) {
        for (const data_format format : {data_format::ncx, data_format::nxc}) {
            const extents& src = format == data_format::ncx ? p.ncx : p.nxc;
            const extents ones = p.strides.rank() == 2 ? extents{1, 1} : extents{1, 1, 1};
            const max_pool_attributes a{.kernel = p.strides.rank() == 2 ? extents{3, 3} : extents{3, 3, 3},
                                        .strides = p.strides,
                                        .pads_begin = ones,
                                        .pads_end = ones,
                                        .dilations = p.dilations,
                                        .data_format = format};
            const extents dst = *gradkern::infer_max_pool(src, a);
            const test_tensor<float> x(src);
            const test_tensor<float> dy(dst);
            x.fill_random(random);
            dy.fill_random(random);
            const test_tensor<float> expected(src);
            ASSERT_TRUE(gradkern::ref::max_pool_backward(x.const_view(), dy.const_view(), a, expected.view()).ok());
            for (const algorithm path : backward_paths) {
                const auto made = gradkern::plan_max_pool_backward<float>(src, dst, a, {}, {.algorithm = path});
                if (!made && does_not_fit(path, made.error())) continue;
                const auto& plan = *made;
                for (const auto side : {gradkern_test::touching::begin, gradkern_test::touching::end}) {
                    const test_tensor<float> dx(src);
                    const guarded_bytes memory(plan.workspace_bytes(), side);
                    ASSERT_TRUE(plan.run(x.data(), dy.data(), dx.data(), {memory.data(), memory.size()}).ok());
                    EXPECT_TRUE(dx.equals(expected));
                    EXPECT_TRUE(memory.zones_intact());
                }
            }
        }
    }
}

/// Planes of more elements than are summed at once: each block takes its part of the gradients, with no spare scratch.
TYPED_TEST(MaxPool, planes_longer_than_the_sums_of_a_worker) {
    using T = TypeParam;
    random_source random("max_pool.long_planes");
    for (const data_format format : {data_format::ncx, data_format::nxc}) {
        for (const bool accumulate : {false, true}) {
            const std::int64_t places = gradkern::detail::target.cache.sum_buffer / 4 + 150'000;
            const extents src = format == data_format::ncx ? extents{1, 2, places} : extents{1, places, 2};
            const extents dst = format == data_format::ncx ? extents{1, 2, 20} : extents{1, 20, 2};
            const max_pool_indices_attributes a{.data_format = format, .index_base = index_base::plane};
            call_options options{};
            options.plan.output = accumulate ? output_mode::accumulate : output_mode::overwrite;
            const test_tensor<T> dy(dst);
            dy.fill_random(random);
            const index_tensor index(dst, {});
            for (std::int64_t k = 0; k < index.count(); ++k)
                index[k] = k % 7 == 0 ? places - 1 - k : random.integer(-1, places - 1);
            const test_tensor<T> expected(src);
            const test_tensor<T> dx(src);
            expected.fill([](std::int64_t k) { return k % 5; });
            dx.fill([](std::int64_t k) { return k % 5; });
            ASSERT_TRUE(gradkern::ref::max_pool_backward_from_indices(dy.const_view(), index.const_view(), a,
                                                                      expected.view(), options)
                            .ok());
            const auto plan = *gradkern::plan_max_pool_backward_from_indices<T>(dst, dst, a, src, options.plan);
            const guarded_bytes memory(plan.workspace_bytes());
            ASSERT_TRUE(plan.run(dy.data(), index.view().data, dx.data(), {memory.data(), memory.size()}).ok());
            EXPECT_TRUE(dx.equals(expected));
            EXPECT_TRUE(memory.zones_intact());
        }
    }
}

/// Indices that drift along large planes: sums in scratch move with them, limited by the largest step back.
TYPED_TEST(MaxPool, indices_that_drift_along_the_plane) {
    using T = TypeParam;
    using Real = gradkern::accumulate_t<T>;
    random_source random("max_pool.drift");
    for (const std::int64_t channels : {20, 64, 150, 256}) {
        for (const std::int64_t back : {0, 70, 900, 6000}) {
            for (const bool accumulate : {false, true}) {
                for (const bool strays : {false, true}) {
                    const std::int64_t places = 6000;
                    const std::int64_t windows = 90;
                    const extents src{1, places, channels};
                    const extents dst{1, windows, channels};
                    const max_pool_indices_attributes a{};
                    call_options options{};
                    options.plan.output = accumulate ? output_mode::accumulate : output_mode::overwrite;
                    const test_tensor<T> dy(dst);
                    dy.fill_random(random);
                    const index_tensor index(dst, {});
                    for (std::int64_t k = 0; k < index.count(); ++k) {
                        const std::int64_t at = (k / channels + 1) * (places / windows) - 1;  // never the last elements
                        const std::int64_t place = std::max<std::int64_t>(0, at - random.integer(0, back));
                        index[k] = strays && k % 97 == 0 ? -1 : place * channels + k % channels;
                    }
                    const test_tensor<T> expected(src);
                    const test_tensor<T> dx(src);
                    std::vector<Real> sums(static_cast<std::size_t>(places * channels));
                    for (std::int64_t k = 0; k < index.count(); ++k)
                        if (index[k] >= 0) sums[static_cast<std::size_t>(index[k])] += static_cast<Real>(dy.data()[k]);
                    expected.fill([&](std::int64_t k) {
                        return sums[static_cast<std::size_t>(k)] + (accumulate ? static_cast<Real>(k % 5) : Real{0});
                    });
                    dx.fill([](std::int64_t k) { return k % 5; });
                    const auto plan = *gradkern::plan_max_pool_backward_from_indices<T>(dst, dst, a, src, options.plan);
                    const guarded_bytes memory(plan.workspace_bytes());
                    ASSERT_TRUE(plan.run(dy.data(), index.view().data, dx.data(), {memory.data(), memory.size()}).ok());
                    EXPECT_TRUE(dx.equals(expected)) << channels << " channels, " << back << " back";
                    EXPECT_TRUE(memory.zones_intact());
                }
            }
        }
    }
}

/// Planes too large to be zeroed at once, for every index_base and layout: sums are zeroed as far as indices reach, and not
/// beyond the tensor.
TEST(MaxPoolIndices, large_planes_are_cleared_step_by_step) {
    random_source random("max_pool.large_planes");
    constexpr std::int64_t channels = 48;
    for (const data_format format : {data_format::ncx, data_format::nxc}) {
        const auto in_order = [&](std::int64_t c, std::int64_t h, std::int64_t w) {
            return format == data_format::ncx ? extents{channels * h * w, c, h, w} : extents{channels * h * w, h, w, c};
        };
        const extents src = format == data_format::ncx ? extents{1, channels, 80, 70} : extents{1, 80, 70, channels};
        const extents dst = format == data_format::ncx ? extents{1, channels, 8, 7} : extents{1, 8, 7, channels};
        max_pool_attributes pool{.kernel = {10, 10}, .strides = {10, 10}, .data_format = format};
        const test_tensor<float> x(src);
        x.fill_random(random);
        const test_tensor<float> y(dst);
        const test_tensor<float> dy(dst);
        dy.fill_random(random);
        const test_tensor<float> expected(src);
        ASSERT_TRUE(gradkern::ref::max_pool_backward(x.const_view(), dy.const_view(), pool, expected.view()).ok());
        for (const bool channels_last : {false, true}) {
            for (const index_base base : {index_base::tensor, index_base::image, index_base::plane}) {
                for (const storage_order order : {storage_order::row_major, storage_order::column_major}) {
                    pool.index_base = base;
                    pool.storage_order = order;
                    const index_tensor index(dst,
                                             channels_last ? in_order(1, 7 * channels, channels) : in_order(56, 7, 1));
                    ASSERT_TRUE(
                        gradkern::max_pool(x.const_view(), pool, y.view(), index.view(), {.workspace = scratch()})
                            .ok());
                    const test_tensor<float> dx(
                        src, channels_last ? in_order(1, 70 * channels, channels) : in_order(5600, 70, 1));
                    dx.fill([](std::int64_t k) { return k % 5; });
                    ASSERT_TRUE(gradkern::max_pool_backward_from_indices(
                                    dy.const_view(), index.const_view(),
                                    {.data_format = format, .index_base = base, .storage_order = order}, dx.view(),
                                    {.workspace = scratch()})
                                    .ok());
                    EXPECT_TRUE(dx.equals(expected)) << channels_last;
                    EXPECT_TRUE(dx.surroundings_intact());
                }
            }
        }
    }
}

/// An executor may report any concurrency: only existing tasks are prefetched.
TEST(MaxPoolIndices, an_executor_of_any_concurrency) {
    const extents shape{1, 3, 20'000};
    const test_tensor<float> dy(shape);
    dy.fill([](std::int64_t k) { return k % 7; });
    const index_tensor index(shape, {});
    for (std::int64_t k = 0; k < index.count(); ++k) index[k] = k;
    const test_tensor<float> dx(shape);
    gradkern_test::reversing_executor executor(std::numeric_limits<std::ptrdiff_t>::max());
    ASSERT_TRUE(gradkern::max_pool_backward_from_indices(dy.const_view(), index.const_view(),
                                                         {.data_format = data_format::ncx}, dx.view(),
                                                         {.executor = executor})
                    .ok());
    EXPECT_TRUE(dx.equals(dy));
}

/// Sums of 16 bits in moving buffers, in panels of 16 channels with a single channel at the end. That channel is also computed
/// window by window, limited by the largest step back of its indices.
TEST(MaxPoolIndices, a_single_last_channel_has_the_bits_of_the_others) {
    using T = gradkern::bfloat16;
    constexpr std::int64_t channels = 33;
    const extents src{1, 2560, 200, channels};
    const extents dst{1, 20, 20, channels};
    std::vector<std::int64_t> index(400 * channels);
    std::vector<T> dy(index.size());
    std::vector<float> expected(2560 * 200 * channels);
    random_source random("max_pool.lone_channel");
    for (std::int64_t w = 0; w < 400; ++w) {
        for (std::int64_t c = 0; c < channels; ++c) {
            const std::int64_t row = w / 20 * 128 + random.integer(0, 127);
            const std::int64_t at = (row * 200 + w % 20 * 10 + random.integer(0, 9)) * channels + c;
            const auto k = static_cast<std::size_t>(w * channels + c);
            index[k] = at;
            dy[k] = T(static_cast<float>(random.integer(1, 100)));
            expected[static_cast<std::size_t>(at)] += static_cast<float>(dy[k]);
        }
    }
    std::vector<T> dx(expected.size(), T(7.0F));
    const auto plan = *gradkern::plan_max_pool_backward_from_indices<T>(dst, dst, {}, src);
    std::vector<std::byte> memory(plan.workspace_bytes());
    ASSERT_TRUE(plan.run(dy.data(), index.data(), dx.data(), memory).ok());
    std::int64_t wrong = 0;
    for (std::size_t i = 0; i < dx.size(); ++i) wrong += static_cast<float>(dx[i]) == expected[i] ? 0 : 1;
    EXPECT_EQ(wrong, 0);
}

/// The indices of a line of windows are checked for all channels at once. An index into the plane of a neighbouring channel,
/// at an element that this channel also uses, must be detected: gradients are then added in the order of the channels.
TYPED_TEST(MaxPool, one_index_points_into_the_plane_of_the_next_channel) {
    using T = TypeParam;
    for (const std::int64_t channels : {2, 16, 20, 100, 128}) {
        const extents src{1, 24, 30, channels};
        const extents dst{1, 12, 15, channels};
        const std::int64_t windows = 12 * 15;
        for (const std::int64_t window : {std::int64_t{0}, std::int64_t{7}, windows - 3}) {
            const test_tensor<T> dy(dst);
            dy.fill([](std::int64_t k) { return k % 3; });
            const index_tensor index(dst, {});
            for (std::int64_t k = 0; k < index.count(); ++k)
                index[k] = (k / channels * 4 + 1) * channels + k % channels;
            // 32768 of channel 0 is added first, although its window is the last of three: only then 1/1024 is not lost
            const std::int64_t place = (window * 4 + 1) * channels + 1;
            const std::int64_t next = window * channels + 1;
            index[next + channels] = place;
            index[(window + 2) * channels] = place;
            dy.data()[next] = T(-32768.0F);
            dy.data()[next + channels] = T(1.0F / 1024);
            dy.data()[(window + 2) * channels] = T(32768.0F);
            std::vector<float> sums(static_cast<std::size_t>(24 * 30 * channels));
            for (std::int64_t c = 0; c < channels; ++c)
                for (std::int64_t k = c; k < index.count(); k += channels)
                    sums[static_cast<std::size_t>(index[k])] += static_cast<float>(dy.data()[k]);
            const test_tensor<T> expected(src);
            expected.fill([&](std::int64_t k) { return sums[static_cast<std::size_t>(k)]; });
            const test_tensor<T> dx(src);
            ASSERT_TRUE(gradkern::max_pool_backward_from_indices(dy.const_view(), index.const_view(), {}, dx.view(),
                                                                 {.workspace = scratch()})
                            .ok());
            EXPECT_EQ(static_cast<float>(dx.data()[place]), 1.0F / 1024);
            EXPECT_TRUE(dx.equals(expected)) << channels << " channels, window " << window;
        }
    }
}

/// Scratch is for a block of a plane: a larger plane needs no more, and gradients that are added directly to an output of
/// floats need none.
TEST(MaxPoolLimits, scratch_does_not_grow_with_the_plane) {
    const max_pool_attributes a{.kernel = {8, 8}, .strides = {8, 8}, .data_format = data_format::ncx};
    for (const std::int64_t extent : {1024, 4096}) {
        const extents src{1, 1, extent, extent};
        const extents dst{1, 1, extent / 8, extent / 8};
        for (const algorithm path : forward_paths) {
            const auto plan = gradkern::plan_max_pool<float>(src, a, dst, dst, {.algorithm = path});
            if (!plan && does_not_fit(path, plan.error())) continue;
            EXPECT_LE(plan->workspace_bytes(), std::size_t{1} << 20) << extent;
        }
        const auto from_indices =
            *gradkern::plan_max_pool_backward_from_indices<float>(dst, dst, {.data_format = data_format::ncx}, src);
        EXPECT_EQ(from_indices.workspace_bytes(), 0U);
    }
    for (const std::int64_t columns : {100'000, 10'000'000}) {
        for (const std::int64_t stride : {1, 1000}) {
            for (const output_mode output : {output_mode::overwrite, output_mode::accumulate}) {
                const max_pool_attributes line{.kernel = {2}, .strides = {stride}};
                const max_pool_attributes plane{.kernel = {2, 2}, .strides = {1, stride}};
                const std::int64_t windows = (columns - 2) / stride + 1;
                const auto plans = {*gradkern::plan_max_pool_backward<float>({1, columns, 128}, {1, windows, 128}, line,
                                                                             {}, {.output = output}),
                                    *gradkern::plan_max_pool_backward<float>({1, 4, columns, 128}, {1, 3, windows, 128},
                                                                             plane, {}, {.output = output})};
                for (const auto& plan : plans) EXPECT_LE(plan.workspace_bytes(), std::size_t{4} << 20) << columns;
            }
        }
    }
}

/// A kernel over planes too large for any scratch, and offsets beyond 32 bits.
TEST(MaxPoolLimits, enormous_planes_and_windows) {
    // 2^41 positions that are all the same two numbers
    constexpr std::int64_t size = std::int64_t{1} << 41;
    const std::array<float, 2> x{1, 2};
    const tensor_layout src({1, 1, size, 2}, {0, 0, 0, 1});
    const max_pool_attributes a{
        .kernel = {2, 2}, .strides = {size - 1, 2}, .dilations = {size - 1, 1}, .data_format = data_format::ncx};
    float y = 0;
    std::int64_t index = 0;
    ASSERT_TRUE(gradkern::max_pool<float>({x.data(), src}, a, {&y, {1, 1, 1, 1}}, {&index, {1, 1, 1, 1}},
                                          {.workspace = scratch()})
                    .ok());
    EXPECT_EQ(y, 2);
    EXPECT_EQ(index, 1);

    std::vector<float> line(3'000'000, -1.0F);
    line[2'345'678] = 7;
    const auto count = static_cast<std::int64_t>(line.size());
    const max_pool_attributes global{.kernel = {count}, .strides = {1}, .data_format = data_format::ncx};
    ASSERT_TRUE(gradkern::max_pool<float>({line.data(), {1, 1, count}}, global, {&y, {1, 1, 1}}, {&index, {1, 1, 1}},
                                          {.workspace = scratch()})
                    .ok());
    EXPECT_EQ(y, 7);
    EXPECT_EQ(index, 2'345'678);
    std::vector<float> dx(line.size(), NAN);
    const float dy = 3;
    std::vector<std::byte> memory(32U << 20);
    ASSERT_TRUE(gradkern::max_pool_backward<float>({line.data(), {1, 1, count}}, {&dy, {1, 1, 1}}, global,
                                                   {dx.data(), {1, 1, count}}, {.workspace = memory})
                    .ok());
    EXPECT_EQ(dx[2'345'678], 3);
    EXPECT_EQ(std::count(dx.begin(), dx.end(), 0.0F), count - 1);
}

/// A window of 2^60 positions: the number of its reads times the lanes of a vector exceeds 63 bits.
TEST(MaxPoolLimits, planning_windows_too_large_to_count) {
    constexpr std::int64_t size = std::int64_t{1} << 30;
    for (const data_format format : {data_format::ncx, data_format::nxc}) {
        const max_pool_attributes a{.kernel = {size, size}, .strides = {1, 1}, .data_format = format};
        const extents src = format == data_format::ncx ? extents{1, 1, size, size} : extents{1, size, size, 1};
        const auto forward = gradkern::plan_max_pool<bfloat16>(src, a);
        ASSERT_TRUE(forward.has_value());
        EXPECT_LE(forward->workspace_bytes(), std::size_t{1} << 20);
        const auto backward = gradkern::plan_max_pool_backward<bfloat16>(src, extents{1, 1, 1, 1}, a);
        ASSERT_TRUE(backward.has_value());
        EXPECT_LE(backward->workspace_bytes(), std::size_t{32} << 20);
    }
}

/// 2^40 windows, of which two have a tap inside: the others take no time.
TEST(MaxPoolLimits, windows_between_dilated_taps_cost_nothing) {
    constexpr std::int64_t far = std::int64_t{1} << 40;
    for (const data_format format : {data_format::ncx, data_format::nxc}) {
        for (const bool rows : {false, true}) {
            const bool ncx = format == data_format::ncx;
            const auto axes = [&](std::int64_t value, std::int64_t other) {
                return rows ? extents{value, other} : extents{other, value};
            };
            const max_pool_attributes a{.kernel = axes(2, 1),
                                        .strides = {1, 1},
                                        .pads_begin = axes(far, 0),
                                        .pads_end = axes(far, 0),
                                        .dilations = axes(far, 1),
                                        .data_format = format};
            const float x = 5;
            const float dy = 3;
            float dx = 0;
            const extents windows = axes(far + 1, 1);
            const tensor_layout small(
                ncx ? extents{1, 1, windows[0], windows[1]} : extents{1, windows[0], windows[1], 1}, {0, 0, 0, 0});
            ASSERT_TRUE(gradkern::max_pool_backward<float>({&x, {1, 1, 1, 1}}, {&dy, small}, a, {&dx, {1, 1, 1, 1}},
                                                           {.workspace = scratch()})
                            .ok());
            EXPECT_EQ(dx, 6);
        }
    }
}

}  // namespace
