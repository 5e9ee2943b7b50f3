// Windows of the large side: all lines that a chunk meets with one tap of the outermost axis, packed once for the taps of the others.
#pragma once

#include <algorithm>
#include <cstdint>

#include <gradkern/detail/axes/span.hpp>
#include <gradkern/detail/config.hpp>
#include <gradkern/detail/conv_weights/dense_tasks.hpp>
#include <gradkern/detail/pack/staging.hpp>
#include <gradkern/detail/target.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail::conv_weights {

/// What lies innermost in the packing buffer: channels, or pixels (pairs of them in dense_bf16).
enum class window_order : std::uint8_t { channels, pixels };

[[nodiscard]] constexpr std::int64_t window_floats(window_order order, std::int64_t pixels,
                                                   std::int64_t channels) noexcept {
    return channels * (order == window_order::pixels ? row_pitch(pixels) : pixels);
}

/// Floats of the buffer: the pixels of one tap at least. A window for all taps has no more than the tensor, and no more than are
/// read.
[[nodiscard]] constexpr std::int64_t window_buffer_floats(const dense_tasks& p, window_order order) noexcept {
    constexpr std::int64_t most = target.weight_gradients.packed_window;
    std::int64_t tensor = 1;
    for (const std::int64_t extent : {p.batch, p.axes[0].large, p.axes[1].large, p.axes[2].large})
        tensor = std::min(most, tensor * std::min(most, extent));
    const std::int64_t read = p.chunk_pixels() * std::min(most, p.axes[1].kernel * p.axes[2].kernel);
    const std::int64_t window = window_floats(order, std::min(tensor, read), std::min(channel_block, p.large_channels));
    const std::int64_t rows = std::min(channel_block, p.large_channels * p.task_taps);
    return std::max(std::min(most, window), window_floats(order, p.chunk_pixels(), rows));
}

/// Neighbouring lines of the large side, numbered over (batch, depth, height), and the columns wanted of each.
struct line_window {
    std::int64_t first_line = 0;
    std::int64_t lines = 0;
    std::int64_t first_column = 0;
    std::int64_t columns = 0;
    [[nodiscard]] std::int64_t pixels() const noexcept { return lines * columns; }
};

/// All that a chunk meets with tap `tap` of the outermost axis and any of the others.
[[nodiscard]] inline line_window window_of(const tensors& p, const chunk_grid::chunk& c, std::int64_t tap) noexcept {
    line_window w;
    line_position at(p.axes, c.first_line);
    for (std::int64_t line = c.first_line; line < c.last_line; ++line, at.advance(p.axes)) {
        const std::int64_t d = p.axes[0].position(at.d, tap);
        const position_range rows = read_span_inside(p.axes[1], shape::side::small, at.h, at.h + 1);
        if (d < 0 || d >= p.axes[0].large || rows.first == rows.last) continue;
        const std::int64_t plane = (at.n * p.axes[0].large + d) * p.axes[1].large;
        if (w.lines == 0) w.first_line = plane + rows.first;
        w.lines = plane + rows.last - w.first_line;
    }
    const position_range columns = read_span_inside(p.axes[2], shape::side::small, c.first_column, c.last_column);
    w.first_column = columns.first;
    w.columns = columns.last - columns.first;
    return w;
}

}  // namespace detail::conv_weights
GRADKERN_ISA_NAMESPACE_END
