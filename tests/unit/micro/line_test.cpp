// Streams of lines (detail/micro/line_*.hpp, window_sums.hpp) against plain loops: every length around a few vectors, nothing
// read or written outside.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>
#include <vector>

#include <gradkern/detail/micro/line_phases.hpp>
#include <gradkern/detail/micro/line_quotients.hpp>
#include <gradkern/detail/micro/line_stores.hpp>
#include <gradkern/detail/micro/line_sums.hpp>
#include <gradkern/detail/micro/window_sums.hpp>
#include <gradkern/detail/simd.hpp>
#include <gradkern/half.hpp>

#include "support/random.hpp"
#include "support/tensor.hpp"

namespace gradkern_test {
namespace {

namespace gk = gradkern;
namespace simd = gk::detail::simd;
using gk::detail::addend;
using gk::detail::as_it_is;
using gk::detail::prefetch;

constexpr std::int64_t lanes = simd::lanes;

/// Lengths shorter than a vector, of some vectors, and of more than the largest block.
std::vector<std::int64_t> lengths() {
    std::vector<std::int64_t> n;
    for (std::int64_t i = 1; i <= 4 * lanes + 1; ++i) n.push_back(i);
    for (const std::int64_t blocks : {8, 9, 12, 17})
        for (const std::int64_t more : {-1, 0, 3}) n.push_back(blocks * lanes + more);
    return n;
}

template <class T>
struct random_line : test_tensor<T> {
    random_line(std::int64_t n, std::string_view name) : test_tensor<T>({n}) {
        random_source random(name);
        this->fill_random(random);
    }
};

template <class T>
void expect_repeated(std::int64_t n) {
    const random_line<T> line(n, "micro_line.repeated");
    for (const std::int64_t times :
         {std::int64_t{1}, std::int64_t{2}, std::int64_t{3}, std::int64_t{4}, std::int64_t{7}, lanes + 3}) {
        const test_tensor<T> out({n * times});
        gk::detail::repeat_each(line.data(), n, times, out.data());
        for (std::int64_t i = 0; i < n * times; ++i) ASSERT_EQ(out.value(i), line.value(i / times)) << n << times;
        EXPECT_TRUE(out.surroundings_intact());
    }
}

template <class T>
class micro_line : public testing::Test {};
using types = testing::Types<float, gk::bfloat16, gk::float16>;
TYPED_TEST_SUITE(micro_line, types);

TYPED_TEST(micro_line, sums_start_from_zero_or_go_on_and_run_in_order) {
    for (const std::int64_t n : lengths()) {
        for (const std::int64_t count : {0, 1, 3, 32}) {
            const random_line<TypeParam> in(n * 32, "micro_line.sums");
            std::array<const TypeParam*, 32> lines{};
            for (std::int64_t k = 0; k < count; ++k) lines[static_cast<std::size_t>(k)] = in.data() + k * n;
            const test_tensor<float> out({n});
            const test_tensor<float> expected({n});
            gk::detail::sum_lines<false>(lines.data(), count, n, out.data());
            const auto add = [&] {
                for (std::int64_t x = 0; x < n; ++x)
                    for (std::int64_t k = 0; k < count; ++k) expected.data()[x] += in.value(k * n + x);
            };
            expected.fill([](std::int64_t) { return 0.0F; });
            add();
            EXPECT_TRUE(out.equals(expected)) << n << " " << count;
            gk::detail::sum_lines<true, prefetch::none, prefetch::none>(lines.data(), count, n, out.data());
            add();
            EXPECT_TRUE(out.equals(expected)) << n << " " << count;
            EXPECT_TRUE(out.surroundings_intact());
        }
    }
}

TYPED_TEST(micro_line, sums_under_masks_leave_out_what_is_outside) {
    constexpr std::int64_t count = 3;
    for (const std::int64_t period : {std::int64_t{1}, std::int64_t{5}, lanes, 3 * lanes + 2}) {
        std::vector<float> inside(static_cast<std::size_t>(count * (period + 4 * lanes)));
        const std::int64_t pitch = period + 4 * lanes;
        for (std::int64_t k = 0; k < count; ++k)
            for (std::int64_t x = 0; x < pitch; ++x)
                inside[static_cast<std::size_t>(k * pitch + x)] = (x % period + k) % 3 == 0 ? 0.0F : 1.0F;
        for (const std::int64_t n : lengths()) {
            const random_line<float> in(n * count, "micro_line.inside");
            std::array<const float*, count> lines{};
            std::array<const float*, count> masks{};
            for (std::int64_t k = 0; k < count; ++k) {
                lines[static_cast<std::size_t>(k)] = in.data() + k * n;
                masks[static_cast<std::size_t>(k)] = inside.data() + k * pitch;
            }
            const test_tensor<TypeParam> out({n});
            const test_tensor<TypeParam> expected({n});
            gk::detail::sum_lines_inside<prefetch::ahead>(lines.data(), masks.data(), count, period, n, out.data());
            for (std::int64_t x = 0; x < n; ++x) {
                float sum = 0.0F;
                for (std::int64_t k = 0; k < count; ++k)
                    if ((x % period + k) % 3 != 0) sum += in.value(k * n + x);
                expected.set(x, sum);
            }
            EXPECT_TRUE(out.equals(expected)) << n << " " << period;
            EXPECT_TRUE(out.surroundings_intact());
        }
    }
}

TYPED_TEST(micro_line, quotients_are_those_of_a_division) {
    for (const std::int64_t n : lengths()) {
        const random_line<TypeParam> in(n, "micro_line.quotients");
        std::vector<float> divisors(static_cast<std::size_t>(n + lanes), 1.0F);
        for (const float by : {1.0F, 4.0F, 9.0F, -3.0F, 16777216.0F}) {
            std::fill_n(divisors.begin(), n, by);
            const test_tensor<float> out({n});
            const test_tensor<float> each({n});
            const test_tensor<float> expected({n});
            expected.fill([&](std::int64_t x) { return in.value(x) / by; });
            gk::detail::divide_by_one<addend::none>(in.data(), n, gk::detail::divisor(by), out.data());
            gk::detail::quotients<addend::none>(in.data(), n, each.data(),
                                                gk::detail::over_each<float>{divisors.data()});
            EXPECT_TRUE(out.equals(expected)) << n << " " << by;
            EXPECT_TRUE(each.equals(expected)) << n << " " << by;
            gk::detail::divide_by_one<addend::output>(in.data(), n, gk::detail::divisor(by), out.data());
            expected.fill([&](std::int64_t x) { return expected.value(x) + in.value(x) / by; });
            EXPECT_TRUE(out.equals(expected)) << n << " " << by;
        }
    }
}

TYPED_TEST(micro_line, copies_and_sums_reach_the_tensor_rounded_once) {
    for (const std::int64_t n : lengths()) {
        constexpr std::int64_t windows = 2;
        const gk::detail::line_copies copies{2, n + 1, 3, 2 * windows * (n + 1)};
        const random_line<float> in(n * windows, "micro_line.stores");
        const std::int64_t all = copies.lines * copies.pitch;
        const test_tensor<TypeParam> out({all});
        const test_tensor<TypeParam> expected({all});
        out.fill([](std::int64_t) { return 0.5F; });
        expected.fill([](std::int64_t) { return 0.5F; });
        gk::detail::repeat_lines(in.data(), n, windows, copies, out.data(), 2 * (n + 1));
        for (std::int64_t w = 0; w < windows; ++w)
            copies.for_each([&](std::ptrdiff_t copy) {
                for (std::int64_t x = 0; x < n; ++x) expected.set(w * 2 * (n + 1) + copy + x, in.value(w * n + x));
            });
        EXPECT_TRUE(out.equals(expected)) << n;
        gk::detail::accumulate_line(in.data(), n, out.data());
        for (std::int64_t x = 0; x < n; ++x) expected.set(x, expected.value(x) + in.value(x));
        EXPECT_TRUE(out.equals(expected)) << n;
        EXPECT_TRUE(out.surroundings_intact());
    }
}

TYPED_TEST(micro_line, phases_are_interleaved_separated_and_repeated) {
    for (const std::int64_t n : lengths()) {
        const random_line<float> even(n, "micro_line.even");
        const random_line<float> odd(n, "micro_line.odd");
        const test_tensor<float> both({2 * n});
        const test_tensor<float> expected({2 * n});
        gk::detail::interleave_two(even.data(), odd.data(), n, both.data());
        for (std::int64_t i = 0; i < 2 * n; ++i) expected.set(i, (i % 2 == 0 ? even : odd).value(i / 2));
        EXPECT_TRUE(both.equals(expected)) << n;
        EXPECT_TRUE(both.surroundings_intact());

        for (const std::int64_t phases : {2, 3, 4}) {
            const std::int64_t pitch = (n + phases - 1) / phases;
            const test_tensor<float> out({phases * pitch});
            out.fill([](std::int64_t) { return 7.0F; });
            gk::detail::separate(even.data(), n, phases, pitch, out.data());
            for (std::int64_t f = 0; f < phases; ++f)
                for (std::int64_t i = 0; i < pitch; ++i)
                    EXPECT_EQ(out.value(f * pitch + i), i * phases + f < n ? even.value(i * phases + f) : 7.0F);
        }

        expect_repeated<TypeParam>(n);
        if constexpr (std::is_same_v<TypeParam, float>) expect_repeated<double>(n);
    }
}

TYPED_TEST(micro_line, sums_of_windows_are_those_of_their_columns) {
    for (const std::int64_t channels : {lanes, lanes + 1, 3 * lanes + 2, 4 * lanes, 17 * lanes + 1}) {
        for (const std::int64_t line_count : {1, 3}) {
            for (const std::int64_t positions : {1, 3, 4, 6}) {
                constexpr std::int64_t columns = 3;
                const std::int64_t advance = 2 * channels;
                const std::int64_t pitch = (positions - 1) * advance + columns * channels;
                const random_line<TypeParam> in(line_count * pitch, "micro_line.windows");
                std::array<const TypeParam*, 3> lines{};
                for (std::int64_t l = 0; l < line_count; ++l)
                    lines[static_cast<std::size_t>(l)] = in.data() + l * pitch;
                const test_tensor<float> out({positions * channels});
                const test_tensor<float> expected({positions * channels});
                const gk::detail::window_reads<TypeParam> w{lines.data(), line_count, 0, columns, channels};
                gk::detail::sum_windows<prefetch::ahead>(w, channels, positions, advance, prefetch::ahead, out.data(),
                                                         channels, as_it_is{});
                for (std::int64_t i = 0; i < positions; ++i) {
                    for (std::int64_t c = 0; c < channels; ++c) {
                        float sum = 0.0F;
                        for (std::int64_t k = 0; k < columns; ++k) {
                            float column = 0.0F;
                            for (std::int64_t l = 0; l < line_count; ++l)
                                column += in.value(l * pitch + i * advance + k * channels + c);
                            sum += column;
                        }
                        expected.set(i * channels + c, sum);
                    }
                }
                EXPECT_TRUE(out.equals(expected)) << channels << " " << line_count << " " << positions;
                EXPECT_TRUE(out.surroundings_intact());
            }
        }
    }
}

}  // namespace
}  // namespace gradkern_test
