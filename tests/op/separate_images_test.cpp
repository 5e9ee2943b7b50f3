// Batches whose images are buffers of their own have the bits of the batch in one tensor.

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

#include <gradkern/avg_pool.hpp>
#include <gradkern/convolution.hpp>
#include <gradkern/error_text.hpp>
#include <gradkern/executors/thread_pool.hpp>
#include <gradkern/max_pool.hpp>
#include <gradkern/separate_images.hpp>

#include "support/executors.hpp"
#include "support/random.hpp"

namespace gradkern_test {
namespace {

namespace gk = gradkern;

/// A batch in one tensor, and the same images in buffers of their own, in another order in memory.
template <class T>
class images {
public:
    images(std::int64_t batch, std::int64_t elements)
        : elements_(static_cast<std::size_t>(elements)), whole(static_cast<std::size_t>(batch) * elements_) {
        for (std::int64_t n = 0; n < batch; ++n) buffers.emplace_back(elements_);
    }
    images(std::int64_t batch, std::int64_t elements, random_source& random) : images(batch, elements) {
        for (T& v : whole) v = T(random.real(-2.0F, 2.0F));
        for (std::size_t n = 0; n < buffers.size(); ++n)
            std::memcpy(buffers[n].data(), whole.data() + n * elements_, elements_ * sizeof(T));
    }
    [[nodiscard]] std::vector<T*> pointers() {
        std::vector<T*> p;
        for (auto& b : buffers) p.push_back(b.data());
        return p;
    }
    [[nodiscard]] std::vector<const T*> inputs() const {
        std::vector<const T*> p;
        for (const auto& b : buffers) p.push_back(b.data());
        return p;
    }
    void poison() {
        for (auto& b : buffers) std::memset(b.data(), 0xff, b.size() * sizeof(T));
    }
    [[nodiscard]] bool holds(std::byte value) const {
        for (const auto& b : buffers)
            for (const std::byte byte : std::as_bytes(std::span<const T>(b)))
                if (byte != value) return false;
        return true;
    }
    [[nodiscard]] bool equal_the_batch() const {
        for (std::size_t n = 0; n < buffers.size(); ++n)
            if (std::memcmp(buffers[n].data(), whole.data() + n * elements_, elements_ * sizeof(T)) != 0) return false;
        return true;
    }

private:
    std::size_t elements_;

public:
    std::vector<T> whole;
    std::vector<std::vector<T>> buffers;
};

/// Calls f(workspace, executor) with workers and workspaces of every kind.
template <class Plan, class F>
void with_workers(const Plan& plan, const F& f) {
    for (const std::ptrdiff_t workers : {1, 2, 3, 8}) {
        SCOPED_TRACE(workers);
        shuffling_executor shuffled(workers);
        thread_executor threads(workers);
        gk::thread_pool pool(workers);
        for (const std::size_t bytes :
             {plan.workspace_bytes(1), gk::separate_images_workspace_bytes(plan, workers),
              gk::separate_images_workspace_bytes(plan, 2) + 1, gk::separate_images_workspace_bytes(plan, 50)}) {
            SCOPED_TRACE(bytes);
            std::vector<std::byte> memory(bytes + 1);
            f(std::span(memory).first(bytes), gk::executor_ref(shuffled));
            f(std::span(memory).subspan(1), gk::executor_ref(threads));
            f(std::span(memory).first(bytes), gk::executor_ref(pool));
        }
    }
}

struct layer {
    std::int64_t ic, oc, size;
    gk::convolution_attributes attributes;
    gk::extents weights;

    [[nodiscard]] std::int64_t out() const { return (size + 2 - 3) / attributes.strides[0] + 1; }
    [[nodiscard]] gk::extents shape(std::int64_t n, std::int64_t c, std::int64_t s) const {
        return attributes.data_format == gk::data_format::ncx ? gk::extents{n, c, s, s} : gk::extents{n, s, s, c};
    }
    [[nodiscard]] gk::extents src(std::int64_t n) const { return shape(n, ic, size); }
    [[nodiscard]] gk::extents dst(std::int64_t n) const { return shape(n, oc, out()); }
    [[nodiscard]] std::int64_t src_elements() const { return ic * size * size; }
    [[nodiscard]] std::int64_t dst_elements() const { return oc * out() * out(); }
    [[nodiscard]] std::size_t weights_elements() const {
        return static_cast<std::size_t>(ic / attributes.groups * oc * 9);
    }
};
[[nodiscard]] layer make_layer(gk::data_format f, std::int64_t stride, std::int64_t groups) {
    layer l{.ic = 16, .oc = 24, .size = 9, .attributes = {}, .weights = {24, 16 / groups, 3, 3}};
    l.attributes = {.strides = {stride, stride},
                    .dilations = {1, 1},
                    .pads_begin = {1, 1},
                    .pads_end = {1, 1},
                    .groups = groups,
                    .data_format = f,
                    .weights_format = gk::weights_format::oix};
    return l;
}
const std::array layers{make_layer(gk::data_format::ncx, 1, 1), make_layer(gk::data_format::nxc, 2, 1),
                        make_layer(gk::data_format::nxc, 1, 4)};

template <class T>
[[nodiscard]] std::vector<T> random_values(random_source& random, std::size_t count) {
    std::vector<T> v(count);
    for (T& x : v) x = T(random.real(-2.0F, 2.0F));
    return v;
}

template <class T>
void expect_convolutions_of_images_to_have_the_bits_of_the_batch(std::string_view name) {
    random_source random(name);
    for (const layer& l : layers)
        for (const std::int64_t batch : {1, 2, 7}) {
            GRADKERN_TRACE_SEED(random);
            SCOPED_TRACE(batch);
            const images<T> src(batch, l.src_elements(), random);
            const images<T> diff_dst(batch, l.dst_elements(), random);
            const auto weights = random_values<T>(random, l.weights_elements());
            const auto bias = random_values<T>(random, 24);
            images<T> dst(batch, l.dst_elements());
            images<T> diff_src(batch, l.src_elements());
            std::vector<std::byte> memory(1 << 20);
            ASSERT_TRUE(gk::convolution<T>({src.whole.data(), l.src(batch)}, {weights.data(), l.weights},
                                           {bias.data(), {24}}, l.attributes, {dst.whole.data(), l.dst(batch)},
                                           {.workspace = memory})
                            .ok());
            ASSERT_TRUE(gk::convolution_backward_data<T>({diff_dst.whole.data(), l.dst(batch)},
                                                         {weights.data(), l.weights}, l.attributes,
                                                         {diff_src.whole.data(), l.src(batch)}, {.workspace = memory})
                            .ok());
            const auto forward = gk::plan_convolution<T>(l.src(1), l.weights, {24}, l.attributes, l.dst(1));
            const auto data = gk::plan_convolution_backward_data<T>(l.dst(1), l.weights, l.attributes, l.src(1));
            ASSERT_TRUE(forward.has_value() && data.has_value());
            with_workers(*forward, [&](std::span<std::byte> workspace, gk::executor_ref workers) {
                dst.poison();
                const gk::status s = gk::run_separate_images(*forward, workspace, workers, src.inputs(), weights.data(),
                                                             bias.data(), dst.pointers());
                ASSERT_TRUE(s.ok()) << gk::to_string(s);
                ASSERT_TRUE(dst.equal_the_batch());
            });
            with_workers(*data, [&](std::span<std::byte> workspace, gk::executor_ref workers) {
                diff_src.poison();
                ASSERT_TRUE(gk::run_separate_images(*data, workspace, workers, diff_dst.inputs(), weights.data(),
                                                    diff_src.pointers())
                                .ok());
                ASSERT_TRUE(diff_src.equal_the_batch());
            });
            random.next_case();
        }
}
TEST(separate_images, convolutions_have_the_bits_of_the_batch_f32) {
    expect_convolutions_of_images_to_have_the_bits_of_the_batch<float>("separate.f32");
}
TEST(separate_images, convolutions_have_the_bits_of_the_batch_bf16) {
    expect_convolutions_of_images_to_have_the_bits_of_the_batch<gk::bfloat16>("separate.bf16");
}

template <class T>
void expect_sums_over_images_to_have_the_bits_of_the_batch(std::string_view name) {
    random_source random(name);
    for (const layer& l : layers)
        for (const std::int64_t batch : {1, 2, 7}) {
            GRADKERN_TRACE_SEED(random);
            SCOPED_TRACE(batch);
            const images<T> src(batch, l.src_elements(), random);
            const images<T> diff_dst(batch, l.dst_elements(), random);
            const auto before = random_values<float>(random, l.weights_elements());
            const auto plan = [&](std::int64_t n, gk::output_mode output, gk::summation sums) {
                return gk::plan_convolution_backward_weights<T, float>(l.src(n), l.dst(n), l.attributes, l.weights,
                                                                       {24}, {.output = output, .summation = sums});
            };
            constexpr auto by_image = gk::summation::image_by_image;
            const auto next = plan(1, gk::output_mode::accumulate, by_image);
            ASSERT_TRUE(next.has_value());
            for (const auto mode : {gk::output_mode::overwrite, gk::output_mode::accumulate}) {
                const auto whole = plan(batch, mode, by_image);
                const auto first = plan(1, mode, by_image);
                ASSERT_TRUE(whole.has_value() && first.has_value());
                std::vector<std::byte> memory(whole->workspace_bytes());
                std::vector<float> dw = before;
                std::vector<float> db(24, 0.25F);
                ASSERT_TRUE(whole->run(src.whole.data(), diff_dst.whole.data(), dw.data(), db.data(), memory).ok());
                with_workers(*next, [&](std::span<std::byte> workspace, gk::executor_ref workers) {
                    std::vector<float> sum = before;
                    std::vector<float> bias(24, 0.25F);
                    const gk::status s = gk::sum_separate_images(*first, *next, workspace, workers, src.inputs(),
                                                                 diff_dst.inputs(), sum.data(), bias.data());
                    ASSERT_TRUE(s.ok()) << gk::to_string(s);
                    ASSERT_EQ(std::memcmp(sum.data(), dw.data(), sum.size() * sizeof(float)), 0);
                    ASSERT_EQ(std::memcmp(bias.data(), db.data(), bias.size() * sizeof(float)), 0);
                });
            }
            // Each image's own gradient: the plan of one image.
            const auto each = plan(batch, gk::output_mode::overwrite, gk::summation::per_image);
            const auto own = plan(1, gk::output_mode::overwrite, gk::summation::joint);
            ASSERT_TRUE(each.has_value() && own.has_value());
            std::vector<std::byte> memory(each->workspace_bytes());
            images<float> gradients(batch, static_cast<std::int64_t>(l.weights_elements()));
            images<float> biases(batch, 24);
            ASSERT_TRUE(
                each->run(src.whole.data(), diff_dst.whole.data(), gradients.whole.data(), biases.whole.data(), memory)
                    .ok());
            with_workers(*own, [&](std::span<std::byte> workspace, gk::executor_ref workers) {
                gradients.poison();
                ASSERT_TRUE(gk::run_separate_images(*own, workspace, workers, src.inputs(), diff_dst.inputs(),
                                                    gradients.pointers(), biases.pointers())
                                .ok());
                ASSERT_TRUE(gradients.equal_the_batch() && biases.equal_the_batch());
            });
            random.next_case();
        }
}
TEST(separate_images, sums_have_the_bits_of_the_batch_f32) {
    expect_sums_over_images_to_have_the_bits_of_the_batch<float>("separate.sums_f32");
}
TEST(separate_images, sums_have_the_bits_of_the_batch_bf16) {
    expect_sums_over_images_to_have_the_bits_of_the_batch<gk::bfloat16>("separate.sums_bf16");
}

TEST(separate_images, pools_have_the_bits_of_the_batch) {
    random_source random("separate.pools");
    constexpr std::int64_t batch = 5;
    const gk::extents one{1, 11, 11, 20}, all{batch, 11, 11, 20}, small{1, 5, 5, 20}, smalls{batch, 5, 5, 20};
    const images<float> src(batch, 11 * 11 * 20, random);
    const images<float> diff_dst(batch, 5 * 5 * 20, random);
    std::vector<std::byte> memory(1 << 20);

    const gk::avg_pool_attributes average{.kernel = {3, 3}, .strides = {2, 2}};
    images<float> means(batch, 5 * 5 * 20);
    images<float> diff_src(batch, 11 * 11 * 20);
    ASSERT_TRUE(
        gk::avg_pool<float>({src.whole.data(), all}, average, {means.whole.data(), smalls}, {.workspace = memory})
            .ok());
    ASSERT_TRUE(gk::avg_pool_backward<float>({diff_dst.whole.data(), smalls}, average, {diff_src.whole.data(), all},
                                             {.workspace = memory})
                    .ok());
    const auto mean = gk::plan_avg_pool<float>(one, average);
    const auto mean_back = gk::plan_avg_pool_backward<float>(small, average, one);
    ASSERT_TRUE(mean.has_value() && mean_back.has_value());
    with_workers(*mean, [&](std::span<std::byte> workspace, gk::executor_ref workers) {
        means.poison();
        ASSERT_TRUE(gk::run_separate_images(*mean, workspace, workers, src.inputs(), means.pointers()).ok());
        ASSERT_TRUE(means.equal_the_batch());
    });
    with_workers(*mean_back, [&](std::span<std::byte> workspace, gk::executor_ref workers) {
        diff_src.poison();
        ASSERT_TRUE(
            gk::run_separate_images(*mean_back, workspace, workers, diff_dst.inputs(), diff_src.pointers()).ok());
        ASSERT_TRUE(diff_src.equal_the_batch());
    });

    // Indices count within an image, so that they are those of the batch.
    const gk::max_pool_attributes maximum{.kernel = {3, 3}, .strides = {2, 2}, .index_base = gk::index_base::plane};
    images<float> maxima(batch, 5 * 5 * 20);
    images<std::int64_t> indices(batch, 5 * 5 * 20);
    const auto whole = gk::plan_max_pool<float>(all, maximum, smalls, smalls);
    const auto max = gk::plan_max_pool<float>(one, maximum, small, small);
    ASSERT_TRUE(whole.has_value() && max.has_value());
    std::vector<std::byte> scratch(whole->workspace_bytes());
    ASSERT_TRUE(whole->run(src.whole.data(), maxima.whole.data(), indices.whole.data(), scratch).ok());
    with_workers(*max, [&](std::span<std::byte> workspace, gk::executor_ref workers) {
        maxima.poison();
        indices.poison();
        ASSERT_TRUE(
            gk::run_separate_images(*max, workspace, workers, src.inputs(), maxima.pointers(), indices.pointers())
                .ok());
        ASSERT_TRUE(maxima.equal_the_batch() && indices.equal_the_batch());
    });
}

// ------------------------------------------------------------------------------------------------------- what is refused

class refused : public ::testing::Test {
protected:
    const gk::extents one{1, 8, 8, 40}, kernel{1, 1, 40, 24}, result{1, 8, 8, 24};
    const gk::convolution_attributes attributes{.strides = {1, 1}, .dilations = {1, 1}};
    const gk::result<gk::convolution_plan<float>> plan = gk::plan_convolution<float>(one, kernel, {}, attributes);
    images<float> src{4, 8 * 8 * 40}, dst{4, 8 * 8 * 24};
    const std::vector<float> weights = std::vector<float>(40 * 24);
    std::vector<std::byte> memory = std::vector<std::byte>(gk::separate_images_workspace_bytes(*plan, 3));

    void SetUp() override { dst.poison(); }

    template <class Src, class Dst>
    [[nodiscard]] gk::error run(const Src& sources, const float* w, const Dst& destinations, std::size_t bytes,
                                std::ptrdiff_t workers) {
        shuffling_executor executor(workers);
        const gk::status s =
            gk::run_separate_images(*plan, std::span(memory).first(bytes), executor, sources, w, nullptr, destinations);
        EXPECT_TRUE(dst.holds(std::byte{0xff})) << gk::to_string(s);
        return s.error();
    }
};

TEST_F(refused, lists_of_different_lengths) {
    std::vector<float*> three = dst.pointers();
    three.pop_back();
    const gk::error e = run(src.inputs(), weights.data(), three, memory.size(), 3);
    EXPECT_EQ(e, (gk::error{.code = gk::errc::invalid_argument,
                            .op = "run_separate_images",
                            .argument = "argument",
                            .axis = 3,
                            .got = 3,
                            .expected = 4}));
    EXPECT_EQ(gk::to_string(gk::status(e)),
              "run_separate_images: argument[3]: got 3 entries, expected 4, to match the first list of images "
              "(invalid_argument)");
}
TEST_F(refused, null_pointers) {
    for (const std::ptrdiff_t workers : {1, 3}) {
        std::vector<const float*> sources = src.inputs();
        sources[2] = nullptr;
        const gk::error e = run(sources, weights.data(), dst.pointers(), memory.size(), workers);
        EXPECT_EQ(e.code, gk::errc::null_pointer);
        EXPECT_EQ(e.op, "run_separate_images");
        EXPECT_EQ(e.axis, 0);
        EXPECT_EQ(e.got, 2);
        // A shared one is the plan's own error.
        const gk::error shared = run(src.inputs(), nullptr, dst.pointers(), memory.size(), workers);
        EXPECT_EQ(shared.code, gk::errc::null_pointer);
        EXPECT_EQ(shared.op, "convolution");
        EXPECT_EQ(shared.argument, "weights");
    }
}
TEST_F(refused, workspaces_that_are_too_small) {
    ASSERT_GT(plan->workspace_bytes(), 1U);
    for (const std::ptrdiff_t workers : {1, 3, 9}) {
        const gk::error e = run(src.inputs(), weights.data(), dst.pointers(), plan->workspace_bytes() - 1, workers);
        EXPECT_EQ(e.code, gk::errc::workspace_too_small);
        EXPECT_EQ(e.expected, static_cast<std::int64_t>(plan->workspace_bytes()));
        EXPECT_EQ(run(src.inputs(), weights.data(), dst.pointers(), 0, workers).code, gk::errc::workspace_too_small);
    }
}
TEST_F(refused, plans_that_nobody_made) {
    const gk::convolution_plan<float> none;
    shuffling_executor executor(3);
    const gk::status s =
        gk::run_separate_images(none, memory, executor, src.inputs(), weights.data(), nullptr, dst.pointers());
    EXPECT_EQ(s.code(), gk::errc::invalid_argument);
    EXPECT_EQ(s.error().argument, "plan");
    EXPECT_TRUE(dst.holds(std::byte{0xff}));
}
TEST_F(refused, the_first_image_that_fails_is_reported) {
    for (const std::ptrdiff_t workers : {1, 3}) {
        std::vector<float*> destinations = dst.pointers();
        destinations[1] = const_cast<float*>(src.inputs()[1]);  // computed in place
        destinations[3] = const_cast<float*>(src.inputs()[3]);
        shuffling_executor executor(workers);
        const gk::status s =
            gk::run_separate_images(*plan, memory, executor, src.inputs(), weights.data(), nullptr, destinations);
        EXPECT_EQ(s.code(), gk::errc::invalid_argument);
        EXPECT_EQ(s.error().argument, "dst");
    }
}
TEST_F(refused, no_images_are_no_error) {
    const std::vector<const float*> none;
    EXPECT_EQ(run(none, weights.data(), std::vector<float*>{}, 0, 3).code, gk::errc::ok);
}
TEST_F(refused, sums_whose_second_plan_lacks_memory) {
    const gk::extents small{1, 8, 8, 24};
    const auto plan_with = [&](gk::output_mode output, gk::algorithm path) {
        return gk::plan_convolution_backward_weights<float>(
            one, small, attributes, kernel, {},
            {.output = output, .algorithm = path, .summation = gk::summation::image_by_image});
    };
    const auto first = plan_with(gk::output_mode::overwrite, gk::algorithm::dense);
    const auto next = plan_with(gk::output_mode::accumulate, gk::algorithm::dense_packed);
    ASSERT_TRUE(first.has_value() && next.has_value());
    ASSERT_LT(first->workspace_bytes(), next->workspace_bytes());
    const images<float> diff_dst(4, 8 * 8 * 24);
    std::vector<std::byte> little(first->workspace_bytes());
    std::vector<float> dw(40 * 24, -1.0F);
    const gk::status s = gk::sum_separate_images(*first, *next, little, {}, src.inputs(), diff_dst.inputs(), dw.data());
    EXPECT_EQ(s.code(), gk::errc::workspace_too_small);
    EXPECT_EQ(dw[0], -1.0F);
}

// Two workers that compute images in turn have a call each; the images of a short batch have all workers.
TEST(separate_images, are_distributed_where_they_are_as_many_as_workers) {
    const auto plan = gk::plan_avg_pool<float>({1, 64, 64, 32}, {.kernel = {3, 3}, .strides = {1, 1}});
    ASSERT_TRUE(plan.has_value());
    for (const std::int64_t batch : {2, 12}) {
        images<float> src(batch, 64 * 64 * 32);
        images<float> dst(batch, 62 * 62 * 32);
        shuffling_executor executor(4);
        std::vector<std::byte> memory(gk::separate_images_workspace_bytes(*plan, 4));
        ASSERT_TRUE(gk::run_separate_images(*plan, memory, executor, src.inputs(), dst.pointers()).ok());
        EXPECT_EQ(executor.calls(), batch == 2 ? 2 * 4 : 4);
    }
}

}  // namespace
}  // namespace gradkern_test
