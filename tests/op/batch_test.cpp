// What a batch, a micro-batch, a slice of channels or a tile has to do with results: nothing, or what summation says.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <gradkern/avg_pool.hpp>
#include <gradkern/bias.hpp>
#include <gradkern/error_text.hpp>
#include <gradkern/lp_pool.hpp>
#include <gradkern/max_pool.hpp>

#include "support/algorithms.hpp"
#include "support/conv_cases.hpp"
#include "support/executors.hpp"
#include "support/pool_problem.hpp"
#include "support/random.hpp"
#include "support/tensor.hpp"

namespace gradkern_test {
namespace {

using gk::summation;

/// Elements from axis `first` on.
[[nodiscard]] std::int64_t elements_of(const gk::extents& shape, std::size_t first = 0) {
    std::int64_t n = 1;
    for (std::size_t i = first; i < shape.rank(); ++i) n *= shape[i];
    return n;
}
[[nodiscard]] gk::extents with_batch(gk::extents shape, std::int64_t n) {
    shape[0] = n;
    return shape;
}
[[nodiscard]] conv_case with_batch(conv_case c, std::int64_t n) {
    c.large[0] = c.small[0] = n;
    return c;
}

template <class T>
[[nodiscard]] ::testing::AssertionResult same_bits(std::span<const T> a, std::span<const T> b) {
    for (std::size_t i = 0; i < a.size(); ++i)
        if (std::memcmp(&a[i], &b[i], sizeof(T)) != 0)
            return ::testing::AssertionFailure() << "element " << i << " of " << a.size() << ": "
                                                 << static_cast<double>(gk::detail::load_element(&a[i])) << " and "
                                                 << static_cast<double>(gk::detail::load_element(&b[i]));
    return ::testing::AssertionSuccess();
}
template <class T>
[[nodiscard]] std::span<const T> part(const std::vector<T>& all, std::int64_t first, std::int64_t count) {
    return std::span<const T>(all).subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(count));
}

template <class T>
[[nodiscard]] std::vector<T> random_values(random_source& random, std::int64_t count) {
    std::vector<T> values(static_cast<std::size_t>(count));
    for (T& v : values) gk::detail::store_element(&v, random.real(-2.0F, 2.0F));
    return values;
}

/// Runs with as much workspace as so many workers want, in random order.
[[nodiscard]] gk::status run_with(const planned& p, std::ptrdiff_t workers) {
    if (!p.status) return p.status;
    std::vector<std::byte> workspace(p.workspace_bytes(workers));
    shuffling_executor executor(workers);
    return p.run(workspace, executor);
}

// ------------------------------------------------------------------------------------------------------- weight gradients

constexpr std::array weight_operators{conv_operator::convolution_backward_weights,
                                      conv_operator::conv_transpose_backward_weights};

/// The two inputs of a weight gradient.
template <class T>
struct activations {
    std::vector<T> first, second;

    activations(random_source& random, const conv_case& c)
        : first(random_values<T>(random, elements_of(c.first()))),
          second(random_values<T>(random, elements_of(c.second()))) {}

    /// The gradient of `count` images from image `from` on. `c`: the whole batch.
    template <class G>
    [[nodiscard]] gk::status run(const conv_case& c, std::int64_t from, std::int64_t count, G* out,
                                 const gk::plan_options& options, std::ptrdiff_t workers) const {
        const conv_case images = with_batch(c, count);
        const gk::tensor_view<const T> a{first.data() + from * elements_of(c.first(), 1), images.first()};
        const gk::tensor_view<const T> b{second.data() + from * elements_of(c.second(), 1), images.second()};
        return run_with(make_plan<T, G, T>(images, a, b, {}, {out, images.weights}, options), workers);
    }
};

/// Images of one chunk, of several chunks, and of several sums of chunks.
[[nodiscard]] conv_case weights_case(random_source& random, conv_operator op) {
    const std::int64_t kind = random.integer(0, 9);
    conv_case c = random_conv_case(random, kind == 0 ? 3'000'000 : 200'000, op, kind <= 3);
    return with_batch(c, kind == 0 ? 2 : random.integer(1, 5));
}

template <class T>
void expect_micro_batches_to_have_the_bits_of_the_batch(std::string_view name, int cases) {
    random_source random(name);
    int splits = 0;
    for (int i = 0; i < cases; ++i, random.next_case()) {
        GRADKERN_TRACE_SEED(random);
        const conv_case c = weights_case(random, weight_operators[static_cast<std::size_t>(i) % 2]);
        SCOPED_TRACE(c.text());
        const std::int64_t batch = c.large[0];
        const activations<T> inputs(random, c);
        const std::vector<float> before = random_values<float>(random, elements_of(c.weights));
        const bool continues = random.chance(1, 3);
        gk::plan_options options{.output = continues ? gk::output_mode::accumulate : gk::output_mode::overwrite,
                                 .summation = summation::image_by_image};
        std::vector<float> whole = before;
        ASSERT_TRUE(inputs.run(c, 0, batch, whole.data(), options, 1).ok());
        for (const gk::algorithm how : all_algorithms) {
            SCOPED_TRACE(gk::name_of(how));
            std::vector<float> sum = before;
            options.algorithm = how;
            options.scratch = random.chance(1, 4) ? gk::scratch_use::least : gk::scratch_use::fast;
            bool fits = true;
            for (std::int64_t from = 0, count = 0; from < batch && fits; from += count) {
                count = random.integer(1, batch - from);
                options.output = from > 0 || continues ? gk::output_mode::accumulate : gk::output_mode::overwrite;
                const gk::status s =
                    inputs.run(c, from, count, sum.data(), options, random.pick<std::ptrdiff_t>({1, 2, 3, 7, 16, 64}));
                fits = !refuses_algorithm(s);
                if (fits) {
                    ASSERT_TRUE(s.ok()) << gk::to_string(s);
                }
            }
            if (!fits) continue;
            ++splits;
            ASSERT_TRUE(same_bits<float>(sum, whole));
        }
    }
    EXPECT_GT(splits, cases * 2);
}
TEST(batch, micro_batches_have_the_bits_of_the_batch_f32) {
    expect_micro_batches_to_have_the_bits_of_the_batch<float>("batch.micro_f32", 400);
}
TEST(batch, micro_batches_have_the_bits_of_the_batch_f16) {
    expect_micro_batches_to_have_the_bits_of_the_batch<gk::float16>("batch.micro_f16", 100);
}
TEST(batch, micro_batches_have_the_bits_of_the_batch_bf16) {
    expect_micro_batches_to_have_the_bits_of_the_batch<gk::bfloat16>("batch.micro_bf16", 100);
}

// The order that options.hpp defines, from images alone.
template <class T>
void expect_images_to_be_added_in_order(std::string_view name, int cases) {
    random_source random(name);
    for (int i = 0; i < cases; ++i, random.next_case()) {
        GRADKERN_TRACE_SEED(random);
        const conv_case c = weights_case(random, weight_operators[static_cast<std::size_t>(i) % 2]);
        SCOPED_TRACE(c.text());
        const std::int64_t batch = c.large[0];
        const std::int64_t elements = elements_of(c.weights);
        const activations<T> inputs(random, c);
        std::vector<std::vector<float>> images;
        for (std::int64_t n = 0; n < batch; ++n) {
            // One image has one order of sums, but for its start: joint and image_by_image agree.
            std::vector<float> alone(static_cast<std::size_t>(elements));
            std::vector<float> joint(static_cast<std::size_t>(elements));
            ASSERT_TRUE(inputs.run(c, n, 1, alone.data(), {.summation = summation::image_by_image}, 1).ok());
            ASSERT_TRUE(inputs.run(c, n, 1, joint.data(), {.summation = summation::joint}, 3).ok());
            ASSERT_TRUE(same_bits<float>(alone, joint));
            images.push_back(std::move(alone));
        }
        std::vector<float> folded(static_cast<std::size_t>(elements));
        for (const auto& image : images)
            for (std::size_t k = 0; k < folded.size(); ++k) folded[k] += image[k];
        std::vector<float> whole(static_cast<std::size_t>(elements));
        ASSERT_TRUE(inputs.run(c, 0, batch, whole.data(), {.summation = summation::image_by_image}, 7).ok());
        ASSERT_TRUE(same_bits<float>(whole, folded));

        for (const gk::algorithm how : all_algorithms) {
            SCOPED_TRACE(gk::name_of(how));
            // Memory around and between images: the last elements are a guard.
            std::vector<float> each(static_cast<std::size_t>(batch * elements) + 1, -77.0F);
            const auto workers = random.pick<std::ptrdiff_t>({1, 3, 16});
            const gk::status s =
                inputs.run(c, 0, batch, each.data(), {.algorithm = how, .summation = summation::per_image}, workers);
            if (refuses_algorithm(s)) continue;
            ASSERT_TRUE(s.ok()) << gk::to_string(s);
            for (std::int64_t n = 0; n < batch; ++n)
                ASSERT_TRUE(same_bits<float>(part(each, n * elements, elements), images[static_cast<std::size_t>(n)]))
                    << "image " << n;
            ASSERT_EQ(each.back(), -77.0F);
            // accumulating: to the previous value of each image
            for (std::size_t k = 0; k + 1 < each.size(); ++k) each[k] = 0.5F;
            ASSERT_TRUE(
                inputs
                    .run(c, 0, batch, each.data(),
                         {.output = gk::output_mode::accumulate, .algorithm = how, .summation = summation::per_image},
                         workers)
                    .ok());
            for (std::int64_t n = 0; n < batch; ++n)
                for (std::int64_t k = 0; k < elements; ++k)
                    ASSERT_EQ(each[static_cast<std::size_t>(n * elements + k)],
                              0.5F + images[static_cast<std::size_t>(n)][static_cast<std::size_t>(k)]);
        }
    }
}
TEST(batch, gradients_of_images_add_up_to_the_batch_f32) {
    expect_images_to_be_added_in_order<float>("batch.images_f32", 300);
}
TEST(batch, gradients_of_images_add_up_to_the_batch_bf16) {
    expect_images_to_be_added_in_order<gk::bfloat16>("batch.images_bf16", 80);
}

// The published bound of each summation, and the reference's results of images.
TEST(batch, results_are_within_their_bounds) {
    random_source random("batch.bounds");
    for (int i = 0; i < 200; ++i, random.next_case()) {
        GRADKERN_TRACE_SEED(random);
        const conv_case c = weights_case(random, weight_operators[static_cast<std::size_t>(i) % 2]);
        SCOPED_TRACE(c.text());
        const activations<float> inputs(random, c);
        const std::int64_t elements = elements_of(c.weights);
        for (const summation how : {summation::joint, summation::image_by_image, summation::per_image}) {
            const std::int64_t results = how == summation::per_image ? c.large[0] : 1;
            const gk::plan_options options{.summation = how};
            std::vector<float> got(static_cast<std::size_t>(results * elements));
            ASSERT_TRUE(inputs.run(c, 0, c.large[0], got.data(), options, 3).ok());
            std::array<std::vector<double>, 2> sums;  // exact, and of absolute terms
            for (const bool absolute : {false, true}) {
                const auto wide = [&](const std::vector<float>& values) {
                    std::vector<double> d(values.begin(), values.end());
                    for (double& v : d) v = absolute ? std::fabs(v) : v;
                    return d;
                };
                const std::vector<double> a = wide(inputs.first);
                const std::vector<double> b = wide(inputs.second);
                std::vector<double>& sum = sums[absolute ? 1 : 0];
                sum.resize(got.size());
                const gk::tensor_view<const double> x{a.data(), c.first()};
                const gk::tensor_view<const double> y{b.data(), c.second()};
                const gk::tensor_view<double> to{sum.data(), c.weights};
                const gk::status s = c.transposed() ? gk::ref::conv_transpose_backward_weights<double, double>(
                                                          x, y, c.transpose, to, {}, {.plan = options})
                                                    : gk::ref::convolution_backward_weights<double, double>(
                                                          x, y, c.conv, to, {}, {.plan = options});
                ASSERT_TRUE(s.ok()) << gk::to_string(s);
            }
            const auto bound = c.error_bound<float, float, float>(false, options);
            ASSERT_TRUE(bound.has_value());
            for (std::size_t k = 0; k < got.size(); ++k)
                ASSERT_LE(std::fabs(static_cast<double>(got[k]) - sums[0][k]), (*bound)(sums[1][k], sums[0][k]))
                    << "element " << k;
        }
    }
}

// 16-bit results are rounded once a call.
TEST(batch, results_of_16_bits_are_rounded_once) {
    random_source random("batch.rounded_once");
    for (int i = 0; i < 60; ++i, random.next_case()) {
        GRADKERN_TRACE_SEED(random);
        const conv_case c = weights_case(random, weight_operators[static_cast<std::size_t>(i) % 2]);
        const activations<gk::bfloat16> inputs(random, c);
        const auto elements = static_cast<std::size_t>(elements_of(c.weights));
        for (const gk::output_mode mode : {gk::output_mode::overwrite, gk::output_mode::accumulate}) {
            std::vector<gk::bfloat16> rounded(elements, gk::bfloat16(0.75F));
            std::vector<float> wide(elements, 0.75F);
            const gk::plan_options options{.output = mode, .summation = summation::image_by_image};
            ASSERT_TRUE(inputs.run(c, 0, c.large[0], rounded.data(), options, 2).ok());
            ASSERT_TRUE(inputs.run(c, 0, c.large[0], wide.data(), options, 1).ok());
            for (std::size_t k = 0; k < elements; ++k)
                ASSERT_EQ(gk::detail::load_element(&rounded[k]), static_cast<float>(gk::bfloat16(wide[k])));
        }
    }
}

// --------------------------------------------------------------------------------------------------------- bias gradients

template <class T, class G>
[[nodiscard]] gk::status run_bias(const std::vector<T>& diff_dst, const gk::extents& shape, gk::data_format format,
                                  std::int64_t from, std::int64_t count, G* out, const gk::plan_options& options,
                                  std::ptrdiff_t workers) {
    const auto plan = gk::plan_bias_backward<T, G>(with_batch(shape, count), {.data_format = format}, {}, options);
    if (!plan) return plan.error();
    std::vector<std::byte> workspace(plan->workspace_bytes(workers));
    shuffling_executor executor(workers);
    return plan->run(diff_dst.data() + from * elements_of(shape, 1), out, workspace, executor);
}

TEST(batch, bias_gradients_of_micro_batches_and_images) {
    random_source random("batch.bias");
    for (int i = 0; i < 300; ++i, random.next_case()) {
        GRADKERN_TRACE_SEED(random);
        const auto format = random.pick({gk::data_format::ncx, gk::data_format::nxc});
        const std::int64_t batch = random.integer(1, 5);
        const std::int64_t channels = random.integer(1, 70);
        const gk::extents space = random.chance(1, 6) ? gk::extents{random.integer(60, 120), random.integer(80, 200)}
                                                      : gk::extents{random.integer(1, 30), random.integer(1, 30)};
        const gk::extents shape = activation(format, batch, channels, space);
        const auto inputs = random_values<float>(random, elements_of(shape));
        const auto size = static_cast<std::size_t>(channels);
        const gk::plan_options one_by_one{.summation = summation::image_by_image};

        std::vector<float> whole(size, -1.0F);
        ASSERT_TRUE(run_bias(inputs, shape, format, 0, batch, whole.data(), one_by_one, 16).ok());
        std::vector<float> each(size * static_cast<std::size_t>(batch) + 1, -77.0F);
        ASSERT_TRUE(run_bias(inputs, shape, format, 0, batch, each.data(), {.summation = summation::per_image},
                             random.pick<std::ptrdiff_t>({1, 4}))
                        .ok());
        EXPECT_EQ(each.back(), -77.0F);
        std::vector<float> folded(size);
        std::vector<float> split(size);
        for (std::int64_t n = 0; n < batch; ++n) {
            for (std::size_t k = 0; k < size; ++k) folded[k] += each[static_cast<std::size_t>(n) * size + k];
            const gk::plan_options options{.output = n == 0 ? gk::output_mode::overwrite : gk::output_mode::accumulate,
                                           .summation = summation::image_by_image};
            ASSERT_TRUE(
                run_bias(inputs, shape, format, n, 1, split.data(), options, random.pick<std::ptrdiff_t>({1, 4, 64}))
                    .ok());
        }
        EXPECT_TRUE(same_bits<float>(folded, whole));
        EXPECT_TRUE(same_bits<float>(split, whole));
    }
}

// The two gradients of one call.
TEST(batch, weights_and_bias_of_each_image) {
    random_source random("batch.weights_and_bias");
    const gk::extents src{3, 5, 20, 21};
    const gk::convolution_attributes a{.strides = {1, 1},
                                       .dilations = {1, 1},
                                       .pads_begin = {1, 1},
                                       .pads_end = {1, 1},
                                       .data_format = gk::data_format::ncx,
                                       .weights_format = gk::weights_format::oix};
    const gk::extents weights{7, 5, 3, 3};
    const gk::extents diff_dst{3, 7, 20, 21};
    const auto x = random_values<float>(random, elements_of(src));
    const auto dy = random_values<float>(random, elements_of(diff_dst));
    const std::int64_t elements = elements_of(weights);
    const auto run = [&](std::int64_t from, std::int64_t count, float* dw, float* db, const gk::plan_options& options) {
        const auto plan = gk::plan_convolution_backward_weights<float>(
            with_batch(src, count), with_batch(diff_dst, count), a, weights, gk::tensor_layout{{7}}, options);
        ASSERT_TRUE(plan.has_value()) << gk::to_string(plan.error());
        std::vector<std::byte> workspace(plan->workspace_bytes(4));
        shuffling_executor executor(4);
        ASSERT_TRUE(plan->run(x.data() + from * elements_of(src, 1), dy.data() + from * elements_of(diff_dst, 1), dw,
                              db, workspace, executor)
                        .ok());
    };
    std::vector<float> dw(static_cast<std::size_t>(3 * elements));
    std::vector<float> db(3 * 7);
    run(0, 3, dw.data(), db.data(), {.summation = summation::per_image});
    for (std::int64_t n = 0; n < 3; ++n) {
        std::vector<float> dw1(static_cast<std::size_t>(elements));
        std::vector<float> db1(7);
        run(n, 1, dw1.data(), db1.data(), {});
        EXPECT_TRUE(same_bits<float>(dw1, part(dw, n * elements, elements)));
        EXPECT_TRUE(same_bits<float>(db1, part(db, n * 7, 7)));
    }
}

// ------------------------------------------------------------------------------- forward and data gradients of convolutions

constexpr std::array image_operators{conv_operator::convolution, conv_operator::convolution_backward_data,
                                     conv_operator::conv_transpose, conv_operator::conv_transpose_backward_data};

template <class T>
struct conv_inputs {
    std::vector<T> images, weights, bias;

    conv_inputs(random_source& random, const conv_case& c)
        : images(random_values<T>(random, elements_of(c.first()))),
          weights(random_values<T>(random, elements_of(c.second()))),
          bias(random_values<T>(random, elements_of(c.bias()))) {}

    /// The results of `count` images from image `from` on.
    [[nodiscard]] gk::status run(const conv_case& c, std::int64_t from, std::int64_t count, T* out,
                                 const gk::plan_options& options, std::ptrdiff_t workers) const {
        const conv_case some = with_batch(c, count);
        const gk::tensor_view<const T> x{images.data() + from * elements_of(c.first(), 1), some.first()};
        const gk::tensor_view<const T> b =
            c.takes_bias() ? gk::tensor_view<const T>{bias.data(), c.bias()} : gk::tensor_view<const T>{};
        return run_with(make_plan<T, T, T>(some, x, {weights.data(), c.second()}, b, {out, some.result()}, options),
                        workers);
    }
};

/// Several images, and a slice of them that begins anywhere.
template <class T>
void expect_images_to_be_independent(std::string_view name, int cases) {
    random_source random(name);
    int compared = 0;
    for (int i = 0; i < cases; ++i, random.next_case()) {
        GRADKERN_TRACE_SEED(random);
        conv_case c = random_conv_case(random, 200'000, image_operators[static_cast<std::size_t>(i) % 4]);
        c = with_batch(c, random.integer(2, 5));
        SCOPED_TRACE(c.text());
        const std::int64_t batch = c.large[0];
        const std::int64_t elements = elements_of(c.result(), 1);
        const conv_inputs<T> inputs(random, c);
        const gk::plan_options plain{};
        std::vector<T> whole(static_cast<std::size_t>(batch * elements));
        ASSERT_TRUE(inputs.run(c, 0, batch, whole.data(), plain, 1).ok());
        for (const gk::algorithm how : all_algorithms) {
            SCOPED_TRACE(gk::name_of(how));
            const std::int64_t from = random.integer(0, batch - 1);
            const std::int64_t count = random.integer(1, batch - from);
            std::vector<T> some(static_cast<std::size_t>(count * elements));
            const gk::plan_options options{
                .algorithm = how,
                .scratch = random.chance(1, 4) ? gk::scratch_use::least : gk::scratch_use::fast,
                .summation = random.pick({summation::joint, summation::image_by_image})};
            const gk::status s =
                inputs.run(c, from, count, some.data(), options, random.pick<std::ptrdiff_t>({1, 2, 3, 7, 16, 64}));
            if (refuses_algorithm(s)) continue;
            ASSERT_TRUE(s.ok()) << gk::to_string(s);
            ++compared;
            ASSERT_TRUE(same_bits<T>(some, part(whole, from * elements, count * elements)));
        }
    }
    EXPECT_GT(compared, cases * 2);
}
TEST(batch, images_of_convolutions_are_independent_f32) {
    expect_images_to_be_independent<float>("batch.alone_f32", 400);
}
TEST(batch, images_of_convolutions_are_independent_f16) {
    expect_images_to_be_independent<gk::float16>("batch.alone_f16", 100);
}
TEST(batch, images_of_convolutions_are_independent_bf16) {
    expect_images_to_be_independent<gk::bfloat16>("batch.alone_bf16", 100);
}

/// The elements [first, first + count) of axis `axis`.
template <class T>
[[nodiscard]] std::vector<T> slice_of(const std::vector<T>& values, const gk::extents& shape, std::size_t axis,
                                      std::int64_t first, std::int64_t count) {
    const std::int64_t inner = elements_of(shape, axis + 1);
    const std::int64_t outer = elements_of(shape) / elements_of(shape, axis);
    std::vector<T> slice;
    for (std::int64_t o = 0; o < outer; ++o) {
        const auto from = values.begin() + (o * shape[axis] + first) * inner;
        slice.insert(slice.end(), from, from + count * inner);
    }
    return slice;
}

// A slice of the output channels of one group: the weights and bias of these alone give the same bits.
TEST(batch, slices_of_output_channels_are_independent) {
    random_source random("batch.channels");
    int compared = 0;
    for (int i = 0; i < 600; ++i, random.next_case()) {
        GRADKERN_TRACE_SEED(random);
        const conv_case c = random_conv_case(random, 200'000, image_operators[static_cast<std::size_t>(i) % 4]);
        if ((c.transposed() ? c.transpose.groups : c.conv.groups) != 1 || c.large[0] == 0) continue;
        SCOPED_TRACE(c.text());
        const std::size_t r = c.large.rank() - 2;
        const gk::weights_format w = c.transposed() ? c.transpose.weights_format : c.conv.weights_format;
        const bool forward = c.takes_bias();
        const std::size_t axis = forward ? gk::shape::output_channel_index(w, r) : gk::shape::input_channel_index(w, r);
        const std::size_t channel = gk::shape::channel_index(c.data_format(), r);
        const std::int64_t first = random.integer(0, c.weights[axis] - 1);
        const std::int64_t count = random.integer(1, c.weights[axis] - first);
        const conv_inputs<float> inputs(random, c);
        std::vector<float> whole(static_cast<std::size_t>(elements_of(c.result())));
        ASSERT_TRUE(inputs.run(c, 0, c.large[0], whole.data(), {}, 3).ok());
        conv_case sliced = c;
        sliced.weights[axis] = count;
        (c.writes_small() ? sliced.small : sliced.large)[channel] = count;
        conv_inputs<float> few = inputs;
        few.weights = slice_of(inputs.weights, c.weights, axis, first, count);
        few.bias.assign(inputs.bias.begin() + first, inputs.bias.begin() + first + count);
        std::vector<float> some(static_cast<std::size_t>(elements_of(sliced.result())));
        ASSERT_TRUE(few.run(sliced, 0, c.large[0], some.data(), {}, 2).ok());
        ++compared;
        ASSERT_TRUE(same_bits<float>(some, slice_of(whole, c.result(), channel, first, count)));
    }
    EXPECT_GT(compared, 150);
}

// A tile of an image, cut out with all that its windows read.
TEST(batch, tiles_with_their_halo_are_independent) {
    random_source random("batch.tiles");
    for (int i = 0; i < 300; ++i, random.next_case()) {
        GRADKERN_TRACE_SEED(random);
        const auto axis_of = [&] { return random.integer(1, 4); };
        const gk::extents kernel{axis_of(), axis_of()};
        const gk::extents strides{random.integer(1, 2), random.integer(1, 3)};
        const gk::extents dilations{random.integer(1, 2), random.integer(1, 2)};
        const std::int64_t inputs_of = random.pick<std::int64_t>({1, 3, 16, 65, 130});
        const std::int64_t outputs_of = random.pick<std::int64_t>({1, 2, 16, 33});
        const auto format = random.pick({gk::data_format::ncx, gk::data_format::nxc});
        const gk::convolution_attributes a{.strides = strides,
                                           .dilations = dilations,
                                           .pads_begin = {0, 0},
                                           .pads_end = {0, 0},
                                           .data_format = format,
                                           .weights_format = gk::weights_format::oix};
        const auto read_by = [&](std::size_t at, std::int64_t outputs) {
            return (outputs - 1) * strides[at] + (kernel[at] - 1) * dilations[at] + 1;
        };
        const gk::extents out{random.integer(2, 12), random.integer(2, 40)};
        const gk::extents src = activation(format, 1, inputs_of, {read_by(0, out[0]), read_by(1, out[1])});
        const gk::extents dst = activation(format, 1, outputs_of, out);
        const gk::extents weights{outputs_of, inputs_of, kernel[0], kernel[1]};
        const auto x = random_values<float>(random, elements_of(src));
        const auto w = random_values<float>(random, elements_of(weights));
        const auto run = [&](const std::vector<float>& from, const gk::extents& shape, const gk::extents& result) {
            std::vector<float> to(static_cast<std::size_t>(elements_of(result)));
            std::vector<std::byte> workspace(std::size_t{1} << 24);
            const gk::status done = gk::convolution<float>({from.data(), shape}, {w.data(), weights}, {}, a,
                                                           {to.data(), result}, {.workspace = workspace});
            EXPECT_TRUE(done.ok()) << gk::to_string(done);
            return to;
        };
        const std::vector<float> whole = run(x, src, dst);
        gk::extents first{0, 0};
        gk::extents count{1, 1};
        gk::extents tile_src = src;
        gk::extents tile_dst = dst;
        std::vector<float> read = x;
        std::vector<float> expected = whole;
        const std::size_t space = gk::shape::spatial_index(format);
        for (std::size_t k = 0; k < 2; ++k) {
            first[k] = random.integer(0, out[k] - 1);
            count[k] = random.integer(1, out[k] - first[k]);
            read = slice_of(read, tile_src, space + k, first[k] * strides[k], read_by(k, count[k]));
            expected = slice_of(expected, tile_dst, space + k, first[k], count[k]);
            tile_src[space + k] = read_by(k, count[k]);
            tile_dst[space + k] = count[k];
        }
        ASSERT_TRUE(same_bits<float>(run(read, tile_src, tile_dst), expected));
    }
}

// ------------------------------------------------------------------------------------------------------------------ pools

/// A pool of one image: `run(count, first image, options, workers, results)`, with the elements of one result image.
template <class T>
using pool_run = std::function<gk::status(std::int64_t from, std::int64_t count, const gk::plan_options&,
                                          std::ptrdiff_t workers, T* out)>;

template <class T>
void expect_pooled_images_to_be_independent(random_source& random, std::string_view name, std::int64_t batch,
                                            std::int64_t elements, const pool_run<T>& run) {
    SCOPED_TRACE(name);
    std::vector<T> whole(static_cast<std::size_t>(batch * elements));
    ASSERT_TRUE(run(0, batch, {}, 1, whole.data()).ok());
    for (const gk::algorithm how : all_algorithms) {
        SCOPED_TRACE(gk::name_of(how));
        const std::int64_t from = random.integer(0, batch - 1);
        const std::int64_t count = random.integer(1, batch - from);
        std::vector<T> some(static_cast<std::size_t>(count * elements));
        const gk::plan_options options{.algorithm = how,
                                       .scratch = random.chance(1, 4) ? gk::scratch_use::least : gk::scratch_use::fast};
        const gk::status s = run(from, count, options, random.pick<std::ptrdiff_t>({1, 2, 3, 7, 16}), some.data());
        if (refuses_algorithm(s)) continue;
        ASSERT_TRUE(s.ok()) << gk::to_string(s);
        ASSERT_TRUE(same_bits<T>(some, part(whole, from * elements, count * elements)));
    }
}

/// Runs a plan made by `make(options)`.
template <class Make, class Run>
[[nodiscard]] gk::status run_plan(const Make& make, std::ptrdiff_t workers, const Run& run) {
    const auto plan = make();
    if (!plan) return plan.error();
    std::vector<std::byte> workspace(plan->workspace_bytes(workers));
    shuffling_executor executor(workers);
    return run(*plan, std::span<std::byte>(workspace), gk::executor_ref(executor));
}

/// Attributes of any pool.
template <class Attributes>
[[nodiscard]] Attributes pool_attributes(random_source random, std::size_t rank, gk::data_format format) {
    Attributes a;
    a.kernel = a.strides = a.pads_begin = a.pads_end = gk::extents{};
    for (std::size_t i = 0; i < rank; ++i) {
        a.kernel.push_back(random.integer(1, rank == 1 ? 20 : 4));
        a.strides.push_back(random.integer(1, 3));
        a.pads_begin.push_back(random.integer(0, a.kernel[i] / 2));
        a.pads_end.push_back(random.integer(0, a.kernel[i] / 2));
    }
    a.data_format = format;
    return a;
}

template <class T>
void expect_pools_of_images_to_be_independent(std::string_view name, int cases) {
    random_source random(name);
    for (int i = 0; i < cases; ++i, random.next_case()) {
        GRADKERN_TRACE_SEED(random);
        const auto rank = static_cast<std::size_t>(random.integer(1, 3));
        const auto format = random.pick({gk::data_format::ncx, gk::data_format::nxc});
        const std::int64_t batch = random.integer(2, 5);
        gk::extents space;
        for (std::size_t k = 0; k < rank; ++k)
            space.push_back(random.integer(rank == 1 ? 20 : 4, rank == 1 ? 90 : rank == 2 ? 24 : 8));
        const std::int64_t channels = random.pick<std::int64_t>({1, 2, 3, 8, 15, 16, 17, 40, 70});
        const gk::extents src = activation(format, batch, channels, space);
        const auto avg = pool_attributes<gk::avg_pool_attributes>(random, rank, format);
        const auto max = pool_attributes<gk::max_pool_attributes>(random, rank, format);
        const auto lp = pool_attributes<gk::lp_pool_attributes>(random, rank, format);
        const gk::extents dst = *gk::infer_avg_pool(src, avg);
        const std::int64_t in = elements_of(src, 1);
        const std::int64_t out = elements_of(dst, 1);
        const auto x = random_values<T>(random, batch * in);
        const auto dy = random_values<T>(random, batch * out);
        std::vector<T> y(static_cast<std::size_t>(batch * out));
        std::vector<std::int64_t> indices(y.size());
        const auto shape = [](const gk::extents& e, std::int64_t n) { return with_batch(e, n); };

        expect_pooled_images_to_be_independent<T>(
            random, "avg_pool", batch, out, [&](auto from, auto n, const auto& options, auto workers, T* to) {
                return run_plan([&] { return gk::plan_avg_pool<T>(shape(src, n), avg, {}, options); }, workers,
                                [&](const auto& p, auto ws, auto e) { return p.run(x.data() + from * in, to, ws, e); });
            });
        expect_pooled_images_to_be_independent<T>(
            random, "avg_pool_backward", batch, in, [&](auto from, auto n, const auto& options, auto workers, T* to) {
                return run_plan(
                    [&] { return gk::plan_avg_pool_backward<T>(shape(dst, n), avg, shape(src, n), options); }, workers,
                    [&](const auto& p, auto ws, auto e) { return p.run(dy.data() + from * out, to, ws, e); });
            });
        ASSERT_TRUE(run_plan([&] { return gk::plan_lp_pool<T>(src, lp, {}); }, 1,
                             [&](const auto& p, auto ws, auto e) { return p.run(x.data(), y.data(), ws, e); })
                        .ok());
        expect_pooled_images_to_be_independent<T>(
            random, "lp_pool", batch, out, [&](auto from, auto n, const auto& options, auto workers, T* to) {
                return run_plan([&] { return gk::plan_lp_pool<T>(shape(src, n), lp, {}, options); }, workers,
                                [&](const auto& p, auto ws, auto e) { return p.run(x.data() + from * in, to, ws, e); });
            });
        expect_pooled_images_to_be_independent<T>(
            random, "lp_pool_backward", batch, in, [&](auto from, auto n, const auto& options, auto workers, T* to) {
                return run_plan(
                    [&] {
                        return gk::plan_lp_pool_backward<T>(shape(src, n), shape(dst, n), shape(dst, n), lp, {},
                                                            options);
                    },
                    workers,
                    [&](const auto& p, auto ws, auto e) {
                        return p.run(x.data() + from * in, y.data() + from * out, dy.data() + from * out, to, ws, e);
                    });
            });
        // indices count over the whole batch: those of image n begin at n * in
        expect_pooled_images_to_be_independent<T>(
            random, "max_pool", batch, out, [&](auto from, auto n, const auto& options, auto workers, T* to) {
                std::vector<std::int64_t> found(static_cast<std::size_t>(n * out));
                const gk::status s = run_plan(
                    [&] { return gk::plan_max_pool<T>(shape(src, n), max, {}, shape(dst, n), options); }, workers,
                    [&](const auto& p, auto ws, auto e) {
                        return p.run(x.data() + from * in, to, found.data(), ws, e);
                    });
                if (!s) return s;
                if (from == 0 && n == batch && options.algorithm == gk::algorithm::automatic && workers == 1)
                    indices = found;
                for (std::size_t k = 0; k < found.size(); ++k)
                    EXPECT_EQ(found[k] + from * in, indices[k + static_cast<std::size_t>(from * out)]) << "index " << k;
                return s;
            });
        expect_pooled_images_to_be_independent<T>(
            random, "max_pool_backward", batch, in, [&](auto from, auto n, const auto& options, auto workers, T* to) {
                return run_plan(
                    [&] { return gk::plan_max_pool_backward<T>(shape(src, n), shape(dst, n), max, {}, options); },
                    workers,
                    [&](const auto& p, auto ws, auto e) {
                        return p.run(x.data() + from * in, dy.data() + from * out, to, ws, e);
                    });
            });
        expect_pooled_images_to_be_independent<T>(
            random, "max_pool_backward_from_indices", batch, in,
            [&](auto from, auto n, const auto& options, auto workers, T* to) {
                std::vector<std::int64_t> own(indices.begin() + from * out, indices.begin() + (from + n) * out);
                for (std::int64_t& k : own) k -= from * in;
                return run_plan(
                    [&] {
                        return gk::plan_max_pool_backward_from_indices<T>(
                            shape(dst, n), shape(dst, n), {.data_format = format}, shape(src, n), options);
                    },
                    workers,
                    [&](const auto& p, auto ws, auto e) {
                        return p.run(dy.data() + from * out, own.data(), to, ws, e);
                    });
            });
    }
}
TEST(batch, images_of_pools_are_independent_f32) {
    expect_pools_of_images_to_be_independent<float>("batch.pools_f32", 120);
}
TEST(batch, images_of_pools_are_independent_f16) {
    expect_pools_of_images_to_be_independent<gk::float16>("batch.pools_f16", 40);
}
TEST(batch, images_of_pools_are_independent_bf16) {
    expect_pools_of_images_to_be_independent<gk::bfloat16>("batch.pools_bf16", 40);
}

// ----------------------------------------------------------------------------------------------------------------- errors

TEST(batch, per_image_is_for_sums_over_the_batch) {
    const gk::plan_options options{.summation = summation::per_image};
    const gk::extents x{2, 4, 5, 5};
    const gk::convolution_attributes a{.strides = {1, 1},
                                       .dilations = {1, 1},
                                       .pads_begin = {0, 0},
                                       .pads_end = {0, 0},
                                       .data_format = gk::data_format::ncx,
                                       .weights_format = gk::weights_format::oix};
    const auto expect_refused = [](const auto& plan) {
        ASSERT_FALSE(plan.has_value());
        EXPECT_EQ(plan.error().code, gk::errc::unsupported);
        EXPECT_EQ(plan.error().argument, "summation");
    };
    const gk::extents w{3, 4, 3, 3};
    const gk::extents y{2, 3, 3, 3};
    expect_refused(gk::plan_convolution<float>(x, w, {}, a, {}, options));
    expect_refused(gk::plan_convolution_backward_data<float>(y, w, a, x, options));
    const gk::conv_transpose_attributes t{.strides = {1, 1},
                                          .dilations = {1, 1},
                                          .pads_begin = {0, 0},
                                          .pads_end = {0, 0},
                                          .data_format = gk::data_format::ncx,
                                          .weights_format = gk::weights_format::oix};
    expect_refused(gk::plan_conv_transpose<float>(x, gk::extents{3, 4, 3, 3}, {}, t, {}, options));
    expect_refused(gk::plan_conv_transpose_backward_data<float>(gk::extents{2, 3, 7, 7}, w, t, {}, options));
    const gk::avg_pool_attributes avg{.kernel = {2, 2},
                                      .strides = {1, 1},
                                      .pads_begin = {0, 0},
                                      .pads_end = {0, 0},
                                      .data_format = gk::data_format::ncx};
    expect_refused(gk::plan_avg_pool<float>(x, avg, {}, options));
    expect_refused(gk::plan_avg_pool_backward<float>(gk::extents{2, 4, 4, 4}, avg, x, options));
    const gk::max_pool_attributes max{.kernel = {2, 2},
                                      .strides = {1, 1},
                                      .pads_begin = {0, 0},
                                      .pads_end = {0, 0},
                                      .data_format = gk::data_format::ncx};
    expect_refused(gk::plan_max_pool<float>(x, max, {}, {}, options));
    expect_refused(gk::plan_max_pool_backward<float>(x, gk::extents{2, 4, 4, 4}, max, {}, options));
    expect_refused(gk::plan_max_pool_backward_from_indices<float>(gk::extents{2, 4, 4, 4}, gk::extents{2, 4, 4, 4},
                                                                  {.data_format = gk::data_format::ncx}, x, options));
    const gk::lp_pool_attributes lp{.kernel = {2, 2},
                                    .strides = {1, 1},
                                    .pads_begin = {0, 0},
                                    .pads_end = {0, 0},
                                    .data_format = gk::data_format::ncx};
    expect_refused(gk::plan_lp_pool<float>(x, lp, {}, options));
    expect_refused(
        gk::plan_lp_pool_backward<float>(x, gk::extents{2, 4, 4, 4}, gk::extents{2, 4, 4, 4}, lp, {}, options));
}

TEST(batch, gradients_of_each_image_are_dense) {
    const gk::plan_options options{.summation = summation::per_image};
    const gk::extents x{2, 4, 5, 5};
    const gk::extents y{2, 3, 3, 3};
    const gk::convolution_attributes a{.strides = {1, 1},
                                       .dilations = {1, 1},
                                       .pads_begin = {0, 0},
                                       .pads_end = {0, 0},
                                       .data_format = gk::data_format::ncx,
                                       .weights_format = gk::weights_format::oix};
    const gk::tensor_layout gaps{{3, 4, 3, 3}, {40, 10, 3, 1}};
    const auto strided = gk::plan_convolution_backward_weights<float>(x, y, a, gaps, {}, options);
    ASSERT_FALSE(strided.has_value());
    EXPECT_EQ(strided.error().code, gk::errc::unsupported);
    EXPECT_EQ(strided.error().argument, "diff_weights");
    const gk::tensor_layout dense{{3, 4, 3, 3}, {36, 9, 3, 1}};  // strides that say what their absence says
    EXPECT_TRUE(gk::plan_convolution_backward_weights<float>(x, y, a, dense, {}, options).has_value());
    const auto bias =
        gk::plan_bias_backward<float>(y, {.data_format = gk::data_format::ncx}, gk::tensor_layout{{3}, {2}}, options);
    ASSERT_FALSE(bias.has_value());
    EXPECT_EQ(bias.error().argument, "diff_bias");
    // N results reach past what one would: an input inside them overlaps
    std::vector<float> memory(1000, 1.0F);
    const auto plan = gk::plan_convolution_backward_weights<float>(x, y, a, gk::extents{3, 4, 3, 3}, {}, options);
    ASSERT_TRUE(plan.has_value());
    std::vector<std::byte> workspace(plan->workspace_bytes());
    const gk::status s = plan->run(memory.data() + 500, memory.data() + 110, memory.data(), workspace);
    ASSERT_FALSE(s.ok());
    EXPECT_EQ(s.code(), gk::errc::invalid_argument);
    // and more bytes than can be counted are refused
    const std::int64_t many = std::int64_t{1} << 31;
    const auto huge =
        gk::plan_bias_backward<float>(gk::extents{many, many, 1}, {.data_format = gk::data_format::ncx}, {}, options);
    ASSERT_FALSE(huge.has_value());
    EXPECT_EQ(huge.error().code, gk::errc::overflow);
}

/// Gradients of no images into elements of 3.
template <class Plan>
void expect_no_sum(const gk::result<Plan>& plan, std::size_t weights, std::size_t channels, bool stays) {
    ASSERT_TRUE(plan.has_value()) << gk::to_string(plan.error());
    std::vector<float> dw(weights, 3.0F);
    std::vector<float> db(channels, 3.0F);
    std::vector<std::byte> workspace(plan->workspace_bytes(3));
    for (const int workers : {1, 3}) {
        shuffling_executor executor(workers);
        ASSERT_TRUE(plan->run(nullptr, nullptr, dw.data(), db.data(), workspace, executor).ok());
        for (const float v : dw) ASSERT_EQ(v, stays ? 3.0F : 0.0F);
        for (const float v : db) ASSERT_EQ(v, stays ? 3.0F : 0.0F);
    }
}

TEST(batch, an_empty_batch_has_zeros_or_no_gradients) {
    // planes of one chunk of the sum, of a few and of many; lines that are longer than a chunk
    for (const gk::extents& size : {gk::extents{3, 3}, gk::extents{17, 17}, gk::extents{38, 38}, gk::extents{120, 90},
                                    gk::extents{2, 600}, gk::extents{600, 600}})
        for (const summation how : {summation::joint, summation::image_by_image, summation::per_image})
            for (const gk::output_mode mode : {gk::output_mode::overwrite, gk::output_mode::accumulate}) {
                SCOPED_TRACE(testing::Message() << size[0] << 'x' << size[1] << ' ' << static_cast<int>(how));
                const gk::plan_options options{.output = mode, .summation = how};
                const bool stays = how == summation::per_image || mode == gk::output_mode::accumulate;
                const gk::extents x{0, 4, size[0] + 2, size[1] + 2};
                const gk::extents y{0, 3, size[0], size[1]};
                expect_no_sum(gk::plan_convolution_backward_weights<float>(x, y,
                                                                           {.strides = {1, 1},
                                                                            .dilations = {1, 1},
                                                                            .pads_begin = {0, 0},
                                                                            .pads_end = {0, 0},
                                                                            .data_format = gk::data_format::ncx,
                                                                            .weights_format = gk::weights_format::oix},
                                                                           gk::extents{3, 4, 3, 3},
                                                                           gk::tensor_layout{{3}}, options),
                              108, 3, stays);
                expect_no_sum(gk::plan_conv_transpose_backward_weights<float>(
                                  y, x,
                                  {.strides = {1, 1},
                                   .dilations = {1, 1},
                                   .pads_begin = {0, 0},
                                   .pads_end = {0, 0},
                                   .data_format = gk::data_format::ncx,
                                   .weights_format = gk::weights_format::oix},
                                  gk::extents{4, 3, 3, 3}, gk::tensor_layout{{4}}, options),
                              108, 4, stays);
                std::vector<float> db(4, 3.0F);
                const auto bias =
                    gk::plan_bias_backward<float>(x, {.data_format = gk::data_format::ncx}, gk::extents{4}, options);
                ASSERT_TRUE(bias.has_value()) << gk::to_string(bias.error());
                std::vector<std::byte> workspace(bias->workspace_bytes());
                ASSERT_TRUE(bias->run(nullptr, db.data(), workspace).ok());
                for (const float v : db) ASSERT_EQ(v, stays ? 3.0F : 0.0F);
            }
}

}  // namespace
}  // namespace gradkern_test
