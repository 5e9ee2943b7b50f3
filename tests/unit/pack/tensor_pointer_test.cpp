// Elements whose type a table knows: what packs them by way of the table gets what the functions of the type give.

#include <gradkern/detail/pack/tensor_pointer.hpp>

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "support/random.hpp"

namespace {

using namespace gradkern::detail;
using gradkern::accumulate_t;
using gradkern::bfloat16;
using gradkern::float16;
using gradkern_test::random_source;

constexpr std::int64_t channels = 3;
constexpr std::int64_t rows = 4;
constexpr std::int64_t columns = 2 * simd::lanes + 3;
constexpr std::int64_t offset = 5;
constexpr std::int64_t plane = rows * columns;
constexpr gradkern::shape::canonical_strides strides{channels * plane, plane, plane, columns, 1};

template <class T>
class elements_of_type : public ::testing::Test {
protected:
    using real = accumulate_t<T>;

    elements_of_type() {
        random_source random("pack.elements");
        for (T& x : tensor_) store_element(&x, static_cast<real>(random.integer(1, 200)));
    }

    /// Both ways to pack, from element `offset` on, fill equal buffers.
    template <class Pack>
    void expect_equal(const Pack& pack) const {
        std::vector<real> expected(4096, real{-1});
        std::vector<real> packed = expected;
        pack(tensor_.data() + offset, expected.data());
        pack(tensor_pointer_of(tensor_.data()) + offset, packed.data());
        EXPECT_EQ(packed, expected);
        EXPECT_NE(packed.front(), real{-1});
    }

    std::vector<T> tensor_ = std::vector<T>(static_cast<std::size_t>(offset + channels * plane + simd::lanes));
};
using types = ::testing::Types<float, float16, bfloat16, double>;
TYPED_TEST_SUITE(elements_of_type, types);

TYPED_TEST(elements_of_type, lanes_and_lines) {
    this->expect_equal([](const auto& from, auto* to) { pack_lanes(from, columns, rows, 1, columns, to, rows + 1); });
    this->expect_equal([](const auto& from, auto* to) { pack_lanes(from, 1, columns, columns, rows, to, columns); });
    this->expect_equal([](const auto& from, auto* to) { pack_lines(from, columns, rows, columns, to, 2 * columns); });
}

TYPED_TEST(elements_of_type, pixels) {
    const pixel_walk walk(1, {1, rows, columns}, strides, 0);
    this->expect_equal([&](const auto& from, auto* to) {
        pack_pixels(from, walk, plane, plane, channels, false, to, one_segment(plane, plane));
    });
}

TYPED_TEST(elements_of_type, boxes) {
    packed_box box;
    box.images = 1;
    box.extent = {1, rows, columns};
    box.channels = channels + 1;
    this->expect_equal([&](const auto& from, auto* to) { pack_channels(from, strides, box, channels, to); });
    const lanes_of_groups lanes{0, channels, 1, 1, channels + 1};
    this->expect_equal([&](const auto& from, auto* to) { spread_across_groups(from, strides, box, lanes, to); });
}

TYPED_TEST(elements_of_type, know_their_size_and_whether_they_are_numbers_of_sums) {
    const auto from = tensor_pointer_of(this->tensor_.data());
    EXPECT_EQ(from.type->bytes, static_cast<std::int64_t>(sizeof(TypeParam)));
    EXPECT_EQ(from.type->is_wide, (std::is_same_v<TypeParam, accumulate_t<TypeParam>>));
    EXPECT_EQ(from.per_cache_line() * from.type->bytes, cache_line);
    EXPECT_EQ(static_cast<const void*>((from + offset).in_place()), this->tensor_.data() + offset);
}

TYPED_TEST(elements_of_type, pairs_are_those_of_bf16) {
    const auto from = tensor_pointer_of(this->tensor_.data());
    EXPECT_EQ(from.type->pack_pairs != nullptr, has_pairs<TypeParam>);
    if constexpr (has_pairs<TypeParam>) {
        this->expect_equal([](const auto& x, auto* to) { pack_row_pairs(x, 1, columns, columns, rows, to, columns); });
        this->expect_equal([](const auto& x, auto* to) { pack_lane_pairs(x, 1, columns, columns, rows, to, columns); });
    }
}

}  // namespace
