// The sums of the gradient in scatter form: scratch that slides along a box, a few slices at a time.
//
// Loops: windows in ascending order (scatter_form.hpp) > where one reaches a slice that is not buffered: write the slices that no
// window to come reaches, move the others to the front, clear (and pack) newly reached ones.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include <gradkern/detail/axes/collapse.hpp>
#include <gradkern/detail/axes/span.hpp>
#include <gradkern/detail/config.hpp>
#include <gradkern/detail/max_pool/gradient.hpp>
#include <gradkern/detail/max_pool/window_plan.hpp>
#include <gradkern/detail/order/summation.hpp>
#include <gradkern/detail/own.hpp>
#include <gradkern/detail/pack/panels.hpp>
#include <gradkern/detail/pack/staging.hpp>
#include <gradkern/detail/run/boxes.hpp>
#include <gradkern/options.hpp>
#include <gradkern/shape/axis.hpp>
#include <gradkern/shape/check.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail {

struct scatter_form_plan : gradient_plan {
    sum_type sums = sum_type::f32;
    std::int64_t sum_width = 0;  // sums of a pixel
    std::int64_t buffered = 0;   // slices at a time
};

/// How many of `extent` neighbouring slices, and of what else their windows read, are buffered at least: what two windows cover.
[[nodiscard]] constexpr std::int64_t least_slices(const shape::axis& a, std::int64_t extent) noexcept {
    const std::int64_t hull = hull_at_most(a, extent);
    return a.reach() >= a.large ? hull : std::min(hull, 2 * (a.reach() + 1));
}

/// The slices of a box that scratch buffers: their sums, and the elements of src where those are packed.
template <class T, class Sum>
class scatter_slices {
public:
    scatter_slices(const scatter_form_plan& s, const box_grid::item& box, std::int64_t used, Sum* sums,
                   float* packed) noexcept
        : plan_(s), box_(box), used_(used), sums_(sums), packed_(packed) {
        hull_.images = 1;
        hull_.channels = s.sum_width;
        for (std::size_t i = 0; i < 3; ++i) {
            const position_range h = is_strided() ? position_range{box.first[i], box.last[i]}
                                                  : hull_of(s.axes[i], box.first[i], box.last[i]);
            hull_.first[i] = h.first;
            hull_.extent[i] = h.last - h.first;
        }
        end_ = hull_.first[s.slide] + hull_.extent[s.slide];
        hull_.extent[s.slide] = 0;
    }

    /// What is buffered.
    [[nodiscard]] const staging_box& hull() const noexcept { return hull_; }

    /// Buffers the slices that these windows reach; windows to come reach none before them. `source`
    /// and `to`: element of the panel's first channel at the image's origin.
    void reach(const T* source, T* to, std::int64_t first_window, std::int64_t last_window) noexcept {
        const shape::axis& a = plan_.axes[plan_.slide];
        const std::int64_t first = hull_.first[plan_.slide];
        std::int64_t begin = first;
        std::int64_t end = end_;
        if (!is_strided()) {
            begin = std::max(begin, a.position(first_window, 0));
            end = std::min(end, a.window_end(last_window - 1));
        }
        if (end > first + hull_.extent[plan_.slide]) advance(source, to, begin);
    }
    /// Writes all that has not been written.
    void finish(const T* source, T* to) noexcept { advance(source, to, end_); }

private:
    [[nodiscard]] bool is_strided() const noexcept { return plan_.access == window_access::strided; }

    /// Writes the slices before `begin`, and buffers those from there on: in several rounds where a stride steps over more
    /// slices than are buffered, which are written as zeros.
    void advance(const T* source, T* to, std::int64_t begin) noexcept {
        std::int64_t& first = hull_.first[plan_.slide];
        std::int64_t& extent = hull_.extent[plan_.slide];
        const bool is_packed = plan_.access == window_access::packed;
        for (;;) {
            const std::int64_t slice = plan_.slide == 0   ? hull_.extent[1] * hull_.extent[2] * hull_.channels
                                       : plan_.slide == 1 ? hull_.extent[2] * hull_.channels
                                                          : hull_.channels;
            const std::int64_t done = std::min(begin - first, extent);
            const std::int64_t kept = extent - done;
            if (done > 0) {
                write(to, first, first + done);
                own::copy_n(sums_ + done * slice, kept * slice, sums_);
                if (is_packed) own::copy_n(packed_ + done * slice, kept * slice, packed_);
            }
            first += done;
            if (first == end_) return;
            const std::int64_t reached = std::min(plan_.buffered, end_ - first) - kept;
            own::fill_n(sums_ + kept * slice, reached * slice, Sum{0});
            if (is_packed) {
                staging_box box = hull_;
                box.first[plan_.slide] = first + kept;
                box.extent[plan_.slide] = reached;
                stage_channels(source, plan_.src, box, used_, packed_ + kept * slice);
            }
            extent = kept + reached;
            if (first == begin) return;
        }
    }

    /// Writes the part of the slices [first, last) that belongs to the box.
    void write(T* to, std::int64_t first, std::int64_t last) const noexcept {
        box_grid::item part = box_;
        part.first[plan_.slide] = std::max(first, part.first[plan_.slide]);
        part.last[plan_.slide] = std::min(last, part.last[plan_.slide]);
        const shape::canonical_strides from = hull_.strides();
        const shape::canonical_strides& x = plan_.diff_src;
        const std::int64_t columns = part.last[2] - part.first[2];
        // whole rows that follow one another in the tensor, too, are collapsed
        const bool follow = columns == hull_.extent[2] && continues(x[3], columns, x[4]);
        const std::int64_t rows = follow ? std::max<std::int64_t>(1, part.last[1] - part.first[1]) : 1;
        for (std::int64_t d = part.first[0]; d < part.last[0]; ++d)
            for (std::int64_t h = part.first[1]; h < part.last[1]; h += rows)
                unpack_lanes(sums_ + ((d - hull_.first[0]) * from[2] + (h - hull_.first[1]) * from[3] +
                                      (part.first[2] - hull_.first[2]) * from[4]),
                             plan_.sum_width, used_, rows * columns, to + (d * x[2] + h * x[3] + part.first[2] * x[4]),
                             x[1], x[4], plan_.output == output_mode::accumulate);
    }

    const scatter_form_plan& plan_;
    const box_grid::item& box_;
    std::int64_t used_;
    Sum* sums_;
    float* packed_;
    staging_box hull_;
    std::int64_t end_ = 0;  // of the slices that the box needs
};

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END
