// Every path of weight gradients, by name, against the reference: a row that is added to the table is run here.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <vector>

#include <gradkern/conv_transpose.hpp>
#include <gradkern/convolution.hpp>
#include <gradkern/error_text.hpp>
#include <gradkern/ref/conv_transpose.hpp>
#include <gradkern/ref/convolution.hpp>

#include "support/conv_cases.hpp"

namespace gradkern_test {
namespace {

/// Runs a case whose sums are exact through a path, for some workers. `ran`: counted where it fits.
template <class T>
void expect_reference(random_source& random, const conv_case& c, const test_tensor<T>& first,
                      const test_tensor<T>& second, const test_tensor<float>& expected, const gk::plan_options& options,
                      int& ran) {
    test_tensor<float> out(c.result());
    out.poison();
    const auto run = [&](const auto& plan) {
        if (!plan) {
            EXPECT_EQ(plan.error().code, gk::errc::unsupported) << gk::to_string(plan.error());
            EXPECT_EQ(plan.error().argument, "algorithm");
            return;
        }
        ++ran;
        std::string text(plan->describe({}), ' ');
        plan->describe(text);
        EXPECT_NE(text.find(": " + std::string(gk::name_of(options.algorithm)) + ","), std::string::npos) << text;
        const std::ptrdiff_t workers = random.integer(1, 4);
        const guarded_bytes workspace(plan->workspace_bytes(workers));
        shuffling_executor executor(workers);
        ASSERT_TRUE(plan->run(first.data(), second.data(), out.data(), {workspace.data(), workspace.size()}, executor));
        EXPECT_TRUE(out.equals(expected));
        EXPECT_TRUE(out.surroundings_intact());
    };
    if (c.transposed()) {
        run(gk::plan_conv_transpose_backward_weights<T, float>(first.layout(), second.layout(), c.transpose,
                                                               out.layout(), {}, options));
    } else {
        run(gk::plan_convolution_backward_weights<T, float>(first.layout(), second.layout(), c.conv, out.layout(), {},
                                                            options));
    }
}

template <class T>
void expect_reference_by_every_row(const char* name, gk::precision precision) {
    random_source random(name);
    std::map<gk::algorithm, int> ran;
    for (int i = 0; i < 400; ++i, random.next_case()) {
        GRADKERN_TRACE_SEED(random);
        const conv_operator op =
            random.pick({conv_operator::convolution_backward_weights, conv_operator::conv_transpose_backward_weights});
        const conv_case drawn = random_conv_case(random, 100'000, op, random.chance(1, 12));
        const gk::weights_format filter = random.pick({gk::weights_format::oix, gk::weights_format::xio});
        for (const gk::data_format format : {gk::data_format::ncx, gk::data_format::nxc}) {
            const conv_case c = with_formats(drawn, format, filter);
            SCOPED_TRACE(c.text());
            const bool strided = random.chance(1, 4);
            const conv_tensors<T, float, float> t(random, c, strided);
            t.fill_integers(random);
            test_tensor<float> expected(c.result());
            ASSERT_TRUE((c.transposed() ? gk::ref::conv_transpose_backward_weights<T, float>(
                                              t.first.const_view(), t.second.const_view(), c.transpose, expected.view())
                                        : gk::ref::convolution_backward_weights<T, float>(
                                              t.first.const_view(), t.second.const_view(), c.conv, expected.view())));
            for (const auto& row : gk::detail::conv_weights::paths) {
                SCOPED_TRACE(std::string(gk::name_of(row.name)));
                expect_reference(random, c, t.first, t.second, expected,
                                 {.precision = precision, .algorithm = row.name}, ran[row.name]);
                if (::testing::Test::HasFailure()) return;
            }
        }
    }
    constexpr bool dots = gk::detail::has_pairs<T>;
    for (const auto& row : gk::detail::conv_weights::paths) {
        const bool exists = row.name == gk::algorithm::dense_bf16 ? dots && precision == gk::precision::relaxed
                            : row.name == gk::algorithm::dense    ? std::is_same_v<T, float>
                            : row.name == gk::algorithm::grouped  ? gk::detail::has_outer(4)
                                                                  : true;
        if (exists) {
            EXPECT_GE(ran[row.name], 10) << gk::name_of(row.name);
        } else {
            EXPECT_EQ(ran[row.name], 0) << gk::name_of(row.name);
        }
    }
}

// Where all products underflow, a chunk may sum up to -0. Chunks are added to zero, so that results are +0.
TEST(conv_weights_paths, sums_of_products_that_underflow_are_positive_zeros) {
    random_source random("conv_weights.zeros");
    std::map<gk::algorithm, int> ran;
    for (int i = 0; i < 150 && !::testing::Test::HasFailure(); ++i, random.next_case()) {
        GRADKERN_TRACE_SEED(random);
        const conv_case drawn =
            random_conv_case(random, 50'000, conv_operator::convolution_backward_weights, random.chance(1, 12));
        const gk::weights_format filter = random.pick({gk::weights_format::oix, gk::weights_format::xio});
        const conv_case c = with_formats(drawn, random.pick({gk::data_format::ncx, gk::data_format::nxc}), filter);
        SCOPED_TRACE(c.text());
        const conv_tensors<float, float, float> t(random, c, false);
        for (const auto* tensor : {&t.first, &t.second})
            tensor->fill([&](std::int64_t) { return random.chance(1, 2) ? 1e-30F : -1e-30F; });
        test_tensor<float> expected(c.result());
        expected.fill([](std::int64_t) { return 0.0F; });
        for (const auto& row : gk::detail::conv_weights::paths) {
            SCOPED_TRACE(std::string(gk::name_of(row.name)));
            expect_reference(random, c, t.first, t.second, expected, {.algorithm = row.name}, ran[row.name]);
        }
    }
    for (const auto name : {gk::algorithm::dense, gk::algorithm::dense_packed}) EXPECT_GE(ran[name], 100);
}

TEST(conv_weights_paths, every_row_equals_the_reference_in_f32) {
    expect_reference_by_every_row<float>("conv_weights.paths.f32", gk::precision::strict);
}
TEST(conv_weights_paths, every_row_equals_the_reference_in_bf16) {
    expect_reference_by_every_row<gk::bfloat16>("conv_weights.paths.bf16", gk::precision::relaxed);
}

// Padding is not multiplied: numbers that are not finite stay out of the sums of taps that lie outside.
TEST(conv_weights_paths, numbers_at_borders_stay_out_of_sums_that_do_not_meet_them) {
    constexpr float infinity = std::numeric_limits<float>::infinity();
    for (const std::int64_t stride : {1, 2}) {
        const std::int64_t out_size = (9 - 1) / stride + 1;
        const gk::extents src{2, 9, 9, 12}, dst{2, out_size, out_size, 12}, filter{3, 3, 6, 12};
        gk::convolution_attributes attributes{
            .strides = {stride, stride}, .dilations = {1, 1}, .pads_begin = {1, 1}, .pads_end = {1, 1}};
        attributes.groups = 2;
        for (int i = 0; i < 60; ++i) {
            std::vector<float> a(2 * 9 * 9 * 12, 0.5F),
                b(static_cast<std::size_t>(2 * out_size * out_size * 12), 0.25F);
            std::vector<float> expected(3 * 3 * 6 * 12), result(expected.size());
            std::vector<float>& side = i % 2 == 0 ? a : b;
            side[static_cast<std::size_t>(i * 37) % side.size()] = i % 3 == 0 ? infinity : -infinity;
            const auto run = [&](gk::algorithm algorithm, std::vector<float>& to) {
                const auto plan = gk::plan_convolution_backward_weights<float>(src, dst, attributes, filter, {},
                                                                               {.algorithm = algorithm});
                ASSERT_TRUE(plan);
                std::vector<std::byte> workspace(plan->workspace_bytes(1));
                ASSERT_TRUE(plan->run(a.data(), b.data(), to.data(), workspace));
            };
            run(gk::algorithm::dense_packed, expected);
            run(gk::algorithm::tap_lanes, result);
            EXPECT_EQ(result, expected) << stride << ' ' << i;
        }
    }
}

/// Bits of a long sum by some workers, with a workspace for `room` of them.
template <class T>
void expect_bits_of_one_worker(const conv_case& c, const gk::plan_options& options, random_source& random, int& ran) {
    SCOPED_TRACE(c.text() + ' ' + std::string(gk::name_of(options.algorithm)));
    const conv_tensors<T, float, float> t(random, c, false);
    t.fill_reals(random);
    const auto plan = gk::plan_convolution_backward_weights<T, float>(t.first.layout(), t.second.layout(), c.conv,
                                                                      c.weights, {}, options);
    if (!plan) return;
    ++ran;
    const auto run = [&](test_tensor<float>& out, std::size_t bytes, auto&& executor) {
        out.poison();
        if (options.output == gk::output_mode::accumulate)
            out.fill([](std::int64_t i) { return static_cast<float>(i % 64) / 3.0F; });
        const guarded_bytes workspace(bytes);
        EXPECT_TRUE(
            plan->run(t.first.data(), t.second.data(), out.data(), {workspace.data(), workspace.size()}, executor));
        EXPECT_TRUE(out.surroundings_intact());
        EXPECT_TRUE(workspace.zones_intact());
    };
    test_tensor<float> expected(c.weights);
    test_tensor<float> out(c.weights);
    const std::size_t one = plan->workspace_bytes(1);
    run(expected, one, reversing_executor(1));
    for (const std::ptrdiff_t workers : {2, 3, 7, 16, 64}) {
        SCOPED_TRACE(workers);
        for (const std::ptrdiff_t room : {workers, workers / 2, std::ptrdiff_t{1}}) {
            run(out, plan->workspace_bytes(std::max<std::ptrdiff_t>(room, 1)), shuffling_executor(workers));
            EXPECT_TRUE(out.equals(expected)) << room;
        }
        for (const std::size_t bytes : {one + one / 2, 2 * one, 3 * one, 6 * one}) {  // that are no number of slices
            run(out, bytes, shuffling_executor(workers));
            EXPECT_TRUE(out.equals(expected)) << bytes;
        }
        run(out, plan->workspace_bytes(workers), thread_executor(workers));
        EXPECT_TRUE(out.equals(expected));
    }
}

/// The same of some rows by every path, in both layouts.
void expect_bits_of_one_worker(std::span<const conv_row> rows, gk::plan_options options, const char* name) {
    random_source random(name);
    std::map<gk::algorithm, int> ran;
    for (conv_row row : rows)
        for (const gk::data_format format : {gk::data_format::ncx, gk::data_format::nxc}) {
            row.op = conv_operator::convolution_backward_weights;
            const bool nxc = format == gk::data_format::nxc;
            const conv_case c = make_case(row, format, nxc ? gk::weights_format::xio : gk::weights_format::oix);
            for (const auto& path : gk::detail::conv_weights::paths) {
                options.algorithm = path.name;
                options.precision = gk::precision::strict;
                expect_bits_of_one_worker<float>(c, options, random, ran[path.name]);
                options.precision = gk::precision::relaxed;
                expect_bits_of_one_worker<gk::bfloat16>(c, options, random, ran[path.name]);
            }
        }
    for (const auto& path : gk::detail::conv_weights::paths) {
        const bool may_lack = path.name == gk::algorithm::dense_bf16 ||
                              (path.name == gk::algorithm::grouped && !gk::detail::has_outer(4));
        EXPECT_TRUE(ran[path.name] > 0 || may_lack) << gk::name_of(path.name);
    }
}

// Sums of more than one level, whose positions are cut: partial sums keep their order.
TEST(conv_weights_workers, long_sums_have_the_bits_of_one_worker) {
    const conv_row rows[]{{{}, 2, 1, 5, 3, {150, 140}, 3, 1, 1, 1}, {{}, 1, 1, 20, 24, {96, 95}, 1, 1, 1, 0},
                          {{}, 1, 9, 1, 1, {96, 95}, 3, 1, 1, 1},   {{}, 1, 3, 4, 4, {96, 95}, 3, 1, 1, 1},
                          {{}, 1, 4, 3, 2, {96, 95}, 3, 1, 1, 1},   {{}, 1, 1, 13, 70, {90, 92}, 3, 1, 1, 1},
                          {{}, 1, 1, 6, 7, {9000}, 5, 1, 2, 0},     {{}, 3, 2, 1, 1, {5, 60, 61}, 3, 1, 1, 1}};
    expect_bits_of_one_worker(rows, {}, "conv_weights.workers_bits");
}

// Sums of one level, whose chunks are tasks: several of one image, or one of several, and the last one short.
TEST(conv_weights_workers, short_sums_have_the_bits_of_one_worker) {
    const conv_row rows[]{{{}, 32, 1, 6, 16, {14, 14}, 5, 1, 1, 0}, {{}, 9, 20, 1, 1, {14, 13}, 3, 1, 1, 1},
                          {{}, 7, 3, 4, 4, {15, 17}, 3, 2, 1, 1},   {{}, 40, 1, 17, 9, {7, 7}, 1, 1, 1, 0},
                          {{}, 2, 1, 3, 6, {33, 31}, 3, 1, 1, 1},   {{}, 3, 1, 5, 4, {300}, 3, 1, 1, 1},
                          {{}, 2, 2, 5, 1, {3, 9, 20}, 3, 1, 1, 1}, {{}, 1, 1, 16, 3, {24, 24}, 3, 1, 1, 0},
                          {{}, 1, 1, 32, 40, {26, 24}, 3, 1, 1, 1}};
    expect_bits_of_one_worker(rows, {}, "conv_weights.workers_bits_of_short_sums");
    const auto by_image = gk::summation::image_by_image;
    expect_bits_of_one_worker(rows, {.summation = by_image}, "conv_weights.workers_bits_by_image");
    const auto accumulate = gk::output_mode::accumulate;
    expect_bits_of_one_worker(rows, {.output = accumulate}, "conv_weights.workers_bits_added");
    expect_bits_of_one_worker(rows, {.output = accumulate, .summation = by_image},
                              "conv_weights.workers_bits_added_by_image");
}

/// Runs a problem for some workers; `out` is its result, or the first one of each image. Returns the line of describe().
template <class T, class G>
std::string run_weights(const conv_case& c, const T* first, const T* second, const gk::tensor_layout& layout, G* out,
                        const gk::plan_options& options, std::ptrdiff_t workers) {
    std::string text;
    const auto plan = gk::plan_convolution_backward_weights<T, G>(c.first(), c.second(), c.conv, layout, {}, options);
    EXPECT_TRUE(plan) << gk::to_string(plan.error());
    if (!plan) return text;
    text.resize(plan->describe({}));
    plan->describe(text);
    const guarded_bytes workspace(plan->workspace_bytes(workers));
    shuffling_executor executor(workers);
    EXPECT_TRUE(plan->run(first, second, out, {workspace.data(), workspace.size()}, executor));
    return text;
}

/// The bits of a problem of few chunks, in memory where sums are kept in diff_weights, and in memory where they are not.
template <class T>
void expect_bits_of_sums_in_slices(random_source& random, const conv_row& row, gk::plan_options options) {
    using G = gk::accumulate_t<T>;
    const conv_case c = make_case(row, gk::data_format::nxc, gk::weights_format::xio);
    SCOPED_TRACE(c.text());
    const conv_tensors<T, G, G> t(random, c, false);
    t.fill_reals(random);
    gk::extents strides = dense_strides(c.weights);
    for (std::size_t axis = 0; axis < strides.rank(); ++axis) strides[axis] *= 2;
    const test_tensor<G> near(c.weights);
    const test_tensor<G> apart(c.weights, strides);
    const auto run = [&](const test_tensor<G>& out, bool in_results, std::ptrdiff_t workers) {
        out.fill([](std::int64_t i) { return static_cast<float>(i % 64) / 3.0F; });
        const std::string text =
            run_weights(c, t.first.data(), t.second.data(), out.layout(), out.data(), options, workers);
        EXPECT_TRUE(out.surroundings_intact());
        EXPECT_EQ(text.find("sums in diff_weights") != std::string::npos, in_results) << text;
    };
    // Sums of one level alone: not those of images of several chunks, nor those to which previous results are added in the end.
    std::int64_t pixels = 1;
    for (std::size_t axis = 0; axis + 2 < c.small.rank(); ++axis) pixels *= c.small[axis + 1];
    const bool by_image = options.summation == gk::summation::image_by_image;
    const bool adds = options.output == gk::output_mode::accumulate && !by_image;
    run(apart, false, 1);
    for (const std::ptrdiff_t workers : {1, 3}) {
        run(near, !adds && (!by_image || pixels <= 256), workers);
        EXPECT_TRUE(near.equals(apart));
    }
    if (options.output == gk::output_mode::accumulate || by_image) return;

    options.summation = gk::summation::per_image;
    const test_tensor<G> each({row.n * near.count()});
    EXPECT_NE(run_weights(c, t.first.data(), t.second.data(), near.layout(), each.data(), options, 3)
                  .find("sums in diff_weights"),
              std::string::npos);
    EXPECT_TRUE(each.surroundings_intact());
    conv_row image = row;
    image.n = 1;
    options.summation = gk::summation::joint;
    for (std::int64_t n = 0; n < row.n; ++n) {
        run_weights(make_case(image, gk::data_format::nxc, gk::weights_format::xio),
                    t.first.data() + n * t.first.count() / row.n, t.second.data() + n * t.second.count() / row.n,
                    apart.layout(), apart.data(), options, 1);
        for (std::int64_t i = 0; i < near.count(); ++i) EXPECT_TRUE(same_value(each[n * near.count() + i], apart[i]));
    }
}

// Sums of few chunks are kept in diff_weights: also those of taps that meet no pixel of the first chunk, or of any.
TEST(conv_weights_sums, in_diff_weights_have_the_bits_of_those_in_slices) {
    random_source random("conv_weights.sums_in_results");
    const conv_row rows[]{{{}, 1, 1, 32, 24, {25, 25}, 3, 1, 12, 12}, {{}, 1, 1, 16, 40, {600}, 3, 1, 256, 256},
                          {{}, 2, 1, 80, 7, {7, 9}, 3, 2, 1, 1},      {{}, 3, 1, 64, 33, {5, 6}, 1, 1, 1, 0},
                          {{}, 1, 2, 32, 20, {9, 8}, 3, 1, 1, 1},     {{}, 2, 1, 16, 24, {3, 4, 5}, 3, 1, 2, 2},
                          {{}, 1, 1, 48, 30, {2, 2}, 5, 1, 4, 9},     {{}, 2, 1, 32, 64, {20, 15}, 1, 1, 1, 0}};
    for (conv_row row : rows)
        for (const gk::output_mode output : {gk::output_mode::overwrite, gk::output_mode::accumulate})
            for (const auto how : {gk::summation::joint, gk::summation::image_by_image}) {
                row.op = conv_operator::convolution_backward_weights;
                gk::plan_options options{.output = output, .algorithm = gk::algorithm::dense_packed, .summation = how};
                expect_bits_of_sums_in_slices<gk::bfloat16>(random, row, options);
                expect_bits_of_sums_in_slices<float>(random, row, options);
                options.algorithm = gk::algorithm::dense;
                expect_bits_of_sums_in_slices<float>(random, row, options);
                expect_bits_of_sums_in_slices<double>(random, row, options);
                if (::testing::Test::HasFailure()) return;
            }
}

// The lanes may be channels of the large side, read a tap away from the pixel.
TEST(conv_weights_sums, of_moved_lanes_have_the_same_bits_in_diff_weights) {
    random_source random("conv_weights.moved_sums_in_results");
    const conv_row rows[]{{{}, 1, 1, 1, 32, {12, 20}, 5, 1, 1, 2}, {{}, 2, 1, 1, 64, {9, 7}, 3, 1, 4, 8}};
    for (conv_row row : rows) {
        row.op = conv_operator::convolution_backward_weights;
        expect_bits_of_sums_in_slices<float>(random, row, {.algorithm = gk::algorithm::dense});
        // One channel leaves half of two lanes empty: sides are not swapped for so little.
        constexpr auto lanes = gk::detail::simd::lanes_of<double>;
        if (lanes > 2) expect_bits_of_sums_in_slices<double>(random, row, {.algorithm = gk::algorithm::dense});
    }
}

/// 1x1 weight gradients in NXC, whose pixels are read in place where they lie close together, and the same of channels that lie apart,
/// which are packed.
template <class T>
void expect_bits_of_packed_panels(random_source& random) {
    GRADKERN_TRACE_SEED(random);
    const std::int64_t in = random.integer(1, 300);
    const std::int64_t out = random.integer(1, 300);
    const std::int64_t height = random.integer(1, 20);
    const std::int64_t width = random.chance(1, 4) ? random.integer(250, 600) : random.integer(1, 40);
    const std::int64_t images = (std::int64_t{1} << 20) / std::int64_t{sizeof(T)} / ((in + out) * height * width) + 1;
    const gk::convolution_attributes attributes{
        .strides = {1, 1}, .dilations = {1, 1}, .pads_begin = {0, 0}, .pads_end = {0, 0}};
    const gk::extents weights{1, 1, in, out};
    const auto how = random.pick({gk::summation::joint, gk::summation::image_by_image});
    const gk::plan_options options{.summation = how};
    // Lines may lie apart, too.
    const std::int64_t apart = random.chance(1, 3) ? random.integer(1, 40) : 0;
    const auto run = [&](std::int64_t step, std::int64_t gap, test_tensor<T>& result) {
        const auto side = [&](std::int64_t channels) {
            const std::int64_t line = step * channels * width + gap;
            return test_tensor<T>({images, height, width, channels}, {line * height, line, step * channels, step});
        };
        const test_tensor<T> src = side(in);
        const test_tensor<T> diff_dst = side(out);
        random_source numbers("conv_weights.pixel_numbers");
        for (const test_tensor<T>* t : {&src, &diff_dst})
            t->fill([&](std::int64_t) { return numbers.real(-1.0F, 1.0F); });
        const auto plan = gk::plan_convolution_backward_weights<T, T>(src.layout(), diff_dst.layout(), attributes,
                                                                      result.layout(), {}, options);
        ASSERT_TRUE(plan) << gk::to_string(plan.error());
        result.poison();
        const std::ptrdiff_t workers = random.integer(1, 2);
        const guarded_bytes workspace(plan->workspace_bytes(workers));
        shuffling_executor executor(workers);
        ASSERT_TRUE(
            plan->run(src.data(), diff_dst.data(), result.data(), {workspace.data(), workspace.size()}, executor));
    };
    SCOPED_TRACE(std::to_string(images) + "x" + std::to_string(height) + "x" + std::to_string(width) + ", " +
                 std::to_string(in) + " -> " + std::to_string(out) + ", apart " + std::to_string(apart));
    test_tensor<T> in_place(weights);
    test_tensor<T> packed(weights);
    run(1, apart, in_place);
    run(2, 0, packed);
    EXPECT_TRUE(in_place.equals(packed));
}

TEST(conv_weights_pixels, in_place_have_the_bits_of_packed_ones) {
    random_source random("conv_weights.pixels");
    for (int i = 0; i < 60 && !::testing::Test::HasFailure(); ++i, random.next_case()) {
        expect_bits_of_packed_panels<float>(random);
        if (i % 6 == 0) expect_bits_of_packed_panels<double>(random);
    }
}

}  // namespace
}  // namespace gradkern_test
