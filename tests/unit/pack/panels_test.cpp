// Packing into panels and back against plain loops, for all small sizes, in memory that notices stray reads and writes.

#include <gradkern/detail/pack/panels.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>
#include <vector>

#include "support/guarded.hpp"
#include "support/random.hpp"

namespace {

using namespace gradkern::detail;
using gradkern::bfloat16;
using gradkern::float16;
using gradkern_test::guarded_buffer;
using gradkern_test::random_source;
using gradkern_test::touching;

constexpr std::ptrdiff_t vector = simd::lanes;

template <class T>
void fill(const guarded_buffer<T>& buffer, random_source& random) {
    for (std::size_t i = 0; i < buffer.size(); ++i) store_element(&buffer[i], random.real(-2.0F, 2.0F));
}

// How lanes and columns lie in a tensor.
struct layout {
    std::ptrdiff_t lane_step;
    std::ptrdiff_t column_step;
    [[nodiscard]] std::size_t elements(std::ptrdiff_t lanes, std::ptrdiff_t count) const {
        return lanes == 0 || count == 0
                   ? 0
                   : static_cast<std::size_t>((lanes - 1) * lane_step + (count - 1) * column_step + 1);
    }
};

// Lanes that are neighbours, columns that are, neither, and lanes of one source.
std::vector<layout> layouts(std::ptrdiff_t lanes, std::ptrdiff_t count) {
    return {{1, lanes}, {1, lanes + 3}, {count, 1}, {count + 2, 1}, {2, 2 * lanes + 1}, {3 * count, 3}, {0, 1}, {0, 2}};
}

// f(lanes, columns) for all small sizes and some around two vectors.
template <class F>
void for_sizes(const F& f) {
    const std::ptrdiff_t most = 2 * vector + 2;
    for (std::ptrdiff_t lanes = 1; lanes <= most; ++lanes)
        for (std::ptrdiff_t count = 0; count <= most; count += count < 6 || count > vector - 2 ? 1 : 2) f(lanes, count);
}

template <class T, class Pack>
void check_packed(std::ptrdiff_t lanes, std::ptrdiff_t count, const layout& in, random_source& random,
                  const Pack& pack) {
    SCOPED_TRACE("lanes " + std::to_string(lanes) + ", columns " + std::to_string(count) + ", lane step " +
                 std::to_string(in.lane_step) + ", column step " + std::to_string(in.column_step));
    const auto side = random.chance(1, 2) ? touching::end : touching::begin;
    const std::ptrdiff_t out_step = random.chance(1, 2) ? lanes : lanes + random.integer(1, 3);
    guarded_buffer<T> source(in.elements(lanes, count), side);
    guarded_buffer<float> out(count == 0 ? 0 : static_cast<std::size_t>((count - 1) * out_step + lanes), side);
    fill(source, random);
    std::vector<float> expected(out.data(), out.data() + out.size());
    for (std::ptrdiff_t x = 0; x < count; ++x)
        for (std::ptrdiff_t j = 0; j < lanes; ++j)
            expected[static_cast<std::size_t>(x * out_step + j)] =
                load_element(source.data() + j * in.lane_step + x * in.column_step);
    pack(source.data(), out.data(), out_step);
    EXPECT_TRUE(begins_with(out, expected));
    EXPECT_TRUE(out.zones_intact());
}

template <class T>
struct panels : ::testing::Test {};
using elements = ::testing::Types<float, float16, bfloat16>;
TYPED_TEST_SUITE(panels, elements, );

TYPED_TEST(panels, pack_lanes) {
    random_source random("panels.pack_lanes");
    for_sizes([&](std::ptrdiff_t lanes, std::ptrdiff_t count) {
        for (const layout& in : layouts(lanes, count))
            check_packed<TypeParam>(lanes, count, in, random,
                                    [&](const TypeParam* from, float* to, std::ptrdiff_t step) {
                                        pack_lanes(from, in.lane_step, lanes, in.column_step, count, to, step);
                                    });
    });
}

TYPED_TEST(panels, pack_columns_of_any_rows) {
    random_source random("panels.pack_columns");
    for_sizes([&](std::ptrdiff_t lanes, std::ptrdiff_t count) {
        const layout in{count + 1, 1};
        check_packed<TypeParam>(lanes, count, in, random, [&](const TypeParam* from, float* to, std::ptrdiff_t step) {
            pack_columns<TypeParam>([&](std::ptrdiff_t j) { return from + j * in.lane_step; }, lanes, count, to, step);
        });
    });
}

TEST(panels, clear_lanes_behind_those_of_the_source) {
    for (std::ptrdiff_t first = 0; first <= 9; ++first)
        for (std::ptrdiff_t last = first; last <= 9; ++last)
            for (std::ptrdiff_t count = 0; count <= 3; ++count) {
                guarded_buffer<float> out(30);
                std::vector<float> expected(out.data(), out.data() + out.size());
                for (std::ptrdiff_t x = 0; x < count; ++x)
                    for (std::ptrdiff_t j = first; j < last; ++j) expected[static_cast<std::size_t>(x * 10 + j)] = 0.0F;
                clear_lanes(first, last, count, out.data(), 10);
                EXPECT_TRUE(begins_with(out, expected));
            }
}

template <class T, class Sum>
void check_unpacked(std::ptrdiff_t lanes, std::ptrdiff_t count, const layout& to, bool accumulate,
                    random_source& random) {
    SCOPED_TRACE("lanes " + std::to_string(lanes) + ", columns " + std::to_string(count) + ", lane step " +
                 std::to_string(to.lane_step) + ", column step " + std::to_string(to.column_step) + ", accumulate " +
                 std::to_string(accumulate));
    const auto side = random.chance(1, 2) ? touching::end : touching::begin;
    const std::ptrdiff_t in_step = random.chance(1, 2) ? lanes : lanes + random.integer(1, 3);
    guarded_buffer<Sum> in(count == 0 ? 0 : static_cast<std::size_t>((count - 1) * in_step + lanes), side);
    guarded_buffer<T> out(to.elements(lanes, count), side);
    for (std::size_t i = 0; i < in.size(); ++i) in[i] = random.real(-2.0F, 2.0F) + Sum{1} / Sum{3};
    if (accumulate) fill(out, random);
    std::vector<T> expected(out.data(), out.data() + out.size());
    for (std::ptrdiff_t x = 0; x < count; ++x)
        for (std::ptrdiff_t j = 0; j < lanes; ++j) {
            T& one = expected[static_cast<std::size_t>(j * to.lane_step + x * to.column_step)];
            const auto sum = static_cast<float>(in[static_cast<std::size_t>(x * in_step + j)]);
            store_element(&one, accumulate ? load_element(&one) + sum : sum);
        }
    unpack_lanes(in.data(), in_step, lanes, count, out.data(), to.lane_step, to.column_step, accumulate);
    EXPECT_TRUE(begins_with(out, expected));
    EXPECT_TRUE(out.zones_intact());
}

TYPED_TEST(panels, unpack_lanes) {
    random_source random("panels.unpack_lanes");
    for_sizes([&](std::ptrdiff_t lanes, std::ptrdiff_t count) {
        for (const layout& to : layouts(lanes, count)) {
            if (to.lane_step == 0) continue;
            for (const bool accumulate : {false, true})
                check_unpacked<TypeParam, float>(lanes, count, to, accumulate, random);
        }
    });
}

TYPED_TEST(panels, unpack_sums_of_doubles) {
    random_source random("panels.unpack_doubles");
    for (const std::ptrdiff_t lanes : {1, 3, 64})
        for (const std::ptrdiff_t count : {0, 1, 7, 40})
            for (const layout& to : {layout{1, lanes}, layout{count, 1}})
                for (const bool accumulate : {false, true})
                    check_unpacked<TypeParam, double>(lanes, count, to, accumulate, random);
}

TEST(panels, fold_adds_and_clears) {
    random_source random("panels.fold");
    guarded_buffer<float> from(37);
    guarded_buffer<float> to(37);
    fill(from, random);
    fill(to, random);
    std::vector<float> expected(to.data(), to.data() + to.size());
    for (std::size_t i = 0; i < expected.size(); ++i) expected[i] += from[i];
    fold(from.data(), to.data(), 37);
    EXPECT_EQ(std::memcmp(to.data(), expected.data(), sizeof(float) * 37), 0);
    EXPECT_TRUE(std::all_of(from.data(), from.data() + 37, [](float x) { return x == 0.0F; }));
}

}  // namespace
