// What blocks of outputs read along one axis, against the taps themselves: a small space of axes, walked whole.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>

#include <gradkern/detail/axes/span.hpp>

namespace {

namespace detail = gradkern::detail;
using detail::position_range;
using gradkern::shape::axis;
using gradkern::shape::side;

std::string text_of(const axis& a) {
    const auto item = [](const char* name, std::int64_t n) { return std::string(name) + ' ' + std::to_string(n); };
    return item("large", a.large) + item(", small", a.small) + item(", kernel", a.kernel) + item(", stride", a.stride) +
           item(", dilation", a.dilation) + item(", pad", a.pad_begin);
}

/// Calls f(axis) until it returns false.
template <class F>
void for_each_axis(const F& f) {
    axis a;
    for (a.large = 1; a.large <= 6; ++a.large)
        for (a.small = 1; a.small <= 5; ++a.small)
            for (a.kernel = 1; a.kernel <= 5; ++a.kernel)
                for (a.stride = 1; a.stride <= 4; ++a.stride)
                    for (a.dilation = 1; a.dilation <= 3; ++a.dilation)
                        for (a.pad_begin = 0; a.pad_begin <= 5; ++a.pad_begin)
                            if (!f(a)) {
                                ADD_FAILURE() << text_of(a);
                                return;
                            }
}

std::int64_t output_extent(const axis& a, side outputs) { return outputs == side::small ? a.small : a.large; }

/// From the first to the last of some positions.
struct hull {
    position_range range{0, 0};
    bool empty = true;
    void add(std::int64_t p) {
        range =
            empty ? position_range{p, p + 1} : position_range{std::min(range.first, p), std::max(range.last, p + 1)};
        empty = false;
    }
    [[nodiscard]] bool is_within(const position_range& r) const {
        return empty || (r.first <= range.first && range.last <= r.last);
    }
    [[nodiscard]] bool is(const position_range& r) const {
        return empty ? r.first >= r.last : r.first == range.first && r.last == range.last;
    }
};

constexpr std::int64_t far = 30;  // no axis here has windows that reach so far

/// Every position of the other side that outputs [begin, end) read by some tap, inside or not.
hull reads_of(const axis& a, side outputs, std::int64_t begin, std::int64_t end) {
    hull h;
    for (std::int64_t o = -far; o < far; ++o)
        for (std::int64_t k = 0; k < a.kernel; ++k) {
            const std::int64_t p = a.position(o, k);
            const std::int64_t output = outputs == side::small ? o : p;
            if (output >= begin && output < end) h.add(outputs == side::small ? p : o);
        }
    return h;
}
hull inside(const hull& h, std::int64_t extent) {
    hull in;
    if (!h.empty && h.range.first < extent && h.range.last > 0) {
        in.add(std::max<std::int64_t>(h.range.first, 0));
        in.add(std::min(h.range.last, extent) - 1);
    }
    return in;
}

/// Taps of dilated windows miss some positions: there a range may begin earlier, or end later, than with a position that is read.
bool is_exact(const axis& a, side outputs) { return outputs == side::small || a.dilation == 1; }

/// Calls f(begin, end) for all ranges of outputs until it returns false.
template <class F>
bool for_each_range(std::int64_t extent, const F& f) {
    for (std::int64_t begin = 0; begin < extent; ++begin)
        for (std::int64_t end = begin + 1; end <= extent; ++end)
            if (!f(begin, end)) return false;
    return true;
}

class span : public ::testing::TestWithParam<side> {};
INSTANTIATE_TEST_SUITE_P(outputs, span, ::testing::Values(side::small, side::large),
                         [](const auto& instance) { return instance.param == side::small ? "small" : "large"; });

TEST_P(span, ranges_hold_what_is_read_and_no_more) {
    const side outputs = GetParam();
    for_each_axis([&](const axis& a) {
        return for_each_range(output_extent(a, outputs), [&](std::int64_t begin, std::int64_t end) {
            const hull reads = reads_of(a, outputs, begin, end);
            const position_range r = detail::read_span(a, outputs, begin, end);
            return reads.is_within(r) && (!is_exact(a, outputs) || reads.is(r));
        });
    });
}

TEST_P(span, inside_ranges_are_those_that_exist) {
    const side outputs = GetParam();
    for_each_axis([&](const axis& a) {
        const std::int64_t extent = detail::read_extent(a, outputs);
        return for_each_range(output_extent(a, outputs), [&](std::int64_t begin, std::int64_t end) {
            const hull reads = inside(reads_of(a, outputs, begin, end), extent);
            const position_range r = detail::read_span_inside(a, outputs, begin, end);
            return 0 <= r.first && r.first <= r.last && r.last <= extent && reads.is_within(r) &&
                   (!is_exact(a, outputs) || reads.is(r));
        });
    });
}

TEST_P(span, no_block_of_a_size_reads_more_than_the_longest) {
    const side outputs = GetParam();
    for_each_axis([&](const axis& a) {
        for (std::int64_t extent = 1; extent <= output_extent(a, outputs); ++extent) {
            std::int64_t longest = 0;
            std::int64_t longest_inside = 0;
            for (std::int64_t begin = -8; begin < 8; ++begin) {  // anywhere: all phases of a stride
                const position_range r = detail::read_span(a, outputs, begin, begin + extent);
                longest = std::max(longest, r.last - r.first);
                const position_range in = detail::read_span_inside(a, outputs, begin, begin + extent);
                longest_inside = std::max(longest_inside, in.last - in.first);
            }
            if (detail::span_at_most(a, outputs, extent) != longest) return false;
            const std::int64_t most = detail::reads_at_most(a, outputs, extent);
            if (most < longest_inside || most > detail::read_extent(a, outputs) || most > longest) return false;
        }
        return true;
    });
}

TEST_P(span, the_longest_extent_is_the_last_one_that_reads_so_little) {
    for_each_axis([&](const axis& a) {
        const std::int64_t limit = output_extent(a, GetParam());
        bool ok = true;
        for (std::int64_t most = 0; most <= 8; ++most) {
            std::int64_t longest = 0;
            while (longest < limit && detail::reads_at_most(a, GetParam(), longest + 1) <= most) ++longest;
            ok = ok && detail::longest_extent(a, GetParam(), most, limit) == longest;
        }
        return ok;
    });
}

TEST(span, a_clipped_range_is_what_lies_inside) {
    for (std::int64_t extent = 0; extent <= 4; ++extent)
        for (std::int64_t first = -3; first <= 7; ++first)
            for (std::int64_t last = first; last <= 8; ++last) {
                const position_range r = detail::clipped({first, last}, extent);
                for (std::int64_t p = -3; p < 8; ++p)
                    EXPECT_EQ(r.first <= p && p < r.last, first <= p && p < last && 0 <= p && p < extent);
                EXPECT_TRUE(0 <= r.first && r.first <= r.last && r.last <= extent);
            }
}

/// A hull holds its positions and all that the windows reaching them read; of windows without gaps it is no longer than that.
TEST(span, hulls_hold_what_the_windows_of_positions_read) {
    for_each_axis([](const axis& a) {
        std::int64_t longest[8] = {};
        const bool held = for_each_range(a.large, [&](std::int64_t first, std::int64_t last) {
            hull h;
            h.add(first);
            h.add(last - 1);
            for (std::int64_t o = 0; o < a.small; ++o) {
                bool reaches = false;
                for (std::int64_t k = 0; k < a.kernel; ++k)
                    reaches = reaches || (a.position(o, k) >= first && a.position(o, k) < last);
                for (std::int64_t k = 0; k < a.kernel; ++k)
                    if (const std::int64_t p = a.position(o, k); reaches && p >= 0 && p < a.large) h.add(p);
            }
            const position_range r = detail::hull_of(a, first, last);
            std::int64_t& most = longest[last - first];
            most = std::max(most, r.last - r.first);
            return h.is_within(r) && r.first >= 0 && r.last <= a.large && (a.dilation != 1 || h.is(r));
        });
        if (!held) return false;
        for (std::int64_t extent = 1; extent <= a.large; ++extent)
            if (detail::hull_at_most(a, extent) < longest[extent] || detail::hull_at_most(a, extent) > a.large)
                return false;
        return true;
    });
}

TEST(span, enormous_windows_do_not_overflow) {
    const axis a{.large = INT64_MAX / 4, .small = INT64_MAX / 4, .kernel = INT64_MAX / 4, .stride = 1, .dilation = 3};
    EXPECT_EQ(detail::span_at_most(a, side::large, INT64_MAX), INT64_MAX);
    EXPECT_EQ(detail::reads_at_most(a, side::large, INT64_MAX), a.small);
    EXPECT_EQ(detail::longest_extent(a, side::large, 5, 1000), 0);
    const axis far_apart{.large = INT64_MAX / 2, .small = 3, .kernel = 2, .stride = INT64_MAX / 4};
    EXPECT_EQ(detail::longest_extent(far_apart, side::large, 2, 1000), 1000);
    EXPECT_EQ(detail::longest_extent(far_apart, side::small, 1000, 3), 1);
    EXPECT_EQ(detail::span_at_most(far_apart, side::small, 256), INT64_MAX);  // more than the axis has
}

/// Every output of a phase meets the taps of the class, inside or not.
TEST(span, whole_windows_hold_all_taps_of_a_phase) {
    for (const side outputs : {side::small, side::large})
        for_each_axis([&](const axis& a) {
            if (outputs == side::large && a.stride > 1 && a.dilation > 1) return true;
            const std::int64_t phases = outputs == side::small ? 1 : a.stride;
            const std::int64_t extent = output_extent(a, outputs);
            for (std::int64_t f = 0; f < phases && f < extent; ++f) {
                const gradkern::shape::tap_class c = detail::whole_windows(a, outputs, f, extent);
                if (c.positions != (extent - 1 - f) / phases + 1) return false;
                for (std::int64_t i = 0; i < c.positions; ++i) {
                    const std::int64_t output = c.first_position + i * c.position_step;
                    std::int64_t met = 0;
                    std::int64_t last = -far;
                    for (std::int64_t t = 0; t < c.taps; ++t) {
                        const std::int64_t tap = c.first_tap + t * c.tap_step;
                        const std::int64_t read = c.first_read + i * c.read_per_position + t * c.read_per_tap;
                        const bool meets =
                            outputs == side::small ? a.position(output, tap) == read : a.position(read, tap) == output;
                        if (!meets || read <= last || tap < 0 || tap >= a.kernel) return false;
                        last = read;
                    }
                    for (std::int64_t tap = 0; tap < a.kernel; ++tap)
                        met += outputs == side::small || (output + a.pad_begin - tap * a.dilation) % a.stride == 0;
                    if (met != c.taps) return false;
                }
            }
            return true;
        });
}

TEST(span, inside_bits_tell_each_position) {
    for (std::int64_t first = -40; first <= 40; ++first)
        for (std::int64_t count = 0; count <= 32; ++count)
            for (const std::int64_t extent : {0, 1, 5, 33}) {
                const std::uint32_t bits = detail::inside_bits(first, count, extent);
                for (std::int64_t i = 0; i < 32; ++i)
                    ASSERT_EQ(bits >> i & 1, i < count && first + i >= 0 && first + i < extent ? 1U : 0U)
                        << first << ' ' << count << ' ' << extent << ' ' << i;
            }
}

}  // namespace
