// The elements of diff_dst and their indices, as the scatter engine walks them: in runs, each one loop.
//
// Loops: plane and line of windows > run: the windows of a line (or of all lines that follow one another) of one channel, or
// the channels of a panel in one window, or all of them in such windows. Either way windows come in ascending order.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>

#include <gradkern/detail/config.hpp>
#include <gradkern/detail/max_pool_indices/plan.hpp>
#include <gradkern/shape/check.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail {

/// Elements of a part of a run at most.
inline constexpr std::int64_t part_elements = 256;

/// Elements of one image that are walked in one loop: windows of one channel, or channels of one window or of several.
struct element_run {
    std::int64_t count = 0;
    std::int64_t from = 0;  // offset of the first gradient
    std::int64_t from_step = 0;
    std::int64_t at = 0;  // offset of the first index
    std::int64_t at_step = 0;
    std::int64_t channel_step = 0;  // channels from element to element
    std::int64_t turns = 1;         // channels that take turns, all of one window, then of the next
    scatter_plan::own_plane own{};  // of the first element
    std::uint64_t origin_step = 0;  // of own.origin from element to element
    std::uint64_t turn_step = 0;    // the same of channels that take turns

    /// Elements of a part at most: so few that their indices stay in the innermost cache, and whole windows of channels
    /// that take turns.
    [[nodiscard]] std::int64_t part_size() const noexcept { return part_elements / turns * turns; }

    /// Elements [begin, begin + length) of the run.
    [[nodiscard]] element_run part(std::int64_t begin, std::int64_t length) const noexcept {
        element_run r = *this;
        r.count = length;
        r.from += begin * from_step;
        r.at += begin * at_step;
        r.own.origin += static_cast<std::uint64_t>(begin) * origin_step;
        return r;
    }

    /// own.origin of each element of a part of channels that take turns.
    using turn_origins = std::array<std::uint64_t, static_cast<std::size_t>(part_elements)>;
    void find_origins(turn_origins& origins) const noexcept {
        for (std::int64_t e = 0; e < std::min(count, part_size()); e += turns)
            for (std::int64_t c = 0; c < turns; ++c)
                origins[static_cast<std::size_t>(e + c)] = own.origin + static_cast<std::uint64_t>(c) * turn_step;
    }

    /// The last place that indices point to, where all point into the planes of their elements and the largest is among those
    /// of the last place.
    [[nodiscard]] GRADKERN_ALWAYS_INLINE std::int64_t last_place(const std::int64_t* indices,
                                                                 std::int64_t per_place) const noexcept {
        std::int64_t last = 0;
        const auto look = [&](std::int64_t apart) GRADKERN_INLINE_LAMBDA {
            const std::int64_t* const index = indices + at;
            const std::int64_t n = count;
            for (std::int64_t e = 0; e < n; ++e) last = std::max(last, index[e * apart]);
        };
        if (at_step == 1) {
            look(1);
        } else {
            look(at_step);
        }
        return (last - static_cast<std::int64_t>(own.origin)) / std::max<std::int64_t>(per_place, 1);
    }

    /// Where the indices of a run point.
    struct reach {
        bool within;         // all of them into [first, first + places) of the planes of their elements
        std::int64_t last;   // place, if so; else 0
        std::int64_t least;  // the same, where it is wanted
    };
    /// Multiples of per_place become multiples of a power of two, 2^shift: bits below it, and the sign bits of distances
    /// from both ends, tell whether there is a stray. Compilers collect bits by vectors, but comparisons one by one.
    template <bool wants_least = false>
    [[nodiscard]] GRADKERN_ALWAYS_INLINE reach reach_of(const std::int64_t* indices, std::int64_t first,
                                                        std::int64_t places,
                                                        const turn_origins* origins = nullptr) const noexcept {
        const std::uint64_t base = static_cast<std::uint64_t>(first) << own.shift;
        const std::uint64_t end = static_cast<std::uint64_t>(places) << own.shift;
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
                if constexpr (wants_least) least = std::min(least, static_cast<std::int64_t>(there));
            }
        };
        const auto look = [&](std::int64_t apart, std::uint64_t inverse) GRADKERN_INLINE_LAMBDA {
            look_from(apart, inverse, [origin = own.origin, step = origin_step](std::int64_t) mutable {
                return std::exchange(origin, origin + step);  // compilers turn no product into steps by vectors
            });
        };
        if (origins != nullptr) {
            const std::uint64_t* const origin = origins->data();
            const auto of_turns = [=](std::int64_t e) GRADKERN_INLINE_LAMBDA { return origin[e]; };
            if (own.inverse == 1) {
                look_from(1, 1, of_turns);
            } else {
                look_from(1, own.inverse, of_turns);
            }
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
                within && wants_least ? first + (least >> own.shift) : 0};
    }
};

/// Moves a run to line (d, h) of the windows of channel c of image n.
GRADKERN_ALWAYS_INLINE void begin_line(element_run& run, const scatter_plan& g, std::int64_t n, std::int64_t c,
                                       std::int64_t d, std::int64_t h) noexcept {
    const auto offset = [&](const shape::canonical_strides& s) { return n * s[0] + c * s[1] + d * s[2] + h * s[3]; };
    run.from = offset(g.gradient);
    run.at = offset(g.indices);
}

/// Calls f(run) for the windows of channel c of image n: a line of them a run, or a plane.
template <class F>
GRADKERN_ALWAYS_INLINE void for_each_run_of_windows(const scatter_plan& g, std::int64_t n, std::int64_t c,
                                                    const F& f) noexcept {
    const auto follow = [&](const shape::canonical_strides& s) { return s[3] == g.small[2] * s[4]; };
    const bool joins = follow(g.gradient) && follow(g.indices);
    element_run run;
    run.own = g.plane_of(n, c);
    run.count = joins ? g.small[1] * g.small[2] : g.small[2];
    run.from_step = g.gradient[4];
    run.at_step = g.indices[4];
    for (std::int64_t d = 0; d < g.small[0]; ++d)
        for (std::int64_t h = 0; h < g.small[1]; h += joins ? g.small[1] : 1) {
            begin_line(run, g, n, c, d, h);
            f(run);
        }
}

/// Calls f(run) for the channels [first, last) of image n: those of one window a run or, where `mixed`, of the
/// windows of a line, or of a plane.
template <class F>
GRADKERN_ALWAYS_INLINE void for_each_run_of_channels(const scatter_plan& g, std::int64_t n, std::int64_t first,
                                                     std::int64_t last, bool mixed, const F& f) noexcept {
    element_run run;
    run.own = g.plane_of(n, first);
    run.count = last - first;
    run.from_step = g.gradient[1];
    run.at_step = g.indices[1];
    const auto neighbours = [&](const shape::canonical_strides& s) { return s[1] == 1 && s[4] == run.count; };
    const auto follow = [&](const shape::canonical_strides& s) { return s[3] == g.small[2] * s[4]; };
    const bool joins = mixed && neighbours(g.gradient) && neighbours(g.indices);
    const bool lines = joins && follow(g.gradient) && follow(g.indices);
    if (joins) {
        run.turns = run.count;
        run.turn_step = static_cast<std::uint64_t>(g.index.per_channel);
        run.count *= lines ? g.small[1] * g.small[2] : g.small[2];
    } else {
        run.channel_step = 1;
        run.origin_step = static_cast<std::uint64_t>(g.index.per_channel);
    }
    const std::int64_t runs = joins ? 1 : g.small[2];  // of a line
    for (std::int64_t d = 0; d < g.small[0]; ++d)
        for (std::int64_t h = 0; h < g.small[1]; h += lines ? g.small[1] : 1) {
            begin_line(run, g, n, first, d, h);
            for (std::int64_t w = 0; w < runs; ++w, run.from += g.gradient[4], run.at += g.indices[4]) f(run);
        }
}

/// Calls f(run) for the elements of image n, channels [first, last), in ascending order of the windows. `mixed`: a run may
/// have elements of several windows and channels, as if of one channel: all that follow one another in memory.
template <class F>
GRADKERN_ALWAYS_INLINE void for_each_run(const scatter_plan& g, std::int64_t n, std::int64_t first, std::int64_t last,
                                         bool mixed, const F& f) noexcept {
    if (g.width == 1) {
        for_each_run_of_windows(g, n, first, f);
    } else {
        for_each_run_of_channels(g, n, first, last, mixed, f);
    }
}

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END
