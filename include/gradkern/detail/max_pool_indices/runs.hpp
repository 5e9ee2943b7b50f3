// The elements of diff_dst and their indices, as all paths walk them: in runs, each one loop.
//
// Loops: plane and line of windows > run. A run holds the windows of a line of one channel, or the channels of a panel in one
// window, or the interleaved channels of all windows of a line. Contiguous lines are collapsed. Windows come in ascending order.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>

#include <gradkern/detail/axes/collapse.hpp>
#include <gradkern/detail/config.hpp>
#include <gradkern/detail/max_pool_indices/plan.hpp>
#include <gradkern/detail/target.hpp>
#include <gradkern/shape/layout.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail::max_pool_indices {

/// Elements of a part of a run at most: their indices stay in L1.
inline constexpr std::int64_t part_elements = 256;
static_assert(target.pools.channels <= part_elements, "a part has a whole window of a panel");

/// Elements of one image that are walked in one loop: windows of one channel, or channels of one window or of several.
struct element_run {
    std::int64_t count = 0;
    std::int64_t from = 0;  // offset of the first gradient
    std::int64_t from_step = 0;
    std::int64_t at = 0;  // offset of the first index
    std::int64_t at_step = 0;
    std::int64_t channel_step = 0;      // channels from element to element
    std::int64_t interleaved = 1;       // channels of a window, which are followed by those of the next
    plan::own_plane own{};              // of the first element
    std::uint64_t origin_step = 0;      // of own.origin from element to element
    std::uint64_t interleave_step = 0;  // of own.origin from one interleaved channel to the next

    /// Elements of a part at most: whole windows of interleaved channels.
    [[nodiscard]] std::int64_t part_size() const noexcept { return part_elements / interleaved * interleaved; }

    /// Elements [begin, begin + length) of the run.
    [[nodiscard]] element_run part(std::int64_t begin, std::int64_t length) const noexcept {
        element_run r = *this;
        r.count = length;
        r.from += begin * from_step;
        r.at += begin * at_step;
        r.own.origin += static_cast<std::uint64_t>(begin) * origin_step;
        return r;
    }

    /// own.origin of element e, and of each element of a part of interleaved channels.
    [[nodiscard]] std::uint64_t origin_of(std::int64_t e) const noexcept {
        return own.origin + static_cast<std::uint64_t>(e) * origin_step +
               static_cast<std::uint64_t>(e % interleaved) * interleave_step;
    }
    using part_origins = std::array<std::uint64_t, static_cast<std::size_t>(part_elements)>;
    void find_origins(part_origins& origins) const noexcept {
        const auto channels = static_cast<std::size_t>(interleaved);
        for (std::size_t e = 0; e < static_cast<std::size_t>(std::min(count, part_size())); ++e)
            origins[e] = e < channels ? own.origin + e * interleave_step : origins[e - channels];
    }

    /// The last pixel that indices point to, where all point into the planes of their elements and the largest is among those
    /// of the last pixel.
    [[nodiscard]] GRADKERN_ALWAYS_INLINE std::int64_t last_pixel(const std::int64_t* indices,
                                                                 std::int64_t per_offset) const noexcept {
        std::int64_t last = 0;
        const auto look = [&](std::int64_t apart) GRADKERN_INLINE_LAMBDA {
            const std::int64_t* const index = indices + at;
            const std::int64_t n = count;
            for (std::int64_t e = 0; e < n; ++e) last = std::max(last, index[e * apart]);
        };
        at_step == 1 ? look(1) : look(at_step);
        return (last - static_cast<std::int64_t>(own.origin)) / std::max<std::int64_t>(per_offset, 1);
    }

    /// Where the indices of a run point.
    struct reach {
        bool within;         // all of them into pixels [first, first + pixels) of the planes of their elements
        std::int64_t last;   // pixel, if so; else 0
        std::int64_t least;  // the same, where it is asked for
    };
    /// Multiples of per_offset become multiples of a power of two, 2^shift: bits below it, and the sign bits of distances
    /// from both ends, tell whether there is a stray. Compilers collect bits by vectors, but comparisons one by one.
    template <bool with_least = false>
    [[nodiscard]] GRADKERN_ALWAYS_INLINE reach reach_of(const std::int64_t* indices, std::int64_t first,
                                                        std::int64_t pixels,
                                                        const part_origins* origins = nullptr) const noexcept {
        const std::uint64_t base = static_cast<std::uint64_t>(first) << own.shift;
        const std::uint64_t end = static_cast<std::uint64_t>(pixels) << own.shift;
        std::uint64_t outside = 0;
        std::uint64_t between = 0;
        std::int64_t last = 0;
        std::int64_t least = std::numeric_limits<std::int64_t>::max();
        const auto look_from = [&](std::int64_t apart, std::uint64_t inverse, auto origin_of) GRADKERN_INLINE_LAMBDA {
            const std::int64_t* const index = indices + at;
            const std::int64_t n = count;
            for (std::int64_t e = 0; e < n; ++e) {
                const std::uint64_t there =
                    (static_cast<std::uint64_t>(index[e * apart]) - origin_of(e)) * inverse - base;
                outside |= there | (end - 1 - there);
                between |= there;
                last = std::max(last, static_cast<std::int64_t>(there));
                if constexpr (with_least) least = std::min(least, static_cast<std::int64_t>(there));
            }
        };
        const auto look = [&](std::int64_t apart, std::uint64_t inverse) GRADKERN_INLINE_LAMBDA {
            look_from(apart, inverse, [origin = own.origin, step = origin_step](std::int64_t) mutable {
                return std::exchange(origin, origin + step);  // compilers turn no product into steps by vectors
            });
        };
        if (origins != nullptr) {
            const std::uint64_t* const origin = origins->data();
            const auto of_part = [=](std::int64_t e) GRADKERN_INLINE_LAMBDA { return origin[e]; };
            own.inverse == 1 ? look_from(1, 1, of_part) : look_from(1, own.inverse, of_part);
        } else if (at_step == 1 && own.inverse == 1) {
            look(1, 1);
        } else if (at_step == 1) {
            look(1, own.inverse);
        } else {
            look(at_step, own.inverse);
        }
        const std::uint64_t low_bits = (std::uint64_t{1} << own.shift) - 1;
        const bool within = static_cast<std::int64_t>(outside) >= 0 && (between & low_bits) == 0;
        return {within, within ? first + (last >> own.shift) : 0,
                within && with_least ? first + (least >> own.shift) : 0};
    }
};

/// What a run holds: windows of one channel, or channels of one window, or the channels of all windows of a line. The last only
/// where these are contiguous, else it is as the one before.
enum class run_order : std::uint8_t { windows, channels, interleaved };

/// The order of a panel. `interleaved`: an index alone tells the pixel, whatever the channel of its element.
[[nodiscard]] inline run_order order_of_panel(const plan& g, bool interleaved) noexcept {
    if (g.width == 1) return run_order::windows;
    return interleaved ? run_order::interleaved : run_order::channels;
}

/// A walk over the runs of channels [first, last) of one image, or of one of them, in ascending order of the windows.
class run_walk {
public:
    GRADKERN_ALWAYS_INLINE run_walk(const plan& g, std::int64_t n, std::int64_t first, std::int64_t last,
                                    run_order order) noexcept
        : g_(g), lines_(g.small[1]) {
        const std::int64_t channels = last - first;
        const auto channel = static_cast<std::uint64_t>(g.index.per_channel);
        const auto is_dense = [&](const shape::canonical_strides& s) { return s[1] == 1 && s[4] == channels; };
        const auto is_one_line = [&](const shape::canonical_strides& s) { return continues(s[3], g.small[2], s[4]); };
        const bool whole_lines = order == run_order::windows ||
                                 (order == run_order::interleaved && is_dense(g.diff_dst) && is_dense(g.indices));
        const std::size_t axis = order == run_order::windows ? 4 : 1;
        first_.from = n * g.diff_dst[0] + first * g.diff_dst[1];
        first_.from_step = g.diff_dst[axis];
        first_.at = n * g.indices[0] + first * g.indices[1];
        first_.at_step = g.indices[axis];
        first_.own = g.plane_of(n, first);
        first_.count = channels;
        if (!whole_lines) {
            runs_in_line_ = g.small[2];
            first_.channel_step = 1;
            first_.origin_step = channel;
            return;
        }
        first_.interleaved = channels;
        first_.interleave_step = channel;
        first_.count *= g.small[2];
        if (is_one_line(g.diff_dst) && is_one_line(g.indices)) first_.count *= std::exchange(lines_, 1);
    }

    /// Calls f(run) for each.
    template <class F>
    GRADKERN_ALWAYS_INLINE void for_each(const F& f) const noexcept {
        element_run run = first_;
        for (std::int64_t d = 0; d < g_.small[0]; ++d)
            for (std::int64_t h = 0; h < lines_; ++h) {
                run.from = first_.from + d * g_.diff_dst[2] + h * g_.diff_dst[3];
                run.at = first_.at + d * g_.indices[2] + h * g_.indices[3];
                for (std::int64_t r = 0; r < runs_in_line_; ++r, run.from += g_.diff_dst[4], run.at += g_.indices[4])
                    f(run);
            }
    }

private:
    const plan& g_;
    element_run first_;
    std::int64_t lines_;  // of a plane of windows
    std::int64_t runs_in_line_ = 1;
};

}  // namespace detail::max_pool_indices
GRADKERN_ISA_NAMESPACE_END
