// The inputs of a block of outputs, packed with channels innermost, against plain loops over the box.

#include <gradkern/detail/pack/boxes.hpp>

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

// A box of a tensor of `images` x `channels` x planes x rows x columns, channels innermost or outermost.
struct source {
    std::array<std::int64_t, 5> extent;
    shape::canonical_strides stride;
};
source make_source(std::int64_t n, std::int64_t c, std::int64_t d, std::int64_t h, std::int64_t w, bool nxc) {
    if (nxc) return {{n, c, d, h, w}, {d * h * w * c, 1, h * w * c, w * c, c}};
    return {{n, c, d, h, w}, {c * d * h * w, d * h * w, h * w, w, 1}};
}

// f(image, plane, row, column of the tensor, offset of the packed pixel) for all pixels of a box.
template <class F>
void for_pixels(const packed_box& box, const F& f) {
    std::int64_t at = 0;
    for (std::int64_t n = 0; n < box.images; ++n)
        for (std::int64_t d = 0; d < box.extent[0]; ++d)
            for (std::int64_t h = 0; h < box.extent[1]; ++h)
                for (std::int64_t w = 0; w < box.extent[2]; ++w, at += box.channels)
                    f((box.first_image + n), box.first[0] + d, box.first[1] + h, box.first[2] + w, at);
}

// Packs boxes of tensors of `channels` with pack(source, strides, box, out) and compares each float with
// expected(pixel's first channel, strides, place); `place` counts the floats of a pixel.
template <class T, class Pack, class Expected>
void check(std::int64_t channels, std::int64_t floats, const Pack& pack, const Expected& expected,
           random_source& random) {
    for (const bool nxc : {false, true})
        for (const bool whole_rows : {false, true})
            for (int round = 0; round < 6; ++round) {
                const source s = make_source(random.integer(1, 3), channels, random.integer(1, 3), random.integer(1, 4),
                                             random.integer(1, 20), nxc);
                SCOPED_TRACE("channels " + std::to_string(channels) + ", floats " + std::to_string(floats) + ", nxc " +
                             std::to_string(nxc) + ", whole rows " + std::to_string(whole_rows));
                GRADKERN_TRACE_SEED(random);
                packed_box box;
                box.channels = floats;
                box.first_image = random.integer(0, s.extent[0] - 1);
                box.images = random.integer(1, s.extent[0] - box.first_image);
                for (std::size_t i = 0; i < 3; ++i) {
                    box.first[i] = i == 2 && whole_rows ? 0 : random.integer(0, s.extent[2 + i] - 1);
                    box.extent[i] = s.extent[2 + i] - box.first[i];
                    if (i != 2 || !whole_rows) box.extent[i] = random.integer(1, box.extent[i]);
                }
                std::size_t elements = 1;
                for (const std::int64_t e : s.extent) elements *= static_cast<std::size_t>(e);
                guarded_buffer<T> tensor(elements);
                for (std::size_t i = 0; i < elements; ++i) store_element(&tensor[i], random.real(-2.0F, 2.0F));
                guarded_buffer<float> out(static_cast<std::size_t>(box.images * box.strides()[0]));
                pack(tensor.data(), s.stride, box, out.data());
                for_pixels(box, [&](std::int64_t n, std::int64_t d, std::int64_t h, std::int64_t w, std::int64_t at) {
                    const T* const pixel =
                        tensor.data() + n * s.stride[0] + d * s.stride[2] + h * s.stride[3] + w * s.stride[4];
                    const shape::canonical_strides to = box.strides();
                    ASSERT_EQ(at, n * to[0] + d * to[2] + h * to[3] + w * to[4] - box.origin());
                    for (std::int64_t i = 0; i < floats; ++i) {
                        const float want = expected(pixel, s.stride, i);
                        ASSERT_EQ(std::memcmp(&want, &out[static_cast<std::size_t>(at + i)], sizeof want), 0)
                            << "float " << i << " of the pixel at " << at;
                    }
                });
                EXPECT_TRUE(out.zones_intact());
                random.next_case();
            }
}

template <class T>
void check_channels(const char* name) {
    random_source random(name);
    for (const std::int64_t channels : {1, 2, 3, 7, 8, 16, 21, 40})
        for (const std::int64_t floats : {channels, channels + 3})
            check<T>(
                channels, floats,
                [&](const T* from, const shape::canonical_strides& in, const packed_box& box, float* to) {
                    pack_channels(from, in, box, channels, to);
                },
                [&](const T* pixel, const shape::canonical_strides& in, std::int64_t i) {
                    return i < channels ? load_element(pixel + i * in[1]) : 0.0F;
                },
                random);
}
TEST(packed, channels_of_f32) { check_channels<float>("packed.f32"); }
TEST(packed, channels_of_f16) { check_channels<float16>("packed.f16"); }
TEST(packed, channels_of_bf16) { check_channels<bfloat16>("packed.bf16"); }

TEST(packed, pairs_of_channels) {
    if constexpr (has_pairs<bfloat16>) {
        random_source random("packed.pairs");
        for (const std::int64_t channels : {1, 2, 3, 8, 9, 32, 35})
            check<bfloat16>(
                channels, (channels + 1) / 2,
                [&](const bfloat16* from, const shape::canonical_strides& in, const packed_box& box, float* to) {
                    pack_channel_pairs(from, in, box, channels, to);
                },
                [&](const bfloat16* pixel, const shape::canonical_strides& in, std::int64_t i) {
                    std::array<bfloat16, 2> pair{};
                    std::memcpy(&pair[0], pixel + 2 * i * in[1], sizeof pair[0]);
                    if (2 * i + 1 < channels) std::memcpy(&pair[1], pixel + (2 * i + 1) * in[1], sizeof pair[1]);
                    float f;
                    std::memcpy(&f, pair.data(), sizeof f);
                    return f;
                },
                random);
    }
}

// Lane j of [pixel][k][lane] holds channel k of the group that output channel first_lane + j belongs to.
template <class T>
void check_across_groups(const char* name) {
    random_source random(name);
    for (const std::int64_t outputs : {1, 2, 3, 4, 6})
        for (const std::int64_t inputs : {1, 2, 3})
            for (const std::int64_t lanes : {1, 4, 7, 16, 30}) {
                if (lanes > narrow_lanes) continue;
                const std::int64_t width = lanes + random.integer(0, 3);
                const std::int64_t first_lane = random.integer(0, 5);
                const std::int64_t groups = (first_lane + lanes + outputs - 1) / outputs;
                check<T>(
                    groups * inputs, inputs * width,
                    [&](const T* from, const shape::canonical_strides& in, const packed_box& box, float* to) {
                        spread_across_groups(from, in, box, {first_lane, lanes, outputs, inputs, width}, to);
                    },
                    [&](const T* pixel, const shape::canonical_strides& in, std::int64_t i) {
                        const std::int64_t lane = i % width;
                        const std::int64_t group = (first_lane + lane) / outputs;
                        return lane < lanes ? load_element(pixel + (group * inputs + i / width) * in[1]) : 0.0F;
                    },
                    random);
            }
}
TEST(packed, groups_across_lanes_of_f32) { check_across_groups<float>("packed.groups.f32"); }
TEST(packed, groups_across_lanes_of_bf16) { check_across_groups<bfloat16>("packed.groups.bf16"); }

TEST(packed, a_box_holds_what_its_outputs_read_inside_the_tensor) {
    shape::axis axis{.large = 11, .small = 6, .kernel = 3, .stride = 2, .dilation = 1, .pad_begin = 1, .pad_end = 1};
    const std::array<shape::axis, 3> axes{{{}, {}, axis}};
    for (std::int64_t first = 0; first < axis.small; ++first)
        for (std::int64_t last = first + 1; last <= axis.small; ++last) {
            const box_grid::item box{1, 3, {0, 0, first}, {1, 1, last}};
            const packed_box read = reads_of(axes, shape::side::small, box, 5);
            EXPECT_EQ(read.first_image, 1);
            EXPECT_EQ(read.images, 2);
            EXPECT_EQ(read.channels, 5);
            EXPECT_EQ(read.first[2], std::max<std::int64_t>(0, axis.position(first, 0)));
            EXPECT_EQ(read.first[2] + read.extent[2],
                      std::min(axis.large, axis.position(last - 1, axis.kernel - 1) + 1));
            EXPECT_EQ(read.extent[0] * read.extent[1], 1);
        }
}

TEST(packed, row_pitches_are_odd_numbers_of_lines_that_never_fall) {
    std::int64_t last = 0;
    for (std::int64_t count = 0; count < 1000; ++count) {
        const std::int64_t pitch = row_pitch(count);
        EXPECT_GE(pitch, count);
        EXPECT_LT(pitch - count, 48);
        EXPECT_EQ(pitch % 32, 16);
        EXPECT_GE(pitch, last);
        last = pitch;
    }
}

}  // namespace
