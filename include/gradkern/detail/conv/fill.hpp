// fill: there are no channels to sum over, so that outputs are the bias, or +0.
//
// Loops          plane > pixel
// Taken          where a group has no input channels, or no output channels
// Gains          over dense_packed: there is nothing to pack
// Used by        no network; shapes may have zero channels
// Delete it      when dense_packed needs no workspace there
#pragma once

#include <cstddef>
#include <cstdint>

#include <gradkern/detail/config.hpp>
#include <gradkern/detail/conv/panel_tasks.hpp>
#include <gradkern/detail/conv/problem.hpp>
#include <gradkern/detail/conv/weights.hpp>
#include <gradkern/detail/pack/panels.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail {

struct fill_plan : conv_equation {
    [[nodiscard]] constexpr plan_summary summary() const noexcept {
        return {.in_place = true, .tasks = task_count(false)};
    }
    /// A task is a plane.
    [[nodiscard]] constexpr std::int64_t task_count(bool) const noexcept { return batch * total_out_channels(); }
    static constexpr std::int64_t slice_bytes = 0;
};

struct fill_path {
    [[nodiscard]] static constexpr bool fits(const conv_problem& p) noexcept {
        return p.in_channels == 0 || p.out_channels == 0;
    }
    [[nodiscard]] static constexpr bool is_profitable(const conv_problem&) noexcept { return true; }
    [[nodiscard]] static constexpr fill_plan make(const conv_problem& p) noexcept { return {p}; }
};

/// The tasks of a worker.
template <class T, class Next>
void run_path(const fill_plan& g, const conv_call<T>& call, std::byte*, const Next& next) noexcept {
    const std::int64_t channels = g.total_out_channels();
    for (std::int64_t task = next(); task >= 0; task = next()) {
        const std::int64_t channel = task % channels;
        const float value =
            call.bias == nullptr ? 0.0F : load_as_float(call.bias, g.bias_type, channel * g.bias_stride);
        T* const plane = call.dst + (task / channels * g.out[0] + channel * g.out[1]);
        for (std::int64_t d = 0; d < g.extent(0); ++d)
            for (std::int64_t h = 0; h < g.extent(1); ++h)
                for (std::int64_t w = 0; w < g.extent(2); ++w)
                    store_result(plane + (d * g.out[2] + h * g.out[3] + w * g.out[4]), value, g.accumulates());
    }
}

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END
