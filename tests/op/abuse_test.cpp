// Inputs that crashed other libraries, for these operators. Each test names its public report and uses the shapes of the
// report if the operator has them. In all tests an error names the argument and changes nothing, the reference returns the
// same error, results have the reference's bits, and no byte outside the tensors is accessed.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <ostream>
#include <span>
#include <string_view>
#include <vector>

#include <gradkern/avg_pool.hpp>
#include <gradkern/bias.hpp>
#include <gradkern/conv_transpose.hpp>
#include <gradkern/convolution.hpp>
#include <gradkern/error_text.hpp>
#include <gradkern/frontend/aclnn.hpp>
#include <gradkern/lp_pool.hpp>
#include <gradkern/max_pool.hpp>
#include <gradkern/ref/avg_pool.hpp>
#include <gradkern/ref/bias.hpp>
#include <gradkern/ref/conv_transpose.hpp>
#include <gradkern/ref/convolution.hpp>
#include <gradkern/ref/lp_pool.hpp>
#include <gradkern/ref/max_pool.hpp>

#include "support/executors.hpp"
#include "support/guarded.hpp"

namespace {

using gradkern::auto_pad;
using gradkern::avg_pool_attributes;
using gradkern::bias_attributes;
using gradkern::conv_transpose_attributes;
using gradkern::convolution_attributes;
using gradkern::data_format;
using gradkern::errc;
using gradkern::extents;
using gradkern::index_base;
using gradkern::lp_pool_attributes;
using gradkern::max_pool_attributes;
using gradkern::max_pool_indices_attributes;
using gradkern::rounding_type;
using gradkern::status;
using gradkern::weights_format;
using gradkern_test::guarded_buffer;

/// What a call reported. `axis` is -1 if the mistake is not in one entry.
struct finding {
    errc code = errc::ok;
    std::string_view argument{};
    int axis = -1;

    friend bool operator==(const finding&, const finding&) = default;
    friend std::ostream& operator<<(std::ostream& out, const finding& f) {
        return out << gradkern::to_string(f.code) << " in \"" << f.argument << "\", axis " << f.axis;
    }
};
constexpr finding success{};

/// Elements of a dense tensor; none if it is too large to allocate, so that any access hits a guard page.
std::size_t elements_of(const extents& shape) {
    std::size_t count = 1;
    for (const std::int64_t e : shape.values()) {
        if (e <= 0 || e > 1 << 20 || count > 1 << 20) return 0;
        count *= static_cast<std::size_t>(e);
    }
    return count > 1 << 20 ? 0 : count;
}

/// A dense tensor between guard pages, filled with the small integers 1 to 5.
template <class T = float>
struct tensor {
    extents shape;
    guarded_buffer<T> memory;

    tensor(std::initializer_list<std::int64_t> sizes) : tensor(extents(sizes)) {}
    explicit tensor(const extents& sizes) : shape(sizes), memory(elements_of(sizes)) {
        for (std::size_t i = 0; i < memory.size(); ++i) memory[i] = static_cast<T>(1.0F + static_cast<float>(i % 5));
    }
    [[nodiscard]] gradkern::tensor_view<T> out() const { return {memory.data(), shape}; }
    [[nodiscard]] gradkern::tensor_view<const T> in() const { return {memory.data(), shape}; }
};
using places = tensor<std::int64_t>;

places filled(const extents& shape, std::int64_t value) {
    places p(shape);
    for (std::size_t i = 0; i < p.memory.size(); ++i) p.memory[i] = value;
    return p;
}

/// Runs an operator with one worker and with several, and its reference, and compares errors and contents.
template <class T, class Operator, class Reference>
finding judge(tensor<T>& dst, const Operator& op, const Reference& reference) {
    std::vector<std::byte> workspace(1 << 20);
    gradkern_test::shuffling_executor workers(5);
    dst.memory.poison();
    const std::vector<unsigned char> before = dst.memory.snapshot();
    const status s = op(gradkern::call_options{.workspace = workspace});
    const std::vector<unsigned char> after = dst.memory.snapshot();
    if (!s) {
        EXPECT_EQ(after, before) << "a refused call wrote: " << gradkern::to_string(s);
    }
    EXPECT_TRUE(dst.memory.zones_intact());

    dst.memory.poison();
    EXPECT_EQ(op(gradkern::call_options{.workspace = workspace, .executor = workers}).error(), s.error());
    EXPECT_EQ(dst.memory.snapshot(), after) << "other bits with several workers";
    EXPECT_TRUE(dst.memory.zones_intact());

    dst.memory.poison();
    EXPECT_EQ(reference().error(), s.error()) << gradkern::to_string(s);
    EXPECT_EQ(dst.memory.snapshot(), after) << "other bits than the reference";
    return s ? success : finding{s.error().code, s.error().argument, s.error().axis};
}

using options = gradkern::call_options;

finding convolution(const tensor<>& src, const tensor<>& weights, const convolution_attributes& a, tensor<> dst) {
    return judge(
        dst,
        [&](const options& o) { return gradkern::convolution<float>(src.in(), weights.in(), {}, a, dst.out(), o); },
        [&] { return gradkern::ref::convolution<float>(src.in(), weights.in(), {}, a, dst.out()); });
}
finding convolution_backward_data(const tensor<>& diff_dst, const tensor<>& weights, const convolution_attributes& a,
                                  tensor<> diff_src) {
    return judge(
        diff_src,
        [&](const options& o) {
            return gradkern::convolution_backward_data<float>(diff_dst.in(), weights.in(), a, diff_src.out(), o);
        },
        [&] {
            return gradkern::ref::convolution_backward_data<float>(diff_dst.in(), weights.in(), a, diff_src.out());
        });
}
finding convolution_backward_weights(const tensor<>& src, const tensor<>& diff_dst, const convolution_attributes& a,
                                     tensor<> diff_weights) {
    return judge(
        diff_weights,
        [&](const options& o) {
            return gradkern::convolution_backward_weights<float>(src.in(), diff_dst.in(), a, diff_weights.out(), {}, o);
        },
        [&] {
            return gradkern::ref::convolution_backward_weights<float>(src.in(), diff_dst.in(), a, diff_weights.out());
        });
}
finding conv_transpose(const tensor<>& src, const tensor<>& weights, const conv_transpose_attributes& a, tensor<> dst) {
    return judge(
        dst,
        [&](const options& o) { return gradkern::conv_transpose<float>(src.in(), weights.in(), {}, a, dst.out(), o); },
        [&] { return gradkern::ref::conv_transpose<float>(src.in(), weights.in(), {}, a, dst.out()); });
}
finding conv_transpose_backward_data(const tensor<>& diff_dst, const tensor<>& weights,
                                     const conv_transpose_attributes& a, tensor<> diff_src) {
    return judge(
        diff_src,
        [&](const options& o) {
            return gradkern::conv_transpose_backward_data<float>(diff_dst.in(), weights.in(), a, diff_src.out(), o);
        },
        [&] {
            return gradkern::ref::conv_transpose_backward_data<float>(diff_dst.in(), weights.in(), a, diff_src.out());
        });
}
finding conv_transpose_backward_weights(const tensor<>& src, const tensor<>& diff_dst,
                                        const conv_transpose_attributes& a, tensor<> diff_weights) {
    return judge(
        diff_weights,
        [&](const options& o) {
            return gradkern::conv_transpose_backward_weights<float>(src.in(), diff_dst.in(), a, diff_weights.out(), {},
                                                                    o);
        },
        [&] {
            return gradkern::ref::conv_transpose_backward_weights<float>(src.in(), diff_dst.in(), a,
                                                                         diff_weights.out());
        });
}
finding bias_backward(const tensor<>& diff_dst, const bias_attributes& a, tensor<> diff_bias) {
    return judge(
        diff_bias,
        [&](const options& o) { return gradkern::bias_backward<float>(diff_dst.in(), a, diff_bias.out(), o); },
        [&] { return gradkern::ref::bias_backward<float>(diff_dst.in(), a, diff_bias.out()); });
}
template <class T = float>
finding avg_pool(const tensor<T>& src, const avg_pool_attributes& a, tensor<T> dst) {
    return judge(
        dst, [&](const options& o) { return gradkern::avg_pool<T>(src.in(), a, dst.out(), o); },
        [&] { return gradkern::ref::avg_pool<T>(src.in(), a, dst.out()); });
}
template <class T = float>
finding avg_pool_backward(const tensor<T>& diff_dst, const avg_pool_attributes& a, tensor<T> diff_src) {
    return judge(
        diff_src, [&](const options& o) { return gradkern::avg_pool_backward<T>(diff_dst.in(), a, diff_src.out(), o); },
        [&] { return gradkern::ref::avg_pool_backward<T>(diff_dst.in(), a, diff_src.out()); });
}
finding lp_pool(const tensor<>& src, const lp_pool_attributes& a, tensor<> dst) {
    return judge(
        dst, [&](const options& o) { return gradkern::lp_pool<float>(src.in(), a, dst.out(), o); },
        [&] { return gradkern::ref::lp_pool<float>(src.in(), a, dst.out()); });
}
finding lp_pool_backward(const tensor<>& src, const tensor<>& dst, const tensor<>& diff_dst,
                         const lp_pool_attributes& a, tensor<> diff_src) {
    return judge(
        diff_src,
        [&](const options& o) {
            return gradkern::lp_pool_backward<float>(src.in(), dst.in(), diff_dst.in(), a, diff_src.out(), o);
        },
        [&] { return gradkern::ref::lp_pool_backward<float>(src.in(), dst.in(), diff_dst.in(), a, diff_src.out()); });
}
finding max_pool(const tensor<>& src, const max_pool_attributes& a, tensor<> dst) {
    return judge(
        dst, [&](const options& o) { return gradkern::max_pool<float>(src.in(), a, dst.out(), {}, o); },
        [&] { return gradkern::ref::max_pool<float>(src.in(), a, dst.out()); });
}
finding max_pool_backward(const tensor<>& src, const tensor<>& diff_dst, const max_pool_attributes& a,
                          tensor<> diff_src) {
    return judge(
        diff_src,
        [&](const options& o) {
            return gradkern::max_pool_backward<float>(src.in(), diff_dst.in(), a, diff_src.out(), o);
        },
        [&] { return gradkern::ref::max_pool_backward<float>(src.in(), diff_dst.in(), a, diff_src.out()); });
}
finding max_pool_backward_from_indices(const tensor<>& diff_dst, const places& indices,
                                       const max_pool_indices_attributes& a, tensor<> diff_src) {
    return judge(
        diff_src,
        [&](const options& o) {
            return gradkern::max_pool_backward_from_indices<float>(diff_dst.in(), indices.in(), a, diff_src.out(), o);
        },
        [&] {
            return gradkern::ref::max_pool_backward_from_indices<float>(diff_dst.in(), indices.in(), a, diff_src.out());
        });
}

convolution_attributes strided(const extents& strides, auto_pad pad) {
    return {.strides = strides, .dilations = extents::filled(strides.rank(), 1), .auto_pad = pad};
}
convolution_attributes ncx(convolution_attributes a) {
    a.data_format = data_format::ncx;
    a.weights_format = weights_format::oix;
    return a;
}
template <class Attributes = avg_pool_attributes>
Attributes pool(const extents& kernel, const extents& strides, auto_pad pad = auto_pad::none) {
    Attributes a;
    a.kernel = kernel;
    a.strides = strides;
    a.auto_pad = pad;
    return a;
}
template <class Attributes>
Attributes planes(Attributes a) {
    a.data_format = data_format::ncx;
    return a;
}
const max_pool_indices_attributes whole_tensor{};
const max_pool_indices_attributes per_image{.index_base = index_base::image};
const max_pool_indices_attributes per_plane{.data_format = data_format::ncx, .index_base = index_base::plane};

// ------------------------------------------------------------------------------------ convolution: sizes that disagree

// TFSA-2021-010, CVE-2021-29520: Conv3DBackpropInput took channels of input_sizes that the filter does not have.
TEST(abuse_convolution, backward_data_with_channels_the_filter_lacks) {
    EXPECT_EQ(convolution_backward_data({1, 1, 1, 1, 1}, {4, 1, 6, 1, 1}, strided({89, 29, 89}, auto_pad::same_upper),
                                        tensor<>{1, 1, 1, 1, 2}),
              (finding{errc::invalid_shape, "diff_src", 4}));
    EXPECT_EQ(convolution_backward_data({1, 1, 1, 1, 1}, {4, 1, 6, 1, 1}, strided({89, 29, 89}, auto_pad::same_upper),
                                        tensor<>{1, 1, 1, 1, 1}),
              success);
}

// TFSA-2021-010, CVE-2021-29520: the same for Conv3DBackpropFilter and its input.
TEST(abuse_convolution, backward_weights_with_channels_the_filter_lacks) {
    EXPECT_EQ(convolution_backward_weights({7, 7, 7, 7, 7}, {7, 1, 1, 1, 1}, strided({37, 65, 93}, auto_pad::valid),
                                           tensor<>{7, 7, 7, 1, 1}),
              (finding{errc::invalid_shape, "src", 4}));
    EXPECT_EQ(convolution_backward_weights({7, 7, 7, 7, 1}, {7, 1, 1, 1, 1}, strided({37, 65, 93}, auto_pad::valid),
                                           tensor<>{7, 7, 7, 1, 1}),
              success);
}

// TFSA-2021-028, CVE-2021-29540: Conv2DBackpropFilter wrote a filter larger than filter_sizes says.
TEST(abuse_convolution, backward_weights_larger_than_the_filter_asked_for) {
    EXPECT_EQ(convolution_backward_weights({1, 1, 1, 2}, {1, 1, 1, 1}, strided({66, 49}, auto_pad::valid),
                                           tensor<>{1, 1, 1, 1}),
              (finding{errc::invalid_shape, "src", 3}));
}

// TFSA-2021-028, CVE-2021-29540: the same report's empty batch, under a filter that is larger than the image.
TEST(abuse_convolution, backward_weights_of_an_empty_batch_under_a_large_filter) {
    const convolution_attributes a = strided({66, 49}, auto_pad::valid);
    EXPECT_EQ(convolution_backward_weights({0, 1, 1, 5}, {0, 1, 1, 1}, a, tensor<>{3, 8, 1, 1}),
              (finding{errc::invalid_shape, "src", 3}));
    EXPECT_EQ(convolution_backward_weights({0, 1, 1, 5}, {0, 1, 1, 1}, a, tensor<>{3, 8, 5, 1}),
              (finding{errc::invalid_shape, "src", 1}));
    EXPECT_EQ(convolution_backward_weights({0, 3, 8, 5}, {0, 1, 1, 1}, a, tensor<>{3, 8, 5, 1}), success);  // zeros
}

// TensorFlow issue 57495: Conv3DBackpropInput of an empty batch aborted. It is a valid call that does nothing.
TEST(abuse_convolution, backward_data_of_an_empty_batch) {
    EXPECT_EQ(convolution_backward_data({0, 4, 1, 1, 3}, {3, 1, 1, 2, 3}, strided({1, 1, 1}, auto_pad::valid),
                                        tensor<>{0, 6, 1, 1, 2}),
              success);
}

// -------------------------------------------------------------------------------------------- convolution: empty sizes

// TFSA-2021-027, CVE-2021-29538: Conv2DBackpropFilter of nothing but empty tensors divided by zero.
TEST(abuse_convolution, backward_weights_of_nothing) {
    EXPECT_EQ(convolution_backward_weights({0, 0, 0, 0}, {0, 0, 0, 0}, strided({1, 1}, auto_pad::same_upper),
                                           tensor<>{0, 0, 0, 0}),
              (finding{errc::invalid_shape, "src", 1}));
}

// TFSA-2021-014, CVE-2021-29525: Conv2DBackpropInput with an empty filter divided by zero.
TEST(abuse_convolution, backward_data_with_an_empty_filter) {
    const convolution_attributes a = strided({1, 1}, auto_pad::same_upper);
    EXPECT_EQ(convolution_backward_data({52, 1, 1, 0}, {0, 1, 5, 0}, a, tensor<>{52, 1, 1, 5}),
              (finding{errc::invalid_shape, "weights", 0}));
    EXPECT_EQ(convolution_backward_data({52, 1, 1, 1}, {0, 1, 5, 1}, a, tensor<>{52, 1, 1, 5}),
              (finding{errc::invalid_shape, "weights", 0}));
}

// TFSA-2021-015, CVE-2021-29526: Conv2D of nothing but empty tensors divided by zero.
TEST(abuse_convolution, forward_of_nothing) {
    EXPECT_EQ(convolution({0, 0, 0, 0}, {0, 0, 0, 0}, strided({1, 1}, auto_pad::same_upper), tensor<>{0, 0, 0, 0}),
              (finding{errc::invalid_shape, "src", 1}));
}

// TFSA-2021-016, CVE-2021-29527: a filter without columns, where the reported operator divided by the filter's volume.
TEST(abuse_convolution, forward_with_a_filter_without_columns) {
    EXPECT_EQ(convolution({1, 1, 1, 1}, {1, 0, 1, 1}, strided({1, 1}, auto_pad::same_upper), tensor<>{1, 1, 1, 1}),
              (finding{errc::invalid_shape, "weights", 1}));
}

// CVE-2021-41209: convolutions divided by the sizes of an empty filter. Each of its sizes in turn, for each operator. A kernel
// of 0 is refused; filters without channels are valid, but do not fit these images.
TEST(abuse_convolution, an_empty_filter_in_every_operator_and_axis) {
    const convolution_attributes a = strided({1, 1}, auto_pad::same_upper);
    const conv_transpose_attributes t{.strides = {1, 1}, .dilations = {1, 1}, .auto_pad = auto_pad::same_upper};
    for (int axis = 0; axis < 4; ++axis) {
        extents shape{3, 3, 2, 2};
        shape[static_cast<std::size_t>(axis)] = 0;
        const tensor<> filter(shape);
        const tensor<> image{1, 4, 4, 2};
        const finding empty{errc::invalid_shape, "weights", axis};
        const finding gradient{errc::invalid_shape, "diff_weights", axis};
        if (axis >= 2) {
            const auto misfits = [](const finding& f) { EXPECT_EQ(f.code, errc::invalid_shape); };
            misfits(convolution(image, filter, a, tensor<>(image.shape)));
            misfits(convolution_backward_data(image, filter, a, tensor<>(image.shape)));
            misfits(convolution_backward_weights(image, image, a, tensor<>(shape)));
            misfits(conv_transpose(image, filter, t, tensor<>(image.shape)));
            misfits(conv_transpose_backward_data(image, filter, t, tensor<>(image.shape)));
            misfits(conv_transpose_backward_weights(image, image, t, tensor<>(shape)));
            continue;
        }
        EXPECT_EQ(convolution(image, filter, a, tensor<>(image.shape)), empty);
        EXPECT_EQ(convolution_backward_data(image, filter, a, tensor<>(image.shape)), empty);
        EXPECT_EQ(convolution_backward_weights(image, image, a, tensor<>(shape)), gradient);
        EXPECT_EQ(conv_transpose(image, filter, t, tensor<>(image.shape)), empty);
        EXPECT_EQ(conv_transpose_backward_data(image, filter, t, tensor<>(image.shape)), empty);
        EXPECT_EQ(conv_transpose_backward_weights(image, image, t, tensor<>(shape)), gradient);
    }
}

// TensorFlow issue 61539: the same aborted Conv3DBackpropInput, here with a filter without planes.
TEST(abuse_convolution, backward_data_with_a_filter_without_planes) {
    EXPECT_EQ(convolution_backward_data({2, 4, 4, 4, 3}, {0, 1, 2, 5, 3}, strided({2, 2, 2}, auto_pad::same_upper),
                                        tensor<>{2, 8, 8, 8, 5}),
              (finding{errc::invalid_shape, "weights", 0}));
}

// PyTorch issue 94125: slow_conv3d divided by zero for an image without columns and a filter of another rank.
TEST(abuse_convolution, forward_of_an_image_without_columns) {
    const convolution_attributes a = ncx(strided({1, 1}, auto_pad::none));
    EXPECT_EQ(convolution({9, 5, 13, 0}, {7, 0, 11}, a, tensor<>{9, 7, 13, 1}),
              (finding{errc::unsupported, "weights", -1}));
    EXPECT_EQ(convolution({9, 5, 13, 0}, {7, 5, 2, 1}, a, tensor<>{9, 7, 12, 0}),
              (finding{errc::invalid_shape, "src", 3}));
}

// ----------------------------------------------------------------------------- convolution: ranks and attribute values

// TensorFlow issue 78428: Conv2DBackpropInput with a huge entry in input_sizes, which wrapped around.
TEST(abuse_convolution, backward_data_of_a_huge_size) {
    const convolution_attributes a = strided({1, 1}, auto_pad::same_upper);
    EXPECT_EQ(convolution_backward_data({1, 5, 5, 2}, {3, 3, 3, 2}, a, tensor<>{1, 5, 5, 999999999999}),
              (finding{errc::invalid_shape, "diff_src", 3}));
    EXPECT_EQ(convolution_backward_data({1, 5, 5, 2}, {3, 3, 3, 2}, a,
                                        tensor<>{1, std::int64_t{1} << 31, std::int64_t{1} << 31, 3}),
              (finding{errc::overflow, "diff_src", -1}));
}

// TensorFlow issues 78428 and 125506 and its pull request 127293: input_sizes and filters of another rank aborted.
TEST(abuse_convolution, backward_data_with_ranks_that_disagree) {
    convolution_attributes a = strided({1, 1}, auto_pad::same_upper);
    EXPECT_EQ(convolution_backward_data({1, 5, 5, 2}, {1}, a, tensor<>{1, 1}),
              (finding{errc::unsupported, "diff_src", -1}));
    EXPECT_EQ(convolution_backward_data({1, 5, 5, 2}, tensor<>(extents{}), a, tensor<>{1, 5, 5, 3}),
              (finding{errc::unsupported, "weights", -1}));
    a = strided({2, 2}, auto_pad::same_upper);
    a.diff_src_shape = {8, 8, 3};
    const auto plan = gradkern::plan_convolution_backward_data<float>({1, 4, 4, 3}, {3, 3, 3, 3}, a);
    ASSERT_FALSE(plan);
    EXPECT_EQ(plan.error(), (gradkern::error{errc::invalid_shape, "convolution_backward_data", "diff_src", -1, 3, 4,
                                             gradkern::expectation::equal}));
}

// TensorFlow issue 85257: conv2d_backprop_filter with this stride and tensors of the wrong rank aborted.
TEST(abuse_convolution, backward_weights_with_a_huge_stride) {
    constexpr std::int64_t stride = 4538426903074820908;
    EXPECT_EQ(convolution_backward_weights({1}, {19, 5, 11, 4}, strided({stride, stride}, auto_pad::valid),
                                           tensor<>{20, 6, 5, 3}),
              (finding{errc::unsupported, "src", -1}));
    EXPECT_EQ(convolution_backward_weights({19, 5, 11, 3}, {19, 1, 1, 4}, strided({stride, stride}, auto_pad::valid),
                                           tensor<>{4, 6, 3, 4}),
              success);  // one window of each axis: the stride is never taken
    EXPECT_EQ(convolution_backward_weights({19, 5, 11, 3}, {19, 5, 11, 4}, strided({stride, stride}, auto_pad::valid),
                                           tensor<>{4, 6, 3, 4}),
              (finding{errc::overflow, "diff_dst", 1}));
}

// A window of two taps with the largest reach in 63 bits: a run writes only into the workspace that it requested.
template <class T>
void backward_data_under_a_wide_window(data_format format) {
    constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
    constexpr std::int64_t pad = std::int64_t{1} << 62;
    const bool channels_first = format == data_format::ncx;
    const convolution_attributes a{.strides = {1},
                                   .dilations = {most - 4},
                                   .pads_begin = {pad},
                                   .pads_end = {most - 8 - pad},
                                   .data_format = format};
    const tensor<T> diff_dst(channels_first ? extents{1, 64, 4} : extents{1, 4, 64});
    const tensor<T> weights{2, 64, 64};
    tensor<T> diff_src(channels_first ? extents{1, 64, 8} : extents{1, 8, 64});
    tensor<T> expected(diff_src.shape);

    const auto plan = gradkern::plan_convolution_backward_data<T>(diff_dst.shape, weights.shape, a, diff_src.shape);
    ASSERT_TRUE(plan) << gradkern::to_string(status(plan.error()));
    guarded_buffer<std::byte> workspace(plan->workspace_bytes());
    diff_src.memory.poison();
    ASSERT_TRUE(plan->run(diff_dst.memory.data(), weights.memory.data(), diff_src.memory.data(),
                          std::span(workspace.data(), workspace.size())));
    EXPECT_TRUE(workspace.zones_intact());
    EXPECT_TRUE(diff_src.memory.zones_intact());
    ASSERT_TRUE(gradkern::ref::convolution_backward_data<T>(diff_dst.in(), weights.in(), a, expected.out()));
    EXPECT_EQ(diff_src.memory.snapshot(), expected.memory.snapshot());
}

TEST(abuse_convolution, backward_data_under_the_widest_window) {
    backward_data_under_a_wide_window<gradkern::float16>(data_format::nxc);
    backward_data_under_a_wide_window<float>(data_format::ncx);
}

// Strides and dilations that are never used, in a gradient of the weights: one window or one tap is inside.
TEST(abuse_convolution, backward_weights_with_strides_that_are_never_used) {
    constexpr std::int64_t far = std::int64_t{1} << 61;
    convolution_attributes a = strided({1}, auto_pad::none);
    a.dilations = {2 * far};
    EXPECT_EQ(convolution_backward_weights({1, 8, 4}, {1, 8, 16}, a, tensor<>{1, 4, 16}), success);
    a = strided({far}, auto_pad::none);
    a.pads_begin = {far};
    a.pads_end = {8};
    EXPECT_EQ(convolution_backward_weights({1, 8, 4}, {1, 2, 16}, a, tensor<>{1, 4, 16}), success);
    // Chunks of many images, of whose lines each has a window: of few channels, and of many.
    for (const std::int64_t channels : {4, 32})
        for (const std::int64_t stride : {far / 2, far, 2 * far})
            for (const std::int64_t row_taps : {1, 3}) {
                a = strided({stride, 1}, auto_pad::none);
                a.pads_begin = {stride, row_taps / 2};
                a.pads_end = {0, row_taps / 2};
                EXPECT_EQ(convolution_backward_weights({256, 1, 1, channels}, {256, 2, 1, 32}, a,
                                                       tensor<>{1, row_taps, channels, 32}),
                          success)
                    << channels << " channels, stride " << stride;
            }
}

// PyTorch issues 27598 and 73193: strides of 0 (and dilations and groups of 0) divided by zero.
TEST(abuse_convolution, zero_strides_dilations_and_groups) {
    const tensor<> image{1, 1, 32, 32};
    const tensor<> filter{1, 1, 3, 3};
    convolution_attributes a = ncx(strided({0, 0}, auto_pad::none));
    a.pads_begin = a.pads_end = {0, 1};
    const conv_transpose_attributes t{.strides = {1, 0}, .dilations = {1, 1}};
    EXPECT_EQ(convolution(image, filter, a, tensor<>{1, 1, 32, 32}), (finding{errc::invalid_argument, "strides", 0}));
    EXPECT_EQ(convolution_backward_data(image, filter, a, tensor<>{1, 1, 32, 32}),
              (finding{errc::invalid_argument, "strides", 0}));
    EXPECT_EQ(convolution_backward_weights(image, image, a, tensor<>{1, 1, 3, 3}),
              (finding{errc::invalid_argument, "strides", 0}));
    EXPECT_EQ(conv_transpose(image, filter, t, tensor<>{1, 1, 32, 32}),
              (finding{errc::invalid_argument, "strides", 1}));
    EXPECT_EQ(conv_transpose_backward_data(image, filter, t, tensor<>{1, 1, 32, 32}),
              (finding{errc::invalid_argument, "strides", 1}));
    EXPECT_EQ(conv_transpose_backward_weights(image, image, t, tensor<>{1, 1, 3, 3}),
              (finding{errc::invalid_argument, "strides", 1}));
    a.strides = {1, 1};
    a.dilations = {0, 0};
    a.groups = 0;
    EXPECT_EQ(convolution(image, filter, a, tensor<>{1, 1, 32, 32}), (finding{errc::invalid_argument, "dilations", 0}));
    a.dilations = {1, 1};
    EXPECT_EQ(convolution(image, filter, a, tensor<>{1, 1, 32, 32}), (finding{errc::invalid_argument, "groups", -1}));
    a.groups = std::numeric_limits<std::int64_t>::min();
    EXPECT_EQ(convolution(image, filter, a, tensor<>{1, 1, 32, 32}), (finding{errc::invalid_argument, "groups", -1}));
}

// PyTorch issue 142835: convolution_backward of a transposed layer with no group, a huge dilation and output padding.
TEST(abuse_convolution, transposed_backward_weights_with_no_group_and_huge_numbers) {
    const tensor<> src{2, 5, 8};
    const tensor<> diff_dst{5, 4, 3};
    conv_transpose_attributes a{.strides = {65534},
                                .dilations = {536870912},
                                .pads_begin = {1},
                                .pads_end = {1},
                                .output_padding = {1879048192},
                                .groups = 0,
                                .data_format = data_format::ncx,
                                .weights_format = weights_format::oix};
    EXPECT_EQ(conv_transpose_backward_weights(src, diff_dst, a, tensor<>{2, 5, 8}),
              (finding{errc::invalid_argument, "output_padding", 0}));
    a.output_padding = {};
    EXPECT_EQ(conv_transpose_backward_weights(src, diff_dst, a, tensor<>{2, 5, 8}),
              (finding{errc::invalid_argument, "groups", -1}));
    a.groups = 1;
    EXPECT_EQ(conv_transpose_backward_weights(src, diff_dst, a, tensor<>{2, 5, 8}),
              (finding{errc::invalid_shape, "diff_dst", 0}));
    EXPECT_EQ(conv_transpose_backward_weights(src, {2, 4, 3}, a, tensor<>{4, 5, 8}),
              (finding{errc::invalid_shape, "diff_dst", 2}));
}

// ------------------------------------------------------------------------------------------------------------ Lp pools

TEST(abuse_lp_pool, backward_of_tensors_that_disagree) {
    const auto a = pool<lp_pool_attributes>({1, 1}, {1, 1});
    EXPECT_EQ(lp_pool_backward({1, 3, 2, 3}, {1, 3, 1, 3}, {1, 3, 2, 3}, a, tensor<>{1, 3, 2, 3}),
              (finding{errc::invalid_shape, "dst", 2}));
    EXPECT_EQ(lp_pool_backward({1, 3, 2, 3}, {1, 3, 2, 3}, {2, 3, 2, 3}, a, tensor<>{1, 3, 2, 3}),
              (finding{errc::invalid_shape, "diff_dst", 0}));
    EXPECT_EQ(lp_pool_backward({1, 3, 2, 3}, {1, 3, 2, 3}, {1, 3, 2, 3}, a, tensor<>{1, 3, 2, 4}),
              (finding{errc::invalid_shape, "diff_src", 3}));
    EXPECT_EQ(lp_pool_backward({1, 3, 2, 3}, {1, 3, 2}, {1, 3, 2, 3}, a, tensor<>{1, 3, 2, 3}).code, errc::unsupported);
    EXPECT_EQ(lp_pool_backward({0, 3, 2, 3}, {0, 3, 2, 3}, {0, 3, 2, 3}, a, tensor<>{0, 3, 2, 3}), success);
}
TEST(abuse_lp_pool, huge_windows) {
    const std::int64_t k = INT64_MAX / 2 - 1;
    EXPECT_EQ(lp_pool({2, 2, 2}, planes(pool<lp_pool_attributes>({k}, {1})), tensor<>{2, 2, 1}),
              (finding{errc::invalid_shape, "src", 2}));
    const auto same = planes(pool<lp_pool_attributes>({k}, {k}, auto_pad::same_upper));
    EXPECT_EQ(lp_pool({2, 2, 2}, same, tensor<>{2, 2, 1}), success);
    EXPECT_EQ(lp_pool_backward({2, 2, 2}, {2, 2, 1}, {2, 2, 1}, same, tensor<>{2, 2, 2}), success);
}
TEST(abuse_lp_pool, a_stride_that_is_never_used) {
    const auto a = pool<lp_pool_attributes>({1}, {std::int64_t{1} << 60});
    EXPECT_EQ(lp_pool({1, 5, 48}, a, tensor<>{1, 1, 48}), success);
    EXPECT_EQ(lp_pool_backward({1, 5, 48}, {1, 1, 48}, {1, 1, 48}, a, tensor<>{1, 5, 48}), success);
}

// --------------------------------------------------------------------------------------------------- bias gradients

// Gradients without elements, of too few or too many axes, and results of other shapes.
TEST(abuse_bias, nothing_and_empty_batches) {
    const bias_attributes ncx{.data_format = data_format::ncx};
    EXPECT_EQ(bias_backward({0, 3, 4}, ncx, tensor<>{3}), success);
    EXPECT_EQ(bias_backward({2, 0, 4}, ncx, tensor<>{0}), success);
    EXPECT_EQ(bias_backward({2, 3, 0}, ncx, tensor<>{3}), (finding{errc::invalid_shape, "diff_dst", 2}));
}
TEST(abuse_bias, ranks_and_results_that_do_not_fit) {
    const bias_attributes ncx{.data_format = data_format::ncx};
    EXPECT_EQ(bias_backward({2, 3}, ncx, tensor<>{3}).code, errc::unsupported);
    EXPECT_EQ(bias_backward({1, 3, 1, 1, 1, 1}, ncx, tensor<>{3}).code, errc::unsupported);
    EXPECT_EQ(bias_backward({2, 3, 4}, ncx, tensor<>{4}), (finding{errc::invalid_shape, "diff_bias", 0}));
    EXPECT_EQ(bias_backward({2, 3, 4}, ncx, tensor<>{1, 3}).code, errc::unsupported);
    EXPECT_EQ(bias_backward({2, -3, 4}, ncx, tensor<>{3}), (finding{errc::invalid_shape, "diff_dst", 1}));
    EXPECT_EQ(bias_backward({INT64_MAX, 3, INT64_MAX}, ncx, tensor<>{3}).code, errc::overflow);
}

// ------------------------------------------------------------------------------------------------------- average pools

// TFSA-2021-065, CVE-2021-29577: AvgPool3DGrad trusted batch and channels of a gradient that does not fit.
TEST(abuse_avg_pool, backward_of_a_gradient_with_another_batch) {
    EXPECT_EQ(
        avg_pool_backward({3, 1, 1, 1, 1}, pool({1, 1, 1}, {1, 1, 1}, auto_pad::same_upper), tensor<>{10, 6, 3, 7, 7}),
        (finding{errc::invalid_shape, "diff_dst", 0}));
}

// TFSA-2021-067, CVE-2021-29578: a gradient of fewer windows than the input has.
TEST(abuse_avg_pool, backward_of_a_gradient_with_too_few_windows) {
    const avg_pool_attributes a = pool({1, 1}, {1, 1});
    EXPECT_EQ(avg_pool_backward({1, 1, 1, 1}, a, tensor<>{1, 3, 2, 3}), (finding{errc::invalid_shape, "diff_dst", 3}));
    EXPECT_EQ(avg_pool_backward({1, 1, 1, 3}, a, tensor<>{1, 3, 2, 3}), (finding{errc::invalid_shape, "diff_dst", 1}));
}

// TensorFlow issue 64642: AvgPoolGrad wrote past an input that is smaller than its gradient.
TEST(abuse_avg_pool, backward_of_a_gradient_larger_than_the_input) {
    const avg_pool_attributes a = pool({1, 1}, {1, 1}, auto_pad::valid);
    EXPECT_EQ(avg_pool_backward({2, 3, 3, 3}, a, tensor<>{2, 2, 2, 2}), (finding{errc::invalid_shape, "diff_dst", 3}));
    EXPECT_EQ(avg_pool_backward({2, 3, 3, 2}, a, tensor<>{2, 2, 2, 2}), (finding{errc::invalid_shape, "diff_dst", 1}));
}

// PyTorch issues 194800 and 194803: channels that disagree moved reads and writes out of the tensors.
TEST(abuse_avg_pool, backward_with_channels_that_disagree) {
    EXPECT_EQ(avg_pool_backward({1, 1, 1, 1, 1}, planes(pool({1, 1, 1}, {1, 1, 1})), tensor<>{1, 2, 1, 1, 1}),
              (finding{errc::invalid_shape, "diff_dst", 1}));
    EXPECT_EQ(avg_pool_backward<gradkern::bfloat16>({1, 2, 1, 1}, planes(pool({1, 1}, {1, 1})),
                                                    tensor<gradkern::bfloat16>{1, 1, 1, 1}),
              (finding{errc::invalid_shape, "diff_dst", 1}));
}

// CVE-2022-35968: AvgPoolGrad with a negative orig_input_shape aborted.
TEST(abuse_avg_pool, backward_of_a_negative_size) {
    constexpr std::int64_t n = -536870912;
    EXPECT_EQ(avg_pool_backward({1, 5, 7, 1}, pool({2, 2}, {2, 2}, auto_pad::valid), tensor<>{n, n, n, n}),
              (finding{errc::invalid_shape, "diff_src", 0}));
}

// CVE-2023-25669: AvgPoolGrad with windows, strides and sizes of 0 divided by zero.
TEST(abuse_avg_pool, backward_of_windows_of_nothing) {
    avg_pool_attributes a = planes(pool({0, 0}, {0, 0}, auto_pad::same_upper));
    EXPECT_EQ(avg_pool_backward({1, 1, 1, 1}, a, tensor<>{1, 0, 0, 0}), (finding{errc::invalid_argument, "kernel", 0}));
    a.kernel = {1, 1};
    EXPECT_EQ(avg_pool_backward({1, 1, 1, 1}, a, tensor<>{1, 0, 0, 0}),
              (finding{errc::invalid_argument, "strides", 0}));
    a.strides = {1, 1};
    EXPECT_EQ(avg_pool_backward({1, 1, 1, 1}, a, tensor<>{1, 0, 0, 0}), (finding{errc::invalid_shape, "diff_src", 2}));
}

// CVE-2021-37684: pools divided by a divisor of 0. Here a divisor of 0 is refused, and an empty window divides nothing.
TEST(abuse_avg_pool, divisors_of_zero) {
    avg_pool_attributes a = pool({2}, {3});
    a.divisor_override = 0;
    EXPECT_EQ(avg_pool({1, 5, 1}, a, tensor<>{1, 2, 1}), (finding{errc::invalid_argument, "divisor_override", -1}));
    EXPECT_EQ(avg_pool_backward({1, 2, 1}, a, tensor<>{1, 5, 1}),
              (finding{errc::invalid_argument, "divisor_override", -1}));
    a.divisor_override.reset();
    a.pads_begin = a.pads_end = {4};  // the first and the last window lie entirely in the padding
    a.rounding_type = rounding_type::ceil;
    for (const bool exclude : {false, true}) {
        a.exclude_pad = exclude;
        EXPECT_EQ(avg_pool({1, 5, 1}, a, tensor<>{1, 5, 1}), success);
        EXPECT_EQ(avg_pool_backward({1, 5, 1}, a, tensor<>{1, 5, 1}), success);
    }
}

// PyTorch issue 50960: a pool size of this magnitude.
TEST(abuse_avg_pool, huge_windows) {
    constexpr std::int64_t k = 9132760301568586890;
    EXPECT_EQ(avg_pool({2, 2, 2}, planes(pool({k}, {1})), tensor<>{2, 2, 1}), (finding{errc::invalid_shape, "src", 2}));
    EXPECT_EQ(avg_pool({2, 2, 2, 2}, planes(pool({k, k}, {1, 1})), tensor<>{2, 2, 1, 1}),
              (finding{errc::overflow, "kernel", -1}));
    EXPECT_EQ(avg_pool({2, 2, 2}, planes(pool({k}, {k}, auto_pad::same_upper)), tensor<>{2, 2, 1}), success);
    EXPECT_EQ(avg_pool_backward({2, 2, 1}, planes(pool({k}, {k}, auto_pad::same_upper)), tensor<>{2, 2, 2}), success);
}

// The step between windows is never used, since no two are inside: its product with channels is not computed.
TEST(abuse_avg_pool, a_stride_that_is_never_used) {
    avg_pool_attributes a = pool({1}, {std::int64_t{1} << 60});
    a.rounding_type = rounding_type::ceil;
    EXPECT_EQ(avg_pool({1, 5, 48}, a, tensor<>{1, 2, 48}), success);
    EXPECT_EQ(avg_pool_backward({1, 2, 48}, a, tensor<>{1, 5, 48}), success);
    a = planes(pool({std::int64_t{1} << 56}, {std::int64_t{1} << 45}, auto_pad::same_lower));
    a.dilations = {11};
    EXPECT_EQ(avg_pool_backward({1, 65, 1}, a, tensor<>{1, 65, 2}), success);
}

// ----------------------------------------------------------------------------------------------------------- max pools

// TFSA-2021-199, CVE-2021-41196: max_pool3d with a window of 0, or a negative one.
TEST(abuse_max_pool, windows_of_nothing) {
    const tensor<> src{3, 4, 10, 11, 12};
    EXPECT_EQ(max_pool(src, pool<max_pool_attributes>({2, 2, 0}, {1, 1, 1}), tensor<>{3, 3, 9, 11, 12}),
              (finding{errc::invalid_argument, "kernel", 2}));
    EXPECT_EQ(max_pool(src, pool<max_pool_attributes>({2, -2, 2}, {1, 1, 1}), tensor<>{3, 3, 9, 10, 12}),
              (finding{errc::invalid_argument, "kernel", 1}));
}

// PyTorch issue 73192: max_pool3d_with_indices with windows and dilations whose product does not fit.
TEST(abuse_max_pool, huge_windows_and_dilations) {
    max_pool_attributes a = planes(pool<max_pool_attributes>(extents::filled(3, 536870912), {1, 1, 1}));
    a.dilations = extents::filled(3, 1879048192);
    a.rounding_type = rounding_type::ceil_torch;
    EXPECT_EQ(max_pool({1, 1, 1, 1, 1}, a, tensor<>{1, 1, 1, 1, 1}), (finding{errc::overflow, "kernel", -1}));
    a.kernel = {536870912, 1, 1};
    EXPECT_EQ(max_pool({1, 1, 1, 1, 1}, a, tensor<>{1, 1, 1, 1, 1}), (finding{errc::invalid_shape, "src", 2}));
}

// PyTorch issue 189664: a dilation of 2^31 - 1 overflowed a counter. With one tap it is never taken.
TEST(abuse_max_pool, a_dilation_that_is_never_used) {
    max_pool_attributes a = planes(pool<max_pool_attributes>({1, 1}, {1, 1}));
    a.dilations = extents::filled(2, 2147483647);
    a.rounding_type = rounding_type::ceil_torch;
    EXPECT_EQ(max_pool({5, 10, 24, 24}, a, tensor<>{5, 10, 24, 24}), success);
    EXPECT_EQ(max_pool_backward({2, 3, 24, 24}, {2, 3, 24, 24}, a, tensor<>{2, 3, 24, 24}), success);
}

TEST(abuse_max_pool, a_stride_that_is_never_used) {
    max_pool_attributes a = pool<max_pool_attributes>({3}, {std::int64_t{1} << 62});
    a.rounding_type = rounding_type::ceil;
    EXPECT_EQ(max_pool({1, 6, 2}, a, tensor<>{1, 2, 2}), success);
    EXPECT_EQ(max_pool_backward({1, 6, 2}, {1, 2, 2}, a, tensor<>{1, 6, 2}), success);

    // The largest strides: position plus stride overflows, in any block of positions.
    constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
    for (const std::int64_t less : {1, 50, 57, 87, 97}) {
        a = pool<max_pool_attributes>({1}, {most - less});
        a.rounding_type = rounding_type::ceil;
        EXPECT_EQ(max_pool_backward({1, 100, 1}, {1, 2, 1}, a, tensor<>{1, 100, 1}), success) << less;
        EXPECT_EQ(max_pool_backward({1, 10, 1}, {1, 2, 1}, a, tensor<>{1, 10, 1}), success) << less;
        a.rounding_type = rounding_type::floor;
        a.pads_end = {most - 100};
        EXPECT_EQ(max_pool_backward({1, 100, 1}, {1, 2, 1}, a, tensor<>{1, 100, 1}), success) << less;
    }
    a = pool<max_pool_attributes>({3}, {most - 4});
    a.rounding_type = rounding_type::ceil;
    EXPECT_EQ(max_pool_backward({1, 100, 1}, {1, 2, 1}, a, tensor<>{1, 100, 1}), success);
}

// TFSA-2021-068, CVE-2021-29579, and TFSA-2021-063, CVE-2021-29574: an empty gradient of an image that is not empty.
TEST(abuse_max_pool, backward_of_an_empty_gradient) {
    const max_pool_attributes a = pool<max_pool_attributes>({1, 1}, {1, 1}, auto_pad::same_upper);
    EXPECT_EQ(max_pool_backward({1, 1, 1, 1}, {0, 0, 0, 0}, a, tensor<>{1, 1, 1, 1}),
              (finding{errc::invalid_shape, "diff_dst", 1}));
    EXPECT_EQ(max_pool_backward({1, 1, 1, 1}, {0, 1, 1, 1}, a, tensor<>{1, 1, 1, 1}),
              (finding{errc::invalid_shape, "diff_dst", 0}));
    EXPECT_EQ(max_pool_backward({1, 1, 1, 1, 1}, {0, 0, 0, 0, 0},
                                pool<max_pool_attributes>({1, 1, 1}, {1, 1, 1}, auto_pad::same_upper), {1, 1, 1, 1, 1}),
              (finding{errc::invalid_shape, "diff_dst", 1}));
}

// TFSA-2021-064, CVE-2021-29576: a gradient of one image for an input of eleven.
TEST(abuse_max_pool, backward_of_a_gradient_with_another_batch) {
    EXPECT_EQ(max_pool_backward({11, 1, 1, 1, 1}, {1, 1, 1, 1, 1},
                                pool<max_pool_attributes>({1, 1, 1}, {1, 1, 1}, auto_pad::same_upper),
                                tensor<>{11, 1, 1, 1, 1}),
              (finding{errc::invalid_shape, "diff_dst", 0}));
}

// CVE-2021-37674: images without rows and columns under windows that fit only because of the padding.
TEST(abuse_max_pool, backward_of_images_without_rows) {
    max_pool_attributes a = pool<max_pool_attributes>({16, 16}, {16, 18});
    a.pads_begin = {14, 15};
    a.pads_end = {3, 5};
    EXPECT_EQ(max_pool_backward({3, 0, 0, 2}, {3, 0, 0, 2}, a, tensor<>{3, 0, 0, 2}),
              (finding{errc::invalid_shape, "src", 1}));
    EXPECT_EQ(max_pool_backward({3, 1, 1, 2}, {3, 1, 1, 2}, a, tensor<>{3, 1, 1, 2}), success);
}

// ---------------------------------------------------------------------------------------------- max pools from indices

// TFSA-2021-062, CVE-2021-29573: MaxPoolGradWithArgmax of empty tensors divided by the batch.
TEST(abuse_max_pool_indices, nothing_and_an_empty_batch) {
    EXPECT_EQ(max_pool_backward_from_indices({0, 0, 0, 0}, {0, 0, 0, 0}, per_image, tensor<>{0, 0, 0, 0}),
              (finding{errc::invalid_shape, "diff_dst", 1}));
    EXPECT_EQ(max_pool_backward_from_indices({0, 1, 1, 1}, {0, 1, 1, 1}, per_image, tensor<>{0, 1, 1, 1}), success);
}

// TFSA-2021-057, CVE-2021-29570: fewer indices than gradients.
TEST(abuse_max_pool_indices, fewer_indices_than_gradients) {
    EXPECT_EQ(max_pool_backward_from_indices({1, 1, 1, 4}, {1}, per_image, tensor<>{1, 1, 3, 1}),
              (finding{errc::invalid_shape, "indices", -1}));
    EXPECT_EQ(max_pool_backward_from_indices({1, 1, 1, 4}, {1, 1, 1, 1}, per_image, tensor<>{1, 1, 3, 1}),
              (finding{errc::invalid_shape, "indices", 3}));
    EXPECT_EQ(max_pool_backward_from_indices({1, 1, 1, 4}, {1, 1, 1, 4}, per_image, tensor<>{1, 1, 3, 1}),
              (finding{errc::invalid_shape, "diff_src", 3}));
}

// PyTorch issue 140923: gradients of nine images, indices and input of five.
TEST(abuse_max_pool_indices, gradients_of_more_images_than_indices) {
    EXPECT_EQ(max_pool_backward_from_indices({9, 7, 9, 9}, filled({5, 7, 9, 9}, 5), per_plane, tensor<>{5, 7, 9, 9}),
              (finding{errc::invalid_shape, "indices", 0}));
    EXPECT_EQ(max_pool_backward_from_indices({9, 7, 9, 9}, filled({9, 7, 9, 9}, 5), per_plane, tensor<>{5, 7, 9, 9}),
              (finding{errc::invalid_shape, "diff_src", 0}));
    max_pool_attributes a = planes(pool<max_pool_attributes>({3, 3}, {1, 1}));
    a.pads_begin = a.pads_end = {1, 1};
    EXPECT_EQ(max_pool_backward({5, 7, 9, 9}, {9, 7, 9, 9}, a, tensor<>{5, 7, 9, 9}),
              (finding{errc::invalid_shape, "diff_dst", 0}));
}

// PyTorch issues 142459 and 193736: indices of an empty batch.
TEST(abuse_max_pool_indices, indices_of_an_empty_batch) {
    EXPECT_EQ(max_pool_backward_from_indices({1, 2, 1, 3, 2}, {0, 2, 1, 3, 2}, per_plane, tensor<>{1, 2, 3, 6, 5}),
              (finding{errc::invalid_shape, "indices", 0}));
    EXPECT_EQ(max_pool_backward_from_indices({1, 1, 1, 2, 3}, {0, 1, 1, 2, 3}, per_plane, tensor<>{1, 1, 2, 4, 6}),
              (finding{errc::invalid_shape, "indices", 0}));
}

// PyTorch issues 141099 and 141100: indices of other sizes, or of another rank, than the gradients.
TEST(abuse_max_pool_indices, indices_of_another_shape) {
    EXPECT_EQ(max_pool_backward_from_indices({1, 4, 4, 4}, filled({1, 4, 3, 1}, 5), per_plane, tensor<>{1, 4, 4, 4}),
              (finding{errc::invalid_shape, "indices", 2}));
    EXPECT_EQ(
        max_pool_backward_from_indices({5, 4, 5, 1, 3}, filled({5, 4, 1, 3}, 5), per_plane, tensor<>{5, 4, 4, 1, 3}),
        (finding{errc::invalid_shape, "indices", -1}));
}

// PyTorch issue 193104: every index 2^32, which a 32-bit counter takes for 0.
TEST(abuse_max_pool_indices, indices_of_more_than_32_bits) {
    for (const max_pool_indices_attributes& a : {whole_tensor, per_image, per_plane}) {
        max_pool_indices_attributes in_planes = a;
        in_planes.data_format = data_format::ncx;
        EXPECT_EQ(max_pool_backward_from_indices({1, 1, 1, 2, 3}, filled({1, 1, 1, 2, 3}, std::int64_t{1} << 32),
                                                 in_planes, tensor<>{1, 1, 2, 4, 6}),
                  (finding{errc::index_out_of_range, "indices", -1}));
    }
}

// PyTorch issue 131659: negative indices out of an 8-bit overflow.
TEST(abuse_max_pool_indices, negative_indices) {
    for (std::int64_t bad = -128; bad < -1; ++bad) {
        places indices = filled({1, 3, 6, 6}, 0);
        indices.memory[static_cast<std::size_t>(-bad % 108)] = bad;
        EXPECT_EQ(max_pool_backward_from_indices({1, 3, 6, 6}, indices, per_plane, tensor<>{1, 3, 12, 12}),
                  (finding{errc::index_out_of_range, "indices", -1}));
    }
}

// ONNX Runtime pull requests 27903 and 27932, TensorFlow pull request 115326: indices were used as offsets unchecked.
// Here the last of many is wrong, when all others could have been added already.
TEST(abuse_max_pool_indices, one_bad_index_at_the_end_of_many) {
    const extents small{2, 8, 8, 3};
    const extents large{2, 16, 16, 3};
    struct row {
        max_pool_indices_attributes attributes;
        std::int64_t size;
    };
    for (const row& r : {row{whole_tensor, 2 * 16 * 16 * 3}, row{per_image, 16 * 16 * 3},
                         row{{.index_base = index_base::plane}, 16 * 16}}) {
        for (const std::int64_t bad :
             {std::int64_t{-2}, r.size, r.size + 1, std::numeric_limits<std::int64_t>::max(),
              std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::min() + r.size}) {
            places indices = filled(small, 7);
            indices.memory[indices.memory.size() - 1] = bad;
            EXPECT_EQ(max_pool_backward_from_indices(tensor<>(small), indices, r.attributes, tensor<>(large)),
                      (finding{errc::index_out_of_range, "indices", -1}))
                << bad << " of " << r.size;
        }
        for (const std::int64_t good : {std::int64_t{-1}, std::int64_t{0}, r.size - 1}) {
            places indices = filled(small, 7);
            indices.memory[indices.memory.size() - 1] = good;
            EXPECT_EQ(max_pool_backward_from_indices(tensor<>(small), indices, r.attributes, tensor<>(large)), success);
        }
    }
}

// --------------------------------------------------------------------------------------------------------------- aclnn

// The aclnnAvgPool2dBackward document leaves the size of gradOutput to the caller. The reports above as that operator:
// CVE-2021-29577, TensorFlow issue 64642, PyTorch issue 194803, CVE-2022-35968 and CVE-2023-25669.
TEST(abuse_aclnn, phase_1_refuses_what_the_pools_refuse) {
    namespace acl = gradkern::aclnn;
    struct row {
        std::vector<std::int64_t> grad_output, self, kernel, stride, padding;
    };
    const std::vector<row> rows{
        {{3, 1, 1, 1}, {10, 7, 3, 7}, {1, 1}, {1, 1}, {0, 0}},                       // batch and channels
        {{2, 2, 3, 3}, {2, 2, 2, 2}, {1, 1}, {1, 1}, {0, 0}},                        // larger than the input
        {{1, 2, 1, 1}, {1, 1, 1, 1}, {1, 1}, {1, 1}, {0, 0}},                        // channels
        {{1, 1, 5, 7}, {-536870912, 1, 5, 7}, {2, 2}, {2, 2}, {0, 0}},               // negative
        {{1, 1, 1, 1}, {1, 0, 0, 0}, {0, 0}, {0, 0}, {0, 0}},                        // nothing
        {{1, 1, 1, 1}, {1, 1, 1, 1}, {1, 1}, {0, 1}, {0, 0}},                        // stride 0
        {{1, 1, 1, 1}, {1, 1, 1, 1}, {3, 3}, {1, 1}, {2, 1}},                        // padding above half the kernel
        {{1, 1, 1, 1}, {1, 1, 1, 1}, {9132760301568586890}, {1}, {0}},               // huge
        {{1, 1, 1, 1}, {1, 1, 1LL << 31, 1LL << 31}, {1LL << 31}, {1LL << 31}, {0}}  // overflow
    };
    for (const row& r : rows) {
        const auto list = [](const std::vector<std::int64_t>& v) { return acl::aclCreateIntArray(v.data(), v.size()); };
        tensor<> grad_output(extents(std::span<const std::int64_t>(r.grad_output)));
        tensor<> grad_input(extents(std::span<const std::int64_t>(r.self)));
        grad_input.memory.poison();
        const auto before = grad_input.memory.snapshot();
        const auto describe = [&](const std::vector<std::int64_t>& dims, tensor<>& t) {
            return acl::aclCreateTensor(dims.data(), dims.size(), acl::ACL_FLOAT, nullptr, 0, acl::ACL_FORMAT_NCHW,
                                        dims.data(), dims.size(), t.memory.data());
        };
        acl::aclTensor* out = describe(r.grad_output, grad_output);
        acl::aclTensor* in = describe(r.self, grad_input);
        acl::aclIntArray* kernel = list(r.kernel);
        acl::aclIntArray* stride = list(r.stride);
        acl::aclIntArray* padding = list(r.padding);
        std::uint64_t bytes = 1;
        auto* executor = reinterpret_cast<acl::aclOpExecutor*>(std::uintptr_t{1});
        EXPECT_EQ(acl::aclnnAvgPool2dBackwardGetWorkspaceSize(out, in, kernel, stride, padding, false, true, 0, 0, in,
                                                              &bytes, &executor),
                  acl::ACLNN_ERR_PARAM_INVALID)
            << "row " << &r - rows.data();
        EXPECT_EQ(bytes, 0U);
        EXPECT_EQ(executor, nullptr);
        EXPECT_EQ(grad_input.memory.snapshot(), before);
        EXPECT_TRUE(grad_input.memory.zones_intact());
        acl::aclDestroyTensor(out);
        acl::aclDestroyTensor(in);
        acl::aclDestroyIntArray(kernel);
        acl::aclDestroyIntArray(stride);
        acl::aclDestroyIntArray(padding);
    }
}

// -------------------------------------------------------------------------------------------------------- workers

/// Claims any number of workers, and runs those it is given one after the other.
struct boasting_executor {
    std::ptrdiff_t workers;
    template <class F>
    void parallel_for(std::ptrdiff_t n, const F& fn) const {
        for (std::ptrdiff_t i = 0; i < n; ++i) fn(i);
    }
    [[nodiscard]] std::ptrdiff_t concurrency() const { return workers; }
};

/// Calls run(plan, workspace, executor) for workers that nobody has: fewer than one count as one, and many are counted.
template <class Plan, class Run>
void expect_any_number_of_workers(const gradkern::result<Plan>& plan, const Run& run) {
    ASSERT_TRUE(plan);
    constexpr std::ptrdiff_t most = std::numeric_limits<std::ptrdiff_t>::max();
    for (const std::ptrdiff_t few : {std::ptrdiff_t{0}, std::ptrdiff_t{-5}, std::numeric_limits<std::ptrdiff_t>::min()})
        EXPECT_EQ(plan->workspace_bytes(few), plan->workspace_bytes(1));
    for (const std::ptrdiff_t many : {std::ptrdiff_t{1} << 20, std::ptrdiff_t{1} << 40, most / 2, most})
        EXPECT_GE(plan->workspace_bytes(many), plan->workspace_bytes(64));
    for (const std::ptrdiff_t workers : {std::ptrdiff_t{1}, std::ptrdiff_t{3}, std::ptrdiff_t{1000}, most}) {
        const gradkern_test::guarded_bytes workspace(plan->workspace_bytes(std::min<std::ptrdiff_t>(workers, 1000)));
        boasting_executor executor{workers};
        EXPECT_TRUE(run(*plan, std::span<std::byte>{workspace.data(), workspace.size()}, executor).ok());
        EXPECT_TRUE(workspace.zones_intact());
    }
}

TEST(abuse_workers, any_number_of_them) {
    const std::vector<float> x(2 * 64 * 90 * 60, 1.0F);
    const std::vector<float> w(64 * 64 * 9, 1.0F);
    std::vector<float> out(x.size());
    std::vector<std::int64_t> indices(x.size());
    const gradkern::extents image{2, 90, 60, 64};
    const gradkern::convolution_attributes conv{
        .strides = {1, 1}, .dilations = {1, 1}, .pads_begin = {1, 1}, .pads_end = {1, 1}};
    const gradkern::conv_transpose_attributes transposed{
        .strides = {1, 1}, .dilations = {1, 1}, .pads_begin = {1, 1}, .pads_end = {1, 1}};
    const auto ternary = [&](const float* a, const float* b) {
        return [&out, a, b](const auto& plan, auto workspace, auto& executor) {
            return plan.run(a, b, out.data(), workspace, executor);
        };
    };
    const auto with_bias = [&](const auto& plan, auto workspace, auto& executor) {
        return plan.run(x.data(), w.data(), nullptr, out.data(), workspace, executor);
    };
    const auto binary = [&](const auto& plan, auto workspace, auto& executor) {
        return plan.run(x.data(), out.data(), workspace, executor);
    };
    expect_any_number_of_workers(gradkern::plan_convolution<float>(image, {3, 3, 64, 64}, {}, conv), with_bias);
    expect_any_number_of_workers(gradkern::plan_convolution_backward_data<float>(image, {3, 3, 64, 64}, conv),
                                 ternary(x.data(), w.data()));
    expect_any_number_of_workers(gradkern::plan_convolution_backward_weights<float>(image, image, conv, {3, 3, 64, 64}),
                                 ternary(x.data(), x.data()));
    expect_any_number_of_workers(gradkern::plan_conv_transpose<float>(image, {3, 3, 64, 64}, {}, transposed),
                                 with_bias);
    expect_any_number_of_workers(gradkern::plan_bias_backward<float>(image, {}), binary);
    const gradkern::extents halves{2, 45, 30, 64};
    expect_any_number_of_workers(gradkern::plan_avg_pool<float>(image, {.kernel = {2, 2}, .strides = {2, 2}}), binary);
    expect_any_number_of_workers(gradkern::plan_lp_pool<float>(image, {.kernel = {2, 2}, .strides = {2, 2}}), binary);
    expect_any_number_of_workers(
        gradkern::plan_max_pool<float>(image, {.kernel = {2, 2}, .strides = {2, 2}}, {}, halves),
        [&](const auto& plan, auto workspace, auto& executor) {
            return plan.run(x.data(), out.data(), indices.data(), workspace, executor);
        });
    expect_any_number_of_workers(
        gradkern::plan_max_pool_backward<float>(image, halves, {.kernel = {2, 2}, .strides = {2, 2}}),
        ternary(x.data(), x.data()));
    expect_any_number_of_workers(gradkern::plan_max_pool_backward_from_indices<float>(halves, halves, {}, image),
                                 [&](const auto& plan, auto workspace, auto& executor) {
                                     return plan.run(x.data(), indices.data(), out.data(), workspace, executor);
                                 });
}

}  // namespace
