// Walks over the pixels of a tensor, and packing them as [channel][pixel], against plain loops.

#include <gradkern/detail/pack/pixels.hpp>

#include <gtest/gtest.h>

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

struct tensor {
    std::int64_t batch;
    std::array<std::int64_t, 3> extent;
    std::int64_t channels;
    shape::canonical_strides stride;

    [[nodiscard]] std::int64_t pixels() const { return batch * extent[0] * extent[1] * extent[2]; }
    // The offset of a pixel in row-major order.
    [[nodiscard]] std::int64_t offset(std::int64_t i) const {
        return i % extent[2] * stride[4] + i / extent[2] % extent[1] * stride[3] +
               i / (extent[2] * extent[1]) % extent[0] * stride[2] +
               i / (extent[2] * extent[1] * extent[0]) * stride[0];
    }
};

// NCX, NXC, and lines with a gap behind each.
std::vector<tensor> tensors(std::int64_t n, std::int64_t c, std::int64_t d, std::int64_t h, std::int64_t w) {
    return {{n, {d, h, w}, c, {c * d * h * w, d * h * w, h * w, w, 1}},
            {n, {d, h, w}, c, {d * h * w * c, 1, h * w * c, w * c, c}},
            {n, {d, h, w}, c, {c * d * h * (w + 2), d * h * (w + 2), h * (w + 2), w + 2, 1}}};
}

template <class F>
void for_tensors(const F& f) {
    for (const std::int64_t n : {1, 3})
        for (const std::int64_t c : {1, 2, 5})
            for (const std::int64_t d : {1, 2})
                for (const std::int64_t h : {1, 3})
                    for (const std::int64_t w : {1, 4, 9})
                        for (const tensor& t : tensors(n, c, d, h, w)) {
                            SCOPED_TRACE("n " + std::to_string(n) + ", c " + std::to_string(c) + ", d " +
                                         std::to_string(d) + ", h " + std::to_string(h) + ", w " + std::to_string(w) +
                                         ", column stride " + std::to_string(t.stride[4]));
                            f(t);
                        }
}

TEST(points, a_walk_visits_all_pixels_in_order) {
    for_tensors([](const tensor& t) {
        for (std::int64_t first = 0; first < t.pixels(); ++first)
            for (const std::int64_t most : {1, 3, 1000}) {
                pixel_walk walk(t.batch, t.extent, t.stride, first);
                for (std::int64_t at = first; at < t.pixels();) {
                    const pixel_run run = walk.next(most);
                    ASSERT_GE(run.count, 1);
                    ASSERT_LE(run.count, most);
                    for (std::int64_t i = 0; i < run.count; ++i)
                        ASSERT_EQ(run.offset + i * walk.step(), t.offset(at + i)) << "pixel " << at + i;
                    at += run.count;
                }
            }
    });
}

TEST(points, runs_are_as_long_as_can_be) {
    const tensor dense = tensors(3, 1, 2, 3, 4)[0];  // one channel: all pixels lie in a row
    EXPECT_EQ(pixel_walk(3, dense.extent, dense.stride, 0).next(1000).count, 3 * 2 * 3 * 4);
    const tensor gaps = tensors(3, 1, 2, 3, 4)[2];
    EXPECT_EQ(pixel_walk(3, gaps.extent, gaps.stride, 0).next(1000).count, 4);
}

template <class T>
void check_packed(const tensor& t, std::int64_t first, std::int64_t count, bool pairs, std::int64_t segment,
                  random_source& random) {
    const auto size = static_cast<std::size_t>(t.offset(t.pixels() - 1) + (t.channels - 1) * t.stride[1] + 1);
    guarded_buffer<T> source(size);
    for (std::size_t i = 0; i < size; ++i) store_element(&source[i], random.real(-2.0F, 2.0F));
    const std::int64_t rows = pairs ? (t.channels + 1) / 2 : t.channels;
    pixel_rows layout = one_segment(count, count + random.integer(0, 2));
    if (segment > 0) layout = {segment, segment, segment * rows};
    using real = gradkern::accumulate_t<T>;
    guarded_buffer<real> out(static_cast<std::size_t>((rows - 1) * layout.pitch + layout.offset(count - 1) + 1));
    std::vector<real> expected(out.data(), out.data() + out.size());
    const auto at = [&](std::int64_t k, std::int64_t x) {
        return source.data() + k * t.stride[1] + t.offset(first + x);
    };
    for (std::int64_t k = 0; k < rows; ++k)
        for (std::int64_t x = 0; x < count; ++x) {
            real& to = expected[static_cast<std::size_t>(k * layout.pitch + layout.offset(x))];
            if (!pairs) {
                to = load_element(at(k, x));
                continue;
            }
            std::array<T, 2> pair{};
            std::memcpy(&pair[0], at(2 * k, x), sizeof(T));
            if (2 * k + 1 < t.channels) std::memcpy(&pair[1], at(2 * k + 1, x), sizeof(T));
            if constexpr (sizeof(pair) == sizeof to) std::memcpy(&to, pair.data(), sizeof to);
        }
    pack_pixels(source.data(), pixel_walk(t.batch, t.extent, t.stride, first), count, t.stride[1], t.channels, pairs,
                out.data(), layout);
    EXPECT_TRUE(begins_with(out, expected));
    EXPECT_TRUE(out.zones_intact());
}

TEST(points, are_packed_with_pixels_innermost) {
    random_source random("points.stage");
    for_tensors([&](const tensor& t) {
        for (const std::int64_t first : {std::int64_t{0}, t.pixels() / 3, t.pixels() - 1}) {
            const std::int64_t count = random.integer(1, t.pixels() - first);
            for (const std::int64_t segment : {0, 1, 3, 8, 16}) {
                check_packed<float>(t, first, count, false, segment, random);
                check_packed<bfloat16>(t, first, count, false, segment, random);
                if constexpr (has_pairs<bfloat16>) check_packed<bfloat16>(t, first, count, true, segment, random);
            }
        }
    });
}

TEST(points, rows_of_several_lines_of_the_cache_are_packed) {
    random_source random("points.lines");
    for (const std::int64_t c : {3, 4, 5, 9})
        for (const tensor& t : tensors(2, c, 1, 20, 70)) {  // rows of more than half a page
            SCOPED_TRACE("c " + std::to_string(c) + ", row stride " + std::to_string(t.stride[3]));
            for (const std::int64_t first : {std::int64_t{0}, t.pixels() / 3})
                for (const std::int64_t segment : {0, 8, 16, 24, 40, 64}) {
                    const std::int64_t count = random.integer(t.pixels() / 2, t.pixels() - first);
                    check_packed<float>(t, first, count, false, segment, random);
                    check_packed<double>(t, first, count, false, segment, random);
                    check_packed<float16>(t, first, count, false, segment, random);
                    check_packed<bfloat16>(t, first, count, false, segment, random);
                    if constexpr (has_pairs<bfloat16>) check_packed<bfloat16>(t, first, count, true, segment, random);
                }
        }
}

}  // namespace
