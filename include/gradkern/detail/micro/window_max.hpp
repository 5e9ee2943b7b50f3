// The micro-kernel of max pooling: the largest element of each window of a run, and where it was. Lanes are channels.
//
// The maximum's linear offset is a number of the caller's making, affine in the window and in its taps. It is carried through the
// lanes in the bits of a float or double, which selects move unchanged: numbers below 2^30 are never the bits of a NaN.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include <gradkern/detail/config.hpp>
#include <gradkern/detail/micro/prefetch.hpp>
#include <gradkern/detail/own.hpp>
#include <gradkern/detail/simd.hpp>
#include <gradkern/detail/target.hpp>
#include <gradkern/half.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail {

inline constexpr std::int64_t offset_limit = std::int64_t{1} << 30;
/// The offset of a window without inside taps.
inline constexpr std::uint32_t no_offset = 0x7fffffff;

/// Integers in the bits of a number, as those of lanes.
template <class Real>
using bits_type = std::conditional_t<sizeof(Real) == sizeof(std::uint32_t), std::uint32_t, std::uint64_t>;
template <class Real>
[[nodiscard]] GRADKERN_ALWAYS_INLINE Real from_bits(std::int64_t bits) noexcept {
    return own::bit_cast<Real>(static_cast<bits_type<Real>>(bits));
}
template <class Real>
[[nodiscard]] GRADKERN_ALWAYS_INLINE bits_type<Real> to_bits(Real number) noexcept {
    return own::bit_cast<bits_type<Real>>(number);
}

/// Windows that follow one another and have the same inside taps.
struct window_run {
    std::array<std::int64_t, 3> taps{};         // inside taps per axis
    std::array<std::int64_t, 3> read_step{};    // elements of the source from tap to tap
    std::array<std::int64_t, 3> offset_step{};  // offsets from tap to tap
    std::int64_t windows = 0;
    std::int64_t window_read = 0;           // elements from window to window
    std::int64_t window_offset = 0;         // offsets from window to window
    std::int64_t first_offset = 0;          // of the first tap of the first window
    prefetch prefetching = prefetch::none;  // of what later windows read
};

/// The number of each lane, as bits of floats.
template <class Real>
inline constexpr auto lane_bits = [] {
    std::array<Real, static_cast<std::size_t>(simd::lanes_of<Real>)> bits{};
    for (std::size_t i = 0; i < bits.size(); ++i) bits[i] = own::bit_cast<Real>(static_cast<bits_type<Real>>(i));
    return bits;
}();

/// Where indices of neighbouring channels go as soon as they are found: first + offset, and the channel where it counts.
/// (-1 of windows without inside taps: window_max_of_none.)
struct index_store {
    std::int64_t* to = nullptr;  // nowhere: offsets are kept
    std::int64_t step = 0;       // from window to window
    std::int64_t first = 0;
    bool channels = false;

    [[nodiscard]] GRADKERN_ALWAYS_INLINE index_store at(std::int64_t window, std::int64_t channel) const noexcept {
        if (to == nullptr) return {};
        return {to + (window * step + channel), step, first + (channels ? channel : 0), channels};
    }
    /// Stores the first `used` lanes.
    template <class Real>
    GRADKERN_ALWAYS_INLINE void put(simd::vec_of<Real> offsets, std::ptrdiff_t used) const noexcept {
        const simd::vec_of<Real> bits =
            channels ? simd::add_bits(offsets, simd::load(lane_bits<Real>.data())) : offsets;
        if (used >= simd::lanes_of<Real>) return simd::store_bits_plus(to, bits, first);
        std::array<std::int64_t, static_cast<std::size_t>(simd::lanes_of<Real>)> wide;
        simd::store_bits_plus(wide.data(), bits, first);
        own::copy_n(wide.data(), used, to);
    }
};

/// Where the results of a run go: values, and offsets as bits of floats (low 30 bits, and the rest where it is wanted).
template <class O>
struct window_results_of {
    using Real = accumulate_t<O>;
    O* value;
    Real* offset;
    Real* offset_high;
    std::int64_t value_step;  // elements from window to window
    std::int64_t offset_step;
    index_store index{};

    /// From a window and a channel on.
    [[nodiscard]] GRADKERN_ALWAYS_INLINE window_results_of at(std::int64_t window,
                                                              std::int64_t channel) const noexcept {
        const std::int64_t there = window * offset_step + channel;
        return {value + (window * value_step + channel),
                offset + there,
                offset_high == nullptr ? nullptr : offset_high + there,
                value_step,
                offset_step,
                index.at(window, channel)};
    }
    /// The offset in element i; -1 for a window without inside taps.
    [[nodiscard]] GRADKERN_ALWAYS_INLINE std::int64_t offset_at(std::int64_t i) const noexcept {
        const auto low = static_cast<std::int64_t>(to_bits(offset[i]));
        if (low == no_offset) return -1;
        if (offset_high == nullptr) return low;
        return low + offset_limit * static_cast<std::int64_t>(to_bits(offset_high[i]));
    }
};
using window_results = window_results_of<float>;

/// One step: whether a tap's element replaces the best one so far. NaN wins, or loses against any number.
template <bool ignore_nan, class Real>
[[nodiscard]] GRADKERN_ALWAYS_INLINE simd::mask_of<Real> takes(simd::vec_of<Real> x, simd::vec_of<Real> best) noexcept {
    if constexpr (ignore_nan) {
        return simd::either(simd::greater(x, best), simd::but_not(simd::is_nan(best), simd::is_nan(x)));
    } else {
        return simd::either(simd::greater(x, best), simd::is_nan(x));
    }
}

template <class Real>
[[nodiscard]] GRADKERN_ALWAYS_INLINE simd::vec_of<Real> broadcast_bits(std::int64_t bits) noexcept {
    return simd::broadcast(from_bits<Real>(bits));
}

/// One of the inside taps of a run's windows, in row-major order.
struct window_tap {
    std::int64_t d = 0;
    std::int64_t h = 0;
    std::int64_t w = 0;
    [[nodiscard]] std::int64_t number(const std::array<std::int64_t, 3>& steps) const noexcept {
        return d * steps[0] + h * steps[1] + w * steps[2];
    }
    void next(const window_run& r) noexcept {
        if (++w < r.taps[2]) return;
        w = 0;
        if (++h < r.taps[1]) return;
        h = 0;
        ++d;
    }
};

/// The inside taps of a window, in order: where they are, and their offsets, both counted from the first one. Most windows have
/// all their taps in a list: one loop over it, in which compilers keep in registers what is compared.
template <class Real>
class window_taps {
public:
    explicit window_taps(const window_run& r) noexcept : run_(r) {
        for (; count_ < most && unlisted_.d < r.taps[0]; unlisted_.next(r)) {
            reads_[count_] = unlisted_.number(r.read_step);
            offsets_[count_++] = from_bits<Real>(unlisted_.number(r.offset_step));
        }
    }

    /// Calls f(element, offset in all lanes) for the taps behind the first.
    template <class F>
    GRADKERN_ALWAYS_INLINE void for_each_other(const F& f) const noexcept {
        for (std::size_t i = 1; i < count_; ++i) f(reads_[i], simd::keep(simd::broadcast(offsets_[i])));
        if (unlisted_.d == run_.taps[0]) [[likely]]
            return;
        for (window_tap t = unlisted_; t.d < run_.taps[0]; t.next(run_))
            f(t.number(run_.read_step), simd::keep(broadcast_bits<Real>(t.number(run_.offset_step))));
    }

private:
    static constexpr std::size_t most = 64;
    const window_run& run_;
    window_tap unlisted_;  // the first
    std::size_t count_ = 0;
    std::array<std::int64_t, most> reads_;
    std::array<Real, most> offsets_;
};

/// How V vectors lie behind one another: neighbouring channels of one window, or the same ones of neighbouring windows.
template <class Real>
struct vector_steps {
    std::ptrdiff_t read = simd::lanes_of<Real>;  // elements
    std::ptrdiff_t value = simd::lanes_of<Real>;
    std::ptrdiff_t offset = simd::lanes_of<Real>;
    std::int64_t window_offset = 0;  // added to offsets from vector to vector
    bool windows = false;            // vectors are windows, not channels
    bool prefetch = false;           // of neighbouring channels: what later windows read
};

/// Stores the results of V vectors with `used` lanes.
template <std::size_t V, class O, class Real>
GRADKERN_ALWAYS_INLINE void store_windows(const std::array<simd::vec_of<Real>, V>& best,
                                          const std::array<simd::vec_of<Real>, V>& best_offset,
                                          simd::vec_of<Real> first_offset, const vector_steps<Real>& step,
                                          std::ptrdiff_t used, const window_results_of<O>& to) noexcept {
    GRADKERN_UNROLL
    for (std::size_t v = 0; v < V; ++v) {
        const auto n = static_cast<std::ptrdiff_t>(v);
        if (used >= simd::lanes_of<Real>) {
            simd::store_narrow(to.value + n * step.value, best[v]);
        } else {
            simd::store_narrow_partial(to.value + n * step.value, best[v], used);
        }
        const simd::vec_of<Real> offsets = simd::add_bits(first_offset, best_offset[v]);
        if (to.index.to != nullptr) {
            (step.windows ? to.index.at(n, 0) : to.index.at(0, n * simd::lanes_of<Real>)).put(offsets, used);
        } else {
            simd::store(to.offset + n * step.offset, offsets);
        }
        if (step.window_offset != 0)
            first_offset = simd::add_bits(first_offset, broadcast_bits<Real>(step.window_offset));
    }
}

/// V vectors of windows, the first of which has its first tap at `first`; each has `used` lanes.
template <class T, std::size_t V, bool ignore_nan, class O, class Real>
GRADKERN_ALWAYS_INLINE void window_max_of(const window_taps<Real>& taps, const T* first, const vector_steps<Real>& step,
                                          std::ptrdiff_t used, simd::vec_of<Real> first_offset,
                                          const window_results_of<O>& to) noexcept {
    const auto load = [&](const T* at, std::size_t v) GRADKERN_INLINE_LAMBDA {
        const T* const from = at + static_cast<std::ptrdiff_t>(v) * step.read;
        return used >= simd::lanes_of<Real> ? simd::load_wide(from) : simd::load_wide_partial(from, used);
    };
    // Between comparisons: all at a time they would wait for one another.
    const auto prefetch = [&](const T* at) GRADKERN_INLINE_LAMBDA {
        if (step.prefetch)
            simd::prefetch_stream<target.prefetch.window_row>(at,
                                                              static_cast<std::ptrdiff_t>(V) * simd::lanes_of<Real>);
    };
    std::array<simd::vec_of<Real>, V> best;
    std::array<simd::vec_of<Real>, V> best_offset;
    prefetch(first);
    GRADKERN_UNROLL
    for (std::size_t v = 0; v < V; ++v) {
        best[v] = load(first, v);
        best_offset[v] = simd::zero<Real>();
    }
    taps.for_each_other([&](std::int64_t read, simd::vec_of<Real> here) GRADKERN_INLINE_LAMBDA {
        prefetch(first + read);
        GRADKERN_UNROLL
        for (std::size_t v = 0; v < V; ++v) {
            const simd::vec_of<Real> x = load(first + read, v);
            const simd::mask_of<Real> m = takes<ignore_nan>(x, best[v]);
            best[v] = simd::select(m, x, best[v]);
            best_offset[v] = simd::select(m, here, best_offset[v]);
        }
    });
    store_windows<V>(best, best_offset, first_offset, step, used, to);
}

/// `used` neighbouring channels. Offsets stay below offset_limit. All channels of a window come before the next window, so
/// that memory is read in order.
template <class T, bool ignore_nan, class O>
void window_max(const window_run& r, const T* source, std::ptrdiff_t used, const window_results_of<O>& to) noexcept {
    using Real = accumulate_t<T>;
    constexpr std::ptrdiff_t lanes = simd::lanes_of<Real>;
    const window_taps<Real> taps(r);
    std::int64_t i = 0;
    // Few channels: four windows at a time, so that compilers have as many vectors to compare.
    const vector_steps<Real> neighbours{r.window_read, to.value_step, to.offset_step, r.window_offset, true};
    for (; used < 4 * lanes && i + 4 <= r.windows; i += 4) {
        const simd::vec_of<Real> first_offset = broadcast_bits<Real>(r.first_offset + i * r.window_offset);
        const auto compute = [&](std::ptrdiff_t j, std::ptrdiff_t n) GRADKERN_INLINE_LAMBDA {
            window_max_of<T, 4, ignore_nan>(taps, source + i * r.window_read + j, neighbours, n, first_offset,
                                            to.at(i, j));
        };
        std::ptrdiff_t j = 0;
        for (; used - j >= lanes; j += lanes) compute(j, lanes);
        if (j < used) compute(j, used - j);
    }
    vector_steps<Real> channels;
    channels.prefetch = target.quirk.prefetch_streams && r.prefetching == prefetch::ahead;
    for (; i < r.windows; ++i) {
        const T* const first = source + i * r.window_read;
        const simd::vec_of<Real> first_offset = broadcast_bits<Real>(r.first_offset + i * r.window_offset);
        std::ptrdiff_t j = 0;
        for (; used - j >= 4 * lanes; j += 4 * lanes) {
            window_max_of<T, 4, ignore_nan>(taps, first + j, channels, lanes, first_offset, to.at(i, j));
        }
        for (; j < used; j += lanes)
            window_max_of<T, 1, ignore_nan>(taps, first + j, vector_steps<Real>{}, std::min(used - j, lanes),
                                            first_offset, to.at(i, j));
    }
}

/// The results of one row of taps of each window of a line, as window_max has left them.
template <class Real>
struct row_results {
    const Real* value;
    const Real* offset;         // within the row
    std::int64_t first_offset;  // of the row
};

/// One window from the results of its rows, which are `at` floats on.
template <std::size_t V, bool ignore_nan, class Real, class O>
GRADKERN_ALWAYS_INLINE void max_of_rows_of(std::span<const row_results<Real>> rows, std::int64_t at,
                                           std::ptrdiff_t used, const window_results_of<O>& to) noexcept {
    std::array<simd::vec_of<Real>, V> best;
    std::array<simd::vec_of<Real>, V> best_offset;
    const auto load = [&](const Real* from, std::size_t v) GRADKERN_INLINE_LAMBDA {
        return simd::load(from + at + static_cast<std::ptrdiff_t>(v) * simd::lanes_of<Real>);
    };
    const simd::vec_of<Real> first_offset = broadcast_bits<Real>(rows[0].first_offset);
    GRADKERN_UNROLL
    for (std::size_t v = 0; v < V; ++v) {
        best[v] = load(rows[0].value, v);
        best_offset[v] = simd::add_bits(first_offset, load(rows[0].offset, v));
    }
    for (const row_results<Real>& row : rows.subspan(1)) {
        const simd::vec_of<Real> row_offset = broadcast_bits<Real>(row.first_offset);
        GRADKERN_UNROLL
        for (std::size_t v = 0; v < V; ++v) {
            const simd::vec_of<Real> x = load(row.value, v);
            const simd::mask_of<Real> m = takes<ignore_nan>(x, best[v]);
            best[v] = simd::select(m, x, best[v]);
            best_offset[v] = simd::select(m, simd::add_bits(row_offset, load(row.offset, v)), best_offset[v]);
        }
    }
    store_windows<V>(best, best_offset, simd::zero<Real>(), vector_steps<Real>{}, V > 1 ? simd::lanes_of<Real> : used,
                     to);
}

/// `windows` windows, `used` neighbouring channels of each, from the results of their rows in the order of the taps:
/// the first row with the largest maximum holds the first maximum, the last row with a NaN the last NaN. The results of
/// a row are whole vectors, `step` floats from window to window.
template <bool ignore_nan, class Real, class O>
void max_of_rows(std::span<const row_results<Real>> rows, std::int64_t windows, std::int64_t step, std::ptrdiff_t used,
                 const window_results_of<O>& to) noexcept {
    constexpr std::ptrdiff_t lanes = simd::lanes_of<Real>;
    for (std::int64_t i = 0; i < windows; ++i) {
        std::ptrdiff_t j = 0;
        for (; used - j >= 4 * lanes; j += 4 * lanes)
            max_of_rows_of<4, ignore_nan>(rows, i * step + j, 4 * lanes, to.at(i, j));
        for (; j < used; j += lanes) max_of_rows_of<1, ignore_nan>(rows, i * step + j, used - j, to.at(i, j));
    }
}

/// One vector of channels `lane_step` apart, of which `used` exist; offsets of 60 bits. Slow, and without any limit.
template <class T, bool ignore_nan>
void window_max_strided(const window_run& r, const T* source, std::int64_t lane_step, std::ptrdiff_t used,
                        const window_results_of<accumulate_t<T>>& to) noexcept {
    using Real = accumulate_t<T>;
    const auto load = [&](const T* at) GRADKERN_INLINE_LAMBDA {
        std::array<T, static_cast<std::size_t>(simd::lanes_of<Real>)> lanes{};
        for (std::ptrdiff_t j = 0; j < used; ++j) lanes[static_cast<std::size_t>(j)] = at[j * lane_step];
        return simd::load_wide(lanes.data());
    };
    for (std::int64_t i = 0; i < r.windows; ++i) {
        const T* const first = source + i * r.window_read;
        const std::int64_t first_offset = r.first_offset + i * r.window_offset;
        simd::vec_of<Real> best = load(first);
        simd::vec_of<Real> low = broadcast_bits<Real>(first_offset % offset_limit);
        simd::vec_of<Real> high = broadcast_bits<Real>(first_offset / offset_limit);
        for (window_tap t; t.d < r.taps[0]; t.next(r)) {
            const simd::vec_of<Real> x = load(first + t.number(r.read_step));
            const simd::mask_of<Real> m = takes<ignore_nan>(x, best);
            const std::int64_t here = first_offset + t.number(r.offset_step);
            best = simd::select(m, x, best);
            low = simd::select(m, broadcast_bits<Real>(here % offset_limit), low);
            high = simd::select(m, broadcast_bits<Real>(here / offset_limit), high);
        }
        simd::store(to.value + i * to.value_step, best);
        simd::store(to.offset + i * to.offset_step, low);
        simd::store(to.offset_high + i * to.offset_step, high);
    }
}

/// Windows without inside taps: -Inf, and no offset.
template <class O>
void window_max_of_none(const window_run& r, std::ptrdiff_t lanes, const window_results_of<O>& to) noexcept {
    using Real = accumulate_t<O>;
    for (std::int64_t i = 0; i < r.windows; ++i) {
        for (std::ptrdiff_t j = 0; j < lanes; ++j) {
            store_element(to.value + i * to.value_step + j, -own::infinity<Real>);
            if (to.index.to != nullptr) {
                to.index.to[i * to.index.step + j] = -1;
            } else {
                to.offset[i * to.offset_step + j] = from_bits<Real>(no_offset);
            }
        }
    }
}

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END
