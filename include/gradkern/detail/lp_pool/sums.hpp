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
#include <cstddef>
#include <cstdint>
#include <span>

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

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail::lp_pool {

/// Channels of a panel, and pixels of a block: a block of sums stays in L1.
inline constexpr std::int64_t panel_width = 4 * simd::lanes;
inline constexpr std::int64_t block_pixels = 16;

/// Whether tensors are read where they are, or from a packing buffer.
enum class reading : std::uint8_t { in_place, packed };

struct plan : problem {
    algorithm name = algorithm::automatic;
    reading how = reading::in_place;
    bool has_parts = false;
    std::int64_t panels = 0;
    std::int64_t at_totals = 0;  // byte offsets in a slice; sums are at 0
    std::int64_t at_src = 0;
    std::int64_t at_dst = 0;
    std::int64_t at_diff_dst = 0;
    std::int64_t slice_bytes = 0;

    /// A task is a line of outputs of a panel.
    [[nodiscard]] constexpr std::int64_t tasks() const noexcept {
        return channels == 0 ? 0 : batch * panels * out_extent(0) * out_extent(1);
    }
};

[[nodiscard]] constexpr plan make_plan(const problem& p, algorithm name) noexcept {
    plan g{p};
    g.name = name;
    g.how = name == algorithm::windows ? reading::in_place : reading::packed;
    g.has_parts = p.may_have_parts();
    g.panels = shape::ceil_div(p.channels, panel_width);
    if (g.tasks() == 0) return g;
    constexpr std::int64_t block = block_pixels * panel_width;
    const std::int64_t packed = g.how == reading::packed ? block : 0;
    const std::int64_t packed_backward = p.is_backward() ? packed : 0;
    slice_layout slice;
    slice.reserve<float>(block);
    g.at_totals = slice.reserve<double>(g.has_parts ? block : 0);
    g.at_src = slice.reserve<float>(packed);
    g.at_dst = slice.reserve<float>(packed_backward);
    g.at_diff_dst = slice.reserve<float>(packed_backward);
    g.slice_bytes = slice.bytes();
    return g;
}

/// Pixels `step` elements apart, `lanes` channels of each.
template <class T>
struct line {
    const T* first;
    std::int64_t step;

    [[nodiscard]] GRADKERN_ALWAYS_INLINE simd::vec load(std::int64_t pixel, std::int64_t lane,
                                                        std::int64_t lanes) const noexcept {
        const T* const from = first + pixel * step + lane;
        return lane + simd::lanes <= lanes ? simd::load_wide(from)
                                           : simd::load_wide_partial(from, static_cast<std::ptrdiff_t>(lanes - lane));
    }
};

/// sums[pixel] += src[pixel]^2.
template <class T>
void add_squares(const line<T>& src, std::int64_t pixels, std::int64_t lanes, float* sums) noexcept {
    for (std::int64_t i = 0; i < pixels; ++i, sums += panel_width) {
        for (std::int64_t j = 0; j < lanes; j += simd::lanes) {
            const simd::vec x = src.load(i, j, lanes);
            simd::store(sums + j, simd::add(simd::load(sums + j), simd::mul(x, x)));
        }
    }
}

/// sums[pixel] += diff_dst[pixel] * (src[pixel] / dst[pixel]), or 0 where dst is 0. No quotient by 0 is formed.
template <class T>
void add_shares(const line<T>& src, const line<T>& dst, const line<T>& diff_dst, std::int64_t pixels,
                std::int64_t lanes, float* sums) noexcept {
    const simd::vec zero = simd::zero();
    const simd::vec one = simd::broadcast(1.0F);
    for (std::int64_t i = 0; i < pixels; ++i, sums += panel_width) {
        for (std::int64_t j = 0; j < lanes; j += simd::lanes) {
            const simd::vec y = dst.load(i, j, lanes);
            const simd::mask is_zero = simd::equal_bits(simd::add(y, zero), zero);  // -0 + 0 is +0
            const simd::vec share = simd::div(src.load(i, j, lanes), simd::select(is_zero, one, y));
            const simd::vec term = simd::mul(diff_dst.load(i, j, lanes), share);
            simd::store(sums + j, simd::add(simd::load(sums + j), simd::select(is_zero, zero, term)));
        }
    }
}

/// One worker: computes tasks in its slice.
template <class T, shape::side Outputs>
class worker {
public:
    worker(const plan& g, const T* src, const T* dst, const T* diff_dst, T* out, std::byte* slice) noexcept
        : g_(g),
          src_(src),
          dst_(dst),
          diff_dst_(diff_dst),
          out_(out),
          sums_(array_at<float>(slice, 0)),
          totals_(array_at<double>(slice, g.at_totals)),
          packed_src_(array_at<float>(slice, g.at_src)),
          packed_dst_(array_at<float>(slice, g.at_dst)),
          packed_diff_dst_(array_at<float>(slice, g.at_diff_dst)) {}

    void run(std::int64_t task) noexcept {
        const std::int64_t h = task % g_.out_extent(1);
        task /= g_.out_extent(1);
        const std::int64_t d = task % g_.out_extent(0);
        task /= g_.out_extent(0);
        image_ = task / g_.panels;
        channel_ = task % g_.panels * panel_width;
        used_ = std::min(panel_width, g_.channels - channel_);
        depth_ = class_of(0, d);
        rows_ = class_of(1, h);
        shape::tap_class_walk walk(g_.axes[2], Outputs, 0, g_.out_extent(2));
        for (shape::tap_class c; walk.next(c);)
            for (std::int64_t i = 0; i < c.positions; i += block_pixels)
                compute_block(d, h, c, i, std::min(block_pixels, c.positions - i));
    }

private:
    static constexpr bool is_backward = Outputs == shape::side::large;

    [[nodiscard]] shape::tap_class class_of(std::size_t axis, std::int64_t position) const noexcept {
        shape::tap_class_walk walk(g_.axes[axis], Outputs, position, position + 1);
        shape::tap_class c;
        static_cast<void>(walk.next(c));
        return c;
    }

    /// Offset of this panel's channels of one pixel.
    [[nodiscard]] std::int64_t offset(const shape::canonical_strides& s, std::int64_t d, std::int64_t h,
                                      std::int64_t w) const noexcept {
        return image_ * s[0] + channel_ * s[1] + d * s[2] + h * s[3] + w * s[4];
    }

    /// Outputs [first, first + pixels) of class c of a line.
    void compute_block(std::int64_t d, std::int64_t h, const shape::tap_class& c, std::int64_t first,
                       std::int64_t pixels) noexcept {
        const std::int64_t floats = pixels * panel_width;
        own::fill_n(sums_, floats, 0.0F);
        if (g_.has_parts) own::fill_n(totals_, floats, 0.0);
        const std::int64_t w = c.first_position + first * c.position_step;
        const T* own_src = nullptr;
        if constexpr (is_backward) {
            own_src = src_ + offset(g_.src, d, h, w);
            if (g_.how == reading::packed) pack(own_src, g_.src, c.position_step, pixels, packed_src_);
        }
        std::int64_t left = pool_part;
        const std::int64_t from = c.first_read + first * c.read_per_position;
        for (std::int64_t i = 0; i < depth_.taps; ++i) {
            for (std::int64_t j = 0; j < rows_.taps; ++j) {
                for (std::int64_t k = 0; k < c.taps; ++k, --left) {
                    if (left == 0) {
                        close_part(floats);
                        left = pool_part;
                    }
                    add_tap(own_src, c, depth_.first_read + i * depth_.read_per_tap,
                            rows_.first_read + j * rows_.read_per_tap, from + k * c.read_per_tap, pixels);
                }
            }
        }
        if (g_.has_parts) {
            close_part(floats);
            for (std::int64_t i = 0; i < floats; ++i) sums_[i] = static_cast<float>(totals_[i]);
        }
        if constexpr (!is_backward)
            for (std::int64_t i = 0; i < floats; i += simd::lanes)
                simd::store(sums_ + i, simd::sqrt(simd::load(sums_ + i)));
        unpack_lanes(sums_, panel_width, used_, pixels, out_ + offset(g_.out(), d, h, w), g_.out()[1],
                     c.position_step * g_.out()[4], g_.accumulates());
    }

    /// Adds to each pixel of a block what its tap reads at (d, h, w), (d, h, w + read_per_position), ...
    void add_tap(const T* own_src, const shape::tap_class& c, std::int64_t d, std::int64_t h, std::int64_t w,
                 std::int64_t pixels) noexcept {
        const std::int64_t step = c.read_per_position;
        const std::int64_t lanes = g_.how == reading::packed ? packed_lanes() : used_;
        if constexpr (is_backward) {
            const T* const y = dst_ + offset(g_.dst, d, h, w);
            const T* const dy = diff_dst_ + offset(g_.diff_dst, d, h, w);
            if (g_.how == reading::in_place) {
                add_shares<T>({own_src, c.position_step * g_.src[4]}, {y, step * g_.dst[4]},
                              {dy, step * g_.diff_dst[4]}, pixels, lanes, sums_);
                return;
            }
            pack(y, g_.dst, step, pixels, packed_dst_);
            pack(dy, g_.diff_dst, step, pixels, packed_diff_dst_);
            add_shares<float>({packed_src_, panel_width}, {packed_dst_, panel_width}, {packed_diff_dst_, panel_width},
                              pixels, lanes, sums_);
        } else {
            const T* const x = src_ + offset(g_.src, d, h, w);
            if (g_.how == reading::in_place) {
                add_squares<T>({x, step * g_.src[4]}, pixels, lanes, sums_);
                return;
            }
            pack(x, g_.src, step, pixels, packed_src_);
            add_squares<float>({packed_src_, panel_width}, pixels, lanes, sums_);
        }
    }

    /// Whole vectors: lanes without a channel hold zeros.
    [[nodiscard]] std::int64_t packed_lanes() const noexcept {
        return shape::ceil_div(used_, static_cast<std::int64_t>(simd::lanes)) * simd::lanes;
    }
    /// Packs pixels that lie `step` columns apart as [pixel][panel_width].
    void pack(const T* from, const shape::canonical_strides& s, std::int64_t step, std::int64_t pixels,
              float* to) const noexcept {
        pack_lanes(from, s[1], used_, step * s[4], pixels, to, panel_width);
        clear_lanes(used_, packed_lanes(), pixels, to, panel_width);
    }
    /// Adds the sums to the totals, and lets them start from zero.
    void close_part(std::int64_t floats) noexcept {
        for (std::int64_t i = 0; i < floats; ++i) totals_[i] += static_cast<double>(sums_[i]);
        own::fill_n(sums_, floats, 0.0F);
    }

    const plan& g_;
    const T* src_;
    const T* dst_;
    const T* diff_dst_;
    T* out_;
    float* sums_;
    double* totals_;
    float* packed_src_;
    float* packed_dst_;
    float* packed_diff_dst_;
    std::int64_t image_ = 0;
    std::int64_t channel_ = 0;  // first of the panel
    std::int64_t used_ = 0;     // channels of the panel
    shape::tap_class depth_{};
    shape::tap_class rows_{};
};

/// Runs a plan over typed tensors. All checks have passed.
template <shape::side Outputs, class T>
void run_plan(const plan& g, const T* src, const T* dst, const T* diff_dst, T* out, std::span<std::byte> workspace,
              executor_ref executor) noexcept {
    run_tasks(executor, g.tasks(), slices(workspace, g.slice_bytes), [&](std::byte* slice, const auto& next) {
        worker<T, Outputs> w(g, src, dst, diff_dst, out, slice);
        for (std::int64_t task = next(); task >= 0; task = next()) w.run(task);
    });
}

}  // namespace detail::lp_pool
GRADKERN_ISA_NAMESPACE_END
