// The six operators of the convolution family on f32: exact on integers, within the published bound on reals, and the
// same bits by every path, in every layout.

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "support/conv_cases.hpp"

namespace gradkern_test {
namespace {

using tensors = conv_tensors<float>;

test_tensor<float> output_for(random_source& random, const conv_case& c, bool strided) {
    return test_tensor<float>(c.result(), strided ? random_output_strides(random, c.result()) : gk::extents{},
                              random.pick({touching::begin, touching::end}));
}

/// Every path gives exactly the result of the reference, and writes nowhere else.
void expect_reference_by_every_path(random_source& random, const conv_case& c, const tensors& t, bool strided) {
    test_tensor<float> expected(c.result());
    ASSERT_TRUE(t.reference(c, expected).ok());
    for (const gk::algorithm a : all_algorithms) {
        SCOPED_TRACE(static_cast<int>(a));
        test_tensor<float> out = output_for(random, c, strided);
        const gk::status s = t.run(c, out, a);
        if (refuses_algorithm(s)) continue;
        ASSERT_TRUE(s.ok()) << gk::to_string(s);
        ASSERT_TRUE(out.equals(expected));
        ASSERT_TRUE(out.surroundings_intact());
    }
}

// The number before a word of a plan's description.
std::int64_t number_before(const std::string& text, const std::string& word) {
    const std::size_t end = text.find(' ' + word);
    if (end == std::string::npos) return 0;
    return std::stoll(text.substr(text.rfind(' ', end - 1) + 1));
}

// Many shapes on every path, with enough of them on both sides of every boundary at which a path splits its work.
TEST(convolution, integers_are_exact_by_every_path) {
    random_source random("convolution.integers");
    std::map<std::string, int> shapes;  // by path
    int others = 0, weight_gradients = 0, several_panels = 0, several_blocks = 0, several_chunks = 0;
    for (int i = 0; i < 6500; ++i, random.next_case()) {
        GRADKERN_TRACE_SEED(random);
        const conv_case c = i % 5 < 2 ? random_conv_case(random, 600'000, {}, true) : random_conv_case(random, 120'000);
        SCOPED_TRACE(c.text());
        const bool strided = random.chance(1, 3);
        const tensors t(random, c, strided);
        t.fill_integers(random);
        expect_reference_by_every_path(random, c, t, strided);
        if (HasFatalFailure()) return;

        std::set<std::string> paths;
        bool panels = false, blocks = false, chunks = false;
        for (const gk::algorithm a : all_algorithms) {
            test_tensor<float> out(c.result());
            const planned p = t.plan(c, out, a);
            if (refuses_algorithm(p.status)) continue;
            const std::string& text = p.description;
            paths.insert(text.substr(text.find(": ") + 2, text.find(", activations") - text.find(": ") - 2));
            panels = panels || number_before(text, "panels") > 1;
            blocks = blocks || number_before(text, "blocks") > 1;
            chunks = chunks || number_before(text, "chunks") > 1;
        }
        for (const std::string& path : paths) ++shapes[path];
        ++(c.writes_weights() ? weight_gradients : others);
        several_panels += panels ? 1 : 0;
        several_blocks += blocks ? 1 : 0;
        several_chunks += chunks ? 1 : 0;
    }
    for (const char* path : {"dense", "dense_packed", "depthwise", "narrow_output"})
        EXPECT_GE(shapes[path], 500) << path;
    EXPECT_GE(shapes["grouped"], 400);
    EXPECT_GE(shapes["pointwise"], 50);
    EXPECT_GE(5 * several_panels, others + weight_gradients);
    EXPECT_GE(5 * several_blocks, others);
    EXPECT_GE(5 * several_chunks, weight_gradients);
}

// More panels of weights than one task packs at once, with a partial last one. Panels of groups in one task start anywhere in
// a group, and separate packing buffers stay separate.
TEST(convolution, panels_of_many_groups) {
    struct row {
        gk::extents size, kernel, pad;
        std::int64_t groups, channels;  // per group, on both sides
    };
    const row rows[]{
        {{2, 45}, {3, 3}, {1, 1}, 7, 4},             // several tiles of a line at a time, partial last panel
        {{2, 45}, {3, 3}, {1, 1}, 5, 8},             // and groups of 8: three panels of AVX2, two of AVX-512
        {{3, 20}, {3, 3}, {1, 1}, 32, 8},            // weights: pixels that map to few sets of L1
        {{28}, {3}, {1}, 360, 1},                    // sliding windows, fused panels: 12 of 14 rows
        {{28}, {5}, {2}, 500, 1},                    // 16 of them
        {{12}, {8}, {3}, 20, 20},                    // 40 panels, 25 per task
        {{3, 3, 3}, {5, 5, 5}, {2, 2, 2}, 648, 1},   // depthwise: 40 full panels and a half, 32 per task
        {{2, 3, 3}, {3, 3, 3}, {1, 1, 1}, 165, 4},   // groups of 4: 41 full panels and a quarter, 37 per task
        {{2, 3, 3}, {3, 3, 3}, {1, 1, 1}, 165, 8},   // groups of 8: 82 of AVX-512
        {{5, 3, 3}, {3, 3, 3}, {1, 1, 1}, 650, 2}};  // groups of 2: 81 or 40, and a half
    random_source random("convolution.many_groups");
    for (const row& r : rows) {
        for (const conv_operator op : {conv_operator::convolution, conv_operator::convolution_backward_data,
                                       conv_operator::convolution_backward_weights}) {
            conv_case c;
            c.op = op;
            c.conv = {.strides = gk::extents::filled(r.size.rank(), 1),
                      .dilations = gk::extents::filled(r.size.rank(), 1),
                      .pads_begin = r.pad,
                      .pads_end = r.pad,
                      .groups = r.groups};
            c.large = {1};
            c.small = {1};
            for (std::size_t i = 0; i < r.size.rank(); ++i) {
                c.large.push_back(r.size[i]);
                c.small.push_back(r.size[i] + 2 * r.pad[i] - r.kernel[i] + 1);
                c.weights.push_back(r.kernel[i]);
            }
            c.large.push_back(r.groups * r.channels);
            c.small.push_back(r.groups * r.channels);
            c.weights.push_back(r.channels);
            c.weights.push_back(r.groups * r.channels);
            SCOPED_TRACE(c.text());
            const tensors t(random, c, false);
            t.fill_integers(random);
            expect_reference_by_every_path(random, c, t, false);
            if (HasFatalFailure()) return;
        }
    }
}

// Every path gives the reference's integers, and all of them give the same bits of reals.
void expect_equal_paths(random_source& random, const conv_case& c, bool strided) {
    SCOPED_TRACE(c.text());
    const tensors t(random, c, strided);
    t.fill_integers(random);
    expect_reference_by_every_path(random, c, t, strided);
    if (testing::Test::HasFatalFailure()) return;
    t.fill_reals(random);
    test_tensor<float> out(c.result());
    test_tensor<float> expected(c.result());
    ASSERT_TRUE(t.run(c, expected, gk::algorithm::dense).ok());
    for (const gk::algorithm a : all_algorithms) {
        const gk::status s = t.run(c, out, a);
        if (refuses_algorithm(s)) continue;
        ASSERT_TRUE(s.ok()) << gk::to_string(s);
        ASSERT_TRUE(out.equals(expected)) << gk::name_of(a);
    }
}

// Kernels of one tap: contiguous axes are collapsed, unless memory, padding or a stride separates them. With enough pixels
// `automatic` puts them into the lanes.
TEST(convolution, pointwise_layers) {
    struct row {
        std::int64_t n, small, large;
        gk::extents space;
        std::int64_t stride, pad;
    };
    const row rows[]{
        {2, 33, 40, {16, 17}, 1, 0},     // a partial last panel
        {16, 20, 64, {16, 17}, 1, 0},    // one task per block computes all panels; their weights stay packed
        {1, 70, 16, {3, 9, 11}, 1, 0},   // three axes
        {1, 24, 16, {1, 300, 1}, 1, 0},  // axes of one position between others
        {3, 9, 65, {263}, 1, 0},         // two blocks of channels
        {1, 602, 120, {16, 17}, 1, 0},   // too many weights for `automatic`, several tasks if it is forced
        {2, 17, 16, {15, 19}, 1, 1},     // a border
        {1, 16, 24, {16, 35}, 2, 0},     // with a stride
        {3, 40, 20, {5, 14, 13}, 2, 0},  // the same in three axes and several images
        {2, 20, 160, {13, 11}, 3, 0},    // and lines that no window reaches, of several full panels
        {5, 48, 20, {7, 7}, 1, 0},       // tiles of several images
        {40, 20, 24, {1, 1}, 1, 0},      // images of one pixel
        {2, 1, 33, {9, 9}, 1, 0},        // wide tiles of few rows
        {2, 600, 24, {23, 24}, 1, 0},    // blocks of few pixels
        {3, 40, 10, {23, 25}, 1, 0},     // in place on some CPUs, except for the rest of an image
        {2, 30, 3, {24, 25}, 1, 0},      // the same by wide tiles
    };
    random_source random("convolution.pointwise");
    for (const row& r : rows) {
        for (const conv_operator op : {conv_operator::convolution, conv_operator::convolution_backward_data,
                                       conv_operator::conv_transpose, conv_operator::conv_transpose_backward_data}) {
            for (const gk::data_format format : {gk::data_format::ncx, gk::data_format::nxc}) {
                for (const bool strided : {false, true}) {
                    const conv_case c =
                        make_case({op, r.n, 1, r.small, r.large, r.space, 1, r.stride, 1, r.pad}, format,
                                  random.pick({gk::weights_format::oix, gk::weights_format::xio}));
                    expect_equal_paths(random, c, strided);
                    if (HasFatalFailure()) return;
                }
            }
        }
    }
    const conv_case many = make_case({conv_operator::convolution, 2, 1, 10, 40, {23, 25}, 1, 1, 1, 0},
                                     gk::data_format::ncx, gk::weights_format::oix);
    const auto in_place = gk::plan_convolution<float>(many.large, many.weights, {}, many.conv);
    ASSERT_TRUE(in_place.has_value());
    std::string description(in_place->describe({}), ' ');
    in_place->describe(description);
    EXPECT_EQ(description.find("in place") != std::string::npos, gk::detail::target.quirk.fast_far_reads)
        << description;
    for (const gk::extents& space : {gk::extents{16, 17}, gk::extents{1, 272}, gk::extents{272, 1}}) {
        const conv_case c = make_case({conv_operator::convolution, 16, 1, 20, 64, space, 1, 1, 1, 0},
                                      gk::data_format::ncx, gk::weights_format::oix);
        const auto plan = gk::plan_convolution<float>(c.large, c.weights, {}, c.conv);
        ASSERT_TRUE(plan.has_value());
        std::string text(plan->describe({}), ' ');
        plan->describe(text);
        EXPECT_NE(text.find("pointwise"), std::string::npos) << text;
    }
}

// Output channels that would leave many lanes unused: the lanes hold pixels if lines are long enough. Groups of a few
// channels: lanes hold several groups, pixels, or the channels of one group.
TEST(convolution, channels_that_leave_lanes_empty) {
    const struct row {
        std::int64_t n, groups, small, large;  // channels per group
        gk::extents space;
        std::int64_t kernel, stride, dilation, pad;
        const char* ncx = nullptr;  // path of the forward operator with 8 or 16 lanes, if both take the same one
        const char* nxc = nullptr;
    } rows[]{
        {1, 1, 17, 5, {56, 56}, 3, 1, 1, 1, "narrow_output"},
        {1, 1, 3, 64, {16, 56}, 7, 1, 1, 3, "narrow_output", "narrow_output"},
        {2, 1, 17, 17, {7, 56}, 3, 1, 1, 0, "narrow_output"},  // columns of one class
        {1, 1, 5, 17, {5, 130}, 3, 1, 2, 3, "narrow_output"},
        {1, 1, 33, 6, {9, 110}, 3, 1, 1, 2},
        {1, 1, 18, 2, {1, 300}, 5, 1, 1, 2, "narrow_output"},
        {1, 1, 6, 129, {10, 60}, 3, 1, 1, 1, "narrow_output"},   // one panel
        {1, 1, 6, 520, {10, 60}, 3, 1, 1, 1, "dense", "dense"},  // too many channels to pack
        {1, 1, 17, 129, {10, 60}, 3, 1, 1, 1, "dense"},          // too many for several panels
        {3, 1, 70, 4, {9, 22}, 4, 2, 1, 1},  // few outputs of a transposed convolution: short lines of each phase
        {1, 1, 40, 5, {7, 9, 18}, 3, 3, 1, 1},
        {2, 1, 300, 6, {12, 24}, 3, 1, 1, 1},  // a block packs lines that the next one packs again
        {2, 1, 17, 3, {17, 56}, 3, 2, 1, 1, "dense", "dense"},
        {1, 1, 36, 20, {12, 12}, 3, 1, 1, 1},  // a panel of three vectors
        {2, 1, 100, 44, {6, 7}, 3, 1, 1, 1},   // and a last one of three
        {2, 1, 23, 12, {9, 20}, 3, 1, 1, 1},   // half of a second vector of 16 lanes
        {1, 1, 18, 75, {6, 30}, 3, 1, 1, 1},   // the same, tiles of few and of many rows
        {1, 6, 3, 2, {9, 40}, 3, 1, 1, 1, "narrow_output"},
        {1, 24, 2, 1, {9, 40}, 3, 1, 1, 1, nullptr, "depthwise"},  // a depth multiplier
        {1, 17, 2, 2, {9, 11}, 3, 1, 1, 1, "depthwise", "depthwise"},
        {2, 9, 8, 8, {7, 12}, 3, 2, 1, 1},
        {1, 9, 8, 8, {11, 12}, 9, 1, 1, 4},  // sums of two parts
        {1, 19, 4, 4, {10, 9}, 3, 2, 2, 1, "grouped", "grouped"},
        {1, 5, 5, 5, {14, 70}, 3, 1, 1, 1, "narrow_output"},
        {1, 3, 8, 7, {9, 56}, 3, 1, 1, 1},
        {1, 3, 8, 16, {20, 20}, 3, 2, 1, 1, "dense", "dense"},
        {2, 9, 3, 5, {9, 14}, 3, 2, 1, 1},
        {1, 4, 6, 4, {10, 12, 30}, 3, 1, 1, 1},
    };
    random_source random("convolution.empty_lanes");
    for (const row& r : rows) {
        for (const gk::data_format format : {gk::data_format::ncx, gk::data_format::nxc}) {
            for (const conv_operator op :
                 {conv_operator::convolution, conv_operator::convolution_backward_data,
                  conv_operator::convolution_backward_weights, conv_operator::conv_transpose}) {
                const conv_case c =
                    make_case({op, r.n, r.groups, r.small, r.large, r.space, r.kernel, r.stride, r.dilation, r.pad},
                              format, random.pick({gk::weights_format::oix, gk::weights_format::xio}));
                expect_equal_paths(random, c, false);
                if (HasFatalFailure()) return;
                const char* const path = format == gk::data_format::ncx ? r.ncx : r.nxc;
                if (op != conv_operator::convolution || path == nullptr || gk::detail::simd::lanes < 8) continue;
                const auto plan = gk::plan_convolution<float>(c.large, c.weights, {}, c.conv);
                ASSERT_TRUE(plan.has_value());
                std::string text(plan->describe({}), ' ');
                plan->describe(text);
                EXPECT_NE(text.find(path), std::string::npos) << text << " for " << r.small << " channels";
            }
        }
    }
}

// Depthwise layers of five or more column taps: tiles of neighbouring columns skip taps that are outside. Lines of one column
// to several tiles, as many pads as taps and more, planes that are as wide as the window, volumes, partial last panels.
TEST(convolution, windows_that_slide) {
    random_source random("convolution.sliding");
    const auto says_sliding = [](const conv_case& c) {
        const auto plan = gk::plan_convolution<float>(c.large, c.weights, {}, c.conv);
        std::string text(plan ? plan->describe({}) : 0, ' ');
        if (plan) plan->describe(text);
        return text.find("depthwise_sliding") != std::string::npos;
    };
    const auto depthwise = [&](conv_operator op, std::int64_t groups, const gk::extents& space, std::int64_t kernel,
                               std::int64_t pad) {
        return make_case({op, random.integer(1, 3), groups, 1, 1, space, kernel, 1, 1, pad}, gk::data_format::nxc,
                         random.pick({gk::weights_format::oix, gk::weights_format::xio}));
    };
    for (const std::int64_t kernel : {5, 7}) {
        for (std::int64_t columns = 1; columns <= 31; ++columns) {
            const std::int64_t pad = std::max((kernel - columns + 1) / 2, random.integer(0, kernel + 1));
            const std::int64_t rows = std::max<std::int64_t>(1, kernel - 2 * pad + random.integer(0, 3));
            const gk::extents space =
                columns % 8 == 7 ? gk::extents{kernel, rows, columns} : gk::extents{rows, columns};
            for (const conv_operator op :
                 {conv_operator::convolution, conv_operator::convolution_backward_data, conv_operator::conv_transpose,
                  conv_operator::conv_transpose_backward_data}) {
                const bool transposed =
                    op == conv_operator::conv_transpose || op == conv_operator::conv_transpose_backward_data;
                const std::int64_t most = (std::min(rows, columns) + kernel - 2) / 2;  // leaves an output
                const conv_case c =
                    depthwise(op, random.integer(2, 70), space, kernel, transposed ? std::min(pad, most) : pad);
                expect_equal_paths(random, c, random.chance(1, 4));
                if (HasFatalFailure()) return;
                EXPECT_TRUE(op != conv_operator::convolution || columns < kernel || says_sliding(c)) << c.text();
            }
        }
    }
    EXPECT_FALSE(says_sliding(depthwise(conv_operator::convolution, 32, {20, 20}, 4, 1)));
}

// The same of windows of any length, whose sums have several parts: they end at other taps where windows are cut.
TEST(convolution, wide_windows_that_slide) {
    random_source random("convolution.wide_sliding");
    const struct {
        gk::extents space;
        std::int64_t kernel, pad;
    } rows[]{{{9}, 9, 4},       {{40}, 11, 5},      {{90}, 75, 37},     {{700}, 601, 300}, {{30}, 1301, 650},
             {{9, 13}, 13, 6},  {{14, 14}, 27, 13}, {{7, 45}, 31, 15},  {{29, 31}, 29, 0}, {{1, 29}, 33, 16},
             {{30, 7}, 41, 20}, {{9, 4, 15}, 9, 4}, {{9, 10, 10}, 9, 1}};
    for (const auto& r : rows)
        for (const conv_operator op : {conv_operator::convolution, conv_operator::convolution_backward_data}) {
            for (const gk::data_format format : {gk::data_format::ncx, gk::data_format::nxc}) {
                const conv_case c =
                    make_case({op, random.integer(1, 2), random.integer(2, 20), 1, 1, r.space, r.kernel, 1, 1, r.pad},
                              format, random.pick({gk::weights_format::oix, gk::weights_format::xio}));
                expect_equal_paths(random, c, random.chance(1, 4));
                if (HasFatalFailure()) return;
                if (op != conv_operator::convolution) continue;
                const auto plan = gk::plan_convolution<float>(c.large, c.weights, {}, c.conv);
                std::string text(plan->describe({}), ' ');
                plan->describe(text);
                EXPECT_NE(text.find("depthwise_sliding"), std::string::npos) << text << c.text();
            }
        }
}

// Weight gradients of depthwise layers of three column taps, whose sums stay in registers: short and long lines and pieces of
// lines, any pads and strides, more and fewer lines of the window than the kernel computes at once, volumes, full and partial
// vectors of channels, both layouts.
TEST(convolution, weights_of_windows_that_slide) {
    random_source random("convolution.sliding_weights");
    const auto check = [&](const conv_case& c, bool slides) {
        expect_equal_paths(random, c, random.chance(1, 4));
        const auto plan = gk::plan_convolution_backward_weights<float>(c.large, c.small, c.conv, c.weights);
        if (c.op != conv_operator::convolution_backward_weights || !plan) return;
        std::string text(plan->describe({}), ' ');
        plan->describe(text);
        EXPECT_EQ(text.find("depthwise_sliding") != std::string::npos, slides) << text << c.text();
    };
    for (std::int64_t columns = 1; columns <= 31; ++columns) {
        for (const std::int64_t stride : {1, 2}) {
            for (const conv_operator op :
                 {conv_operator::convolution_backward_weights, conv_operator::conv_transpose_backward_weights}) {
                const bool transposed = op == conv_operator::conv_transpose_backward_weights;
                const std::int64_t pad = columns < 3 ? 1 : random.integer(0, transposed ? 1 : 3);
                const std::int64_t rows = random.integer(columns < 3 ? 1 : 3, 9);
                const gk::extents space = columns % 8 == 7 ? gk::extents{4, rows, columns} : gk::extents{rows, columns};
                check(make_case({op, random.integer(1, 3), random.integer(2, 70), 1, 1, space, 3, stride, 1, pad},
                                random.pick({gk::data_format::nxc, gk::data_format::ncx}),
                                random.pick({gk::weights_format::oix, gk::weights_format::xio})),
                      true);
                if (HasFatalFailure()) return;
            }
        }
    }
    constexpr conv_operator weights = conv_operator::convolution_backward_weights;
    const conv_row rows[]{
        {weights, 1, 32, 1, 1, {2, 700}, 3, 1, 1, 1},  // pieces of lines
        {weights, 1, 20, 1, 1, {3, 1100}, 3, 2, 1, 1},
        {weights, 2, 48, 1, 1, {90}, 3, 1, 1, 1},  // one line of the window
    };
    for (const conv_row& r : rows) check(make_case(r, gk::data_format::nxc, gk::weights_format::oix), true);
    check(make_case({weights, 1, 32, 1, 1, {9, 9}, 3, 3, 1, 1}, gk::data_format::nxc, gk::weights_format::oix), false);
    check(make_case({weights, 1, 32, 1, 1, {9, 9}, 3, 1, 2, 1}, gk::data_format::nxc, gk::weights_format::oix), false);
    check(make_case({weights, 1, 32, 1, 1, {9, 9}, 5, 1, 1, 1}, gk::data_format::nxc, gk::weights_format::oix), false);
}

// Few output channels and wide lines: the lanes hold columns, or rows if a class has one column, as at borders. Several
// planes, images and blocks, with tails of both axes.
TEST(convolution, few_channels_of_wide_lines) {
    const struct row {
        std::int64_t n, small, large;
        gk::extents space;
        std::int64_t kernel, stride, dilation, pad;
    } rows[]{
        {2, 40, 3, {37, 70}, 7, 2, 1, 3},    // an image, its gradient: five classes of one column
        {1, 9, 3, {11, 224}, 7, 2, 1, 3},    // lines of seven vectors
        {2, 9, 2, {21, 67}, 5, 1, 1, 2},     // two columns at each border
        {1, 33, 4, {33, 140}, 3, 1, 2, 2},   // dilated: classes of two columns
        {2, 8, 1, {3, 18, 65}, 3, 2, 1, 1},  // planes
        {1, 130, 3, {24, 130}, 3, 1, 1, 1},  // blocks of some rows, several parts
        {1, 130, 3, {4, 1100}, 3, 1, 1, 1},  // blocks of a part of a row
        {3, 32, 4, {9, 64}, 4, 3, 1, 1},     // phases without a border
    };
    random_source random("convolution.few_channels");
    for (const row& r : rows) {
        for (const conv_operator op : {conv_operator::convolution, conv_operator::convolution_backward_data}) {
            const bool forward = op == conv_operator::convolution;
            for (const gk::data_format format : {gk::data_format::ncx, gk::data_format::nxc}) {
                for (const bool strided : {false, true}) {
                    const conv_case c =
                        make_case({op, r.n, 1, forward ? r.large : r.small, forward ? r.small : r.large, r.space,
                                   r.kernel, r.stride, r.dilation, r.pad},
                                  format, random.pick({gk::weights_format::oix, gk::weights_format::xio}));
                    expect_equal_paths(random, c, strided);
                    if (HasFatalFailure()) return;
                }
            }
        }
    }
}

// Kernels as long as their strides: each pixel of the large side meets one column tap, and its channels follow those of the pixel
// before in NXC.
TEST(convolution, windows_side_by_side) {
    const struct row {
        std::int64_t n, small, large;
        gk::extents windows;
        std::int64_t kernel;
    } rows[]{
        {2, 70, 3, {3, 9}, 14},    // an image in patches: several parts
        {1, 66, 1, {70}, 16},      // sound
        {3, 19, 19, {5, 7}, 2},    // lanes begin in the middle of a tap
        {2, 5, 33, {2, 3, 4}, 2},  // volumes
        {1, 1, 1, {3, 5}, 64},     // one channel
        {1, 8, 40, {1}, 3},        // one window
    };
    random_source random("convolution.side_by_side");
    for (const row& r : rows) {
        gk::extents large = r.windows;
        for (std::size_t i = 0; i < large.rank(); ++i) large[i] *= r.kernel;
        for (const conv_operator op : {conv_operator::convolution_backward_data, conv_operator::conv_transpose}) {
            for (const gk::data_format format : {gk::data_format::ncx, gk::data_format::nxc}) {
                for (const gk::weights_format weights : {gk::weights_format::oix, gk::weights_format::xio}) {
                    for (const bool strided : {false, true}) {
                        const gk::extents& space = op == conv_operator::conv_transpose ? r.windows : large;
                        expect_equal_paths(
                            random,
                            make_case({op, r.n, 1, r.small, r.large, space, r.kernel, r.kernel, 1, 0}, format, weights),
                            strided);
                        if (HasFatalFailure()) return;
                    }
                }
            }
        }
    }
}

TEST(convolution, reals_keep_the_bound_and_their_bits) {
    random_source random("convolution.reals");
    for (int i = 0; i < 1000; ++i, random.next_case()) {
        GRADKERN_TRACE_SEED(random);
        const conv_case c = random_conv_case(random);
        SCOPED_TRACE(c.text());
        const bool strided = random.chance(1, 4);
        const tensors t(random, c, strided);
        t.fill_reals(random);
        test_tensor<float> expected(c.result());
        ASSERT_TRUE(t.run(c, expected).ok());
        ASSERT_TRUE(within_bound(c, t, expected));
        for (const gk::algorithm a : all_algorithms) {
            SCOPED_TRACE(gk::name_of(a));
            test_tensor<float> out = output_for(random, c, strided);
            const gk::status s = t.run(c, out, a);
            if (refuses_algorithm(s)) continue;
            ASSERT_TRUE(s.ok()) << gk::to_string(s);
            ASSERT_TRUE(out.equals(expected));
        }
    }
}

// Copies a tensor into another order of its axes: axis a of `to` is axis order[a] of `from`.
void copy_canonical(const test_tensor<float>& from, const std::vector<std::size_t>& order,
                    const test_tensor<float>& to) {
    for (std::int64_t i = 0; i < from.count(); ++i) {
        std::int64_t rest = i;
        std::array<std::int64_t, gk::extents::capacity> index{};
        for (std::size_t a = from.shape().rank(); a-- > 0;) {
            index[a] = rest % from.shape()[a];
            rest /= from.shape()[a];
        }
        std::int64_t flat = 0;
        for (std::size_t a = 0; a < order.size(); ++a) flat = flat * to.shape()[a] + index[order[a]];
        to[flat] = from[i];
    }
}

// Axis orders for copy_canonical.
std::vector<std::size_t> data_order(std::size_t r) {  // NCX -> NXC
    std::vector<std::size_t> o{0};
    for (std::size_t i = 0; i < r; ++i) o.push_back(2 + i);
    o.push_back(1);
    return o;
}
std::vector<std::size_t> filter_order(std::size_t r) {  // OIX -> XIO
    std::vector<std::size_t> o;
    for (std::size_t i = 0; i < r; ++i) o.push_back(2 + i);
    o.push_back(1);
    o.push_back(0);
    return o;
}

TEST(convolution, layouts_do_not_change_bits) {
    random_source random("convolution.layouts");
    for (int i = 0; i < 400; ++i, random.next_case()) {
        GRADKERN_TRACE_SEED(random);
        const conv_case c = with_formats(random_conv_case(random), gk::data_format::ncx, gk::weights_format::oix);
        SCOPED_TRACE(c.text());
        const std::size_t r = c.large.rank() - 2;
        tensors t(random, c, false);
        t.mode = gk::output_mode::overwrite;
        t.fill_reals(random);
        test_tensor<float> plain(c.result());
        ASSERT_TRUE(t.run(c, plain).ok());
        for (const bool nxc : {false, true}) {
            for (const bool xio : {false, true}) {
                const conv_case other = with_formats(c, nxc ? gk::data_format::nxc : gk::data_format::ncx,
                                                     xio ? gk::weights_format::xio : gk::weights_format::oix);
                random_source same = random;  // the same draws, so that bias and mode agree
                tensors u(same, other, false);
                u.mode = t.mode;
                u.has_bias = t.has_bias;
                const auto convert = [&](const test_tensor<float>& from, const test_tensor<float>& to, bool weights) {
                    std::vector<std::size_t> order(from.shape().rank());
                    for (std::size_t k = 0; k < order.size(); ++k) order[k] = k;
                    if (weights ? xio : nxc) order = weights ? filter_order(r) : data_order(r);
                    copy_canonical(from, order, to);
                };
                convert(t.first, u.first, false);
                convert(t.second, u.second, !c.writes_weights());
                if (!c.writes_weights()) u.bias.fill([&](std::int64_t k) { return t.bias.value(k); });
                test_tensor<float> out(other.result());
                ASSERT_TRUE(u.run(other, out).ok());
                test_tensor<float> expected(other.result());
                convert(plain, expected, c.writes_weights());
                ASSERT_TRUE(out.equals(expected)) << (nxc ? "NXC " : "NCX ") << (xio ? "XIO" : "OIX");
            }
        }
    }
}

}  // namespace
}  // namespace gradkern_test
