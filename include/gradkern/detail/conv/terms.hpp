// The terms of one class of outputs in their order: block of 64 channels > inside taps in row-major order of what they read >
// channel, cut into parts (order/summation.hpp).
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include <gradkern/detail/axes/span.hpp>
#include <gradkern/detail/config.hpp>
#include <gradkern/detail/conv/problem.hpp>
#include <gradkern/detail/conv/weights.hpp>
#include <gradkern/detail/micro/sliding_tile.hpp>
#include <gradkern/detail/micro/tile_call.hpp>
#include <gradkern/detail/order/summation.hpp>
#include <gradkern/detail/run/tasks.hpp>
#include <gradkern/shape/axis.hpp>
#include <gradkern/shape/layout.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail {

/// Where a slice has room for a list of terms.
struct term_list_layout {
    std::int64_t at_segments = 0;
    std::int64_t at_parts = 0;
};
[[nodiscard]] constexpr term_list_layout reserve_terms(slice_layout& slice, const conv_equation& e,
                                                       std::int64_t blocks) noexcept {
    std::int64_t segments = blocks;
    for (const shape::axis& a : e.axes) segments *= std::min(a.kernel, e.is_forward() ? a.large : a.small);
    term_list_layout at;
    at.at_segments = slice.reserve<k_segment>(segments);
    at.at_parts = slice.reserve<std::ptrdiff_t>(std::max<std::int64_t>(segments, 1));  // a part without terms, too
    return at;
}

/// The same for a list of pieces of windows that slide, of tiles of at most `rows` rows.
[[nodiscard]] constexpr term_list_layout reserve_pieces(slice_layout& slice, const conv_equation& e,
                                                        std::int64_t rows) noexcept {
    std::int64_t lines = 1;
    for (const std::size_t i : {std::size_t{0}, std::size_t{1}})
        lines *= std::min(e.axes[i].kernel, read_extent(e.axes[i], e.outputs));
    const std::int64_t cuts = rows * (lines * e.axes[2].kernel / part_terms);
    return {.at_segments = slice.reserve<sliding_piece>(lines * most_pieces(e.axes[2].kernel) + 2 * cuts)};
}

/// The terms of one class: K segments in the fixed order, and how many of them make up each part.
struct term_list {
    k_segment* segments = nullptr;
    std::ptrdiff_t* parts = nullptr;  // segments in each part
    std::ptrdiff_t part_count = 0;
    std::ptrdiff_t a_step = 1;  // from term to term of a segment
    std::ptrdiff_t b_step = 0;

    term_list(std::byte* slice, const term_list_layout& at) noexcept
        : segments(array_at<k_segment>(slice, at.at_segments)), parts(array_at<std::ptrdiff_t>(slice, at.at_parts)) {}

    /// Lets tiles read the packed weights as `a` and the activations as `b`.
    void swap_operands() noexcept {
        std::swap(a_step, b_step);
        k_segment* s = segments;
        for (std::ptrdiff_t part = 0; part < part_count; ++part)
            for (const k_segment* const end = s + parts[part]; s != end; ++s) std::swap(s->a, s->b);
    }
    /// Runs a tile part by part. `adds`: the first one is added to what the tile finds, too.
    template <class Real>
    void run(tile_function_of<Real> tile, tile_call_of<Real>& call, bool adds) const noexcept {
        call.list = segments;
        for (std::ptrdiff_t part = 0; part < part_count; ++part) {
            call.count = parts[part];
            call.mode = part == 0 && !adds ? tile_mode::set : tile_mode::add;
            tile(call);
            call.list += call.count;
        }
    }
};

/// Lists the terms of a class that reads activations with strides `in` and `channel_step`, as `a`, and packed weights, as `b`.
/// A segment that continues the one before it is appended to it, which changes neither the order nor the parts.
inline void list_terms(const conv_equation& e, const weight_panels& panels, const std::array<shape::tap_class, 3>& c,
                       const shape::canonical_strides& in, std::int64_t channel_step, term_list& list) noexcept {
    const bool in_group = panels.inputs == lane_inputs::broadcast_in_group;  // the tile has the channels of a tap
    list.a_step = channel_step;
    list.b_step = panels.width;
    if (panels.terms == 1 || in_group) {  // one step a tap: let the taps of a row make up a segment
        list.a_step = c[2].read_per_tap * in[4];
        list.b_step = (c[2].tap_step < 0 ? -c[2].tap_step : c[2].tap_step) * panels.last_pitch;
    }
    k_segment* end = list.segments;
    list.part_count = 0;
    std::int64_t terms = part_terms;  // of the open part; full: the first segment opens one
    for (std::int64_t k0 = 0; k0 < panels.terms; k0 += channel_block) {
        const std::int64_t kl = std::min(channel_block, panels.terms - k0);
        const std::int64_t block = k0 / channel_block * e.taps() * panels.tap_pitch;
        for (std::int64_t d = 0; d < c[0].taps; ++d) {
            for (std::int64_t h = 0; h < c[1].taps; ++h) {
                for (std::int64_t x = 0; x < c[2].taps; ++x) {
                    const std::int64_t tap =
                        ((c[0].first_tap + d * c[0].tap_step) * e.axes[1].kernel + c[1].first_tap + h * c[1].tap_step) *
                            e.axes[2].kernel +
                        c[2].first_tap + x * c[2].tap_step;
                    const std::int64_t steps = in_group ? 1 : kl;
                    const k_segment s{k0 * channel_step + d * c[0].read_per_tap * in[2] +
                                          h * c[1].read_per_tap * in[3] + x * c[2].read_per_tap * in[4],
                                      block + e.packed_tap(tap) * panels.tap_pitch_at(k0), steps};
                    if (terms + kl > part_terms) {
                        terms = 0;
                        list.parts[list.part_count++] = 0;
                    }
                    terms += kl;
                    k_segment* const last = list.parts[list.part_count - 1] > 0 ? end - 1 : nullptr;
                    if (last != nullptr && last->a + last->length * list.a_step == s.a &&
                        last->b + last->length * list.b_step == s.b) {
                        last->length += steps;
                        continue;
                    }
                    *end++ = s;
                    ++list.parts[list.part_count - 1];
                }
            }
        }
    }
    if (list.part_count == 0) list.parts[list.part_count++] = 0;  // no tap inside: one empty part, which writes zeros
}

/// The terms of neighbouring outputs of one line whose windows slide, as pieces. Outputs whose windows are cut have fewer terms, so
/// that their parts end elsewhere.
class piece_list {
public:
    piece_list(std::byte* slice, const term_list_layout& at) noexcept
        : pieces_(array_at<sliding_piece>(slice, at.at_segments)) {}

    [[nodiscard]] const sliding_piece* pieces() const noexcept { return pieces_; }
    [[nodiscard]] std::ptrdiff_t count() const noexcept { return count_; }

    /// Lists what `rows` outputs add, the first of which reads from the column `read` on, in a class of planes and rows that reads
    /// activations with strides `in`.
    GRADKERN_NOINLINE void list(const conv_equation& e, const weight_panels& panels,
                                const std::array<shape::tap_class, 3>& c, const shape::canonical_strides& in,
                                std::int64_t read, std::int64_t rows) noexcept {
        const std::int64_t taps = c[2].taps;
        lines_ = c[0].taps * c[1].taps;
        rows_ = lines_ * taps > part_terms ? rows : 0;  // those with parts
        next_line_ = lines_;
        for (std::int64_t i = 0; i < rows_; ++i) {
            part_end& end = ends_[static_cast<std::size_t>(i)];
            end.first = std::clamp<std::int64_t>(-read - i, 0, taps);
            end.inside =
                std::clamp<std::int64_t>(read_extent(e.axes[2], e.outputs) - read - i, end.first, taps) - end.first;
            end.terms = 0;
            advance(end);
            next_line_ = std::min(next_line_, end.line);
        }
        sliding_piece* to = pieces_;
        const sliding_piece* whole = nullptr;  // pieces of a line in which no part ends, to be copied
        const sliding_piece* whole_end = nullptr;
        std::int64_t line = 0;
        for (std::int64_t d = 0; d < c[0].taps; ++d) {
            for (std::int64_t h = 0; h < c[1].taps; ++h, ++line) {
                const std::int64_t tap =
                    ((c[0].first_tap + d * c[0].tap_step) * e.axes[1].kernel + c[1].first_tap + h * c[1].tap_step) *
                        taps +
                    c[2].first_tap;
                const std::int64_t a = d * c[0].read_per_tap * in[2] + h * c[1].read_per_tap * in[3];
                const std::int64_t b = e.packed_tap(tap) * panels.width;
                if (whole != nullptr && line != next_line_) {
                    const std::int64_t a_step = a - whole->a;
                    const std::int64_t b_step = b - whole->b;
                    for (const sliding_piece* p = whole; p != whole_end; ++p)
                        *to++ = {p->a + a_step, p->b + b_step, p->first, p->taps, 0};
                    continue;
                }
                if (line != next_line_) whole = to;
                for (std::int64_t x = 0; x < taps;) {
                    std::int64_t end = taps;
                    const std::uint32_t ends = line == next_line_ ? next_ends(end) : 0;
                    while (x < end) {
                        const std::int64_t n = piece_taps(end - x);
                        *to++ = {a + x * in[4], b + x * panels.width, x, static_cast<std::int32_t>(n), 0};
                        x += n;
                    }
                    to[-1].ends = ends;
                }
                if (whole != nullptr && whole_end == nullptr) whole_end = to;
            }
        }
        count_ = to - pieces_;
        if (rows_ > 0) to[-1].ends = (std::uint32_t{1} << rows_) - 1;
    }

private:
    /// Where the open part of an output ends.
    struct part_end {
        std::int64_t first;   // tap inside,
        std::int64_t inside;  // of so many of a line
        std::int64_t terms;   // before the end
        std::int64_t line;    // of the last term; the number of lines: the sum ends before
        std::int64_t tap;     // behind it
    };

    void advance(part_end& end) const noexcept {
        end.terms += part_terms;
        end.line = lines_;
        if (end.terms >= lines_ * end.inside) return;
        end.line = (end.terms - 1) / end.inside;
        end.tap = end.first + end.terms - end.line * end.inside;
    }

    /// The rows whose parts end next in the line `next_line_`, before the tap `tap`, which becomes where they do.
    [[nodiscard]] std::uint32_t next_ends(std::int64_t& tap) noexcept {
        std::uint32_t rows = 0;
        for (std::int64_t i = 0; i < rows_; ++i) {
            const part_end& end = ends_[static_cast<std::size_t>(i)];
            if (end.line != next_line_ || end.tap > tap) continue;
            if (end.tap < tap) rows = 0;
            tap = end.tap;
            rows |= std::uint32_t{1} << i;
        }
        next_line_ = lines_;
        for (std::int64_t i = 0; i < rows_; ++i) {
            part_end& end = ends_[static_cast<std::size_t>(i)];
            if ((rows >> i & 1) != 0) advance(end);
            next_line_ = std::min(next_line_, end.line);
        }
        return rows;
    }

    sliding_piece* pieces_;
    std::ptrdiff_t count_ = 0;
    std::int64_t lines_ = 0;
    std::int64_t rows_ = 0;
    std::int64_t next_line_ = 0;  // in which a part ends
    std::array<part_end, static_cast<std::size_t>(most_sliding_rows)> ends_;
};

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END
