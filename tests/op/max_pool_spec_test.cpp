// Max pooling by the specification: worked examples with values and indices, and every error with its contents.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include <gradkern/max_pool.hpp>
#include <gradkern/ref/max_pool.hpp>

#include "support/tensor.hpp"

namespace {

using gradkern::auto_pad;
using gradkern::bfloat16;
using gradkern::call_options;
using gradkern::data_format;
using gradkern::errc;
using gradkern::error;
using gradkern::expectation;
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
using gradkern_test::test_tensor;

constexpr float nan = std::numeric_limits<float>::quiet_NaN();
constexpr float inf = std::numeric_limits<float>::infinity();

/// A 1-D example with one image and one channel.
struct example {
    std::string_view what;
    std::vector<float> src;
    max_pool_attributes attributes;
    std::vector<float> dst;
    std::vector<std::int64_t> indices;
};

extents with_leading(std::size_t rank, const extents& line, std::int64_t leading) {
    if (line.empty()) return {};
    extents e = extents::filled(rank, leading);
    e[rank - 1] = line[0];
    return e;
}

extents shape_of(std::size_t rank, std::size_t size, data_format f) {
    extents e = extents::filled(rank + 2, 1);
    e[f == data_format::ncx ? rank + 1 : rank] = static_cast<std::int64_t>(size);
    return e;
}

/// Runs an example in every rank and format, by operator and reference: values, indices, and the gradient of ones,
/// twos, threes, ... that they imply, with and without indices.
template <class T>
void check(const example& x) {
    for (const std::size_t rank : {1U, 2U, 3U}) {
        for (const data_format f : {data_format::ncx, data_format::nxc}) {
            SCOPED_TRACE(std::string(x.what) + ", rank " + std::to_string(rank) +
                         (f == data_format::ncx ? " NCX" : " NXC"));
            max_pool_attributes a = x.attributes;
            a.data_format = f;
            a.kernel = with_leading(rank, x.attributes.kernel, 1);
            a.strides = with_leading(rank, x.attributes.strides, 1);
            a.dilations = with_leading(rank, x.attributes.dilations, 1);
            a.pads_begin = with_leading(rank, x.attributes.pads_begin, 0);
            a.pads_end = with_leading(rank, x.attributes.pads_end, 0);
            const test_tensor<T> src(shape_of(rank, x.src.size(), f));
            src.fill([&](std::int64_t i) { return x.src[static_cast<std::size_t>(i)]; });
            const extents small = shape_of(rank, x.dst.size(), f);
            ASSERT_EQ(gradkern::infer_max_pool(src.shape(), a).value(), small);
            ASSERT_EQ(gradkern::infer_max_pool_backward(src.shape(), small, a).value(), src.shape());
            ASSERT_EQ(
                gradkern::infer_max_pool_backward_from_indices(small, small, {.data_format = f}, src.shape()).value(),
                src.shape());
            const test_tensor<T> gradient(small);
            gradient.fill([](std::int64_t i) { return i + 1; });
            std::vector<float> expected(x.src.size(), 0.0F);
            for (std::size_t o = 0; o < x.indices.size(); ++o)
                if (x.indices[o] >= 0) expected[static_cast<std::size_t>(x.indices[o])] += static_cast<float>(o + 1);

            for (const bool plain : {false, true}) {
                const test_tensor<T> dst(small);
                std::vector<std::int64_t> indices(x.dst.size(), -77);
                const test_tensor<T> dx(src.shape());
                const test_tensor<T> scattered(src.shape());
                const auto forward = plain ? gradkern::ref::max_pool<T> : gradkern::max_pool<T>;
                const auto backward = plain ? gradkern::ref::max_pool_backward<T> : gradkern::max_pool_backward<T>;
                const auto from_indices = plain ? gradkern::ref::max_pool_backward_from_indices<T>
                                                : gradkern::max_pool_backward_from_indices<T>;
                ASSERT_TRUE(forward(src.const_view(), a, dst.view(), {indices.data(), small}, {}).ok());
                ASSERT_TRUE(backward(src.const_view(), gradient.const_view(), a, dx.view(), {}).ok());
                ASSERT_TRUE(from_indices(gradient.const_view(), {indices.data(), small}, {.data_format = f},
                                         scattered.view(), {})
                                .ok());
                for (std::size_t o = 0; o < x.dst.size(); ++o) {
                    const auto got = static_cast<float>(dst.value(static_cast<std::int64_t>(o)));
                    EXPECT_TRUE(got == x.dst[o] || (got != got && x.dst[o] != x.dst[o]))
                        << "window " << o << ": " << got;
                }
                EXPECT_EQ(indices, x.indices);
                for (std::size_t q = 0; q < expected.size(); ++q) {
                    EXPECT_EQ(dx.value(static_cast<std::int64_t>(q)), expected[q]) << "position " << q;
                    EXPECT_EQ(scattered.value(static_cast<std::int64_t>(q)), expected[q]) << "position " << q;
                }
            }
        }
    }
}

void check_all(const std::vector<example>& examples) {
    for (const example& x : examples) {
        check<float>(x);
        check<float16>(x);
        check<bfloat16>(x);
    }
}

TEST(MaxPoolSpec, the_first_of_equal_elements_wins) {
    check_all({{"overlapping", {1, 3, 3, 2, 3}, {.kernel = {3}, .strides = {1}}, {3, 3, 3}, {1, 1, 2}},
               {"zeros of both signs", {-0.0F, 0.0F, -0.0F}, {.kernel = {3}, .strides = {1}}, {0}, {0}},
               {"stride", {4, 1, 2, 8, 5, 6}, {.kernel = {2}, .strides = {2}}, {4, 8, 6}, {0, 3, 5}},
               {"dilation", {1, 9, 3, 8, 5}, {.kernel = {3}, .strides = {1}, .dilations = {2}}, {5}, {4}}});
}

TEST(MaxPoolSpec, padding_never_wins) {
    check_all({{"negative numbers beside padding",
                {-5, -3, -4},
                {.kernel = {3}, .strides = {1}, .pads_begin = {1}, .pads_end = {1}},
                {-3, -3, -3},
                {1, 1, 1}},
               {"same_lower",
                {-1, -2, -3},
                {.kernel = {2}, .strides = {1}, .auto_pad = auto_pad::same_lower},
                {-1, -1, -2},
                {0, 0, 1}},
               {"same_upper",
                {-1, -2, -3},
                {.kernel = {2}, .strides = {1}, .auto_pad = auto_pad::same_upper},
                {-1, -2, -3},
                {0, 1, 2}},
               {"stride above kernel",
                {1, 2, 3, 4, 5},
                {.kernel = {1}, .strides = {3}, .auto_pad = auto_pad::same_upper},
                {1, 4},
                {0, 3}}});
}

TEST(MaxPoolSpec, windows_without_inside_taps) {
    check_all(
        {{"ceil with a window in the end padding",
          {1, 2, 3, 4, 5},
          {.kernel = {2}, .strides = {3}, .pads_begin = {1}, .pads_end = {1}, .rounding_type = rounding_type::ceil},
          {1, 4, -inf},
          {0, 3, -1}},
         {"ceil_torch drops it",
          {1, 2, 3, 4, 5},
          {.kernel = {2},
           .strides = {3},
           .pads_begin = {1},
           .pads_end = {1},
           .rounding_type = rounding_type::ceil_torch},
          {1, 4},
          {0, 3}},
         {"pads beyond the kernel",
          {7},
          {.kernel = {2}, .strides = {2}, .pads_begin = {4}, .pads_end = {3}},
          {-inf, -inf, 7, -inf},
          {-1, -1, 0, -1}}});
}

TEST(MaxPoolSpec, nan_beats_numbers_and_later_ones_beat_earlier_ones) {
    check_all({{"propagated", {1, nan, 3, nan, 5}, {.kernel = {4}, .strides = {1}}, {nan, nan}, {3, 3}},
               {"beside infinity", {inf, nan, 3}, {.kernel = {2}, .strides = {1}}, {nan, nan}, {1, 1}},
               {"all -Inf", {-inf, -inf, -inf}, {.kernel = {2}, .strides = {1}}, {-inf, -inf}, {0, 1}}});
}

TEST(MaxPoolSpec, ignore_nan_lets_any_number_win) {
    check_all({{"number", {nan, 3, nan, 2}, {.kernel = {4}, .strides = {1}, .ignore_nan = true}, {3}, {1}},
               {"-Inf is one", {nan, -inf, nan}, {.kernel = {3}, .strides = {1}, .ignore_nan = true}, {-inf}, {1}},
               {"nothing but NaN: the first",
                {nan, nan, nan},
                {.kernel = {2}, .strides = {1}, .ignore_nan = true},
                {nan, nan},
                {0, 1}}});
}

TEST(MaxPoolSpec, gradients_of_one_element_are_added_in_f32) {
    // 2001 windows have the same maximum: 16-bit sums would stop at 256 or 2048
    std::vector<float> x(4001, 0.0F);
    x[2000] = 1;
    for (const bool half : {false, true}) {
        const max_pool_attributes a{.kernel = {2001}, .strides = {1}, .data_format = data_format::ncx};
        const auto run = [&]<class T>(T) {
            const test_tensor<T> src({1, 1, 4001});
            const test_tensor<T> dy({1, 1, 2001});
            const test_tensor<T> dx({1, 1, 4001});
            std::vector<std::byte> memory(1U << 20);
            src.fill([&](std::int64_t i) { return x[static_cast<std::size_t>(i)]; });
            dy.fill([](std::int64_t) { return 1; });
            ASSERT_TRUE(
                gradkern::max_pool_backward<T>(src.const_view(), dy.const_view(), a, dx.view(), {.workspace = memory})
                    .ok());
            EXPECT_EQ(static_cast<float>(dx[2000]), static_cast<float>(T(2001.0F)));
        };
        half ? run(float16{}) : run(bfloat16{});
    }
}

TEST(MaxPoolSpec, index_bases_and_storage_orders) {
    // 2 images, 2 channels, 2 x 3 positions; the maximum of a plane is at (h, w) = (1, 2), (0, 1), (1, 0), (0, 2)
    constexpr std::array<std::array<std::int64_t, 2>, 4> at{{{1, 2}, {0, 1}, {1, 0}, {0, 2}}};
    for (const data_format f : {data_format::ncx, data_format::nxc}) {
        const bool ncx = f == data_format::ncx;
        const test_tensor<float> x(ncx ? extents{2, 2, 2, 3} : extents{2, 2, 3, 2});
        const auto flat = [&](std::int64_t n, std::int64_t c, std::int64_t h, std::int64_t w) {
            return ncx ? ((n * 2 + c) * 2 + h) * 3 + w : ((n * 2 + h) * 3 + w) * 2 + c;
        };
        x.fill([](std::int64_t) { return 0; });
        for (std::int64_t p = 0; p < 4; ++p) {
            const auto& q = at[static_cast<std::size_t>(p)];
            x.set(flat(p / 2, p % 2, q[0], q[1]), 1);
        }
        for (const index_base base : {index_base::tensor, index_base::plane, index_base::image}) {
            for (const storage_order order : {storage_order::row_major, storage_order::column_major}) {
                const max_pool_attributes a{
                    .kernel = {2, 3}, .strides = {1, 1}, .data_format = f, .index_base = base, .storage_order = order};
                const extents small = ncx ? extents{2, 2, 1, 1} : extents{2, 1, 1, 2};
                const test_tensor<float> y(small);
                std::vector<std::int64_t> index(4);
                ASSERT_TRUE(gradkern::max_pool<float>(x.const_view(), a, y.view(), {index.data(), small}).ok());
                for (std::int64_t p = 0; p < 4; ++p) {
                    const auto& q = at[static_cast<std::size_t>(p)];
                    const std::int64_t s = order == storage_order::row_major ? q[0] * 3 + q[1] : q[0] + q[1] * 2;
                    const std::int64_t expected = base == index_base::plane   ? s
                                                  : base == index_base::image ? s * 2 + p % 2
                                                  : ncx                       ? p * 6 + s
                                                                              : (p / 2 * 6 + s) * 2 + p % 2;
                    EXPECT_EQ(index[static_cast<std::size_t>(p)], expected);
                }
                const test_tensor<float> dx(x.shape());
                y.fill([](std::int64_t) { return 1; });
                ASSERT_TRUE(gradkern::max_pool_backward_from_indices<float>(
                                y.const_view(), {index.data(), small},
                                {.data_format = f, .index_base = base, .storage_order = order}, dx.view())
                                .ok());
                EXPECT_TRUE(dx.equals(x));
            }
        }
    }
}

TEST(MaxPoolSpec, repeated_absent_and_foreign_indices) {
    const std::array<float, 3> dy{1, 2, 3};
    std::array<float, 4> dx{};
    for (const index_check check : {index_check::first, index_check::each}) {
        const call_options options{.plan = {.index_check = check}};
        const auto run = [&](const std::array<std::int64_t, 3>& indices) {
            dx.fill(nan);
            return gradkern::max_pool_backward_from_indices<float>({dy.data(), {1, 1, 3}}, {indices.data(), {1, 1, 3}},
                                                                   {.data_format = data_format::ncx},
                                                                   {dx.data(), {1, 1, 4}}, options);
        };
        ASSERT_TRUE(run({1, 1, 2}).ok());
        EXPECT_EQ(dx, (std::array<float, 4>{0, 3, 3, 0}));
        ASSERT_TRUE(run({1, -1, 2}).ok());
        EXPECT_EQ(dx, (std::array<float, 4>{0, 1, 3, 0}));
        // the whole tensor: the second image's gradient may belong to the first
        const std::array<std::int64_t, 4> far{3, 3, 0, 3};
        const std::array<float, 4> ones{1, 1, 1, 1};
        dx.fill(nan);
        ASSERT_TRUE(gradkern::max_pool_backward_from_indices<float>({ones.data(), {2, 1, 2}}, {far.data(), {2, 1, 2}},
                                                                    {.data_format = data_format::ncx},
                                                                    {dx.data(), {2, 1, 2}}, options)
                        .ok());
        EXPECT_EQ(dx, (std::array<float, 4>{1, 0, 0, 3}));
    }
}

error out_of_range(std::int64_t bad, std::int64_t end) {
    return {errc::index_out_of_range,
            "max_pool_backward_from_indices",
            "indices",
            -1,
            bad,
            bad < 0 ? -1 : end,
            bad < 0 ? expectation::at_least : expectation::below};
}

// index_check::each may leave a partly written output, but does not write out of bounds, and reports the same index.
TEST(MaxPoolSpec, indices_checked_one_by_one_are_as_safe) {
    const std::vector<float> dy(12, 1.0F);
    for (const index_base base : {index_base::tensor, index_base::plane, index_base::image}) {
        for (const data_format f : {data_format::ncx, data_format::nxc}) {
            const bool ncx = f == data_format::ncx;
            const std::int64_t end = base == index_base::plane ? 4 : base == index_base::image ? 12 : 24;
            for (const std::int64_t bad : {end, std::int64_t{-2}, INT64_MAX, INT64_MIN, INT64_MIN + 3}) {
                for (const std::size_t place : {std::size_t{0}, std::size_t{7}, std::size_t{11}}) {
                    std::vector<std::int64_t> indices(12, 3);
                    indices[place] = bad;
                    const extents small = ncx ? extents{2, 3, 2} : extents{2, 2, 3};
                    const auto run = [&](const auto& dx, output_mode mode) {
                        return gradkern::max_pool_backward_from_indices<float>(
                                   {dy.data(), small}, {indices.data(), small}, {.data_format = f, .index_base = base},
                                   dx.view(), {.plan = {.output = mode, .index_check = index_check::each}})
                            .error();
                    };
                    const error expected = out_of_range(bad, end);
                    const test_tensor<float> dx(ncx ? extents{2, 3, 4} : extents{2, 4, 3});
                    EXPECT_EQ(run(dx, output_mode::overwrite), expected);
                    EXPECT_TRUE(dx.surroundings_intact());
                    // accumulating cannot be undone, so the indices are checked first
                    const auto before = dx.snapshot();
                    EXPECT_EQ(run(dx, output_mode::accumulate), expected);
                    EXPECT_EQ(dx.snapshot(), before);
                }
            }
        }
    }
}

// 16-bit planes of more elements than a block of sums: every block checks which indices point into it.
TEST(MaxPoolSpec, indices_checked_block_by_block_are_as_safe) {
    constexpr std::int64_t places = (1 << 20) + 16;
    const std::vector<bfloat16> dy(3, bfloat16{1.0F});
    std::vector<bfloat16> dx(places);
    std::vector<std::int64_t> indices{places - 1, 0, places - 1};
    const auto run = [&] {
        const auto plan = gradkern::plan_max_pool_backward_from_indices<bfloat16>(
            extents{1, 1, 3}, extents{1, 1, 3}, {.data_format = data_format::ncx}, extents{1, 1, places},
            {.index_check = index_check::each});
        std::vector<std::byte> workspace(plan->workspace_bytes());
        return plan->run(dy.data(), indices.data(), dx.data(), workspace);
    };
    ASSERT_TRUE(run());
    EXPECT_EQ(static_cast<float>(dx[0]), 1.0F);
    EXPECT_EQ(static_cast<float>(dx[places - 1]), 2.0F);
    EXPECT_EQ(std::count(dx.begin(), dx.end(), bfloat16{}), places - 2);
    for (const std::int64_t bad : {places, std::int64_t{-2}, INT64_MAX, INT64_MIN, INT64_MIN + places}) {
        indices[1] = bad;
        EXPECT_EQ(run().error(), out_of_range(bad, places));
    }
}

TEST(MaxPoolSpec, an_index_out_of_range_is_found_before_the_first_write) {
    const std::vector<float> dy(12, 1.0F);
    for (const std::int64_t bad : {std::int64_t{24}, std::int64_t{-2}, INT64_MAX, INT64_MIN}) {
        for (const std::size_t place : {std::size_t{0}, std::size_t{7}, std::size_t{11}}) {
            std::vector<std::int64_t> indices(12, 3);
            indices[place] = bad;
            const test_tensor<float> dx({2, 3, 4});
            const auto before = dx.snapshot();
            const status s = gradkern::max_pool_backward_from_indices<float>(
                {dy.data(), {2, 3, 2}}, {indices.data(), {2, 3, 2}}, {.data_format = data_format::ncx}, dx.view());
            EXPECT_EQ(s.error(), out_of_range(bad, 24));
            EXPECT_EQ(dx.snapshot(), before);
        }
    }
    // a plane's index is bounded by the plane, an image's by the image
    const std::vector<std::int64_t> four(12, 4);
    const test_tensor<float> dx({2, 3, 4});
    const auto with = [&](index_base base) {
        return gradkern::max_pool_backward_from_indices<float>({dy.data(), {2, 3, 2}}, {four.data(), {2, 3, 2}},
                                                               {.data_format = data_format::ncx, .index_base = base},
                                                               dx.view());
    };
    EXPECT_EQ(with(index_base::plane).code(), errc::index_out_of_range);
    EXPECT_TRUE(with(index_base::image).ok());
}

// The widest element of a call decides what overflows: with indices, eight bytes.
TEST(MaxPoolSpec, indices_count_in_what_overflows) {
    const extents src{1, INT64_C(1) << 60, 1};
    const max_pool_attributes a{.kernel = {1}, .strides = {1}};
    EXPECT_EQ(gradkern::plan_max_pool<float16>(src, a, src).error().code, errc::ok);
    EXPECT_EQ(gradkern::plan_max_pool<float16>(src, a, src, src).error().code, errc::overflow);
}

TEST(MaxPoolSpec, no_images) {
    const max_pool_attributes a{.kernel = {2}, .strides = {2}, .data_format = data_format::ncx};
    EXPECT_TRUE(gradkern::max_pool<float>({nullptr, {0, 3, 4}}, a, {nullptr, {0, 3, 2}}, {nullptr, {0, 3, 2}}).ok());
    EXPECT_TRUE(
        gradkern::max_pool_backward<float>({nullptr, {0, 3, 4}}, {nullptr, {0, 3, 2}}, a, {nullptr, {0, 3, 4}}).ok());
    EXPECT_TRUE(gradkern::max_pool_backward_from_indices<float>({nullptr, {0, 3, 2}}, {nullptr, {0, 3, 2}},
                                                                {.data_format = data_format::ncx}, {nullptr, {0, 3, 4}})
                    .ok());
}

// ------------------------------------------------------------------------------------------------------------- errors

/// Valid arguments, until a row makes one wrong.
struct call {
    tensor_layout src{2, 3, 6, 5};
    tensor_layout small{2, 3, 3, 2};
    tensor_layout indices{2, 3, 3, 2};
    tensor_layout diff_src{2, 3, 6, 5};
    max_pool_attributes attributes{.kernel = {2, 2}, .strides = {2, 2}, .data_format = data_format::ncx};
    max_pool_indices_attributes from{.data_format = data_format::ncx};
};

struct mistake {
    std::string_view what;
    std::function<void(call&)> spoil;
    errc code;
    std::string_view argument;
    int axis;
    std::int64_t got;
    expectation relation;
    std::int64_t expected;
};

/// Each row gives its error and changes nothing.
void check_errors(const std::vector<mistake>& rows, std::string_view op,
                  const std::function<status(const call&, float*, std::int64_t*)>& run) {
    std::vector<float> out(1000, nan);
    std::vector<std::int64_t> indices(1000, -77);
    const std::vector<float> out_before = out;
    const std::vector<std::int64_t> indices_before = indices;
    for (std::size_t i = 0; i < rows.size(); ++i) {
        SCOPED_TRACE(rows[i].what);
        call c;
        rows[i].spoil(c);
        const mistake& m = rows[i];
        const error expected{m.code, op, m.argument, m.axis, m.got, m.expected, m.relation};
        const error got = run(c, out.data(), indices.data()).error();
        std::array<char, 200> text{};
        static_cast<void>(got.format(text));
        EXPECT_EQ(got, expected) << text.data();
        EXPECT_EQ(std::memcmp(out.data(), out_before.data(), out.size() * sizeof(float)), 0);
        EXPECT_EQ(indices, indices_before);
    }
}

const float numbers[1000] = {};
const std::int64_t places[1000] = {};

const std::vector<mistake> window_mistakes{
    {"rank 2",
     [](call& c) {
         c.src = {2, 3};
     },
     errc::unsupported, "src", -1, 2, expectation::at_least, 3},
    {"rank 6",
     [](call& c) {
         c.src = tensor_layout(extents{1, 1, 1, 1, 1, 1});
     },
     errc::unsupported, "src", -1, 6, expectation::at_most, 5},
    {"kernel missing", [](call& c) { c.attributes.kernel = {}; }, errc::invalid_argument, "kernel", -1, 0,
     expectation::equal, 2},
    {"strides too long",
     [](call& c) {
         c.attributes.strides = {1, 1, 1};
     },
     errc::invalid_argument, "strides", -1, 3, expectation::equal, 2},
    {"pads_begin short", [](call& c) { c.attributes.pads_begin = {1}; }, errc::invalid_argument, "pads_begin", -1, 1,
     expectation::equal, 2},
    {"pads_end short", [](call& c) { c.attributes.pads_end = {1}; }, errc::invalid_argument, "pads_end", -1, 1,
     expectation::equal, 2},
    {"dilations short", [](call& c) { c.attributes.dilations = {1}; }, errc::invalid_argument, "dilations", -1, 1,
     expectation::equal, 2},
    {"auto_pad unknown", [](call& c) { c.attributes.auto_pad = static_cast<auto_pad>(9); }, errc::invalid_argument,
     "auto_pad", -1, 9, expectation::at_most, 3},
    {"rounding_type unknown", [](call& c) { c.attributes.rounding_type = static_cast<rounding_type>(7); },
     errc::invalid_argument, "rounding_type", -1, 7, expectation::at_most, 2},
    {"data_format unknown", [](call& c) { c.attributes.data_format = static_cast<data_format>(5); },
     errc::invalid_argument, "data_format", -1, 5, expectation::at_most, 1},
    {"index_base unknown", [](call& c) { c.attributes.index_base = static_cast<index_base>(3); },
     errc::invalid_argument, "index_base", -1, 3, expectation::at_most, 2},
    {"storage_order unknown", [](call& c) { c.attributes.storage_order = static_cast<storage_order>(2); },
     errc::invalid_argument, "storage_order", -1, 2, expectation::at_most, 1},
    {"kernel 0",
     [](call& c) {
         c.attributes.kernel = {2, 0};
     },
     errc::invalid_argument, "kernel", 1, 0, expectation::at_least, 1},
    {"stride 0",
     [](call& c) {
         c.attributes.strides = {0, 1};
     },
     errc::invalid_argument, "strides", 0, 0, expectation::at_least, 1},
    {"dilation 0",
     [](call& c) {
         c.attributes.dilations = {1, 0};
     },
     errc::invalid_argument, "dilations", 1, 0, expectation::at_least, 1},
    {"pad negative",
     [](call& c) {
         c.attributes.pads_begin = {-1, 0};
     },
     errc::invalid_argument, "pads_begin", 0, -1, expectation::at_least, 0},
    {"end pad negative, though ignored",
     [](call& c) {
         c.attributes.auto_pad = auto_pad::valid;
         c.attributes.pads_end = {0, -2};
     },
     errc::invalid_argument, "pads_end", 1, -2, expectation::at_least, 0},
    {"channels negative",
     [](call& c) {
         c.src = {2, -1, 6, 5};
     },
     errc::invalid_shape, "src", 1, -1, expectation::at_least, 0},
    {"huge",
     [](call& c) {
         c.src = {1, 1, std::int64_t{1} << 31, std::int64_t{1} << 31};
     },
     errc::overflow, "src", -1, 0, expectation::none, 0},
    {"window above input",
     [](call& c) {
         c.attributes.kernel = {7, 1};
     },
     errc::invalid_shape, "src", 2, 6, expectation::at_least, 7},
};

TEST(MaxPoolSpec, forward_errors) {
    std::vector<mistake> rows = window_mistakes;
    rows.insert(rows.end(), {{"dst rank",
                              [](call& c) {
                                  c.small = {2, 3, 3};
                              },
                              errc::unsupported, "dst", -1, 3, expectation::equal, 4},
                             {"indices rank",
                              [](call& c) {
                                  c.indices = {2, 3, 3};
                              },
                              errc::unsupported, "indices", -1, 3, expectation::equal, 4},
                             {"dst batch",
                              [](call& c) {
                                  c.small = {1, 3, 3, 2};
                              },
                              errc::invalid_shape, "dst", 0, 1, expectation::equal, 2},
                             {"dst size",
                              [](call& c) {
                                  c.small = {2, 3, 3, 3};
                              },
                              errc::invalid_shape, "dst", 3, 3, expectation::equal, 2},
                             {"indices size",
                              [](call& c) {
                                  c.indices = {2, 3, 4, 2};
                              },
                              errc::invalid_shape, "indices", 2, 4, expectation::equal, 3},
                             {"indices huge",
                              [](call& c) {
                                  c.indices = {2, 3, std::int64_t{1} << 62, std::int64_t{1} << 62};
                              },
                              errc::overflow, "indices", -1, 0, expectation::none, 0},
                             {"dst whose last window ends nowhere",
                              [](call& c) {
                                  c.small = {1, 1, std::int64_t{1} << 40, 2};
                                  c.attributes.strides = {std::int64_t{1} << 40, 1};
                              },
                              errc::overflow, "dst", 2, 0, expectation::none, 0}});
    check_errors(rows, "max_pool", [](const call& c, float* out, std::int64_t* indices) {
        return gradkern::max_pool<float>({numbers, c.src}, c.attributes, {out, c.small}, {indices, c.indices});
    });
}

TEST(MaxPoolSpec, backward_errors) {
    std::vector<mistake> rows = window_mistakes;
    rows.insert(rows.end(), {{"diff_dst missing", [](call& c) { c.small = {}; }, errc::unsupported, "diff_dst", -1, 0,
                              expectation::equal, 4},
                             {"diff_dst rank",
                              [](call& c) {
                                  c.small = {2, 3, 3};
                              },
                              errc::unsupported, "diff_dst", -1, 3, expectation::equal, 4},
                             {"diff_dst size",
                              [](call& c) {
                                  c.small = {2, 3, 2, 2};
                              },
                              errc::invalid_shape, "diff_dst", 2, 2, expectation::equal, 3},
                             {"diff_src size",
                              [](call& c) {
                                  c.diff_src = {2, 3, 6, 6};
                              },
                              errc::invalid_shape, "diff_src", 3, 6, expectation::equal, 5},
                             {"diff_src huge",
                              [](call& c) {
                                  c.diff_src = {2, 3, std::int64_t{1} << 62, std::int64_t{1} << 62};
                              },
                              errc::overflow, "diff_src", -1, 0, expectation::none, 0}});
    check_errors(rows, "max_pool_backward", [](const call& c, float* out, std::int64_t*) {
        const status s =
            gradkern::max_pool_backward<float>({numbers, c.src}, {numbers, c.small}, c.attributes, {out, c.diff_src});
        const auto inferred = gradkern::infer_max_pool_backward(c.src.shape, c.small.shape, c.attributes);
        if (!inferred) {
            EXPECT_EQ(inferred.error(), s.error());
        }
        return s;
    });
}

TEST(MaxPoolSpec, backward_from_indices_errors) {
    check_errors(
        {{"rank 2",
          [](call& c) {
              c.small = {2, 3};
          },
          errc::unsupported, "diff_dst", -1, 2, expectation::at_least, 3},
         {"data_format unknown", [](call& c) { c.from.data_format = static_cast<data_format>(2); },
          errc::invalid_argument, "data_format", -1, 2, expectation::at_most, 1},
         {"index_base unknown", [](call& c) { c.from.index_base = static_cast<index_base>(3); }, errc::invalid_argument,
          "index_base", -1, 3, expectation::at_most, 2},
         {"storage_order unknown", [](call& c) { c.from.storage_order = static_cast<storage_order>(2); },
          errc::invalid_argument, "storage_order", -1, 2, expectation::at_most, 1},
         {"no shape", [](call& c) { c.diff_src = {}; }, errc::missing_shape, "diff_src", -1, 0, expectation::none, 0},
         {"indices of another rank",
          [](call& c) {
              c.indices = {2, 3, 6};
          },
          errc::invalid_shape, "indices", -1, 3, expectation::equal, 4},
         {"diff_src of another rank",
          [](call& c) {
              c.diff_src = {2, 3, 30};
          },
          errc::invalid_shape, "diff_src", -1, 3, expectation::equal, 4},
         {"huge",
          [](call& c) {
              c.diff_src = {2, 3, std::int64_t{1} << 31, std::int64_t{1} << 31};
          },
          errc::overflow, "diff_src", -1, 0, expectation::none, 0},
         {"indices of another shape",
          [](call& c) {
              c.indices = {2, 3, 2, 3};
          },
          errc::invalid_shape, "indices", 2, 2, expectation::equal, 3},
         {"batch",
          [](call& c) {
              c.diff_src = {1, 3, 6, 5};
          },
          errc::invalid_shape, "diff_src", 0, 1, expectation::equal, 2},
         {"channels",
          [](call& c) {
              c.diff_src = {2, 4, 6, 5};
          },
          errc::invalid_shape, "diff_src", 1, 4, expectation::equal, 3}},
        "max_pool_backward_from_indices", [](const call& c, float* out, std::int64_t*) {
            const status s = gradkern::max_pool_backward_from_indices<float>({numbers, c.small}, {places, c.indices},
                                                                             c.from, {out, c.diff_src});
            const auto inferred = gradkern::infer_max_pool_backward_from_indices(c.small.shape, c.indices.shape, c.from,
                                                                                 c.diff_src.shape);
            EXPECT_FALSE(inferred.has_value());
            EXPECT_EQ(inferred.error(), s.error());
            return s;
        });
}

TEST(MaxPoolSpec, errors_of_memory) {
    const call c;
    std::vector<float> memory(1000);
    std::vector<std::int64_t> indices(1000);
    const auto code = [](const status& s) { return s.code(); };
    EXPECT_EQ(code(gradkern::max_pool<float>({nullptr, c.src}, c.attributes, {memory.data(), c.small})),
              errc::null_pointer);
    EXPECT_EQ(code(gradkern::max_pool<float>({numbers, c.src}, c.attributes, {nullptr, c.small})), errc::null_pointer);
    EXPECT_EQ(
        code(gradkern::max_pool<float>({numbers, c.src}, c.attributes, {memory.data(), c.small}, {nullptr, c.indices})),
        errc::null_pointer);
    // dst in src, indices in src, dst in indices
    EXPECT_EQ(code(gradkern::max_pool<float>({memory.data(), c.src}, c.attributes, {memory.data() + 100, c.small})),
              errc::invalid_argument);
    EXPECT_EQ(code(gradkern::max_pool<float>({reinterpret_cast<float*>(indices.data()), c.src}, c.attributes,
                                             {memory.data(), c.small}, {indices.data() + 20, c.indices})),
              errc::invalid_argument);
    EXPECT_EQ(code(gradkern::max_pool<float>({numbers, c.src}, c.attributes,
                                             {reinterpret_cast<float*>(indices.data()), c.small},
                                             {indices.data() + 5, c.indices})),
              errc::invalid_argument);
    const auto plan = gradkern::plan_max_pool_backward<float>(c.src, c.small, c.attributes);
    std::vector<std::byte> workspace(plan->workspace_bytes() - 1);
    const status s = plan->run(numbers, numbers, memory.data(), workspace);
    EXPECT_EQ(s.error(), (error{errc::workspace_too_small, "max_pool_backward", "workspace", -1,
                                static_cast<std::int64_t>(workspace.size()),
                                static_cast<std::int64_t>(plan->workspace_bytes()), expectation::at_least}));
    EXPECT_EQ(code(gradkern::max_pool_backward_from_indices<float>({memory.data(), c.small}, {places, c.indices},
                                                                   c.from, {memory.data() + 30, c.diff_src})),
              errc::invalid_argument);
    // indices whose addresses cannot be counted
    const gradkern::tensor_layout far(c.indices.shape, {std::numeric_limits<std::int64_t>::max(), 6, 2, 1});
    EXPECT_EQ(gradkern::plan_max_pool_backward_from_indices<float>(c.small, far, c.from, c.diff_src).error(),
              (error{errc::overflow, "max_pool_backward_from_indices", "indices", -1, 0, 0, expectation::none}));
    // strides come before pointers, in the reference, too
    const error met{errc::invalid_argument, "max_pool", "indices", 0, 0, 0, expectation::none};
    const gradkern::tensor_layout one_place(c.indices.shape, {0, 0, 0, 0});
    const gradkern::tensor_view<const float> src(numbers, c.src);
    const gradkern::tensor_view<float> no_dst(nullptr, c.small);
    EXPECT_EQ(gradkern::max_pool(src, c.attributes, no_dst, {indices.data(), one_place}).error(), met);
    EXPECT_EQ(gradkern::ref::max_pool(src, c.attributes, no_dst, {indices.data(), one_place}).error(), met);
    // an output that overlaps itself
    EXPECT_EQ(
        code(gradkern::max_pool<float>({numbers, c.src}, c.attributes, {memory.data(), {{2, 3, 3, 2}, {18, 6, 1, 1}}})),
        errc::invalid_argument);
}

}  // namespace
