// Gradients from indices by every path of the table, forced by name: the bits of the reference, or of a plain loop.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include <gradkern/max_pool.hpp>
#include <gradkern/ref/max_pool.hpp>

#include "support/executors.hpp"
#include "support/random.hpp"
#include "support/tensor.hpp"

namespace {

namespace gk = gradkern;
using gk::algorithm;
using gk::data_format;
using gk::extents;
using gk::index_base;
using gk::index_check;
using gk::output_mode;
using gk::storage_order;
using gradkern_test::guarded_bytes;
using gradkern_test::random_input_strides;
using gradkern_test::random_output_strides;
using gradkern_test::random_source;
using gradkern_test::test_tensor;

struct problem {
    data_format format{};
    std::int64_t batch = 1;
    std::int64_t channels = 1;
    extents windows{};
    extents pixels{};
    gk::max_pool_indices_attributes attributes{};
    gk::plan_options options{};
    [[nodiscard]] extents with(const extents& spatial) const {
        extents e{batch};
        if (format == data_format::ncx) e.push_back(channels);
        for (const std::int64_t s : spatial.values()) e.push_back(s);
        if (format == data_format::nxc) e.push_back(channels);
        return e;
    }
};

std::int64_t product(const extents& e) {
    std::int64_t p = 1;
    for (const std::int64_t x : e.values()) p *= x;
    return p;
}

/// The index of a pixel, counted in row-major order of the extents, of channel c of image n.
std::int64_t index_of(const problem& p, std::int64_t n, std::int64_t c, std::int64_t pixel) {
    const std::int64_t plane = product(p.pixels);
    const bool inside = p.attributes.index_base == index_base::image || p.format == data_format::nxc;
    if (p.attributes.index_base == index_base::plane) return pixel;
    const std::int64_t in_image = inside ? pixel * p.channels + c : c * plane + pixel;
    return p.attributes.index_base == index_base::tensor ? n * plane * p.channels + in_image : in_image;
}

template <class T>
class max_pool_indices_paths : public ::testing::Test {
protected:
    /// Runs a problem by each row that fits, on as little scratch as it asks for, and compares with `expected`.
    static void expect_of_every_row(const problem& p, const test_tensor<T>& diff_dst,
                                    const test_tensor<std::int64_t>& indices, const gk::tensor_layout& diff_src,
                                    const test_tensor<T>& expected, random_source& random) {
        std::size_t refused = 0;
        for (const auto& row : gk::detail::max_pool_indices::paths) {
            gk::plan_options options = p.options;
            options.algorithm = row.name;
            const auto plan = gk::plan_max_pool_backward_from_indices<T>(diff_dst.layout(), indices.layout(),
                                                                         p.attributes, diff_src, options);
            if (!plan) {
                EXPECT_EQ(plan.error().code, gk::errc::unsupported);
                ++refused;
                continue;
            }
            const test_tensor<T> out(diff_src.shape, diff_src.strides);
            out.fill([](std::int64_t i) { return i % 5; });
            const std::ptrdiff_t workers = random.integer(1, 3);
            gradkern_test::shuffling_executor executor(workers);
            const guarded_bytes memory(plan->workspace_bytes(random.integer(1, workers)));
            ASSERT_TRUE(
                plan->run(diff_dst.data(), indices.data(), out.data(), {memory.data(), memory.size()}, executor).ok());
            EXPECT_TRUE(out.equals(expected)) << gk::name_of(row.name);
            EXPECT_TRUE(out.surroundings_intact());
            EXPECT_TRUE(memory.zones_intact());
        }
        EXPECT_LT(refused, gk::detail::max_pool_indices::paths.size());
    }
};
using types = ::testing::Types<float, gk::bfloat16>;
TYPED_TEST_SUITE(max_pool_indices_paths, types);

/// Small planes, any strides, indices anywhere in the planes of their elements, nowhere, or in other planes.
TYPED_TEST(max_pool_indices_paths, every_row_has_the_references_bits) {
    using T = TypeParam;
    random_source random("max_pool_indices.paths");
    for (int i = 0; i < 300; ++i, random.next_case()) {
        GRADKERN_TRACE_SEED(random);
        problem p;
        p.format = random.pick({data_format::ncx, data_format::nxc});
        p.batch = random.integer(1, 2);
        p.channels = random.pick<std::int64_t>({1, 2, 5, 16, 17});
        p.windows = {random.integer(1, 4), random.integer(1, 4)};
        p.pixels = {random.integer(1, 6), random.integer(1, 6)};
        p.attributes = {.data_format = p.format,
                        .index_base = random.pick({index_base::tensor, index_base::plane, index_base::image}),
                        .storage_order = random.pick({storage_order::row_major, storage_order::column_major})};
        p.options = {.output = random.pick({output_mode::overwrite, output_mode::accumulate}),
                     .index_check = random.pick({index_check::first, index_check::each}),
                     .scratch = random.pick({gk::scratch_use::fast, gk::scratch_use::least})};
        const extents small = p.with(p.windows);
        const extents large = p.with(p.pixels);
        const bool strided = random.chance(1, 2);
        const test_tensor<T> diff_dst(small, strided ? random_input_strides(random, small) : extents{});
        const test_tensor<std::int64_t> indices(small, strided ? random_output_strides(random, small) : extents{});
        const gk::tensor_layout diff_src(large, strided ? random_output_strides(random, large) : extents{});
        diff_dst.fill_random(random);
        const bool strays = random.chance(1, 4);
        const std::int64_t end = p.attributes.index_base == index_base::tensor  ? product(large)
                                 : p.attributes.index_base == index_base::image ? product(large) / p.batch
                                                                                : product(p.pixels);
        std::int64_t k = 0;  // elements in row-major order of the shape
        for (std::int64_t n = 0; n < p.batch; ++n)
            for (std::int64_t a = 0; a < product(small) / p.batch; ++a, ++k) {
                const std::int64_t c = p.format == data_format::ncx ? a / product(p.windows) : a % p.channels;
                const std::int64_t own = index_of(p, n, c, random.integer(0, product(p.pixels) - 1));
                indices[k] = random.chance(1, 20) ? -1 : strays ? random.integer(0, end - 1) : own;
            }
        const test_tensor<T> expected(large);
        expected.fill([](std::int64_t e) { return e % 5; });
        ASSERT_TRUE(gk::ref::max_pool_backward_from_indices(diff_dst.const_view(), indices.const_view(), p.attributes,
                                                            expected.view(), {.plan = p.options})
                        .ok());
        this->expect_of_every_row(p, diff_dst, indices, diff_src, expected, random);
    }
}

/// Planes of several blocks, panels of which one is narrower, and sums that slide: indices drift along the plane.
TYPED_TEST(max_pool_indices_paths, every_row_adds_what_a_plain_loop_does) {
    using T = TypeParam;
    random_source random("max_pool_indices.large_planes");
    struct planes {
        data_format format;
        std::int64_t channels;
        std::int64_t pixels;
    };
    for (const auto [format, channels, pixels] :
         {planes{data_format::ncx, 2, 18'000}, planes{data_format::nxc, 3, 7000}, planes{data_format::nxc, 40, 1000},
          planes{data_format::nxc, 150, 400}})
        for (const std::int64_t back : {0, 40, 900})
            for (const output_mode mode : {output_mode::overwrite, output_mode::accumulate}) {
                const problem p{format, 1, channels, {200}, {pixels}, {.data_format = format}, {.output = mode}};
                const extents small = p.with(p.windows);
                const extents large = p.with(p.pixels);
                const test_tensor<T> diff_dst(small);
                const test_tensor<std::int64_t> indices(small);
                diff_dst.fill([](std::int64_t k) { return k % 7 - 2; });  // exact sums
                std::vector<float> sums(static_cast<std::size_t>(product(large)));
                const std::int64_t windows = p.windows[0];
                for (std::int64_t k = 0; k < product(small); ++k) {
                    const std::int64_t c = format == data_format::ncx ? k / windows : k % channels;
                    const std::int64_t o = format == data_format::ncx ? k % windows : k / channels;
                    const std::int64_t furthest = (o + 1) * (p.pixels[0] / windows) - 1;
                    indices[k] = index_of(p, 0, c, std::max<std::int64_t>(0, furthest - random.integer(0, back)));
                    sums[static_cast<std::size_t>(indices[k])] += static_cast<float>(k % 7 - 2);
                }
                const test_tensor<T> expected(large);
                expected.fill([&](std::int64_t e) {
                    const float before = mode == output_mode::accumulate ? static_cast<float>(e % 5) : 0.0F;
                    return before + sums[static_cast<std::size_t>(e)];
                });
                this->expect_of_every_row(p, diff_dst, indices, large, expected, random);
            }
}

/// A plane of more pixels than the sums of a worker: the row of sums in scratch takes it block by block.
TYPED_TEST(max_pool_indices_paths, every_row_takes_planes_of_several_blocks) {
    using T = TypeParam;
    random_source random("max_pool_indices.blocks");
    const problem p{data_format::nxc, 1, 2, {60}, {gk::detail::target.cache.sum_buffer / 4 + 5000}, {}, {}};
    const extents small = p.with(p.windows);
    const extents large = p.with(p.pixels);
    const test_tensor<T> diff_dst(small);
    diff_dst.fill([](std::int64_t k) { return k % 7 - 2; });
    const test_tensor<std::int64_t> indices(small);
    const test_tensor<T> expected(large);
    expected.fill([](std::int64_t) { return 0; });
    for (std::int64_t k = 0; k < product(small); ++k) {
        indices[k] = random.integer(0, p.pixels[0] / 100) * 200 + k % 2;
        if (k < 6) indices[k] = (p.pixels[0] - 1 - k / 2) * 2 + k % 2;
        expected.set(indices[k], static_cast<float>(k % 7 - 2) + static_cast<float>(expected.value(indices[k])));
    }
    this->expect_of_every_row(p, diff_dst, indices, large, expected, random);
}

/// Indices that point out of their planes, in a tensor of more windows than are summed in f32.
TYPED_TEST(max_pool_indices_paths, every_row_sums_many_strays_alike) {
    using T = TypeParam;
    random_source random("max_pool_indices.many_strays");
    const problem p{data_format::nxc, 2, 2, {70'000}, {500}, {}, {}};  // more pixels than recent_sums remembers
    const extents small = p.with(p.windows);
    const extents large = p.with(p.pixels);
    const test_tensor<T> diff_dst(small);
    const test_tensor<std::int64_t> indices(small);
    diff_dst.fill_random(random);
    for (std::int64_t k = 0; k < product(small); ++k) indices[k] = random.integer(0, product(large) - 1);
    const test_tensor<T> expected(large);
    const auto plan = *gk::plan_max_pool_backward_from_indices<T>(small, small, {}, large);
    std::vector<std::byte> memory(plan.workspace_bytes());
    ASSERT_TRUE(plan.run(diff_dst.data(), indices.data(), expected.data(), memory).ok());
    this->expect_of_every_row(p, diff_dst, indices, large, expected, random);
}

}  // namespace
