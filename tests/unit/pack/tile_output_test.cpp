// The ways that results of tiles take to a tensor: in place, by way of the buffer, and by way of a buffer of a whole box. Rows that a
// tile would write are filled here with numbers of their own, and the tensor is compared with plain loops.

#include <gradkern/detail/pack/tile_output.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "support/guarded.hpp"
#include "support/random.hpp"

namespace {

using namespace gradkern::detail;
namespace shape = gradkern::shape;
using gradkern::bfloat16;
using gradkern::float16;
using gradkern_test::guarded_buffer;
using gradkern_test::random_source;

// A tensor of outputs: two images of 3 planes x 4 rows x 9 columns.
struct problem {
    static constexpr std::int64_t images = 2;
    static constexpr std::array<std::int64_t, 3> extent{3, 4, 9};
    std::int64_t channels;
    bool nxc;

    [[nodiscard]] shape::canonical_strides strides() const {
        const std::int64_t pixels = extent[0] * extent[1] * extent[2];
        if (nxc) return {pixels * channels, 1, extent[1] * extent[2] * channels, extent[2] * channels, channels};
        return {channels * pixels, pixels, extent[1] * extent[2], extent[2], 1};
    }
    [[nodiscard]] std::size_t elements() const {
        return static_cast<std::size_t>(images * channels * extent[0] * extent[1] * extent[2]);
    }
};

// What a tile computes for a channel of the pixel number `pixel` of the tensor.
float result_of(std::int64_t pixel, std::int64_t channel) {
    return static_cast<float>(pixel % 61) * 0.25F + static_cast<float>(channel) - 7.0F;
}

// One tensor before and after, and what it should be.
template <class T>
struct outcome {
    outcome(const problem& p, bool accumulate, bool bias, random_source& random)
        : dst(p.elements()), expected(p.elements()) {
        for (std::size_t i = 0; i < dst.size(); ++i)
            if (accumulate) store_element(&dst[i], random.real(-2.0F, 2.0F));
        std::copy(dst.data(), dst.data() + dst.size(), expected.begin());
        const shape::canonical_strides s = p.strides();
        std::int64_t pixel = 0;
        for (std::int64_t n = 0; n < problem::images; ++n)
            for (std::int64_t d = 0; d < problem::extent[0]; ++d)
                for (std::int64_t h = 0; h < problem::extent[1]; ++h)
                    for (std::int64_t w = 0; w < problem::extent[2]; ++w, ++pixel)
                        for (std::int64_t c = 0; c < p.channels; ++c) {
                            const std::int64_t at = n * s[0] + c * s[1] + d * s[2] + h * s[3] + w * s[4];
                            T& to = expected[static_cast<std::size_t>(at)];
                            float sum = result_of(pixel, c);
                            if (bias) sum += bias_of(c);
                            store_element(&to, accumulate ? load_element(&to) + sum : sum);
                        }
    }
    static float bias_of(std::int64_t channel) { return static_cast<float>(channel) * 0.125F + 0.5F; }
    [[nodiscard]] bool is_right() const {
        return std::memcmp(dst.data(), expected.data(), expected.size() * sizeof(T)) == 0 && dst.zones_intact();
    }
    guarded_buffer<T> dst;
    std::vector<T> expected;
};

// Writes all pixels, line by line, in tiles of up to 5 rows, of one panel after the other; `at_once` panels share the buffer.
template <class T>
void write_all(const problem& p, tile_output<float>& out, std::byte* dst, std::int64_t width, std::int64_t at_once,
               bool bias, const shape::canonical_strides& to_strides, bool whole) {
    const shape::canonical_strides s = p.strides();
    std::vector<float> biases(static_cast<std::size_t>(p.channels));
    for (std::size_t c = 0; c < biases.size(); ++c) biases[c] = outcome<T>::bias_of(static_cast<std::int64_t>(c));
    for (std::int64_t first = 0; first < p.channels; first += at_once * width) {
        const std::int64_t all = std::min(at_once * width, p.channels - first);
        const std::int64_t used = std::min(width, all);
        out.begin_panel(dst + first * s[1] * static_cast<std::int64_t>(sizeof(T)), used, whole && used == width,
                        bias ? biases.data() + first : nullptr);
        ASSERT_TRUE(at_once == 1 || out.fuse(at_once, all, width, 5));
        for (std::int64_t line = 0; line < problem::images * problem::extent[0] * problem::extent[1]; ++line) {
            const std::int64_t n = line / (problem::extent[0] * problem::extent[1]);
            const std::int64_t d = line / problem::extent[1] % problem::extent[0];
            const std::int64_t h = line % problem::extent[1];
            for (std::int64_t w = 0; w < problem::extent[2];) {
                // Two tiles of three rows, a tile of two, and one more.
                const std::ptrdiff_t count = w == 0 ? 3 : w == 6 ? 2 : 1;
                const std::ptrdiff_t tiles = w == 0 ? 2 : 1;
                std::array<std::int64_t, 5> to{};
                for (std::ptrdiff_t i = 0; i < count; ++i)
                    to[static_cast<std::size_t>(i)] =
                        n * to_strides[0] + d * to_strides[2] + h * to_strides[3] + (w + i) * to_strides[4];
                for (std::int64_t panel = 0; panel < all; panel += width) {
                    const auto rows = out.rows(count, tiles, to.data(), to_strides[4], panel);
                    for (std::ptrdiff_t i = 0; i < count * tiles; ++i) {
                        float* const row = rows.first[i % count] + i / count * rows.next_tile;
                        const std::int64_t lanes = std::min(width, all - panel);
                        for (std::int64_t j = 0; j < (out.is_direct() ? lanes : width); ++j)
                            row[j] = result_of(line * problem::extent[2] + w + i, first + panel + j);
                    }
                }
                w += count * tiles;
            }
        }
        out.flush();
    }
}

template <class T>
void check(const char* name) {
    random_source random(name);
    for (const std::int64_t channels : {1, 5, 8, 13})
        for (const bool nxc : {false, true})
            for (const bool accumulate : {false, true})
                for (const bool bias : {false, true})
                    for (const std::int64_t width : {4, 8})
                        for (const std::int64_t at_once : {std::int64_t{1}, (channels + width - 1) / width}) {
                            const problem p{channels, nxc};
                            SCOPED_TRACE("channels " + std::to_string(channels) + ", nxc " + std::to_string(nxc) +
                                         ", accumulate " + std::to_string(accumulate) + ", bias " +
                                         std::to_string(bias) + ", width " + std::to_string(width) + ", panels " +
                                         std::to_string(at_once));
                            outcome<T> o(p, accumulate, bias, random);
                            tile_output out(unpack_functions_of<T>, p.strides(), width, accumulate, tile_results::sums);
                            const bool whole = at_once == 1;  // else panels would leave it by themselves
                            write_all<T>(p, out, reinterpret_cast<std::byte*>(o.dst.data()), width, at_once, bias,
                                         p.strides(), whole);
                            EXPECT_TRUE(o.is_right());
                        }
}
TEST(tile_output, results_of_f32_are_written_in_place_or_by_way_of_the_buffer) { check<float>("tile_output.f32"); }
TEST(tile_output, results_are_rounded_to_f16) { check<float16>("tile_output.f16"); }
TEST(tile_output, results_are_rounded_to_bf16) { check<bfloat16>("tile_output.bf16"); }

TEST(tile_output, is_in_place_where_nothing_is_added_and_lanes_are_neighbours) {
    std::array<float, 64> dst{};
    const float bias = 1.0F;
    const auto direct = [&](const unpack_functions<float>& element, bool nxc, bool whole, bool accumulate,
                            bool biased) {
        tile_output out(element, problem{8, nxc}.strides(), 8, accumulate, tile_results::sums);
        out.begin_panel(reinterpret_cast<std::byte*>(dst.data()), 8, whole, biased ? &bias : nullptr);
        return out.is_direct();
    };
    EXPECT_TRUE(direct(unpack_functions_of<float>, true, true, false, false));
    EXPECT_FALSE(direct(unpack_functions_of<float>, false, true, false, false));
    EXPECT_FALSE(direct(unpack_functions_of<float>, true, false, false, false));
    EXPECT_FALSE(direct(unpack_functions_of<float>, true, true, true, false));
    EXPECT_FALSE(direct(unpack_functions_of<float>, true, true, false, true));
    EXPECT_FALSE(direct(unpack_functions_of<bfloat16>, true, true, false, false));
}

template <class T>
void check_box(const char* name) {
    random_source random(name);
    for (const bool nxc : {false, true})
        for (const bool accumulate : {false, true}) {
            const problem p{5, nxc};
            outcome<T> o(p, accumulate, true, random);
            tile_output out(unpack_functions_of<T>, p.strides(), 8, accumulate, tile_results::sums);
            const box_grid::item box{0, problem::images, {0, 0, 0}, problem::extent};
            std::vector<float> box_buffer(static_cast<std::size_t>(problem::images * 3 * 4 * 9 * 8), -1.0F);
            const shape::canonical_strides to = out.buffer_box(box, box_buffer.data(), false);
            write_all<T>(p, out, reinterpret_cast<std::byte*>(o.dst.data()), 8, 1, true, to, false);
            EXPECT_TRUE(o.is_right());
        }
}
TEST(tile_output, a_box_waits_in_a_buffer_of_its_own) {
    check_box<float>("tile_output.box.f32");
    check_box<bfloat16>("tile_output.box.bf16");
}

TEST(tile_output, rows_that_no_tile_computes_are_zero) {
    const problem p{5, false};
    std::vector<float> dst(p.elements(), 3.0F);
    tile_output out(unpack_functions_of<float>, p.strides(), 8, false, tile_results::sums);
    const box_grid::item box{1, 2, {0, 1, 0}, {3, 2, 9}};
    std::vector<float> box_buffer(3 * 1 * 9 * 8, -1.0F);
    static_cast<void>(out.buffer_box(box, box_buffer.data(), true));
    out.begin_panel(reinterpret_cast<std::byte*>(dst.data()), 5, false, nullptr);
    out.flush();
    const shape::canonical_strides s = p.strides();
    for (std::int64_t n = 0; n < problem::images; ++n)
        for (std::int64_t d = 0; d < 3; ++d)
            for (std::int64_t h = 0; h < 4; ++h)
                for (std::int64_t w = 0; w < 9; ++w)
                    for (std::int64_t c = 0; c < 5; ++c)
                        EXPECT_EQ(dst[static_cast<std::size_t>(n * s[0] + c * s[1] + d * s[2] + h * s[3] + w * s[4])],
                                  n == 1 && h == 1 ? 0.0F : 3.0F);
}

}  // namespace
