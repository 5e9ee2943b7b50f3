// Paths `windows` and `windows_packed` of the engine of Lp pools: a block of outputs adds what it reads, tap by tap.
//
//     loops         task > class of columns with the same taps > block of pixels > depth > row > tap > pixel > vector
//     lanes         channels
//     taken when    windows: channels are neighbours in all tensors that are read; windows_packed: else
//     gain          no more scratch than a block of pixels, whatever windows are like
//     zoo           none yet
//     delete when   a path keeps sums in registers for all windows
//
// The order of a sum is row-major over the taps inside (forward), or over the windows that reach the pixel (backward), in parts
// (order/summation.hpp). Products are rounded before they are added: the bits are the same without fused multiply-adds.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include <gradkern/detail/config.hpp>
#include <gradkern/detail/lp_pool/problem.hpp>
#include <gradkern/detail/order/summation.hpp>
#include <gradkern/detail/own.hpp>
#include <gradkern/detail/pack/panels.hpp>
#include <gradkern/detail/run/tasks.hpp>
#include <gradkern/detail/simd.hpp>
#include <gradkern/executor.hpp>
#include <gradkern/options.hpp>
#include <gradkern/shape/axis.hpp>
#include <gradkern/shape/checked.hpp>
#include <gradkern/shape/layout.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail::lp_pool {

/// Channels of a panel, and pixels of a block: a block of sums stays in L1.
[[nodiscard]] constexpr std::int64_t panel_width(std::int64_t lanes) noexcept { return 4 * lanes; }
inline constexpr std::int64_t block_pixels = 16;

struct plan : problem {
    algorithm name = algorithm::automatic;
    bool has_parts = false;
    std::int64_t panels = 0;
    std::int64_t at_totals = 0;  // byte offsets in a slice; sums are at 0
    std::int64_t at_packed = 0;  // a block of each tensor that is read
    std::int64_t slice_bytes = 0;

    [[nodiscard]] constexpr bool is_packed() const noexcept { return name == algorithm::windows_packed; }
    /// A task is a line of outputs of a panel.
    [[nodiscard]] constexpr std::int64_t tasks() const noexcept {
        return channels == 0 ? 0 : batch * panels * out_extent(0) * out_extent(1);
    }
};

[[nodiscard]] constexpr plan make_plan(const problem& p, algorithm name) noexcept {
    plan g{p, name, many_terms_meet(p.axes, p.outputs), shape::ceil_div(p.channels, panel_width(p.real.lanes))};
    if (g.tasks() == 0) return g;
    const std::int64_t block = block_pixels * panel_width(p.real.lanes);
    slice_layout slice;
    slice.reserve(block, p.real.bytes);
    g.at_totals = slice.reserve<double>(g.has_parts ? block : 0);
    g.at_packed = slice.reserve(!g.is_packed() ? 0 : g.is_backward() ? 3 * block : block, p.real.bytes);
    g.slice_bytes = slice.bytes();
    return g;
}

/// `count` pixels of a line, `step` columns apart.
struct pixel_run {
    std::int64_t d;
    std::int64_t h;
    std::int64_t w;
    std::int64_t step;
    std::int64_t count;
};

/// Pixels `step` elements apart, `lanes` channels of each.
template <class T>
struct line {
    const T* first;
    std::int64_t step;

    [[nodiscard]] GRADKERN_ALWAYS_INLINE simd::wide_vec<T> load(std::int64_t pixel, std::int64_t lane,
                                                                std::int64_t lanes) const noexcept {
        const T* const from = first + pixel * step + lane;
        return lane + simd::wide_lanes<T> <= lanes
                   ? simd::load_wide(from)
                   : simd::load_wide_partial(from, static_cast<std::ptrdiff_t>(lanes - lane));
    }
};

/// One worker: computes tasks in its slice.
template <class T, shape::side outputs>
class worker {
public:
    worker(const plan& g, const std::array<const T*, 3>& in, T* out, std::byte* slice) noexcept
        : g_(g),
          in_(in),
          out_(out),
          sums_(array_at<accumulate_t<T>>(slice, 0)),
          totals_(array_at<double>(slice, g.at_totals)),
          packed_(array_at<accumulate_t<T>>(slice, g.at_packed)) {}

    void run(std::int64_t task) noexcept {
        const std::int64_t h = task % g_.out_extent(1);
        const std::int64_t d = task / g_.out_extent(1) % g_.out_extent(0);
        const std::int64_t panel = task / (g_.out_extent(1) * g_.out_extent(0));
        image_ = panel / g_.panels;
        channel_ = panel % g_.panels * width;
        used_ = std::min(width, g_.channels - channel_);
        // Vectors of a packed block are whole: lanes without a channel hold zeros.
        lanes_ =
            g_.is_packed() ? shape::ceil_div(used_, std::int64_t{simd::wide_lanes<T>}) * simd::wide_lanes<T> : used_;
        static_cast<void>(shape::tap_class_walk(g_.axes[0], outputs, d, d + 1).next(depth_));
        static_cast<void>(shape::tap_class_walk(g_.axes[1], outputs, h, h + 1).next(rows_));
        shape::tap_class_walk walk(g_.axes[2], outputs, 0, g_.out_extent(2));
        for (shape::tap_class c; walk.next(c);)
            for (std::int64_t i = 0; i < c.positions; i += block_pixels) {
                const pixel_run to{d, h, c.first_position + i * c.position_step, c.position_step,
                                   std::min(block_pixels, c.positions - i)};
                const std::int64_t read = c.first_read + i * c.read_per_position;
                g_.is_packed() ? compute_block<accumulate_t<T>>(to, c, read) : compute_block<T>(to, c, read);
            }
    }

private:
    static constexpr bool is_backward = outputs == shape::side::large;
    static constexpr std::int64_t width = panel_width(simd::wide_lanes<T>);

    /// Offset of this panel's channels of the first pixel.
    [[nodiscard]] std::int64_t offset(const shape::canonical_strides& s, const pixel_run& r) const noexcept {
        return image_ * s[0] + channel_ * s[1] + r.d * s[2] + r.h * s[3] + r.w * s[4];
    }

    /// What elements of type E are read from: tensor i, or what is packed of it.
    template <class E>
    [[nodiscard]] GRADKERN_ALWAYS_INLINE line<E> read(std::size_t i, const pixel_run& r) const noexcept {
        const shape::canonical_strides& s = g_.in[i];
        const T* const from = in_[i] + offset(s, r);
        const line<T> in_place{from, r.step * s[4]};
        if constexpr (!std::is_same_v<E, accumulate_t<T>>) {
            return in_place;
        } else {
            if constexpr (simd::is_wide<T>)
                if (!g_.is_packed()) return in_place;
            accumulate_t<T>* const to = packed_ + static_cast<std::int64_t>(i) * block_pixels * width;
            pack_lanes(from, s[1], used_, in_place.step, r.count, to, width);
            clear_lanes(used_, lanes_, r.count, to, width);
            return {to, width};
        }
    }

    /// The outputs `to` of class c, whose first taps read from column `column` on.
    template <class E>
    void compute_block(const pixel_run& to, const shape::tap_class& c, std::int64_t column) noexcept {
        const std::int64_t floats = to.count * width;
        own::fill_n(sums_, floats, accumulate_t<T>{0});
        if (g_.has_parts) own::fill_n(totals_, floats, 0.0);
        line<E> x{};
        if constexpr (is_backward) x = read<E>(0, to);
        std::int64_t left = pool_part;
        for (std::int64_t i = 0; i < depth_.taps; ++i) {
            for (std::int64_t j = 0; j < rows_.taps; ++j) {
                for (std::int64_t k = 0; k < c.taps; ++k, --left) {
                    if (left == 0) {
                        close_part(floats);
                        left = pool_part;
                    }
                    add_tap(x, {depth_.first_read + i * depth_.read_per_tap, rows_.first_read + j * rows_.read_per_tap,
                                column + k * c.read_per_tap, c.read_per_position, to.count});
                }
            }
        }
        if (g_.has_parts) {
            close_part(floats);
            for (std::int64_t i = 0; i < floats; ++i) sums_[i] = static_cast<accumulate_t<T>>(totals_[i]);
        }
        if constexpr (!is_backward)
            for (std::int64_t i = 0; i < floats; i += simd::wide_lanes<T>)
                simd::store(sums_ + i, simd::sqrt(simd::load(sums_ + i)));
        unpack_lanes(sums_, width, used_, to.count, out_ + offset(g_.out, to), g_.out[1], to.step * g_.out[4],
                     g_.output == output_mode::accumulate);
    }

    /// Adds to each pixel of a block what its tap reads: src^2, or diff_dst * (src / dst), where x is the pixel of src itself,
    /// and 0 where dst is 0. No quotient by 0 is formed.
    template <class E>
    void add_tap(line<E> x, const pixel_run& from) noexcept {
        const std::int64_t pixels = from.count;
        const std::int64_t lanes = lanes_;
        const auto add = [&](const auto& term) GRADKERN_INLINE_LAMBDA {
            accumulate_t<T>* sums = sums_;
            for (std::int64_t i = 0; i < pixels; ++i, sums += width)
                for (std::int64_t j = 0; j < lanes; j += simd::wide_lanes<T>)
                    simd::store(sums + j, simd::add(simd::load(sums + j), term(i, j)));
        };
        if constexpr (is_backward) {
            const line<E> dst = read<E>(1, from);
            const line<E> diff_dst = read<E>(2, from);
            const simd::wide_vec<T> zero = simd::zero<accumulate_t<T>>();
            const simd::wide_vec<T> one = simd::broadcast(accumulate_t<T>{1});
            add([&](std::int64_t i, std::int64_t j) GRADKERN_INLINE_LAMBDA {
                const simd::wide_vec<T> y = dst.load(i, j, lanes);
                const simd::mask_of<accumulate_t<T>> is_zero =
                    simd::equal_bits(simd::add(y, zero), zero);  // -0 + 0 is +0
                const simd::wide_vec<T> share = simd::div(x.load(i, j, lanes), simd::select(is_zero, one, y));
                return simd::select(is_zero, zero, simd::mul(diff_dst.load(i, j, lanes), share));
            });
        } else {
            const line<E> src = read<E>(0, from);
            add([&](std::int64_t i, std::int64_t j) GRADKERN_INLINE_LAMBDA {
                const simd::wide_vec<T> v = src.load(i, j, lanes);
                return simd::mul(v, v);
            });
        }
    }
    /// Adds the sums to the totals, and lets them start from zero.
    void close_part(std::int64_t floats) noexcept {
        for (std::int64_t i = 0; i < floats; ++i) totals_[i] += static_cast<double>(sums_[i]);
        own::fill_n(sums_, floats, accumulate_t<T>{0});
    }

    const plan& g_;
    std::array<const T*, 3> in_;
    T* out_;
    accumulate_t<T>* sums_;
    double* totals_;
    accumulate_t<T>* packed_;
    std::int64_t image_ = 0;
    std::int64_t channel_ = 0;  // first of the panel
    std::int64_t used_ = 0;     // channels of the panel
    std::int64_t lanes_ = 0;    // that are computed
    shape::tap_class depth_{};
    shape::tap_class rows_{};
};

/// Runs a plan over typed tensors. All checks have passed.
template <shape::side outputs, class T>
void run_plan(const plan& g, const std::array<const T*, 3>& in, T* out, std::span<std::byte> workspace,
              executor_ref executor) noexcept {
    for_each_task(executor, g.tasks(), slices(workspace, g.slice_bytes),
                  [&](std::byte* slice, std::int64_t task) { worker<T, outputs>(g, in, out, slice).run(task); });
}

}  // namespace detail::lp_pool
GRADKERN_ISA_NAMESPACE_END
