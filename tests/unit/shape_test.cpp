// The window arithmetic against its definition over small spaces walked whole, the padding rules, and what the shape
// rules of every operator accept and refuse. No tensor is needed for any of it.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include <gradkern/attributes.hpp>
#include <gradkern/shape.hpp>

namespace {

namespace gk = gradkern;
namespace shape = gradkern::shape;
using gk::errc;
using gk::extents;
using shape::axis;
using shape::side;

// ---------------------------------------------------------------------------------------------------------- integers

static_assert(shape::floor_div(7, 2) == 3 && shape::floor_div(-7, 2) == -4 && shape::floor_div(-8, 2) == -4);
static_assert(shape::ceil_div(7, 2) == 4 && shape::ceil_div(-7, 2) == -3 && shape::ceil_div(8, 2) == 4);
static_assert(shape::floor_mod(-7, 4) == 1 && shape::floor_mod(7, 4) == 3 && shape::floor_mod(-8, 4) == 0);
static_assert(shape::floor_div(INT64_MIN, 1) == INT64_MIN && shape::ceil_div(INT64_MAX, 1) == INT64_MAX);
static_assert((shape::checked(INT64_MAX) - 1 + 1).ok() && !(shape::checked(INT64_MAX) + 1 - 1).ok());
static_assert(!(shape::checked(INT64_C(1) << 32) * (INT64_C(1) << 31)).ok());
static_assert((shape::checked(INT64_C(1) << 32) * (INT64_C(1) << 30)).ok());
static_assert(!(shape::checked(INT64_MIN) - 1).ok());

TEST(inverse_modulo, is_an_inverse) {
    for (std::int64_t m = 1; m <= 60; ++m)
        for (std::int64_t a = 1; a <= 60; ++a)
            if (std::gcd(a, m) == 1) {
                ASSERT_EQ(a % m * shape::inverse_modulo(a % m, m) % m, 1 % m) << a << ' ' << m;
            }
}

// -------------------------------------------------------------------------------------------------------------- axes

template <class F>
void for_each_axis(const F& f) {
    for (std::int64_t large = 1; large <= 6; ++large)
        for (std::int64_t small = 1; small <= 6; ++small)
            for (std::int64_t kernel = 1; kernel <= 5; ++kernel)
                for (std::int64_t stride = 1; stride <= 4; ++stride)
                    for (std::int64_t dilation = 1; dilation <= 4; ++dilation)
                        for (std::int64_t begin = 0; begin <= 5; ++begin) {
                            f(axis{large, small, kernel, stride, dilation, begin, 0});
                            if (::testing::Test::HasFatalFailure()) return;
                        }
}

using meeting = std::pair<std::int64_t, std::int64_t>;  // tap, position on the other side

std::vector<meeting> meetings(const axis& a, side outputs, std::int64_t q) {
    std::vector<meeting> m;
    for (std::int64_t k = 0; k < a.kernel; ++k) {
        if (outputs == side::small) {
            const std::int64_t p = q * a.stride - a.pad_begin + k * a.dilation;
            if (p >= 0 && p < a.large) m.emplace_back(k, p);
        } else {
            for (std::int64_t o = 0; o < a.small; ++o)
                if (o * a.stride - a.pad_begin + k * a.dilation == q) m.emplace_back(k, o);
        }
    }
    return m;
}

TEST(axis, inside_taps_and_positions_follow_their_definition) {
    for_each_axis([](const axis& a) {
        for (std::int64_t o = 0; o < a.small; ++o) {
            const auto m = meetings(a, side::small, o);
            const shape::tap_sequence t = a.inside_taps(o);
            ASSERT_EQ(t.count, static_cast<std::int64_t>(m.size()));
            ASSERT_TRUE(m.empty() || t.first == m.front().first);
            ASSERT_EQ(t.step, 1);
        }
        for (std::int64_t k = 0; k < a.kernel; ++k) {
            std::vector<std::int64_t> inside;
            for (std::int64_t o = 0; o < a.small; ++o)
                if (a.position(o, k) >= 0 && a.position(o, k) < a.large) inside.push_back(o);
            const axis::position_range r = a.inside_positions(k);
            ASSERT_EQ(r.last - r.first, static_cast<std::int64_t>(inside.size()));
            ASSERT_TRUE(0 <= r.first && r.last <= a.small);
            ASSERT_TRUE(inside.empty() || r.first == inside.front());
        }
    });
}

TEST(axis, dropping_outside_taps_keeps_every_window) {
    for_each_axis([](const axis& a) {
        axis b = a;
        const std::int64_t first = b.drop_outside_taps();
        ASSERT_GE(b.kernel, 1);
        ASSERT_GE(b.pad_begin, 0);
        ASSERT_LE(first + b.kernel, a.kernel);
        for (std::int64_t o = 0; o < a.small; ++o) {
            auto expected = meetings(a, side::small, o);
            for (meeting& m : expected) m.first -= first;
            ASSERT_EQ(meetings(b, side::small, o), expected);
        }
        // no more than one tap at either end is left without need
        const auto meets = [&](std::int64_t k) {
            const auto r = b.inside_positions(k);
            return r.first < r.last;
        };
        if (b.dilation >= b.stride * b.small || b.kernel <= 2) return;
        ASSERT_TRUE(b.position(b.small - 1, 1) >= 0 && b.position(0, b.kernel - 1) < b.large);
        if (b.stride == 1) {
            ASSERT_TRUE(meets(1) && meets(b.kernel - 2));
        }
    });
    axis far{5, 1, INT64_C(1) << 40, 1, 1, (INT64_C(1) << 40) - 5, 0};  // the last five of 2^40 taps
    EXPECT_EQ(far.drop_outside_taps(), (INT64_C(1) << 40) - 5);
    EXPECT_EQ(far, (axis{5, 1, 5, 1, 1, 0, 0}));
}

TEST(axis, padded_taps_end_with_the_declared_padding) {
    for_each_axis([](axis a) {
        for (a.pad_end = 0; a.pad_end <= 3; ++a.pad_end) {
            for (std::int64_t o = 0; o < a.small; ++o) {
                std::int64_t count = 0;
                for (std::int64_t k = 0; k < a.kernel; ++k) count += a.position(o, k) < a.large + a.pad_end ? 1 : 0;
                ASSERT_EQ(a.padded_taps(o), count);
            }
        }
    });
}

// Every position of a range in one class, and each class with the taps and reads of all its positions.
void expect_classes(const axis& a, side outputs, std::int64_t begin, std::int64_t end,
                    std::span<const std::vector<meeting>> expected) {
    std::vector<int> seen(static_cast<std::size_t>(end - begin));
    shape::tap_class_walk walk(a, outputs, begin, end);
    for (shape::tap_class c; walk.next(c);) {
        ASSERT_GE(c.positions, 1);
        for (std::int64_t i = 0; i < c.positions; ++i) {
            const std::int64_t q = c.first_position + i * c.position_step;
            ASSERT_TRUE(q >= begin && q < end);
            ++seen[static_cast<std::size_t>(q - begin)];
            const std::vector<meeting>& m = expected[static_cast<std::size_t>(q)];
            ASSERT_EQ(c.taps, static_cast<std::int64_t>(m.size()));
            for (std::int64_t t = 0; t < c.taps; ++t) {
                // what is read ascends: with outputs on the large side that is the last tap first
                const meeting& met = m[static_cast<std::size_t>(outputs == side::small ? t : c.taps - 1 - t)];
                ASSERT_EQ(c.first_tap + t * c.tap_step, met.first);
                ASSERT_EQ(c.first_read + i * c.read_per_position + t * c.read_per_tap, met.second);
            }
        }
    }
    ASSERT_TRUE(std::all_of(seen.begin(), seen.end(), [](int n) { return n == 1; }));
}

TEST(tap_class_walk, partitions_every_range_of_both_sides) {
    for_each_axis([](const axis& a) {
        for (const side s : {side::small, side::large}) {
            const std::int64_t extent = s == side::small ? a.small : a.large;
            std::vector<std::vector<meeting>> m;
            for (std::int64_t q = 0; q < extent; ++q) m.push_back(meetings(a, s, q));
            for (std::int64_t begin = 0; begin <= extent; ++begin)
                for (std::int64_t end = begin; end <= extent; ++end) {
                    expect_classes(a, s, begin, end, m);
                    ASSERT_FALSE(::testing::Test::HasFatalFailure())
                        << "large " << a.large << " small " << a.small << " kernel " << a.kernel << " stride "
                        << a.stride << " dilation " << a.dilation << " pad " << a.pad_begin << " range " << begin << " "
                        << end;
                }
        }
    });
}

// How many taps and positions one position meets, and how far apart those are, against all of them one by one.
TEST(axis, taps_met_most_reads_and_read_step) {
    for (std::int64_t kernel = 1; kernel <= 6; ++kernel)
        for (std::int64_t stride = 1; stride <= 5; ++stride)
            for (std::int64_t dilation = 1; dilation <= 4; ++dilation)
                for (const std::int64_t extent : {1, 2, 60}) {
                    shape::axis a;
                    a.large = a.small = extent;
                    a.kernel = kernel;
                    a.stride = stride;
                    a.dilation = dilation;
                    for (const shape::side s : {shape::side::small, shape::side::large}) {
                        std::int64_t most = 0;
                        shape::tap_class_walk walk(a, s, 0, extent);
                        for (shape::tap_class c; walk.next(c);) {
                            most = std::max(most, c.taps);
                            if (c.taps > 1) {
                                EXPECT_EQ(c.read_per_tap, a.read_step(s));
                            }
                        }
                        EXPECT_LE(most, a.most_reads(s));
                        EXPECT_EQ(a.most_reads(s), std::min(a.taps_met(s), extent));
                        if (extent == 60) {
                            EXPECT_EQ(most, a.taps_met(s)) << kernel << stride << dilation;
                        }
                    }
                }
}

TEST(tap_class_walk, costs_what_classes_cost_not_extents) {
    // 2^40 positions, five classes: two at each border and the middle
    const axis a{INT64_C(1) << 40, INT64_C(1) << 40, 5, 1, 1, 2, 2};
    for (const side s : {side::small, side::large}) {
        shape::tap_class_walk walk(a, s, 0, INT64_C(1) << 40);
        std::int64_t positions = 0;
        int classes = 0;
        for (shape::tap_class c; walk.next(c); ++classes) positions += c.positions;
        EXPECT_EQ(positions, INT64_C(1) << 40);
        EXPECT_EQ(classes, 5);
    }
    // a huge kernel of which four taps are inside
    const axis b{4, 1, INT64_C(1) << 40, 1, 1, INT64_C(1) << 39, INT64_C(1) << 39};
    EXPECT_EQ(b.inside_taps(0).count, 4);
    EXPECT_EQ(b.inside_taps(0).first, INT64_C(1) << 39);
}

// ----------------------------------------------------------------------------------------------------- padding, sizes

TEST(padding, rules_follow_their_formulas) {
    for (const gk::auto_pad mode : {gk::auto_pad::same_upper, gk::auto_pad::same_lower}) {
        for (std::int64_t kernel = 1; kernel <= 6; ++kernel) {
            for (std::int64_t dilation = 1; dilation <= 3; ++dilation) {
                const std::int64_t ke = (kernel - 1) * dilation + 1;
                ASSERT_EQ(shape::effective_kernel(kernel, dilation).value(), ke);
                for (std::int64_t s = 1; s <= 5; ++s) {
                    const auto expect_split = [&](const shape::pads& p, std::int64_t total) {
                        total = std::max<std::int64_t>(0, total);
                        const std::int64_t small = total / 2;
                        const bool upper = mode == gk::auto_pad::same_upper;
                        EXPECT_EQ(p.begin, upper ? small : total - small);
                        EXPECT_EQ(p.end, upper ? total - small : small);
                    };
                    expect_split(shape::same_pads_transposed(ke, s, mode), ke - s);
                    for (std::int64_t i = 1; i <= 12; ++i) {
                        const std::int64_t o = (i + s - 1) / s;
                        const shape::pads f = shape::same_pads_forward(i, ke, s, mode);
                        expect_split(f, (o - 1) * s + ke - i);
                        for (std::int64_t op = 0; op < s; ++op)
                            expect_split(shape::same_pads_transposed_sized((o - 1) * s + ke, op, i, mode),
                                         (o - 1) * s + ke + op - i);
                        EXPECT_EQ(shape::same_pads_transposed_sized((o - 1) * s + ke, 0, i, mode), f)
                            << "a convolution and its transpose agree";
                    }
                }
            }
        }
    }
}

TEST(padding, window_count_follows_the_rounding_type) {
    for (std::int64_t large = 1; large <= 8; ++large)
        for (std::int64_t kernel = 1; kernel <= 6; ++kernel)
            for (std::int64_t s = 1; s <= 5; ++s)
                for (std::int64_t pb = 0; pb <= 4; ++pb)
                    for (std::int64_t pe = 0; pe <= 4; ++pe) {
                        const std::int64_t n = large + pb + pe - kernel;
                        if (n < 0) {  // ceil_torch has one window that overhangs by less than the stride
                            if (n > -s) {
                                ASSERT_EQ(shape::window_count(n, s, large, pb, gk::rounding_type::ceil_torch), 1);
                            }
                            continue;
                        }
                        std::int64_t fitting = 0;
                        while (fitting * s <= n) ++fitting;  // windows that end inside the padded input
                        std::int64_t covering = 1;
                        while ((covering - 1) * s < n) ++covering;  // until the padded input is covered
                        std::int64_t torch = covering;
                        if ((torch - 1) * s >= large + pb) --torch;
                        ASSERT_EQ(shape::window_count(n, s, large, pb, gk::rounding_type::floor), fitting);
                        ASSERT_EQ(shape::window_count(n, s, large, pb, gk::rounding_type::ceil), covering);
                        ASSERT_EQ(shape::window_count(n, s, large, pb, gk::rounding_type::ceil_torch), torch);
                    }
}

constexpr bool parses(std::string_view word, gk::auto_pad expected) {
    gk::auto_pad value{};
    return gk::parse(word, value) && value == expected;
}
constexpr bool unknown(std::string_view word) {
    gk::auto_pad value = gk::auto_pad::valid;
    return !gk::parse(word, value) && value == gk::auto_pad::valid;
}
static_assert(parses("same_upper", gk::auto_pad::same_upper) && parses("SAME_UPPER", gk::auto_pad::same_upper));
static_assert(parses("same_lower", gk::auto_pad::same_lower) && parses("SAME_LOWER", gk::auto_pad::same_lower));
static_assert(parses("valid", gk::auto_pad::valid) && parses("VALID", gk::auto_pad::valid));
static_assert(parses("none", gk::auto_pad::none) && parses("None", gk::auto_pad::none) &&
              parses("NOTSET", gk::auto_pad::none));
static_assert(unknown("") && unknown("Same_Upper") && unknown("same"));

// A word is read whatever the value was before.
TEST(padding, every_word_replaces_the_value_before_it) {
    const auto expect = [](std::string_view word, auto expected, auto before) {
        EXPECT_TRUE(gk::parse(word, before)) << word;
        EXPECT_EQ(before, expected) << word;
    };
    for (const auto before : {gk::auto_pad::none, gk::auto_pad::same_upper, gk::auto_pad::valid}) {
        for (const char* word : {"none", "None", "NONE", "NOTSET"}) expect(word, gk::auto_pad::none, before);
        for (const char* word : {"same_upper", "SAME_UPPER"}) expect(word, gk::auto_pad::same_upper, before);
        for (const char* word : {"same_lower", "SAME_LOWER"}) expect(word, gk::auto_pad::same_lower, before);
        for (const char* word : {"valid", "VALID"}) expect(word, gk::auto_pad::valid, before);
    }
    for (const auto before : {gk::rounding_type::floor, gk::rounding_type::ceil, gk::rounding_type::ceil_torch}) {
        for (const char* word : {"floor", "FLOOR"}) expect(word, gk::rounding_type::floor, before);
        for (const char* word : {"ceil", "CEIL"}) expect(word, gk::rounding_type::ceil, before);
        for (const char* word : {"ceil_torch", "CEIL_TORCH"}) expect(word, gk::rounding_type::ceil_torch, before);
    }
    for (const auto before : {gk::data_format::nxc, gk::data_format::ncx}) {
        for (const char* word : {"NXC", "nxc"}) expect(word, gk::data_format::nxc, before);
        for (const char* word : {"NCX", "ncx"}) expect(word, gk::data_format::ncx, before);
    }
    for (const auto before : {gk::weights_format::xio, gk::weights_format::oix}) {
        for (const char* word : {"XIO", "xio"}) expect(word, gk::weights_format::xio, before);
        for (const char* word : {"OIX", "oix"}) expect(word, gk::weights_format::oix, before);
    }
}

// ---------------------------------------------------------------------------------------------------------- operators

constexpr gk::avg_pool_attributes pool(extents kernel, extents strides, extents begin, extents end) {
    return {.kernel = kernel,
            .strides = strides,
            .pads_begin = begin,
            .pads_end = end,
            .data_format = gk::data_format::ncx};
}
constexpr gk::avg_pool_attributes with(gk::avg_pool_attributes a, gk::rounding_type r) {
    a.rounding_type = r;
    return a;
}
constexpr gk::avg_pool_attributes with(gk::avg_pool_attributes a, gk::auto_pad p) {
    a.auto_pad = p;
    return a;
}
constexpr errc pool_code(const extents& diff_dst, const extents& diff_src, const gk::avg_pool_attributes& a) {
    return shape::avg_pool_backward_shapes(diff_dst, a, diff_src, false, 4).error().code;
}
constexpr std::int64_t pool_size(std::int64_t large, const gk::avg_pool_attributes& a) {
    return shape::avg_pool_shapes({1, 1, large}, a, {}, false, 4)->small_shape[2];
}

// Rows of the specification's table of cases, by number.
constexpr auto row_1 = pool({3}, {2}, {1}, {0});
static_assert(pool_code({1, 1, 3}, {1, 1, 6}, row_1) == errc::ok);
static_assert(pool_code({1, 1, 4}, {1, 1, 6}, row_1) == errc::invalid_shape);  // 8
static_assert(pool_code({1, 1, 3}, {}, row_1) == errc::missing_shape);         // 9
constexpr auto row_13 = pool({2}, {3}, {1}, {1});
static_assert(pool_size(5, row_13) == 2);
static_assert(pool_size(5, with(row_13, gk::rounding_type::ceil)) == 3);
static_assert(pool_size(5, with(row_13, gk::rounding_type::ceil_torch)) == 2);
static_assert(pool_code({1, 1, 3}, {1, 1, 6}, pool({3}, {0}, {1}, {0})) == errc::invalid_argument);  // 16
static_assert(pool_code({1, 1, 3}, {1, 1, 6}, pool({3}, {2}, {-1}, {0})) == errc::invalid_argument);
static_assert(pool_code({1, 1, 3}, {1, 1, 6}, pool({0}, {2}, {1}, {0})) == errc::invalid_argument);
static_assert(pool_code({1, 1, 3}, {1, 1, 6}, pool({3}, {2, 2}, {1}, {0})) == errc::invalid_argument);
static_assert(pool_code({1, 1, 3}, {1, 1, 6}, pool({3}, {}, {1}, {0})) == errc::invalid_argument);
static_assert(pool_code({1, 1, 3}, {1, 1, 6}, pool({3}, {2}, {1, 1}, {0})) == errc::invalid_argument);
static_assert(pool_code({0, 1, 3}, {0, 1, 6}, row_1) == errc::ok);  // 17
static_assert(pool_code({1, 1, 2}, {1, 1, 7}, with(pool({1}, {4}, {}, {}), gk::auto_pad::same_upper)) ==
              errc::ok);  // 6
static_assert(pool_code({1, 1, 3}, {1, 1, 6}, with(pool({2}, {2}, {-1}, {1}), gk::auto_pad::valid)) ==
              errc::invalid_argument);  // ignored, but not below zero
static_assert(pool_code({1, 1, 3}, {1, 1, 6}, with(pool({2}, {2}, {1, 2, 3}, {1}), gk::auto_pad::valid)) == errc::ok);
static_assert(pool_code({1, 1}, {1, 1}, row_1) == errc::unsupported);
static_assert(pool_code({1, 1, 1, 1, 1, 1}, {1, 1, 1, 1, 1, 1}, pool({0}, {0}, {}, {})) == errc::unsupported);
static_assert(pool_code({2, 1, 3}, {1, 1, 6}, row_1) == errc::invalid_shape);
static_assert(pool_code({1, 2, 3}, {1, 1, 6}, row_1) == errc::invalid_shape);
static_assert(pool_code({1, 0, 3}, {1, 0, 6}, row_1) == errc::ok);  // no channels, as no images
static_assert(pool_code({1, 1, 1}, {1, 1, 1}, with(pool({3}, {2}, {0}, {1}), gk::rounding_type::ceil)) ==
              errc::invalid_shape);  // n = -1 is refused, not rounded to one window,
static_assert(pool_code({1, 1, 1}, {1, 1, 1}, with(pool({3}, {2}, {0}, {1}), gk::rounding_type::ceil_torch)) ==
              errc::ok);  // but where PyTorch rounds it
static_assert(pool_code({1, 1, 1}, {1, 1, 1}, with(pool({4}, {2}, {0}, {1}), gk::rounding_type::ceil_torch)) ==
              errc::invalid_shape);  // n = -s

constexpr gk::convolution_attributes conv(extents strides, extents dilations = {1}) {
    return {.strides = strides,
            .dilations = dilations,
            .data_format = gk::data_format::ncx,
            .weights_format = gk::weights_format::oix};
}
constexpr auto backward(const gk::convolution_attributes& a, const extents& diff_src,
                        const extents& diff_dst = {1, 1, 3}, const extents& weights = {1, 1, 3}) {
    return shape::convolution_backward_data_shapes(diff_dst, weights, a, diff_src, false, 4);
}
constexpr std::int64_t begin_pad(gk::auto_pad p) {
    auto a = conv({1});
    a.auto_pad = p;
    return backward(a, {1, 1, 3}, {1, 1, 3}, {1, 1, 4})->axes[2].pad_begin;
}
static_assert(begin_pad(gk::auto_pad::same_upper) == 1);                          // 21
static_assert(begin_pad(gk::auto_pad::same_lower) == 2);                          // 22
static_assert(backward(conv({2}), {1, 1, 7}) && backward(conv({2}), {1, 1, 8}));  // 23
static_assert(backward(conv({2}), {1, 1, 6}).error().code == errc::invalid_shape);
static_assert(backward(conv({2}), {1, 1, 9}).error().code == errc::invalid_shape);
constexpr auto valid_with_pads() {
    auto a = conv({2});
    a.auto_pad = gk::auto_pad::valid;
    a.pads_begin = a.pads_end = {5};
    return a;
}
static_assert(backward(valid_with_pads(), {1, 1, 8})->axes[2].pad_begin == 0);  // 24
constexpr auto padded_output(std::int64_t op) {
    auto a = conv({2});
    a.output_padding = {op};
    return a;
}
static_assert(backward(padded_output(0), {})->large_shape == extents{1, 1, 7});  // 25
static_assert(backward(padded_output(1), {})->large_shape == extents{1, 1, 8});
static_assert(backward(padded_output(2), {}).error().code == errc::invalid_argument);
static_assert(backward(padded_output(1), {1, 1, 7}), "output_padding has no effect where the size is given");
constexpr auto grouped() {
    auto a = conv({1});
    a.groups = 2;
    return a;
}
static_assert(backward(grouped(), {}, {1, 4, 1}, {4, 3, 1})->large_shape == extents{1, 6, 1});     // 26
static_assert(backward(grouped(), {}, {1, 3, 1}, {3, 3, 1}).error().code == errc::invalid_shape);  // 27
static_assert(backward(conv({0}), {}).error().code == errc::invalid_argument);
static_assert(backward(conv({1}, {0}), {}).error().code == errc::invalid_argument);
static_assert(backward(conv({1}, {}), {}).error().code == errc::invalid_argument);

constexpr gk::conv_transpose_attributes transposed(std::int64_t stride, std::int64_t groups = 1) {
    return {.strides = {stride},
            .dilations = {1},
            .groups = groups,
            .data_format = gk::data_format::ncx,
            .weights_format = gk::weights_format::oix};
}
constexpr errc transposed_weights(const gk::conv_transpose_attributes& a, const extents& src, const extents& diff_dst,
                                  const extents& diff_weights) {
    return shape::conv_transpose_backward_weights_shapes(src, diff_dst, a, diff_weights, false, 4).error().code;
}
static_assert(transposed_weights(transposed(2), {1, 1, 3}, {1, 1, 7}, {1, 1, 3}) == errc::ok);  // 30
static_assert(transposed_weights(transposed(2), {1, 1, 3}, {1, 1, 8}, {1, 1, 3}) == errc::ok);
static_assert(transposed_weights(transposed(2), {1, 1, 3}, {1, 1, 9}, {1, 1, 3}) == errc::invalid_shape);
static_assert(transposed_weights(transposed(1, 2), {1, 4, 1}, {1, 6, 1}, {3, 4, 1}) == errc::ok);      // 32
static_assert(transposed_weights(transposed(1, 2), {1, 4, 1}, {1, 6, 1}, {}) == errc::missing_shape);  // 33
static_assert(transposed_weights(transposed(1, 2), {1, 4, 1}, {1, 6, 1}, {4, 3, 1}) == errc::invalid_shape);

TEST(operators, a_shape_input_wins_over_the_attribute) {
    auto a = row_1;
    a.diff_src_shape = {9, 9, 9};
    EXPECT_EQ(pool_code({1, 1, 3}, {1, 1, 6}, a), errc::ok);
    EXPECT_EQ(pool_code({1, 1, 3}, {}, a), errc::invalid_shape);
    a.diff_src_shape = {1, 1, 6};
    EXPECT_EQ(pool_code({1, 1, 3}, {}, a), errc::ok);
    auto c = conv({2});
    c.diff_src_shape = {-4, -4};
    EXPECT_TRUE(backward(c, {1, 1, 7}));
    EXPECT_EQ(backward(c, {}).error().code, errc::invalid_shape);
    auto t = transposed(1, 2);
    t.diff_weights_shape = {3, 4, 1};
    EXPECT_EQ(transposed_weights(t, {1, 4, 1}, {1, 6, 1}, {}), errc::ok);
}

TEST(operators, backward_data_accepts_exactly_stride_sizes) {
    for (std::int64_t s = 1; s <= 4; ++s)
        for (std::int64_t k = 1; k <= 4; ++k)
            for (std::int64_t d = 1; d <= 3; ++d)
                for (std::int64_t pb = 0; pb <= 2; ++pb)
                    for (std::int64_t pe = 0; pe <= 2; ++pe)
                        for (std::int64_t o = 1; o <= 4; ++o) {
                            auto a = conv({s}, {d});
                            a.pads_begin = {pb};
                            a.pads_end = {pe};
                            const std::int64_t least = s * (o - 1) + (k - 1) * d + 1 - pb - pe;
                            for (std::int64_t i = std::max<std::int64_t>(1, least - 3); i <= least + s + 2; ++i) {
                                const bool legal = i >= least && i < least + s;
                                ASSERT_EQ(backward(a, {1, 1, i}, {1, 1, o}, {1, 1, k}).has_value(), legal);
                            }
                            const auto smallest = backward(a, {}, {1, 1, o}, {1, 1, k});
                            ASSERT_EQ(smallest.has_value(), least >= 1);
                            ASSERT_TRUE(!smallest || smallest->large_shape[2] == least);
                        }
}

TEST(operators, transposed_sizes_follow_output_padding) {
    for (std::int64_t s = 1; s <= 3; ++s)
        for (std::int64_t d = 1; d <= 4; ++d)
            for (std::int64_t k = 1; k <= 4; ++k)
                for (std::int64_t o = 1; o <= 4; ++o)
                    for (std::int64_t op = -1; op <= 4; ++op) {  // -1: absent
                        auto a = transposed(s);
                        a.dilations = {d};
                        if (op >= 0) a.output_padding = {op};
                        const std::int64_t ke = (k - 1) * d + 1;
                        const bool in_range = op < std::max(s, d);
                        const extents src{1, 1, o};
                        const extents w{1, 1, k};
                        const auto forward = [&](const extents& dst) {
                            return shape::conv_transpose_shapes(src, w, a, dst, false, 4);
                        };
                        const std::int64_t least = s * (o - 1) + ke;
                        const auto plain = forward({});
                        ASSERT_EQ(plain.error().code, in_range ? errc::ok : errc::invalid_argument);
                        if (!in_range) continue;
                        ASSERT_EQ(plain->large_shape[2], least + std::max<std::int64_t>(op, 0));
                        for (std::int64_t i = 1; i <= least + 6; ++i) {
                            const std::int64_t rest = i - least;
                            const bool fits = op >= 0 ? rest == op : rest >= 0 && rest < std::max(s, d);
                            ASSERT_EQ(forward({1, 1, i}).has_value(), fits);
                            ASSERT_EQ(transposed_weights(a, src, {1, 1, i}, w) == errc::ok, fits);
                        }
                        a.auto_pad = gk::auto_pad::same_upper;
                        const std::int64_t total = std::max<std::int64_t>(0, ke - s);
                        ASSERT_EQ(forward({})->large_shape[2], least - total + std::max<std::int64_t>(op, 0));
                    }
}

// Every operator of the library on shapes of one batch, one channel and these spatial extents and attributes.
template <class F>
void for_each_operator(const extents& large, const extents& small, const extents& kernel, const F& f) {
    const std::size_t r = large.rank() - 2;
    auto c = conv(extents::filled(r, 1), extents::filled(r, 1));
    gk::conv_transpose_attributes t{.strides = c.strides,
                                    .dilations = c.dilations,
                                    .data_format = c.data_format,
                                    .weights_format = c.weights_format};
    gk::avg_pool_attributes p{.strides = c.strides, .data_format = c.data_format};
    for (std::size_t i = 0; i < r; ++i) p.kernel.push_back(kernel[2 + i]);
    f(shape::convolution_shapes(large, kernel, c, {}, false, 4).error());
    f(shape::convolution_backward_data_shapes(small, kernel, c, large, false, 4).error());
    f(shape::convolution_backward_weights_shapes(large, small, c, kernel, false, 4).error());
    f(shape::conv_transpose_shapes(small, kernel, t, large, false, 4).error());
    f(shape::conv_transpose_backward_data_shapes(large, kernel, t, {}, false, 4).error());
    f(shape::conv_transpose_backward_weights_shapes(small, large, t, kernel, false, 4).error());
    f(shape::avg_pool_shapes(large, p, {}, false, 4).error());
    f(shape::avg_pool_backward_shapes(small, p, large, false, 4).error());
}

TEST(operators, sizes_that_overflow_are_refused) {
    constexpr std::int64_t big = INT64_C(1) << 31;
    for_each_operator({1, 1, big, big, big}, {1, 1, big, big, big}, {1, 1, 1, 1, 1},
                      [](const gk::error& e) { EXPECT_EQ(e.code, errc::overflow) << e.op; });
    for_each_operator({1, 1, INT64_C(1) << 61}, {1, 1, INT64_C(1) << 61}, {1, 1, 1},
                      [](const gk::error& e) { EXPECT_EQ(e.code, errc::overflow) << e.op << ": bytes"; });
    for_each_operator({0, big, big}, {0, big, big}, {big, big, 1}, [](const gk::error& e) {
        EXPECT_NE(e.code, errc::ok) << e.op << ": an empty batch of such images";
    });
    for_each_operator({1, 1, 4}, {1, 1, 4}, {1, 1, INT64_C(1) << 62}, [](const gk::error& e) {
        EXPECT_TRUE(e.code == errc::overflow || e.code == errc::invalid_shape) << e.op;
    });

    auto wide = conv({1}, {INT64_C(1) << 62});
    EXPECT_EQ(shape::convolution_shapes({1, 1, 4}, {1, 1, 3}, wide, {}, false, 4).error().code, errc::overflow);
    EXPECT_EQ(shape::convolution_shapes({1, 1, 4}, {1, 1, 2}, wide, {}, false, 4).error().code, errc::invalid_shape);
    auto padded = conv({1});
    padded.pads_begin = padded.pads_end = {INT64_MAX};
    EXPECT_EQ(shape::convolution_shapes({1, 1, 4}, {1, 1, 3}, padded, {}, false, 4).error().code, errc::overflow);
    auto strided = conv({INT64_MAX});
    EXPECT_EQ(backward(strided, {}).error().code, errc::overflow);
    EXPECT_TRUE(backward(strided, {}, {1, 1, 1})) << "one window needs no stride";
    auto t = transposed(INT64_MAX);
    EXPECT_EQ(shape::conv_transpose_shapes({1, 1, 3}, {1, 1, 3}, t, {}, false, 4).error().code, errc::overflow);
    auto many = conv({1});
    many.groups = INT64_MAX;
    EXPECT_NE(shape::convolution_shapes({1, 4, 4}, {4, 4, 3}, many, {}, false, 4).error().code, errc::ok);
    auto huge = pool({INT64_MAX}, {1}, {INT64_MAX / 2}, {INT64_MAX / 2});
    EXPECT_NE(shape::avg_pool_shapes({1, 1, 4}, huge, {}, false, 4).error().code, errc::ok);
    for (const bool at_begin : {false, true}) {
        const auto wide_pool = pool({3}, {1}, {at_begin ? INT64_MAX : 0}, {at_begin ? 0 : INT64_MAX});
        const gk::error e = shape::avg_pool_shapes({1, 1, 4}, wide_pool, {}, false, 4).error();
        EXPECT_EQ(e.code, errc::overflow);
        EXPECT_EQ(e.argument, "src");
    }
}

TEST(operators, a_pool_may_be_larger_than_its_input) {
    constexpr std::int64_t half = INT64_C(1) << 39;
    const auto a = pool({2 * half}, {1}, {half}, {half});
    const auto p = shape::avg_pool_shapes({1, 1, 4}, a, {}, false, 4);
    ASSERT_TRUE(p);
    EXPECT_EQ(p->small_shape[2], 5);
    EXPECT_EQ(p->axes[2].inside_taps(2).count, 4);
}

TEST(operators, empty_pads_are_zeros_and_words_are_checked) {
    auto a = conv({1});
    EXPECT_EQ(shape::convolution_shapes({1, 1, 5}, {1, 1, 3}, a, {}, false, 4)->small_shape, (extents{1, 1, 3}));
    a.auto_pad = static_cast<gk::auto_pad>(9);
    EXPECT_EQ(shape::convolution_shapes({1, 1, 5}, {1, 1, 3}, a, {}, false, 4).error().code, errc::invalid_argument);
    a = conv({1});
    a.data_format = static_cast<gk::data_format>(7);
    EXPECT_EQ(shape::convolution_shapes({1, 1, 5}, {1, 1, 3}, a, {}, false, 4).error().code, errc::invalid_argument);
    a = conv({1});
    a.weights_format = static_cast<gk::weights_format>(7);
    EXPECT_EQ(shape::convolution_shapes({1, 1, 5}, {1, 1, 3}, a, {}, false, 4).error().code, errc::invalid_argument);
    a = conv({1});
    a.groups = 0;
    EXPECT_EQ(shape::convolution_shapes({1, 1, 5}, {1, 1, 3}, a, {}, false, 4).error().code, errc::invalid_argument);
}

}  // namespace
