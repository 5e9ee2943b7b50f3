// The plan of the max engine (maximum.hpp): boxes of outputs, panels of channels, and the scratch of one lane.
//
// Forward the outputs are windows; backward they are the positions of diff_src, and a box looks at every window that
// may have its maximum inside, so that boxes are independent of each other. Channels lie in the lanes. What a box reads
// is read in place where channels are neighbours and else from a staging area; windows too large for one (a kernel over
// a huge plane) are gathered element by element.
//
// Backward scratch holds a few slices of a box at a time: planes of a volume, rows of a plane, columns of a row, and
// windows pass over them in order: a box may be as long as it likes along that axis, and slices stay in the cache. They
// are sums, or, where positions pull gradients, the results of windows; along one axis alone it holds those of a whole box.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include <gradkern/attributes.hpp>
#include <gradkern/detail/axes/span.hpp>
#include <gradkern/detail/config.hpp>
#include <gradkern/detail/max_pool/index_rule.hpp>
#include <gradkern/detail/micro/window_max.hpp>
#include <gradkern/detail/order/summation.hpp>
#include <gradkern/detail/pack/staging.hpp>
#include <gradkern/detail/run/boxes.hpp>
#include <gradkern/detail/run/tasks.hpp>
#include <gradkern/detail/simd.hpp>
#include <gradkern/detail/target.hpp>
#include <gradkern/options.hpp>
#include <gradkern/shape/axis.hpp>
#include <gradkern/shape/check.hpp>
#include <gradkern/shape/pooling.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail {

inline constexpr std::int64_t max_results = 8 * 1024;   ///< floats of the windows of a line that are computed at once
inline constexpr std::int64_t max_scratch = 64 * 1024;  ///< floats of a staging area, and of sums, that are aimed at
inline constexpr std::int64_t max_held = 32 * 1024;     ///< floats of slices held at a time that are aimed at
inline constexpr std::int64_t max_least = 2048;         ///< least scratch: floats of a staging area, of sums, of slices
inline constexpr std::int64_t max_outputs = 4096;       ///< windows of a box at most
inline constexpr std::int64_t max_rows = 64;            ///< rows of a window whose maxima are kept
inline constexpr std::int64_t most_pulled = simd::lanes * 3 / 2;  ///< windows whose gradients a position pulls

/// Everything a run needs but pointers. Made by make_max_plan from a checked problem.
struct max_plan {
    bool backward = false;
    bool ignore_nan = false;
    bool accumulate = false;
    bool in_f64 = false;  // sums, in scratch: more than pool_part windows reach one position
    std::array<shape::axis, 3> axes{};
    std::int64_t batch = 0;
    std::int64_t channels = 0;
    shape::canonical_strides src{};
    shape::canonical_strides small{};  // dst, or diff_dst
    shape::canonical_strides large{};  // diff_src
    shape::canonical_strides indices{};
    index_rule index{};

    bool least = false;  // scratch of at most stack_workspace
    bool staged = false;
    bool gathered = false;
    std::int64_t panel_width = 0;  // lanes
    std::int64_t columns = 0;      // windows of a line that are computed at once
    bool joins_lines = true;       // forward: lines are staged, and leave, as one where they follow one another
    std::int64_t results = 0;      // forward: windows whose results wait in scratch
    bool scaled = false;           // forward: places are counted in steps of indices
    bool rows_first = false;       // maxima of rows of windows are kept for the lines that share them
    std::int64_t sum_width = 0;    // floats of sums per position
    std::int64_t panels = 0;
    box_grid boxes{};
    std::size_t slide = 0;            // backward: the outermost axis there is, along which slices of a box are held
    std::int64_t held = 0;            // slices at a time
    bool asks_ahead = false;          // pulls: src is prefetched a slice of windows ahead
    bool pulls = false;               // backward: positions pull gradients; there are no sums in scratch
    bool pulls_in_place = false;      // gradients are read, and results written, where they are
    std::int64_t kept_slices = 0;     // of windows, whose results are kept for all positions that they reach
    std::int64_t kept_lines = 0;      // of a slice
    std::int64_t kept_windows = 0;    // of a line
    std::int64_t pulled_columns = 0;  // of a line whose sums wait in scratch, not in place

    std::int64_t at_staging = 0;  // byte offsets in a slice
    std::int64_t at_sums = 0;
    std::int64_t at_value = 0;
    std::int64_t at_place = 0;
    std::int64_t at_high = 0;
    std::int64_t at_gradient = 0;
    std::int64_t at_rows = 0;
    std::int64_t slice_bytes = 0;

    [[nodiscard]] constexpr std::int64_t tasks() const noexcept { return boxes.count() * panels; }
    /// Floats of the windows of a line that are computed at once, and of slices held at a time.
    [[nodiscard]] constexpr std::int64_t most_results() const noexcept { return least ? max_least / 4 : max_results; }
    [[nodiscard]] constexpr std::int64_t most_held() const noexcept { return least ? max_least : max_held; }
};

/// How many of `extent` neighbours and what else their windows read are held at least: what two windows cover.
[[nodiscard]] constexpr std::int64_t least_held(const shape::axis& a, std::int64_t extent) noexcept {
    const std::int64_t hull = hull_at_most(a, extent);
    const std::int64_t reach = a.reach();
    return reach >= a.large ? hull : std::min(hull, 2 * (reach + 1));
}

/// Whether few enough windows, all without dilation, reach each position for it to pull their gradients.
[[nodiscard]] constexpr bool few_windows(const std::array<shape::axis, 3>& axes) noexcept {
    std::int64_t windows = 1;
    for (const shape::axis& a : axes) {
        const std::int64_t of_axis = reads_at_most(a, shape::side::large, 1);
        if (a.dilation != 1 || of_axis > most_pulled) return false;
        windows *= of_axis;
    }
    return windows <= most_pulled;
}

/// Whether windows had better be computed row by row: a row serves all lines of windows that overlap there, and every
/// window has taps in each of its rows.
[[nodiscard]] constexpr bool saves_comparisons(const shape::axis& rows, const shape::axis& columns) noexcept {
    if (rows.dilation != 1 || columns.dilation != 1 || rows.stride >= rows.kernel || rows.small == 1) return false;
    if (columns.pad_begin >= columns.kernel || columns.position(columns.small - 1, 0) >= columns.large) return false;
    // Comparing rows reads their maxima and places again: of the 9 taps of 3x3 with stride 1 too few are saved.
    return (rows.kernel - rows.stride) * columns.kernel >= 3 * rows.kernel;
}

/// Columns that forward boxes of so many windows of a line stage: all there are, where lines follow one another in memory and
/// most of them are read, since such lines are one stretch.
[[nodiscard]] constexpr std::int64_t columns_staged(const max_plan& m, std::int64_t windows) noexcept {
    const shape::axis& a = m.axes[2];
    const std::int64_t reads = reads_at_most(a, shape::side::small, windows);
    return m.joins_lines && windows == a.small && reads >= a.large - a.large / 4 && m.src[3] == a.large * m.src[4]
               ? a.large
               : reads;
}

/// Positions of a box of outputs that scratch holds at a time: forward what is staged, backward the hull, also for its sums;
/// of that twice as many slices as a window covers, so that no more than half of them are moved when a window needs others.
/// Where nothing is staged and there are no sums, the windows that are kept.
[[nodiscard]] constexpr std::int64_t positions_held(const max_plan& m,
                                                    const std::array<std::int64_t, 3>& box) noexcept {
    std::int64_t positions = 1;
    for (std::size_t i = 0; i < 3; ++i) {
        const shape::axis& a = m.axes[i];
        const bool slides = i == m.slide && !(m.pulls && i == 2);
        positions *= !m.backward ? i == 2 ? columns_staged(m, box[i]) : reads_at_most(a, shape::side::small, box[i])
                     : m.pulls && !m.staged ? reads_at_most(a, shape::side::large, slides ? 1 : box[i])
                     : slides ? least_held(a, box[i])
                                            : hull_at_most(a, box[i]);
    }
    return positions;
}

/// Chooses where windows are read, and how gradients get to their places; all but `gathered`.
constexpr void choose_max_path(max_plan& m, algorithm wanted) noexcept {
    while (m.slide < 2 && m.axes[m.slide].large == 1 && m.axes[m.slide].small == 1) ++m.slide;
    m.staged = m.src[1] != 1 || wanted == algorithm::dense_staged;
    // Where tensors are staged, turning them takes most of the time, and adding to sums in the cache is no slower; but
    // along one axis these would slide by few positions at a time.
    m.pulls = m.backward && !m.least && few_windows(m.axes) && (!m.staged || m.slide == 2);
}

/// Narrows panels that are not the least, so that boxes fit the scratch that is aimed at. Returns the floats that a box may
/// hold; gathers windows where even the smallest would hold more.
[[nodiscard]] constexpr std::int64_t choose_max_budget(max_plan& m, std::int64_t lanes) noexcept {
    const std::array<std::int64_t, 3> whole{m.axes[0].large, m.axes[1].large, m.axes[2].large};
    // Backward a window that reaches several boxes is computed for each: boxes are larger there.
    std::int64_t budget = m.backward && !m.staged && !m.pulls ? 4 * max_scratch : max_scratch;
    if (!m.gathered && (m.staged || m.backward)) {
        // Narrower panels of whole planes come first.
        while (m.backward && m.staged && m.panel_width > lanes && positions_held(m, whole) * m.panel_width > budget) {
            m.panel_width = m.panel_width > 2 * lanes ? 2 * lanes : lanes;
            budget = 4 * max_scratch;
        }
        // Then boxes of a few times what one output needs.
        const std::int64_t least = positions_held(m, {1, 1, 1});
        if (4 * least * m.panel_width > 4 * max_scratch) m.panel_width = lanes;
        budget = std::max(budget, 4 * least * m.panel_width);
        m.gathered = budget > 16 * max_scratch;
    }
    return budget;
}

/// Chooses the width of panels, and whether windows are gathered. Returns the floats that a box may hold.
[[nodiscard]] constexpr std::int64_t choose_max_panels(max_plan& m, algorithm wanted) noexcept {
    constexpr auto lanes = static_cast<std::int64_t>(simd::lanes);
    const std::array<std::int64_t, 3> whole{m.axes[0].large, m.axes[1].large, m.axes[2].large};
    const std::int64_t plane = whole[0] * whole[1] * whole[2];
    m.asks_ahead = m.batch * m.channels * plane > target.cache.tensor_in_l2 / static_cast<std::int64_t>(sizeof(float));
    // Neighbouring channels in place are walked together: they lie in the same pages.
    m.panel_width = std::min(m.staged ? 4 * lanes : 128, shape::ceil_div(m.channels, lanes) * lanes);
    m.gathered = wanted == algorithm::channelwise || plane >= place_limit;
    std::int64_t budget = max_least;
    if (m.least) {
        m.panel_width = lanes;
        std::array<std::int64_t, 3> smallest{1, 1, 1};
        if (m.backward) smallest[m.slide] = whole[m.slide];  // it is never cut for the sake of scratch
        m.gathered = m.gathered || ((m.staged || m.backward) && positions_held(m, smallest) > max_least / lanes);
    } else {
        budget = choose_max_budget(m, lanes);
    }
    if (m.gathered) {
        m.staged = false;
        m.pulls = false;
        m.panel_width = lanes;
        budget = m.least ? max_least : 64 * max_scratch;
    }
    m.scaled = !m.backward && !m.gathered && plane < place_limit / std::max<std::int64_t>(m.index.per_place, 1);
    m.sum_width = m.gathered ? std::min(lanes, m.channels) : m.panel_width;
    m.panels = shape::ceil_div(m.channels, m.panel_width);
    return budget;
}

/// Cuts diff_src into boxes along which slices are held.
constexpr void cut_slices(max_plan& m, std::int64_t budget) noexcept {
    const shape::axis& slices = m.axes[m.slide];
    const std::array<std::int64_t, 3> extent{m.axes[0].large, m.axes[1].large, m.axes[2].large};
    // Windows between boxes are computed for each: the inner axis with most windows beside one another is cut.
    std::array<std::int64_t, 3> box = extent;
    while (positions_held(m, box) * m.sum_width > budget) {
        const auto windows = [&](std::size_t i) {
            return static_cast<double>(box[i]) / static_cast<double>(m.axes[i].reach() + 1);
        };
        const std::size_t i = m.slide == 0 && (box[2] == 1 || (box[1] > 1 && windows(1) >= windows(2))) ? 1 : 2;
        if (i == m.slide || box[i] == 1) break;
        box[i] = shape::ceil_div(box[i], 2);
    }
    if (m.pulls && m.slide == 2) {  // all that reach a box are kept
        const std::int64_t windows = max_results / m.panel_width;
        if (box[2] / slices.stride > windows) box[2] = windows * slices.stride;
        while (positions_held(m, box) * m.sum_width > budget && box[2] > 1) box[2] = shape::ceil_div(box[2], 2);
    }
    m.boxes = box_grid(m.batch, extent, box);
    constexpr std::int64_t enough_tasks = 16;  // for many threads
    if (m.tasks() > 0 && m.tasks() < enough_tasks) {
        const std::int64_t most = box[m.slide] / 4 / (slices.reach() + 1);
        const std::int64_t parts = std::min(shape::ceil_div(enough_tasks, m.tasks()), most);
        if (parts > 1) box[m.slide] = shape::ceil_div(box[m.slide], parts);
        m.boxes = box_grid(m.batch, extent, box);
    }
}

/// Cuts outputs into boxes that are held whole.
constexpr void cut_boxes(max_plan& m, std::int64_t budget) noexcept {
    std::array<std::int64_t, 3> extent{};
    for (std::size_t i = 0; i < 3; ++i) extent[i] = m.backward ? m.axes[i].large : m.axes[i].small;
    m.boxes = box_grid(m.batch, extent, [&](std::int64_t images, const std::array<std::int64_t, 3>& box) {
        const std::int64_t positions = box[0] * box[1] * box[2];
        if (images > 1) return false;
        if (m.backward) return positions * m.sum_width <= budget;
        return positions <= max_outputs && (!m.staged || positions_held(m, box) * m.panel_width <= budget);
    });
}

/// Chooses how many slices are held and how many columns are computed at once. Returns the floats of what is held.
[[nodiscard]] constexpr std::int64_t choose_held(max_plan& m, const std::array<std::int64_t, 3>& box) noexcept {
    const shape::axis& slices = m.axes[m.slide];
    // Planes that windows are gathered from may be too large to count.
    const std::int64_t floats = m.gathered             ? box[0] * box[1] * box[2] * m.sum_width
                                : m.pulls && !m.staged ? 0
                                                       : positions_held(m, box) * m.sum_width;
    m.columns = std::clamp<std::int64_t>(m.most_results() / m.panel_width, 1, m.axes[2].small);
    if (m.gathered) m.held = box[m.slide];
    if (m.gathered || !m.backward || m.pulls) return floats;
    const std::int64_t whole = hull_at_most(slices, box[m.slide]);
    const std::int64_t least = least_held(slices, box[m.slide]);
    const std::int64_t slice_floats = floats / least;
    m.held = std::clamp(m.most_held() / slice_floats, least, whole);
    // the columns that a segment reads are held together
    if (m.slide == 2 && m.held < whole)
        m.columns = std::min(m.columns, (m.held - slices.reach() - 1) / slices.stride + 1);
    return m.held * slice_floats;
}

/// Keeps maxima of rows of windows, if that saves comparisons and they fit.
constexpr void choose_rows_first(max_plan& m, slice_layout& slice) noexcept {
    if (m.least || m.gathered || m.axes[0].kernel > max_rows / m.axes[1].kernel ||
        !saves_comparisons(m.axes[1], m.axes[2]) || m.columns != m.axes[2].small)
        return;
    const std::int64_t floats = 2 * m.axes[0].kernel * m.axes[1].kernel * m.columns * m.panel_width;
    slice_layout with_rows = slice;
    m.at_rows = with_rows.reserve<float>(floats);
    // What runs without a workspace of the caller's goes on doing so.
    const bool same_call =
        workspace_for(slice.bytes(), 1) > stack_workspace || workspace_for(with_rows.bytes(), 1) <= stack_workspace;
    m.rows_first = floats <= 2 * max_scratch && same_call;
    if (m.rows_first) slice = with_rows;
}

/// Forward: whether the results of several lines may leave together, which is quicker than short lines one by one.
[[nodiscard]] constexpr bool lines_wait(const max_plan& m) noexcept {
    const std::int64_t columns = m.axes[2].small;
    return m.joins_lines && !m.least && !m.backward && !m.gathered && m.small[1] != 1 && columns > 1 &&
           m.columns == columns && m.panel_width * columns <= max_results && m.small[3] == columns * m.small[4];
}

/// Lays out the scratch of one lane.
constexpr void reserve_max(max_plan& m) noexcept {
    const std::array<std::int64_t, 3> box{m.boxes.box(0), m.boxes.box(1), m.boxes.box(2)};
    const auto lay_out = [&](bool joins_lines) {
        m.joins_lines = joins_lines;
        const std::int64_t held_floats = choose_held(m, box);
        const std::int64_t line = m.columns * m.panel_width;
        m.results = lines_wait(m) ? std::min(box[1], max_results / line) * m.columns : m.columns;
        std::int64_t results = m.results * m.panel_width;
        std::int64_t sums = m.backward ? held_floats : 0;
        if (m.pulls) {
            m.pulls_in_place = m.small[1] == 1 && m.large[1] == 1 && !m.accumulate;
            m.kept_slices = m.slide < 2 ? reads_at_most(m.axes[m.slide], shape::side::large, 1) : 1;
            m.kept_lines = m.slide == 0 ? reads_at_most(m.axes[1], shape::side::large, box[1]) : 1;
            m.kept_windows = reads_at_most(m.axes[2], shape::side::large, box[2]);
            results = m.kept_slices * m.kept_lines * m.kept_windows * m.panel_width;
            m.pulled_columns = std::min(box[2], max_results / m.panel_width);
            sums = m.pulls_in_place ? 0 : m.pulled_columns * m.panel_width;
        }
        slice_layout slice;
        m.at_staging = slice.reserve<float>(m.staged ? held_floats : 0);
        m.at_sums = m.in_f64 ? slice.reserve<double>(sums) : slice.reserve<float>(sums);
        m.at_value = slice.reserve<float>(m.backward ? m.panel_width : results);
        m.at_place = slice.reserve<float>(results);
        m.at_high = slice.reserve<float>(m.gathered ? line : 0);
        m.at_gradient = slice.reserve<float>(m.backward && !m.pulls_in_place ? results : 0);
        return slice;
    };
    // What runs without a workspace of the caller's goes on doing so.
    const auto fits_stack = [](const slice_layout& s) { return workspace_for(s.bytes(), 1) <= stack_workspace; };
    slice_layout slice = lay_out(true);
    if (!fits_stack(slice) && !m.backward) slice = lay_out(!fits_stack(lay_out(false)));
    choose_rows_first(m, slice);
    m.slice_bytes = slice.bytes();
}

/// Chooses path, panels, boxes and scratch. Of the strides, forward needs `small` and `indices`, backward `large` too.
[[nodiscard]] constexpr max_plan make_max_plan(
    const shape::pooling_problem& p, bool backward, const max_pool_attributes& attributes,
    const shape::canonical_strides& src, const shape::canonical_strides& small, const shape::canonical_strides& large,
    const shape::canonical_strides& indices, const plan_options& options) noexcept {
    max_plan m;
    m.backward = backward;
    if (p.channels == 0) return m;  // nothing to write
    m.ignore_nan = attributes.ignore_nan;
    m.accumulate = options.output == output_mode::accumulate;
    m.least = options.scratch == scratch_use::least;
    m.axes = p.axes;
    for (shape::axis& a : m.axes) {  // steps that nobody takes: products with strides of memory stay small
        if (a.kernel == 1) a.dilation = 1;
        if (a.small == 1) a.stride = 1;
    }
    m.batch = p.batch;
    m.channels = p.channels;
    m.src = src;
    m.small = small;
    m.large = large;
    m.indices = indices;
    m.in_f64 = backward && many_windows_meet(m.axes);
    m.index = index_rule(p, attributes.data_format, attributes.index_base, attributes.storage_order);
    choose_max_path(m, options.algorithm);
    const std::int64_t budget = choose_max_panels(m, options.algorithm);
    if (backward && !m.gathered) {
        cut_slices(m, budget);
    } else {
        cut_boxes(m, budget);
    }
    if (m.tasks() > 0) reserve_max(m);
    return m;
}

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END
