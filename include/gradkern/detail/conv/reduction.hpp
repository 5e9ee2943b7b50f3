// The order of the terms of one class of outputs of the gather engine (gather.hpp): block of 64 channels > inside taps in
// row-major order of what they read > channel, cut into parts (summation.hpp).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include <gradkern/detail/config.hpp>
#include <gradkern/detail/conv/plan.hpp>
#include <gradkern/detail/micro/register_tile.hpp>
#include <gradkern/detail/order/summation.hpp>
#include <gradkern/shape/axis.hpp>
#include <gradkern/shape/check.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail {

/// The reduction of one class: stretches in the fixed order, and how many of them make up each part.
struct reduction_list {
    stretch* list = nullptr;
    std::ptrdiff_t* parts = nullptr;  // stretches in each part
    std::ptrdiff_t part_count = 0;
    std::ptrdiff_t a_step = 1;  // from term to term of a stretch
    std::ptrdiff_t b_step = 0;
};

/// Lists the terms of a class that reads a source with strides `in` and `channel_step`. Terms that continue the stretch
/// before them join it, which changes neither their order nor the parts.
inline void fill_reduction(const gather_plan& g, const std::array<shape::tap_class, 3>& c,
                           const shape::canonical_strides& in, std::int64_t channel_step, reduction_list& r) noexcept {
    r.a_step = channel_step;
    r.b_step = g.panel_width;
    if (g.terms == 1 || g.shared) {  // one step a tap: let the taps of a row make up a stretch
        r.a_step = c[2].read_per_tap * in[4];
        r.b_step = (c[2].tap_step < 0 ? -c[2].tap_step : c[2].tap_step) * g.tap_pitch;
    }
    stretch* end = r.list;
    r.part_count = 0;
    std::int64_t terms = part_terms;  // of the open part; full: the first stretch opens one
    for (std::int64_t k0 = 0; k0 < g.terms; k0 += channel_block) {
        const std::int64_t kl = std::min(channel_block, g.terms - k0);
        const std::int64_t block = k0 / channel_block * g.taps() * g.tap_pitch;
        for (std::int64_t d = 0; d < c[0].taps; ++d) {
            for (std::int64_t h = 0; h < c[1].taps; ++h) {
                for (std::int64_t x = 0; x < c[2].taps; ++x) {
                    const std::int64_t tap =
                        ((c[0].first_tap + d * c[0].tap_step) * g.axes[1].kernel + c[1].first_tap + h * c[1].tap_step) *
                            g.axes[2].kernel +
                        c[2].first_tap + x * c[2].tap_step;
                    const std::int64_t steps = g.shared ? 1 : kl;
                    const stretch s{k0 * channel_step + d * c[0].read_per_tap * in[2] + h * c[1].read_per_tap * in[3] +
                                        x * c[2].read_per_tap * in[4],
                                    block + g.tap_place(tap) * g.tap_pitch, steps};
                    if (terms + kl > part_terms) {
                        terms = 0;
                        r.parts[r.part_count++] = 0;
                    }
                    terms += kl;
                    if (r.parts[r.part_count - 1] > 0) {
                        stretch& last = end[-1];
                        if (last.a + last.length * r.a_step == s.a && last.b + last.length * r.b_step == s.b) {
                            last.length += steps;
                            continue;
                        }
                    }
                    *end++ = s;
                    ++r.parts[r.part_count - 1];
                }
            }
        }
    }
    if (r.part_count == 0) r.parts[r.part_count++] = 0;  // no tap inside: one empty part, which writes zeros
}

/// Lets the list read the packed weights as `a` and the source as `b`.
inline void swap_operands(reduction_list& r) noexcept {
    std::swap(r.a_step, r.b_step);
    stretch* s = r.list;
    for (std::ptrdiff_t part = 0; part < r.part_count; ++part)
        for (const stretch* const end = s + r.parts[part]; s != end; ++s) std::swap(s->a, s->b);
}

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END
