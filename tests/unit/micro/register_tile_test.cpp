// Every kernel of the table of register tiles against plain loops over the documented sums, bit for bit, in memory that notices
// stray reads and writes.

#include <gradkern/detail/micro/register_tile.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

#include "support/guarded.hpp"
#include "support/random.hpp"

namespace {

using namespace gradkern::detail;
namespace simd = gradkern::detail::simd;
using gradkern_test::guarded_buffer;
using gradkern_test::random_source;
using gradkern_test::touching;

constexpr std::ptrdiff_t lanes = simd::lanes;

// What a kernel reads of a row and of b for one term, and what lies in a row of c.
template <operand A>
struct reach {
    explicit reach(int vectors)
        : a(is_broadcast<A>                             ? 1
            : is_outer<A> || A == operand::pair_group_8 ? lanes
                                                        : vectors * lanes),
          b((is_outer<A>                  ? 1
             : A == operand::pair_group_8 ? 4 * vectors
             : is_group<A>                ? group_of<A> * vectors
                                          : vectors) *
            lanes) {}
    std::ptrdiff_t a;
    std::ptrdiff_t b;
};

// The element of a row of c.
template <operand A>
using element = std::conditional_t<A == operand::f16, gradkern::float16,
                                   std::conditional_t<A == operand::bf16, gradkern::bfloat16, float>>;

// sum + a * b, of pairs as the target has it.
template <operand A>
float add_one(float a, float b, float sum) {
    if constexpr (is_paired<A>) {
        std::array<float, static_cast<std::size_t>(lanes)> r;
        simd::store(r.data(), simd::dot_bf16(simd::broadcast_pair(&a), simd::broadcast_pair(&b), simd::broadcast(sum)));
        return r[0];
    } else {
        return simd::fma(a, b, sum);
    }
}

// One term's products are added to the sum that belongs at place `j` of a row of `vectors` vectors (of outer products: of one).
template <operand A>
float add_terms(float sum, const element<A>* a, const float* b, std::ptrdiff_t j, int vectors, std::ptrdiff_t row) {
    const auto number = [&](std::ptrdiff_t i) { return load_element(a + i); };
    if constexpr (is_broadcast<A>) {
        return add_one<A>(number(0), b[j], sum);
    } else if constexpr (A == operand::pair_group_8) {
        const std::ptrdiff_t v = j % 8 / 4;           // half of the outputs of a group
        const std::ptrdiff_t at = j / 8 * 4 + j % 4;  // lane of the half's vector
        for (std::ptrdiff_t l = 0; l < 4; ++l)
            sum = add_one<A>(number(at / 4 * 4 + l), b[(2 * l + v) * lanes + at], sum);
        return sum;
    } else if constexpr (A == operand::group_8) {
        const std::ptrdiff_t two = j / (2 * lanes) * 2 * lanes;  // vectors whose quads are put together
        const std::ptrdiff_t at = two + j % 8 / 4 * lanes + (j - two) / 8 * 4 + j % 4;
        for (std::ptrdiff_t l = 0; l < 8; ++l)
            sum = add_one<A>(number(j / 8 * 8 + l), b[l * vectors * lanes + at], sum);
        return sum;
    } else if constexpr (is_group<A>) {
        constexpr std::ptrdiff_t n = group_of<A>;
        for (std::ptrdiff_t l = 0; l < n; ++l) sum = add_one<A>(number(j / n * n + l), b[l * vectors * lanes + j], sum);
        return sum;
    } else if constexpr (is_outer<A>) {
        const std::ptrdiff_t group = A == operand::outer_half ? 8 : vectors;
        const std::ptrdiff_t v = j / lanes;
        const std::ptrdiff_t lane = j % lanes;
        return add_one<A>(number(lane / group * group + v), b[(vectors == 8 ? row * lanes : 0) + lane], sum);
    } else {
        return add_one<A>(number(j), b[j], sum);
    }
}

struct layout {
    std::ptrdiff_t a_step;
    bool contiguous;  // rows are neighbours in memory
};

// Fills with numbers of both signs near one, as many of which round when they are added.
template <class T>
void fill(const guarded_buffer<T>& buffer, random_source& random) {
    for (std::size_t i = 0; i < buffer.size(); ++i) store_element(&buffer[i], random.real(-2.0F, 2.0F));
}
[[maybe_unused]] void fill_pairs(const guarded_buffer<float>& buffer, random_source& random) {
    for (std::size_t i = 0; i < buffer.size(); ++i) {
        std::array<gradkern::bfloat16, 2> pair;
        for (auto& one : pair) store_element(&one, random.real(-2.0F, 2.0F));
        std::memcpy(&buffer[i], pair.data(), sizeof(float));
    }
}

template <operand A>
void check(tile_function run, int rows, int vectors, tile_mode mode, layout in, bool option, random_source& random) {
    SCOPED_TRACE("rows " + std::to_string(rows) + ", vectors " + std::to_string(vectors) + ", mode " +
                 std::to_string(static_cast<int>(mode)) + ", a_step " + std::to_string(in.a_step) + ", option " +
                 std::to_string(option));
    GRADKERN_TRACE_SEED(random);
    using T = element<A>;
    const reach<A> one(vectors);
    const auto side = random.chance(1, 2) ? touching::end : touching::begin;
    const std::ptrdiff_t tiles = random.integer(1, 3);
    const bool rounds = is_paired<A> && option;
    const bool biased = is_native_16bit<A> && option;

    // Segments of lengths that leave terms behind those of unrolled iterations.
    std::array<k_segment, 3> list;
    std::ptrdiff_t a_reach = 0;
    std::ptrdiff_t b_reach = 0;
    const std::ptrdiff_t b_step = one.b + (is_outer<A> && vectors == 8 ? lanes : 0) + random.integer(0, 3);
    const std::ptrdiff_t b_read = is_outer<A> && vectors == 8 ? rows * lanes : one.b;
    for (k_segment& e : list) {
        e = {random.integer(0, 5), random.integer(0, 5), random.pick<std::ptrdiff_t>({0, 1, 3, 4, 6, 9})};
        if (e.length == 0) continue;
        a_reach = std::max(a_reach, e.a + (e.length - 1) * in.a_step + one.a);
        b_reach = std::max(b_reach, e.b + (e.length - 1) * b_step + b_read);
    }
    const std::ptrdiff_t a_next = random.integer(0, 7);
    const std::ptrdiff_t b_next = random.integer(0, 1) * 8;
    const std::ptrdiff_t runs = has_runs<A> ? random.integer(1, 2) : 1;
    const std::ptrdiff_t a_run = random.integer(0, 9);
    a_reach += (tiles - 1) * a_next + (runs - 1) * a_run;
    b_reach += (tiles - 1) * b_next;

    const std::ptrdiff_t a_pitch = in.contiguous ? 1 : a_reach + random.integer(0, 3);
    guarded_buffer<T> a(static_cast<std::size_t>((rows - 1) * a_pitch + a_reach), side);
    guarded_buffer<float> b(static_cast<std::size_t>(b_reach), side);
    guarded_buffer<float> bias(static_cast<std::size_t>(vectors * lanes + (tiles - 1) * b_next), side);
    if constexpr (is_paired<A>) {
        fill_pairs(a, random);
        fill_pairs(b, random);
    } else {
        fill(a, random);
        fill(b, random);
    }
    fill(bias, random);
    // Of outer products a row has its vectors c_step apart.
    const std::ptrdiff_t c_step = is_outer<A> ? lanes + random.integer(0, 2) : lanes;
    const std::ptrdiff_t c_next = vectors * c_step + random.integer(0, 2);
    const std::ptrdiff_t c_run = tiles * c_next + random.integer(0, 2);
    const std::ptrdiff_t c_pitch = runs * c_run + 1;
    const auto c_size = static_cast<std::size_t>(rows * c_pitch);
    // Rows of pairs that are rounded are bf16.
    guarded_buffer<T> c(c_size, side);
    guarded_buffer<gradkern::bfloat16> c16(rounds ? c_size : 0, side);
    if (mode != tile_mode::set) fill(c, random);
    std::vector<T> expected(c.data(), c.data() + c_size);
    std::vector<gradkern::bfloat16> expected16(c16.data(), c16.data() + c16.size());

    // What tiles add to, where it is not c.
    const bool adds_elsewhere = mode == tile_mode::add && !is_native_16bit<A> && random.chance(1, 3);
    guarded_buffer<float> other(adds_elsewhere ? c_size : 0, side);
    std::array<const float*, 16> other_rows{};
    fill(other, random);
    for (std::ptrdiff_t i = 0; adds_elsewhere && i < rows; ++i)
        other_rows[static_cast<std::size_t>(i)] = other.data() + i * c_pitch;

    std::array<const float*, 16> a_rows{};
    std::array<float*, 16> c_rows{};
    for (std::ptrdiff_t i = 0; i < rows; ++i) {
        a_rows[static_cast<std::size_t>(i)] = reinterpret_cast<const float*>(a.data() + i * a_pitch);
        c_rows[static_cast<std::size_t>(i)] = rounds ? reinterpret_cast<float*>(c16.data() + i * c_pitch)
                                                     : reinterpret_cast<float*>(c.data() + i * c_pitch);
    }
    for (std::ptrdiff_t n = 0; n < runs * tiles; ++n)
        for (std::ptrdiff_t i = 0; i < rows; ++i)
            for (std::ptrdiff_t j = 0; j < vectors * lanes; ++j) {
                const std::ptrdiff_t run_number = n / tiles;
                const std::ptrdiff_t t = n % tiles;
                const auto at = static_cast<std::size_t>(i * c_pitch + run_number * c_run + t * c_next +
                                                         j / lanes * c_step + j % lanes);
                const float old = mode == tile_mode::set ? 0.0F
                                  : adds_elsewhere       ? other[at]
                                                         : load_element(&expected[at]);
                float sum = mode == tile_mode::resume ? old : 0.0F;
                for (const k_segment& e : list)
                    for (std::ptrdiff_t k = 0; k < e.length; ++k)
                        sum = add_terms<A>(
                            sum, a.data() + i * a_pitch + run_number * a_run + t * a_next + e.a + k * in.a_step,
                            b.data() + t * b_next + e.b + k * b_step, j, vectors, i);
                if (biased) sum += bias[static_cast<std::size_t>(t * b_next + j)];
                if (mode == tile_mode::add) sum = old + sum;
                if (rounds) {
                    store_element(&expected16[at], sum);
                } else {
                    store_element(&expected[at], sum);
                }
            }

    // prefetches may leave memory
    later_lines later(nullptr, random.integer(0, 5000), random.integer(-5000, 5000), random.integer(1, 9));
    const tile_call call{.list = list.data(),
                         .count = static_cast<std::ptrdiff_t>(list.size()),
                         .rows = rows,
                         .a = a_rows.data(),
                         .a_step = in.a_step,
                         .b = b.data(),
                         .b_step = b_step,
                         .c = c_rows.data(),
                         .c_step = c_step,
                         .rounds = rounds,
                         .mode = mode,
                         .added = adds_elsewhere ? other_rows.data() : nullptr,
                         .bias = biased ? bias.data() : nullptr,
                         .a_ahead = std::ptrdiff_t{1} << 40,
                         .c_ahead = -(std::ptrdiff_t{1} << 40),
                         .no_prefetch = random.chance(1, 2),
                         .later = &later,
                         .tiles = tiles,
                         .a_next = a_next,
                         .b_next = b_next,
                         .c_next = c_next,
                         .runs = runs,
                         .a_run = a_run,
                         .c_run = c_run};
    run(call);
    EXPECT_EQ(std::memcmp(c.data(), expected.data(), c_size * sizeof(T)), 0);
    EXPECT_TRUE(begins_with(c16, expected16));
    EXPECT_TRUE(c.zones_intact());
    EXPECT_TRUE(c16.zones_intact());
    random.next_case();
}

// The kernels of a table, each with all the numbers of rows that it serves.
template <operand A, int Vectors, int Unit>
void check_kernels(const char* name) {
    random_source random(std::string("register_tile.") + name);
    const auto& tiles = tiles_of<A, Vectors, Unit>;
    ASSERT_EQ(static_cast<int>(tiles.size()), most_rows_of<A>(Vectors));
    for (int rows = 1; rows <= static_cast<int>(tiles.size()); ++rows)
        for (const layout in : {layout{1, false}, layout{3, false}, layout{rows + 2, is_broadcast<A>}})
            for (const bool option : {false, true})
                for (const tile_mode mode : {tile_mode::set, tile_mode::add, tile_mode::resume}) {
                    const bool resumes = !is_group<A> && !is_native_16bit<A>;
                    if (mode == tile_mode::resume && !resumes) continue;
                    if (is_paired<A> && option && mode != tile_mode::set) continue;
                    check<A>(tiles[static_cast<std::size_t>(rows - 1)], rows, Vectors, mode, in, option, random);
                }
}
// All tables of an operand, of 1 vector to `Most`.
template <operand A, int Most, int Unit = row_unit<A>>
void check_table(const char* name) {
    unroll<Most>([&](auto v) { check_kernels<A, v + 1, Unit>(name); });
}

TEST(register_tile, scalar_rows_are_broadcast) { check_table<operand::scalar, tile_vectors>("scalar"); }
TEST(register_tile, vector_rows_meet_lane_by_lane) { check_table<operand::vector, narrow_vectors>("vector"); }
TEST(register_tile, vector_rows_have_kernels_for_each_number_of_taps) {
    check_table<operand::vector, narrow_vectors, 1>("taps");
}
TEST(register_tile, f16_rows_are_widened_and_rounded) {
    check_kernels<operand::f16, native_16bit_vectors, row_unit<operand::f16>>("f16");
}
TEST(register_tile, bf16_rows_are_widened_and_rounded) {
    check_kernels<operand::bf16, native_16bit_vectors, row_unit<operand::bf16>>("bf16");
}
TEST(register_tile, groups_share_numbers) {
    check_table<operand::group_4, narrow_vectors>("group_4");
    check_kernels<operand::group_8, narrow_vectors, row_unit<operand::group_8>>("group_8");
}
TEST(register_tile, outer_products_have_a_vector_for_each_number) {
    constexpr int unit = row_unit<operand::outer>;
    if constexpr (has_outer(4)) check_kernels<operand::outer, 4, unit>("outer");
    if constexpr (has_outer(8)) check_kernels<outer_operand<8>, outer_sums(8), unit>("outer of eight");
}
TEST(register_tile, pairs_are_broadcast) {
    if constexpr (simd::has_dot_bf16) check_table<operand::pair, tile_vectors>("pair");
}
TEST(register_tile, pairs_are_shared_by_groups_of_eight) {
    if constexpr (simd::has_dot_bf16)
        check_kernels<operand::pair_group_8, 2, row_unit<operand::pair_group_8>>("pair_group_8");
}

// Fewer rows than vectors: tiles of few output channels.
TEST(register_tile, wide_tiles_of_few_rows) {
    random_source random("register_tile.wide");
    const auto all = [&]<int Rows, int Vectors>() {
        for (const std::ptrdiff_t step : {1, 5})
            check<operand::scalar>(&register_tile<operand::scalar, Rows, Vectors>, Rows, Vectors, tile_mode::set,
                                   {step, false}, false, random);
    };
    all.template operator()<1, 8>();
    all.template operator()<2, 4>();
    all.template operator()<3, 4>();
    all.template operator()<3, 7>();
}

TEST(register_tile, rows_that_are_equally_far_apart_are_broadcast) {
    random_source random("register_tile.spaced");
    for (int rows = least_spaced_rows; rows <= spaced_rows; ++rows)
        for (const layout in : {layout{1, false}, layout{3, false}, layout{rows + 2, true}})
            for (const tile_mode mode : {tile_mode::set, tile_mode::add, tile_mode::resume})
                check<operand::spaced>(spaced_tile_for<float>(rows), rows, 1, mode, in, false, random);
}

TEST(register_tile, kernels_that_prefetch_give_the_same_sums) {
    random_source random("register_tile.prefetch");
    for (int vectors = 2; vectors <= tile_vectors; ++vectors)
        for (int rows = 1; rows <= most_rows_of<operand::scalar>(vectors); ++rows) {
            if (!prefetches_later(rows, vectors * lanes)) continue;
            for (const layout in : {layout{1, false}, layout{3, false}, layout{rows + 2, true}})
                for (const tile_mode mode : {tile_mode::set, tile_mode::add, tile_mode::resume})
                    check<operand::scalar>(prefetching_tile_for<float>(vectors * lanes), rows, vectors, mode, in, false,
                                           random);
        }
}

// Addresses alone: nothing is read.
TEST(later_lines, are_runs_whatever_the_terms_of_each_call) {
    random_source random("later_lines");
    std::vector<std::byte> memory(1 << 20);
    for (int i = 0; i < 300; ++i, random.next_case()) {
        GRADKERN_TRACE_SEED(random);
        const std::int64_t bytes = random.integer(1, 500);
        const std::int64_t next_run = random.integer(bytes, 800);
        const std::int64_t terms = random.integer(1, 40);
        later_lines later(memory.data(), bytes, next_run, terms);
        const std::int64_t step = std::min<std::int64_t>((bytes + terms - 1) / terms, cache_line);
        std::int64_t seen = 0;
        std::int64_t added = 0;
        while (seen < 1000) {
            EXPECT_EQ(later.next - memory.data(), seen / terms * next_run + seen % terms * step);
            const std::int64_t some = random.integer(0, 70);
            later.prefetch_with(some, [&] { ++added; });
            seen += some;
            EXPECT_EQ(added, seen);
        }
    }
}

TEST(register_tile, tables_have_the_vectors_that_lanes_fill) {
    EXPECT_EQ(tiles_for<operand::scalar>(1), (tiles_of<operand::scalar, 1>.data()));
    EXPECT_EQ(tiles_for<operand::scalar>(lanes), (tiles_of<operand::scalar, 1>.data()));
    EXPECT_EQ(tiles_for<operand::scalar>(lanes + 1), (tiles_of<operand::scalar, 2>.data()));
    EXPECT_EQ(tiles_for<operand::scalar>(tile_lanes), (tiles_of<operand::scalar, tile_vectors>.data()));
    EXPECT_EQ(tiles_for<operand::vector>(narrow_lanes), (tiles_of<operand::vector, narrow_vectors>.data()));
}

}  // namespace
