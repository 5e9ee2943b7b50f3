// The plan of the gather engine (gather.hpp): everything a run needs but pointers.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include <gradkern/detail/config.hpp>
#include <gradkern/detail/micro/register_tile.hpp>
#include <gradkern/detail/order/summation.hpp>
#include <gradkern/detail/run/boxes.hpp>
#include <gradkern/half.hpp>
#include <gradkern/shape/axis.hpp>
#include <gradkern/shape/check.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail {

/// Everything a run needs but pointers. Made by make_gather_plan from a checked problem.
struct gather_plan {
    shape::side outputs = shape::side::small;
    std::array<shape::axis, 3> axes{};
    std::int64_t batch = 0;
    std::int64_t groups = 1;
    std::int64_t in_channels = 0;   // per group
    std::int64_t terms = 0;         // of a tap: in_channels, or pairs of them
    std::int64_t out_channels = 0;  // per group
    shape::canonical_strides in{};
    shape::canonical_strides out{};
    std::int64_t w_first = 0;  // where the first tap that any output reads begins
    std::int64_t w_group = 0;  // elements between groups, reduction channels, output channels and taps of the filter
    std::int64_t w_reduce = 0;
    std::int64_t w_out = 0;
    std::array<std::int64_t, 3> w_tap{};
    data_type bias_type = data_type::f32;
    std::int64_t bias_step = 1;
    bool accumulate = false;

    bool least = false;  // least scratch: dense, one vector of outputs at a time, few activations staged
    bool fills = false;  // there are no channels to sum over: outputs are the bias, or +0
    bool channelwise = false;
    bool shared = false;   // channelwise, groups of as many input as output channels, whose lanes share them
    bool halves = false;   // channelwise: whole panels read and write 16-bit tensors as they are, in one part
    bool sliding = false;  // channelwise, depthwise: tiles of neighbouring columns, whose windows slide
    bool positionwise = false;
    bool planewise = false;         // depthwise, positions of one channel in the lanes: panels are channels
    bool points = false;            // positionwise and 1x1: positions of all axes and images are one line
    bool weights_in_place = false;  // points
    bool points_in_place = false;   // read where they are; staged is what of an image fills no tile
    bool pairs = false;             // terms are pairs of bf16 numbers, each in place of a float
    bool staged = false;
    bool together = false;          // a task walks panels of several groups side by side
    bool same_lines = false;        // or of one group, whose windows share no position
    bool cached = false;            // tensors are so small that they are likely to be in the cache
    bool out_staged = false;        // positions of a class lie apart in lines of the output: whole lines leave together
    std::int64_t panels = 0;        // in one group (dense) or in all (channelwise)
    std::int64_t task_panels = 1;   // of one task, over all groups
    std::int64_t lone_panels = 1;   // the same where one lane runs all tasks
    std::int64_t joint_panels = 0;  // those that share tasks: all, but for a last one that is staged on its own
    std::int64_t panel_width = 0;   // lanes
    std::int64_t panel_rows = 1;    // positionwise: output channels, each packed on its own
    bool turned = false;            // positionwise: rows lie in the lanes of classes of one column
    std::int64_t segment = 0;       // points: columns of a tile at most
    std::int64_t tap_pitch = 0;     // floats from tap to tap in a packed panel
    std::int64_t panel_floats = 0;
    box_grid blocks{};
    std::int64_t staged_channels = 0;  // floats per staged position
    std::int64_t at_panel = 0;         // byte offsets in a slice
    std::int64_t at_staging = 0;
    std::int64_t at_turned = 0;
    std::int64_t at_inside = 0;
    std::int64_t at_results = 0;
    std::int64_t at_list = 0;
    std::int64_t at_parts = 0;
    std::int64_t slice_bytes = 0;

    [[nodiscard]] constexpr std::int64_t taps() const noexcept {
        return axes[0].kernel * axes[1].kernel * axes[2].kernel;
    }
    /// Where a packed panel holds a tap: in the order in which taps are read.
    [[nodiscard]] constexpr std::int64_t tap_place(std::int64_t tap) const noexcept {
        return outputs == shape::side::small ? tap : taps() - 1 - tap;
    }
    [[nodiscard]] constexpr std::int64_t channel_blocks() const noexcept {
        return shape::ceil_div(terms, channel_block);
    }
    [[nodiscard]] constexpr std::int64_t extent(std::size_t i) const noexcept {
        return outputs == shape::side::small ? axes[i].small : axes[i].large;
    }
    [[nodiscard]] constexpr std::array<std::int64_t, 3> extents() const noexcept {
        return {extent(0), extent(1), extent(2)};
    }
    /// Sliding: the columns [first, last) as one class with all taps, some of which read outside.
    [[nodiscard]] constexpr shape::tap_class sliding_columns(std::int64_t first, std::int64_t last) const noexcept {
        const shape::axis& a = axes[2];
        const bool forward = outputs == shape::side::small;
        return {.first_position = first,
                .positions = last - first,
                .first_tap = forward ? 0 : a.kernel - 1,
                .tap_step = forward ? 1 : -1,
                .taps = a.kernel,
                .first_read = first + (forward ? -a.pad_begin : a.pad_begin - (a.kernel - 1)),
                .read_per_position = 1,
                .read_per_tap = 1};
    }
    /// Points: of all axes and images. Blocks count them in segments.
    [[nodiscard]] constexpr std::int64_t point_count() const noexcept {
        return batch * extent(0) * extent(1) * extent(2);
    }
    /// Points that blocks take for one line: all of them, or read in place those of an image.
    [[nodiscard]] constexpr std::int64_t line_points() const noexcept {
        return points_in_place ? extent(2) : point_count();
    }
    [[nodiscard]] constexpr bool is_depthwise() const noexcept { return in_channels == 1 && out_channels == 1; }
    /// Groups of eight that lanes share: packed weights of two vectors are in the order of their sums (register_tile.hpp), half
    /// of the outputs of each group and then the others.
    [[nodiscard]] constexpr bool octets() const noexcept { return shared && in_channels == 8; }
    /// Where a lane of a panel lies in its packed weights; with octets() four lanes are the longest run.
    [[nodiscard]] constexpr std::int64_t packed_place(std::int64_t lane) const noexcept {
        constexpr auto width = static_cast<std::int64_t>(simd::lanes);
        const std::int64_t in_two = lane & (2 * width - 1);
        return octets() ? lane - in_two + (in_two & 4) * (width / 4) + (in_two & ~std::int64_t{7}) / 2 : lane;
    }
    /// Output channels that share panels.
    [[nodiscard]] constexpr std::int64_t lane_channels() const noexcept {
        return channelwise ? total_out_channels() : out_channels;
    }
    [[nodiscard]] constexpr std::int64_t all_panels() const noexcept { return panels * (channelwise ? 1 : groups); }
    /// Tasks of a block, where each has so many panels.
    [[nodiscard]] constexpr std::int64_t block_tasks(std::int64_t each) const noexcept {
        return shape::ceil_div(joint_panels, each) + all_panels() - joint_panels;
    }
    [[nodiscard]] constexpr std::int64_t block_tasks() const noexcept { return block_tasks(task_panels); }
    /// Whether tiles of pairs round their sums themselves: these are one part, and nothing is added.
    [[nodiscard]] constexpr bool pairs_round() const noexcept {
        return pairs && terms * taps() <= part_terms && !accumulate;
    }
    /// Whether tiles of a panel touch the lanes it uses alone. Those that share are packed for the whole width.
    [[nodiscard]] constexpr bool is_whole(std::int64_t lanes_used) const noexcept {
        return lanes_used == panel_width || (!shared && !halves && fills_tile(lanes_used));
    }
    /// Whether it is so of the last panel.
    [[nodiscard]] constexpr bool last_is_whole() const noexcept {
        return lane_channels() % panel_width == 0 || is_whole(lane_channels() % panel_width);
    }
    /// Whether activations may go to the staging area, if for the last panel alone: whole vectors would leave the tensor.
    [[nodiscard]] constexpr bool may_stage() const noexcept { return staged || (channelwise && !last_is_whole()); }
    /// Whether a task may have several panels.
    [[nodiscard]] constexpr bool has_joint_panels() const noexcept {
        return together || same_lines || (positionwise && groups == 1);
    }
    /// The panels [first, last) of a task of a block.
    struct panel_range {
        std::int64_t first;
        std::int64_t last;
    };
    [[nodiscard]] constexpr panel_range panels_of(std::int64_t task, std::int64_t each) const noexcept {
        const std::int64_t first = task * each;
        if (first < joint_panels) return {first, std::min(first + each, joint_panels)};
        return {joint_panels, joint_panels + 1};
    }
    [[nodiscard]] constexpr panel_range panels_of(std::int64_t task) const noexcept {
        return panels_of(task, task_panels);
    }
    [[nodiscard]] constexpr std::int64_t tasks() const noexcept { return blocks.count() * block_tasks(); }
    [[nodiscard]] constexpr std::int64_t total_out_channels() const noexcept { return groups * out_channels; }
};

/// Positionwise: up to so many output channels share one wide tile.
inline constexpr std::int64_t position_rows = 4;

/// The widest tile for a few rows, in vectors: a dozen accumulators, or eight, as many as a CPU has multiply-adds under way.
[[nodiscard]] constexpr int position_vectors(int rows) noexcept { return rows <= 2 ? 8 / rows : 12 / rows; }
/// Three rows, the channels of an image, whose lines often are so many vectors of 16: with registers for as many sums.
inline constexpr int image_vectors = narrow_rows == 8 ? 7 : 4;

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END
