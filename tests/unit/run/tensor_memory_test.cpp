// Whether two strided tensors share a byte, against sets of all their bytes.
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <set>
#include <vector>

#include <gradkern/detail/run/tensor_memory.hpp>

#include "support/random.hpp"
#include "support/tensor.hpp"

namespace gradkern_test {
namespace {

namespace gk = gradkern;
using gk::detail::placed_tensor;
using gk::detail::share_bytes;
using gk::detail::tensor_memory;

struct tensor {
    gk::tensor_layout layout;
    std::int64_t bytes = 4;
    std::int64_t base = 0;  // of the pointer
};

std::set<std::int64_t> all_bytes(const tensor& t) {
    std::set<std::int64_t> places{t.base};
    const gk::extents strides = gk::shape::strides_of(t.layout);
    for (std::size_t i = 0; i < t.layout.shape.rank(); ++i) {
        std::set<std::int64_t> next;
        for (const std::int64_t p : places)
            for (std::int64_t k = 0; k < t.layout.shape[i]; ++k) next.insert(p + k * strides[i] * t.bytes);
        places = next;
    }
    std::set<std::int64_t> all;
    for (const std::int64_t p : places)
        for (std::int64_t b = 0; b < t.bytes; ++b) all.insert(p + b);
    return all;
}

bool really_share(const tensor& a, const tensor& b) {
    const auto first = all_bytes(a);
    for (const std::int64_t p : all_bytes(b))
        if (first.contains(p)) return true;
    return false;
}

bool said_to_share(const tensor& a, const tensor& b) {
    // addresses that nobody reads
    const auto at = [](std::int64_t offset) {
        return reinterpret_cast<const void*>(static_cast<std::uintptr_t>(0x4000'0000 + offset));
    };
    const tensor_memory x("x", a.layout, a.bytes);
    const tensor_memory y("y", b.layout, b.bytes);
    const bool answer = share_bytes({&x, at(a.base)}, {&y, at(b.base)});
    EXPECT_EQ(share_bytes({&y, at(b.base)}, {&x, at(a.base)}), answer) << "not symmetric";
    return answer;
}

std::int64_t element_bytes(random_source& random) { return random.pick<std::int64_t>({2, 4, 8}); }

gk::tensor_layout one_axis(std::int64_t size, std::int64_t stride) { return {gk::extents{size}, gk::extents{stride}}; }

gk::extents small_shape(random_source& random, std::size_t rank) {
    gk::extents e;
    for (std::size_t i = 0; i < rank; ++i) e.push_back(random.chance(1, 40) ? 0 : random.integer(1, 5));
    return e;
}

// Both tensors are boxes of one grid, anywhere in it, of every other index or every one, in either direction.
TEST(shared_bytes, boxes_of_one_grid_are_decided_exactly) {
    random_source random("shared_bytes.grid");
    int apart = 0;
    int together = 0;
    for (int i = 0; i < 4000; ++i, random.next_case()) {
        GRADKERN_TRACE_SEED(random);
        const auto rank = static_cast<std::size_t>(random.integer(1, 5));
        const std::int64_t slot = 8;
        gk::extents steps = gk::extents::filled(rank, 1);
        std::int64_t step = 1;
        std::vector<std::int64_t> size(rank);
        for (std::size_t k = rank; k-- > 0;) {
            steps[k] = step;
            size[k] = random.integer(1, rank > 3 ? 4 : 8);
            step *= size[k] + (random.chance(1, 4) ? random.integer(0, 3) : 0);
        }
        const auto box = [&] {
            tensor t;
            t.bytes = element_bytes(random);
            t.layout = {gk::extents::filled(rank, 1), gk::extents::filled(rank, 1)};
            for (std::size_t k = 0; k < rank; ++k) {
                const std::int64_t every = random.integer(1, 2);
                const std::int64_t first = random.integer(0, size[k] - 1);
                const std::int64_t count = random.integer(1, (size[k] - 1 - first) / every + 1);
                const bool backward = random.chance(1, 4);
                t.layout.shape[k] = count;
                t.layout.strides[k] = (backward ? -1 : 1) * every * steps[k] * (slot / t.bytes);
                t.base += slot * steps[k] * (first + (backward ? (count - 1) * every : 0));
            }
            if (random.chance(1, 4)) t.base += random.integer(0, slot / t.bytes - 1) * t.bytes;
            return t;
        };
        const tensor a = box();
        const tensor b = box();
        const bool share = really_share(a, b);
        ASSERT_EQ(said_to_share(a, b), share);
        ++(share ? together : apart);
    }
    EXPECT_GT(apart, 1000);
    EXPECT_GT(together, 300);
}

// Any strides at all, 0 among them: never apart where they share.
TEST(shared_bytes, tensors_that_share_are_never_said_to_be_apart) {
    random_source random("shared_bytes.any");
    int apart = 0;
    int exact = 0;
    constexpr int cases = 3000;
    for (int i = 0; i < cases; ++i, random.next_case()) {
        GRADKERN_TRACE_SEED(random);
        const auto any = [&] {
            const auto rank = static_cast<std::size_t>(random.integer(1, 5));
            const gk::extents shape = small_shape(random, rank);
            gk::extents strides = shape;
            for (std::size_t k = 0; k < rank; ++k) strides[k] = random.integer(-40, 40);
            return tensor{{shape, strides}, element_bytes(random), random.integer(-300, 300)};
        };
        const tensor a = any();
        const tensor b = any();
        const bool share = really_share(a, b);
        const bool said = said_to_share(a, b);
        ASSERT_TRUE(said || !share);
        apart += share ? 0 : 1;
        exact += said == share ? 1 : 0;
    }
    EXPECT_GT(apart, cases / 20);
    EXPECT_GT(exact, cases - cases / 50) << "the search gives up too often";
}

TEST(shared_bytes, examples) {
    const gk::extents image{1, 5, 5, 4};
    const gk::extents of_eight{200, 40, 8, 1};
    EXPECT_FALSE(said_to_share({{image, of_eight}, 4, 0}, {{image, of_eight}, 4, 16})) << "channels";
    EXPECT_TRUE(said_to_share({{image, of_eight}, 4, 0}, {{image, of_eight}, 4, 12})) << "one channel of both";
    EXPECT_TRUE(said_to_share({{image, of_eight}, 4, 0}, {{image, of_eight}, 4, 15})) << "a byte of both";
    const gk::extents planes{2, 3, 4, 5};
    const gk::extents of_six{120, 20, 5, 1};
    EXPECT_FALSE(said_to_share({{planes, of_six}, 2, 0}, {{planes, of_six}, 2, 120})) << "slices of two images";
    const gk::extents rows{60, 20, 10, 1};
    EXPECT_FALSE(said_to_share({{{2, 3, 2, 5}, rows}, 4, 0}, {{{2, 3, 2, 5}, rows}, 4, 20})) << "even and odd rows";
    EXPECT_FALSE(said_to_share({one_axis(7, 2), 4, 0}, {one_axis(7, -2), 4, 52})) << "columns, one of them backward";
    EXPECT_TRUE(said_to_share({one_axis(7, 2), 4, 0}, {one_axis(7, -2), 4, 48}));
    EXPECT_FALSE(said_to_share({{{3, 4}, {8, 2}}, 2, 0}, {{{3, 2}, {4, 2}}, 4, 100})) << "behind it";
    EXPECT_FALSE(said_to_share({{{2, 0}, {1, 1}}, 4, 0}, {{{2, 2}, {2, 1}}, 4, 0})) << "without elements";
    EXPECT_TRUE(said_to_share({one_axis(1000, 0), 4, 8}, {one_axis(5, 1), 4, 0})) << "an expanded input";
}

// Sizes and strides near the ends of 63 bits: an answer without overflow, and never apart where elements share.
TEST(shared_bytes, huge_tensors) {
    constexpr std::int64_t far = std::int64_t{1} << 60;
    EXPECT_TRUE(said_to_share({one_axis(2, far), 4, 0}, {one_axis(2, far), 4, 0}));
    EXPECT_TRUE(
        said_to_share({one_axis(std::int64_t{1} << 56, 1), 4, 0}, {{{std::int64_t{1} << 50, 3}, {1, 7}}, 4, 64}));
}

// In constant time, whatever the sizes: this would run for years element by element.
TEST(shared_bytes, the_search_is_bounded) {
    const gk::extents shape{1 << 10, 1 << 10, 1 << 10, 1 << 10, 1 << 10};
    const gk::extents a{1, 1 << 11, 1 << 21, (std::int64_t{1} << 31) + 1, (std::int64_t{1} << 42) + 3};
    const gk::extents b{3, (1 << 12) + 1, (1 << 22) + 5, (std::int64_t{1} << 32) + 7, (std::int64_t{1} << 41) + 9};
    for (std::int64_t base = 0; base < 1000; ++base)
        static_cast<void>(said_to_share({{shape, a}, 4, 0}, {{shape, b}, 4, base * 1237}));
}

}  // namespace
}  // namespace gradkern_test
