// The sums of the max engine's gradient: scratch that slides along a box, a few slices at a time.
//
// Loops: windows in ascending order (max_pool/backward.hpp) > where one reaches a slice that is not held: write the slices
// that no window to come reaches, move the others to the front, clear (and stage) fresh ones.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include <gradkern/detail/axes/span.hpp>
#include <gradkern/detail/config.hpp>
#include <gradkern/detail/max_pool/plan.hpp>
#include <gradkern/detail/own.hpp>
#include <gradkern/detail/pack/panels.hpp>
#include <gradkern/detail/pack/staging.hpp>
#include <gradkern/detail/run/boxes.hpp>
#include <gradkern/shape/axis.hpp>
#include <gradkern/shape/check.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail {

/// The slices of a box that are held in scratch for sums: these, and elements of src where those are staged.
template <class T, class Sum>
class held_slices {
public:
    held_slices(const max_plan& m, const box_grid::item& box, std::int64_t used, Sum* sums, float* staging) noexcept
        : m_(m), box_(box), used_(used), sums_(sums), staging_(staging) {
        hull_.images = 1;
        hull_.channels = m.sum_width;
        for (std::size_t i = 0; i < 3; ++i) {
            const position_range h =
                m.gathered ? position_range{box.first[i], box.last[i]} : hull_of(m.axes[i], box.first[i], box.last[i]);
            hull_.first[i] = h.first;
            hull_.extent[i] = h.last - h.first;
        }
        end_ = hull_.first[m.slide] + hull_.extent[m.slide];
        hull_.extent[m.slide] = 0;
    }

    /// What is held.
    [[nodiscard]] const staging_box& hull() const noexcept { return hull_; }

    /// Sees to it that the slices which these windows reach are held; windows to come reach none before them. `source`
    /// and `to`: element of the panel's first channel at the image's origin.
    void reach(const T* source, T* to, std::int64_t first_window, std::int64_t last_window) noexcept {
        const shape::axis& a = m_.axes[m_.slide];
        const std::int64_t first = hull_.first[m_.slide];
        std::int64_t begin = first;
        std::int64_t end = end_;
        if (!m_.gathered) {
            begin = std::max(begin, a.position(first_window, 0));
            end = std::min(end, a.position(last_window - 1, 0) + a.reach() + 1);
        }
        if (end > first + hull_.extent[m_.slide]) advance(source, to, begin);
    }
    /// Writes all that has not been written.
    void finish(const T* source, T* to) noexcept { advance(source, to, end_); }

private:
    /// Writes the slices before `begin`, and holds those from there on: in several rounds where a stride steps over more
    /// slices than are held, which are written as zeros.
    void advance(const T* source, T* to, std::int64_t begin) noexcept {
        std::int64_t& first = hull_.first[m_.slide];
        std::int64_t& extent = hull_.extent[m_.slide];
        for (;;) {
            const std::int64_t slice = m_.slide == 0   ? hull_.extent[1] * hull_.extent[2] * hull_.channels
                                       : m_.slide == 1 ? hull_.extent[2] * hull_.channels
                                                       : hull_.channels;
            const std::int64_t done = std::min(begin - first, extent);
            const std::int64_t kept = extent - done;
            if (done > 0) {
                write(to, first, first + done);
                own::copy_n(sums_ + done * slice, kept * slice, sums_);
                if (m_.staged) own::copy_n(staging_ + done * slice, kept * slice, staging_);
            }
            first += done;
            if (first == end_) return;
            const std::int64_t fresh = std::min(m_.held, end_ - first) - kept;
            own::fill_n(sums_ + kept * slice, fresh * slice, Sum{0});
            if (m_.staged) {
                staging_box box = hull_;
                box.first[m_.slide] = first + kept;
                box.extent[m_.slide] = fresh;
                stage_channels(source, m_.src, box, used_, staging_ + kept * slice);
            }
            extent = kept + fresh;
            if (first == begin) return;
        }
    }

    /// Writes the part of the slices [first, last) that belongs to the box.
    void write(T* to, std::int64_t first, std::int64_t last) const noexcept {
        box_grid::item part = box_;
        part.first[m_.slide] = std::max(first, part.first[m_.slide]);
        part.last[m_.slide] = std::min(last, part.last[m_.slide]);
        const shape::canonical_strides from = hull_.strides();
        const shape::canonical_strides& x = m_.large;
        const std::int64_t columns = part.last[2] - part.first[2];
        // whole rows that follow one another in the tensor, too, are one stretch
        const bool follow = columns == hull_.extent[2] && x[3] == columns * x[4];
        const std::int64_t rows = follow ? std::max<std::int64_t>(1, part.last[1] - part.first[1]) : 1;
        for (std::int64_t d = part.first[0]; d < part.last[0]; ++d)
            for (std::int64_t h = part.first[1]; h < part.last[1]; h += rows)
                unpack_lanes(sums_ + ((d - hull_.first[0]) * from[2] + (h - hull_.first[1]) * from[3] +
                                      (part.first[2] - hull_.first[2]) * from[4]),
                             m_.sum_width, used_, rows * columns, to + (d * x[2] + h * x[3] + part.first[2] * x[4]),
                             x[1], x[4], m_.accumulate);
    }

    const max_plan& m_;
    const box_grid::item& box_;
    std::int64_t used_;
    Sum* sums_;
    float* staging_;
    staging_box hull_;
    std::int64_t end_ = 0;  // of the slices that the box needs
};

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END
