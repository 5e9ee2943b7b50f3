// Tasks: a block of outputs, and some panels of output channels.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include <gradkern/detail/axes/span.hpp>
#include <gradkern/detail/config.hpp>
#include <gradkern/detail/conv/problem.hpp>
#include <gradkern/detail/pack/boxes.hpp>
#include <gradkern/detail/run/boxes.hpp>
#include <gradkern/shape/check.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail {

/// Blocks x panels, numbered by blocks. Functions take how many panels a task has, `each` unless one worker has all tasks.
struct panel_tasks {
    box_grid blocks{};
    std::int64_t panels = 0;  // over all groups
    std::int64_t fused = 0;   // those that share tasks: all, or all but the last one
    std::int64_t each = 1;

    /// The panels [first, last) of a task of a block.
    struct range {
        std::int64_t first;
        std::int64_t last;
    };
    [[nodiscard]] constexpr std::int64_t per_block(std::int64_t n) const noexcept {
        return shape::ceil_div(fused, n) + panels - fused;
    }
    [[nodiscard]] constexpr std::int64_t count() const noexcept { return blocks.count() * per_block(each); }
    [[nodiscard]] constexpr range panels_of(std::int64_t task, std::int64_t n) const noexcept {
        const std::int64_t first = task % per_block(n) * n;
        if (first < fused) return {first, std::min(first + n, fused)};
        return {fused, fused + 1};
    }
    /// Gives tasks fewer panels where there would be too few tasks for many workers.
    constexpr void share_out() noexcept {
        constexpr std::int64_t tasks = 16;
        each = std::clamp<std::int64_t>(blocks.count() * fused / tasks, 1, each);
    }
};

/// Outputs of a block at most: packing weights costs about 1 % of their use.
inline constexpr std::int64_t block_pixels = 4096;

/// Limits of blocks of outputs.
struct block_budget {
    std::int64_t pixels;        // of the outputs
    std::int64_t floats;        // of a buffer for what a block reads
    std::int64_t pixel_floats;  // of them for each pixel; 0: nothing is packed
    bool pads_rows = false;     // whether a row of the buffer is one of row_pitch()
};

/// Floats of a buffer for what a block of outputs reads.
[[nodiscard]] constexpr std::int64_t buffer_floats(const conv_equation& e, const block_budget& b, std::int64_t images,
                                                   const std::array<std::int64_t, 3>& box) noexcept {
    const std::int64_t columns = reads_at_most(e.axes[2], e.outputs, box[2]);
    return images * b.pixel_floats * reads_at_most(e.axes[0], e.outputs, box[0]) *
           reads_at_most(e.axes[1], e.outputs, box[1]) * (b.pads_rows ? row_pitch(columns) : columns);
}
/// The same of the largest block.
[[nodiscard]] constexpr std::int64_t buffer_floats(const conv_equation& e, const block_budget& b,
                                                   const box_grid& blocks) noexcept {
    if (blocks.count() == 0) return 0;
    return buffer_floats(e, b, blocks.images(), {blocks.box(0), blocks.box(1), blocks.box(2)});
}

/// The largest blocks within the limits.
[[nodiscard]] GRADKERN_NOINLINE constexpr box_grid choose_blocks(const conv_equation& e,
                                                                 const block_budget& b) noexcept {
    return box_grid(e.batch, e.extents(), [&](std::int64_t images, const std::array<std::int64_t, 3>& box) {
        return images * box[0] * box[1] * box[2] <= b.pixels && buffer_floats(e, b, images, box) <= b.floats;
    });
}

/// Tensors of a run, and how many workers it has.
template <class T>
struct conv_call {
    const T* src;
    const T* weights;
    const void* bias;  // null: none
    T* dst;
    bool single_worker;
};

/// What operators tell of a plan.
struct plan_summary {
    bool has_pairs = false;
    bool in_place = false;
    std::int64_t panels = 0;  // of a group, or of all
    std::int64_t panel_channels = 0;
    std::int64_t blocks = 0;
    std::int64_t tasks = 0;
    std::int64_t slice_bytes = 0;
};

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END
