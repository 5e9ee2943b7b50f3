// Makes the plan of the average engine from a checked problem: what lies on its lines, and how they are cut.
#pragma once

#include <algorithm>
#include <cstdint>

#include <gradkern/attributes.hpp>
#include <gradkern/detail/avg_pool/plan.hpp>
#include <gradkern/detail/avg_pool/plan_axes.hpp>
#include <gradkern/detail/avg_pool/plan_joined.hpp>
#include <gradkern/detail/avg_pool/plan_segments.hpp>
#include <gradkern/detail/config.hpp>
#include <gradkern/detail/order/summation.hpp>
#include <gradkern/detail/target.hpp>
#include <gradkern/options.hpp>
#include <gradkern/shape/axis.hpp>
#include <gradkern/shape/check.hpp>
#include <gradkern/shape/pooling.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail {

/// Whether the planes of channels far apart in memory, with lines of few columns, had better be transposed on the way in
/// and out, so that channels lie on the lines.
[[nodiscard]] constexpr bool wants_to_transpose(const average_plan& g) noexcept {
    constexpr std::int64_t few_columns = 64;
    constexpr std::int64_t enough_channels = 32;
    const std::int64_t columns = g.out_extent(2);
    const std::int64_t in_columns = g.in_extent(2);
    return g.planes >= enough_channels && std::max(columns, in_columns) <= few_columns &&
           (columns == 1 || g.out[4] == 1) && (in_columns == 1 || g.in[4] == 1);
}

/// Finds out which sums may be so long that they are cut into parts.
constexpr void find_long_sums(average_plan& g) noexcept {
    const auto reads = [&](std::size_t i) { return g.axes[i].most_reads(g.outputs()); };
    g.long_lines = reads(0) > pool_part || reads(1) > pool_part || reads(0) * reads(1) > pool_part;
    g.long_columns = reads(2) > pool_part;
}

/// Chooses what lies on the lines, their blocks and scratch. `f32` says whether elements are floats.
[[nodiscard]] constexpr average_plan make_average_plan(const shape::pooling_problem& p, bool backward,
                                                       const avg_pool_attributes& attributes,
                                                       const shape::canonical_strides& in,
                                                       const shape::canonical_strides& out, bool f32,
                                                       const plan_options& options) noexcept {
    average_plan g;
    g.backward = backward;
    if (p.channels == 0) return g;  // nothing to write
    g.accumulate = options.output == output_mode::accumulate;
    g.least = options.scratch == scratch_use::least;
    g.exclude_pad = attributes.exclude_pad;
    g.divisor_override = attributes.divisor_override;
    g.divisor_axes = p.axes;
    g.axes = p.axes;
    g.batch = p.batch;
    g.in = in;
    g.out = out;
    std::int64_t elements = p.batch * p.channels;
    for (const shape::axis& a : g.axes) elements *= backward ? a.small : a.large;
    g.is_large = elements > target.cache.last_level / static_cast<std::int64_t>(sizeof(float));
    for (shape::axis& a : g.axes) {
        if (a.kernel == 1) a.dilation = 1;
        // a single window has no next one: its stride may be anything, also a number too large to add to others
        if (a.small == 1) a.stride = a.reach() + 1;
    }
    find_long_sums(g);
    choose_divisor(g);
    lay_channels(g, p.channels);
    turn_columns(g);
    join_rows_of_global_window(g);
    join_tiled_lines(g);

    // Lines of few columns are slow one by one. Those whose windows move by few positions are computed as one; else
    // channels are transposed.
    const bool transposes = wants_to_transpose(g);
    if (g.least) {
        cut_lines(g, f32);
        return g;
    }
    if (g.inner == 1 && join_planes(g)) return g;
    if (g.inner == 1 && join_lines(g, transposes)) return g;
    g.transposes = transposes;
    if (transposes) put_planes_on_lines(g);
    cut_lines(g, f32);
    return g;
}

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END
