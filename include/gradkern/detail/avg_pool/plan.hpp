// The plan of the average engine (average.hpp): what lies on its lines, how they are cut, and where scratch lies.
//
// avg_pool/make_plan.hpp makes it, in steps: avg_pool/plan_axes.hpp chooses what lies on the lines; avg_pool/plan_joined.hpp
// plans short lines as one, where it can; avg_pool/plan_segments.hpp cuts all others.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include <gradkern/detail/config.hpp>
#include <gradkern/shape/axis.hpp>
#include <gradkern/shape/check.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail {

inline constexpr std::int64_t average_line = 8192;    ///< floats of a scratch line that are aimed at
inline constexpr std::int64_t average_reach = 16384;  ///< floats of a scratch line at most
inline constexpr std::int64_t average_ring = 131072;  ///< floats of the ring of quotient lines at most
inline constexpr std::int64_t average_task = 32768;   ///< floats of output that make a task worth its overhead
inline constexpr std::int64_t average_totals = 512;   ///< totals of long whole windows at most
inline constexpr std::int64_t average_runs = 1024;    ///< output columns of a segment where each may be its own run
inline constexpr std::int64_t average_least = 16;  ///< least scratch: of the first two and of the last so small a part

/// Everything a run needs but pointers. Made by make_average_plan from a checked problem.
struct average_plan {
    bool backward = false;
    bool accumulate = false;
    bool exclude_pad = false;
    std::array<shape::axis, 3> axes{};          // as computed with; windows that share one column may have been folded
    std::array<shape::axis, 3> divisor_axes{};  // as given
    bool uniform = false;                       // one divisor for all windows
    float uniform_divisor = 1.0F;
    std::optional<std::int64_t> divisor_override{};

    std::int64_t batch = 0;
    std::int64_t planes = 1;  // outer = batch * planes
    std::int64_t inner = 1;
    shape::canonical_strides in{};  // of (batch, plane, D, H, W)
    shape::canonical_strides out{};
    std::int64_t in_inner = 1;
    std::int64_t out_inner = 1;

    bool least = false;          // scratch of at most stack_workspace
    bool is_large = false;       // more is read than the last cache would hold of floats
    bool joined_lines = false;   // lines are computed many at a time
    bool joined_planes = false;  // small planes are computed many at a time
    bool repeats = false;     // joined lines, backward: windows lie side by side, with no column between or before them
    std::int64_t margin = 0;  // floats before and behind vertical sums, and each phase of them; joined lines or planes
    bool transposes = false;  // channels lie on the lines, but not in memory
    bool tiles = false;       // backward: no position is reached by two columns of windows
    bool direct_tiles = false;   // they go to the output without a stop, column by column
    bool long_lines = false;     // sums over depth and height may be cut into parts (summation.hpp)
    bool long_columns = false;   // sums over columns may be
    bool by_taps = false;        // the columns a segment reads are too many or too sparse for a scratch line
    bool extended = false;       // columns behind the borders are read as zeros
    shape::axis run_axis{};      // width axis whose reads define the runs: extended, nothing is clipped
    std::int64_t run_shift = 0;  // its reads are shifted by this
    bool whole_windows = false;  // forward: each is summed by itself, in registers
    bool separates = false;      // forward: columns of one phase of the stride are put side by side
    std::int64_t inner_block = 1;
    std::int64_t segment = 1;  // output columns
    std::int64_t reads = 1;    // columns of the scratch line
    std::int64_t line_block = 1;
    std::int64_t group = 1;  // items of one task
    std::int64_t ring_depths = 0;
    std::int64_t ring_lines = 0;  // a power of two; 0: no ring

    std::int64_t at_vertical = 0;  // byte offsets in a slice
    std::int64_t at_result = 0;
    std::int64_t at_packed = 0;
    std::int64_t at_wide = 0;
    std::int64_t at_phases = 0;
    std::int64_t at_divisors = 0;
    std::int64_t at_counts = 0;
    std::int64_t at_runs = 0;
    std::int64_t at_long_runs = 0;
    std::int64_t at_line_totals = 0;  // of long sums
    std::int64_t at_column_totals = 0;
    std::int64_t at_inside = 0;  // joined lines: the columns in which each tap is inside; joined planes: the elements
    std::int64_t at_lines = 0;
    std::int64_t at_ring = 0;  // joined lines: quotients of the rows that a block reads; joined planes: what it reads
    std::int64_t slice_bytes = 0;

    /// Floats of a scratch line that are aimed at and at most, and columns that may each be a run of their own.
    [[nodiscard]] constexpr std::int64_t line_floats() const noexcept {
        return average_line / (least ? average_least : 1);
    }
    [[nodiscard]] constexpr std::int64_t most_line_floats() const noexcept {
        return average_reach / (least ? 2 * average_least : 1);
    }
    [[nodiscard]] constexpr std::int64_t run_columns() const noexcept {
        return average_runs / (least ? average_least : 1);
    }
    [[nodiscard]] constexpr shape::side outputs() const noexcept {
        return backward ? shape::side::large : shape::side::small;
    }
    [[nodiscard]] constexpr std::int64_t out_extent(std::size_t i) const noexcept {
        return backward ? axes[i].large : axes[i].small;
    }
    [[nodiscard]] constexpr std::int64_t in_extent(std::size_t i) const noexcept {
        return backward ? axes[i].small : axes[i].large;
    }
    /// From one read of a position to the next.
    [[nodiscard]] constexpr std::int64_t read_step(std::size_t i) const noexcept {
        return axes[i].read_step(outputs());
    }
    /// From one position of a run to the next, in output columns and in the columns read.
    [[nodiscard]] constexpr std::int64_t position_step() const noexcept { return backward ? axes[2].stride : 1; }
    [[nodiscard]] constexpr std::int64_t advance() const noexcept { return backward ? 1 : axes[2].stride; }

    [[nodiscard]] constexpr std::int64_t strips() const noexcept { return shape::ceil_div(inner, inner_block); }
    [[nodiscard]] constexpr std::int64_t segments() const noexcept { return shape::ceil_div(out_extent(2), segment); }
    [[nodiscard]] constexpr std::int64_t line_blocks() const noexcept {
        return shape::ceil_div(out_extent(1), line_block);
    }
    [[nodiscard]] constexpr std::int64_t items() const noexcept {
        return batch * planes * out_extent(0) * line_blocks();
    }
    [[nodiscard]] constexpr std::int64_t groups() const noexcept { return shape::ceil_div(items(), group); }
    [[nodiscard]] constexpr std::int64_t tasks() const noexcept { return strips() * segments() * groups(); }

    /// Taps of window o that count in its divisor along one axis.
    [[nodiscard]] constexpr std::int64_t counted(std::size_t i, std::int64_t o) const noexcept {
        return exclude_pad ? divisor_axes[i].inside_taps(o).count : divisor_axes[i].padded_taps(o);
    }
    /// The same for the columns of windows: 0 where no tap is inside, also under an override, else that or `counted`.
    [[nodiscard]] constexpr std::int64_t counted_columns(std::int64_t o) const noexcept {
        if (divisor_axes[2].inside_taps(o).count == 0) return 0;
        return divisor_override ? *divisor_override : counted(2, o);
    }
    /// The divisor of windows with these counts. Windows without a counted tap reach nothing; they take 1, so that no
    /// quotient by 0 is formed on the way.
    [[nodiscard]] static constexpr float divisor_of(std::int64_t count) noexcept {
        return count == 0 ? 1.0F : static_cast<float>(count);
    }
};

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END
