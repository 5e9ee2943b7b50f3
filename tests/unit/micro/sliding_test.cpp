// The kernels of windows that slide along the columns, sliding_tile.hpp and sliding_sums.hpp, against plain loops, bit for bit,
// with borders on both sides and in memory that notices stray reads and writes.

#include <gradkern/detail/micro/sliding_sums.hpp>
#include <gradkern/detail/micro/sliding_tile.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>
#include <utility>
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

template <operand A>
using element = std::conditional_t<A == operand::f16, gradkern::float16,
                                   std::conditional_t<A == operand::bf16, gradkern::bfloat16, float>>;

template <class T>
void fill(const guarded_buffer<T>& buffer, random_source& random) {
    for (std::size_t i = 0; i < buffer.size(); ++i) store_element(&buffer[i], random.real(-2.0F, 2.0F));
}

// A tile of `rows` columns of a line of outputs, the first of which meets columns from `first` on of `columns` there are, in `panels`
// panels of `width` lanes. Rows may have ends of parts behind any piece.
template <operand A>
void check_tile(std::ptrdiff_t taps, std::ptrdiff_t rows, std::ptrdiff_t first, std::ptrdiff_t columns,
                std::ptrdiff_t panels, std::ptrdiff_t width, tile_mode mode, bool biased, random_source& random) {
    SCOPED_TRACE("taps " + std::to_string(taps) + ", rows " + std::to_string(rows) + ", first column " +
                 std::to_string(first) + " of " + std::to_string(columns) + ", lanes " + std::to_string(width));
    GRADKERN_TRACE_SEED(random);
    using T = element<A>;
    const auto side = random.chance(1, 2) ? touching::end : touching::begin;
    const std::ptrdiff_t a_step = panels * width;
    const std::ptrdiff_t lines = 3;
    const std::ptrdiff_t a_line = taps * a_step;
    guarded_buffer<T> a(static_cast<std::size_t>(columns * a_step + (lines - 1) * a_line), side);
    guarded_buffer<float> b(static_cast<std::size_t>(panels * lines * taps * width), side);
    guarded_buffer<float> bias(static_cast<std::size_t>(panels * lines * taps * width), side);
    fill(a, random);
    fill(b, random);
    fill(bias, random);
    const std::ptrdiff_t c_pitch = panels * width + 1;
    guarded_buffer<T> c(static_cast<std::size_t>(rows * c_pitch), side);
    if (mode == tile_mode::add) fill(c, random);
    std::vector<T> expected(c.data(), c.data() + c.size());
    const bool has_parts = !is_native_16bit<A> && taps != 3 && random.chance(1, 2);
    const std::uint32_t all_rows = (std::uint32_t{1} << rows) - 1;
    std::vector<sliding_piece> pieces;
    for (std::ptrdiff_t line = 0; line < lines; ++line)
        for (std::ptrdiff_t k = 0; k < taps; k += pieces.back().taps) {
            const auto count = static_cast<std::int32_t>(piece_taps(taps - k));
            const auto ends =
                static_cast<std::uint32_t>(has_parts && random.chance(1, 2) ? random.integer(0, all_rows) : 0);
            pieces.push_back({line * a_line + k * a_step, (line * taps + k) * width, k, count, ends});
        }
    if (has_parts) pieces.back().ends = all_rows;
    for (std::ptrdiff_t p = 0; p < panels; ++p)
        for (std::ptrdiff_t i = 0; i < rows; ++i)
            for (std::ptrdiff_t j = 0; j < width; ++j) {
                float sum = 0.0F;
                std::vector<float> parts;
                for (const sliding_piece& e : pieces) {
                    for (std::ptrdiff_t k = 0; k < e.taps; ++k) {
                        const std::ptrdiff_t column = first + i + e.first + k;
                        if (column < 0 || column >= columns) continue;
                        const std::ptrdiff_t from = first * a_step + e.a + (i + k) * a_step + p * width + j;
                        sum =
                            simd::fma(load_element(a.data() + from),
                                      b[static_cast<std::size_t>(p * lines * taps * width + e.b + k * width + j)], sum);
                    }
                    if ((e.ends >> i & 1) == 0) continue;
                    parts.push_back(std::exchange(sum, 0.0F));
                }
                for (std::size_t part = 0; part < parts.size(); ++part) sum = part == 0 ? parts[0] : sum + parts[part];
                T& to = expected[static_cast<std::size_t>(i * c_pitch + p * width + j)];
                if (biased) sum += bias[static_cast<std::size_t>(p * lines * taps * width + j)];
                if (mode == tile_mode::add) sum = load_element(&to) + sum;
                store_element(&to, sum);
            }
    const auto* const row = reinterpret_cast<const float*>(a.data());
    std::array<float*, most_rows_of_any> to{};
    for (std::ptrdiff_t i = 0; i < rows; ++i)
        to[static_cast<std::size_t>(i)] = reinterpret_cast<float*>(c.data() + i * c_pitch);
    const tile_call call{.count = static_cast<std::ptrdiff_t>(pieces.size()),
                         .rows = rows,
                         .a = &row,
                         .a_step = a_step,
                         .b = b.data(),
                         .b_step = width,
                         .c = to.data(),
                         .mode = mode,
                         .bias = biased ? bias.data() : nullptr,
                         .a_ahead = std::ptrdiff_t{1} << 40,
                         .no_prefetch = random.chance(1, 2),
                         .tiles = panels,
                         .a_next = width,
                         .b_next = lines * taps * width,
                         .c_next = width,
                         .a_first = first * a_step,
                         .inside_begin = -first,
                         .inside_end = columns - first,
                         .lanes = width,
                         .pieces = pieces.data()};
    sliding_tile_for<A>(taps, lines * taps)(call);
    EXPECT_TRUE(begins_with(c, expected));
    EXPECT_TRUE(c.zones_intact());
    random.next_case();
}

template <operand A>
void check_tiles(const char* name) {
    random_source random(std::string("sliding_tile.") + name);
    for (const std::ptrdiff_t taps : {1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 13, 31, 75}) {
        for (std::ptrdiff_t rows = 1; rows <= most_sliding_rows; ++rows)
            for (const std::ptrdiff_t before : {0, 1, 3, 40})  // columns of padding
                for (const std::ptrdiff_t behind : {0, 2, 4}) {
                    const std::ptrdiff_t columns = rows + taps - 1 - before - behind;
                    if (columns < 1) continue;
                    const bool wide = !is_native_16bit<A> && random.chance(1, 2);
                    const std::ptrdiff_t width = is_native_16bit<A> ? native_16bit_lanes : wide ? 2 * lanes : lanes;
                    const bool adds = is_native_16bit<A> && random.chance(1, 2);
                    const bool biased = is_native_16bit<A> && random.chance(1, 2);
                    check_tile<A>(taps, rows, -before, columns, random.integer(1, 2), width,
                                  adds ? tile_mode::add : tile_mode::set, biased, random);
                }
    }
}

TEST(sliding_tile, leaves_out_columns_outside) { check_tiles<operand::vector>("vector"); }
TEST(sliding_tile, rows_of_f16) { check_tiles<operand::f16>("f16"); }
TEST(sliding_tile, rows_of_bf16) { check_tiles<operand::bf16>("bf16"); }
TEST(sliding_tile, pieces_are_those_there_are_kernels_for) {
    for (std::int64_t taps = 1; taps < 200; ++taps) {
        std::int64_t pieces = 0;
        for (std::int64_t left = taps; left > 0; ++pieces) {
            const std::int64_t count = piece_taps(left);
            ASSERT_TRUE(count == 1 || (count >= 3 && count <= 5) || count == long_piece) << left;
            ASSERT_LE(count, left);
            left -= count;
        }
        EXPECT_LE(pieces, most_pieces(taps)) << taps;
    }
}

// One line of outputs of weight gradients: `outputs` of them, the first of which meets columns from `first` on.
template <operand A>
void check_sums(std::ptrdiff_t stride, std::ptrdiff_t first, std::ptrdiff_t columns, std::ptrdiff_t outputs,
                std::size_t lines, random_source& random) {
    SCOPED_TRACE("stride " + std::to_string(stride) + ", first " + std::to_string(first) + ", columns " +
                 std::to_string(columns) + ", outputs " + std::to_string(outputs) + ", lines " + std::to_string(lines));
    GRADKERN_TRACE_SEED(random);
    using T = element<A>;
    constexpr std::ptrdiff_t taps = sliding_sum_taps;
    const std::ptrdiff_t a_step = lanes + random.integer(0, 3);
    const std::ptrdiff_t b_step = lanes + random.integer(0, 3);
    guarded_buffer<T> a(lines * static_cast<std::size_t>((columns - 1) * a_step + lanes));
    guarded_buffer<T> b(static_cast<std::size_t>((outputs - 1) * b_step + lanes));
    guarded_buffer<float> sums(lines * taps * lanes);
    fill(a, random);
    fill(b, random);
    fill(sums, random);
    std::vector<float> expected(sums.data(), sums.data() + sums.size());

    // Newest outputs whose columns, and those of the outputs that they look back to, are all inside.
    const std::ptrdiff_t look_back = (taps - 1) / stride;
    std::ptrdiff_t whole = look_back;
    while (whole < outputs && first + whole * stride < 0) ++whole;
    std::ptrdiff_t whole_end = whole;
    while (whole_end < outputs && first + whole_end * stride + stride - 1 < columns) ++whole_end;

    sliding_sums_call call{.a = reinterpret_cast<const float*>(a.data()),
                           .b = reinterpret_cast<const float*>(b.data()),
                           .a_step = a_step,
                           .b_step = b_step,
                           .columns = columns,
                           .first = first,
                           .outputs = outputs,
                           .whole = whole,
                           .whole_end = whole_end};
    for (std::size_t i = 0; i < sliding_sum_lines; ++i) {
        const std::size_t line = std::min(i, lines - 1);  // the last one again
        call.a_row[i] = static_cast<std::ptrdiff_t>(line) * ((columns - 1) * a_step + lanes);
        call.sums[i] = sums.data() + line * taps * lanes;
    }
    for (std::size_t i = 0; i < lines; ++i)
        for (std::ptrdiff_t k = 0; k < taps; ++k)
            for (std::ptrdiff_t j = 0; j < lanes; ++j) {
                float& sum =
                    expected[static_cast<std::size_t>((static_cast<std::ptrdiff_t>(i) * taps + k) * lanes + j)];
                for (std::ptrdiff_t o = 0; o < outputs; ++o) {
                    const std::ptrdiff_t column = first + o * stride + k;
                    if (column < 0 || column >= columns) continue;
                    sum = simd::fma(load_element(a.data() + call.a_row[i] + column * a_step + j),
                                    load_element(b.data() + o * b_step + j), sum);
                }
            }
    sliding_sums_of<A>[static_cast<std::size_t>(stride - 1)](call);
    EXPECT_TRUE(begins_with(sums, expected));
    EXPECT_TRUE(sums.zones_intact());
    random.next_case();
}

template <operand A>
void check_all_sums(const char* name) {
    random_source random(std::string("sliding_sums.") + name);
    for (std::ptrdiff_t stride = 1; stride <= most_sliding_stride; ++stride)
        for (std::ptrdiff_t first = -2; first <= 1; ++first)
            for (std::ptrdiff_t columns = 1; columns <= 11; ++columns)
                for (std::ptrdiff_t outputs = 1; outputs <= 9; ++outputs)
                    for (std::size_t lines = 1; lines <= sliding_sum_lines; ++lines)
                        check_sums<A>(stride, first, columns, outputs, lines, random);
}
TEST(sliding_sums, borders_and_middle_add_up) { check_all_sums<operand::vector>("vector"); }
TEST(sliding_sums, rows_of_f16) { check_all_sums<operand::f16>("f16"); }
TEST(sliding_sums, rows_of_bf16) { check_all_sums<operand::bf16>("bf16"); }

}  // namespace
