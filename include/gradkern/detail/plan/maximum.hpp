// The max engine, forward: max pooling, with indices or without.
//
// A task is one box of windows of one image and one panel of channels (window_task.hpp). A segment of a line of windows is
// computed and then written out.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include <gradkern/detail/config.hpp>
#include <gradkern/detail/micro/window_max.hpp>
#include <gradkern/detail/pack/panels.hpp>
#include <gradkern/detail/pack/staging.hpp>
#include <gradkern/detail/plan/lanes.hpp>
#include <gradkern/detail/plan/maximum_plan.hpp>
#include <gradkern/detail/plan/window_task.hpp>
#include <gradkern/detail/simd.hpp>
#include <gradkern/executor.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail {

/// One task of a forward plan.
template <class T>
class max_task : window_task {
public:
    max_task(const max_plan& m, std::int64_t task, std::byte* slice) noexcept : window_task(m, task, slice) {}

    void forward(const T* src, T* dst, std::int64_t* indices) noexcept {
        staging_box read;
        if (m_.staged) read = reads_of(m_.axes, shape::side::small, box_, m_.panel_width);
        const shape::canonical_strides& y = m_.small;
        T* const panel = dst + (box_.first_image * y[0] + first_channel_ * y[1]);
        const bool direct = std::is_same_v<T, float> && y[1] == 1 && !m_.accumulate && !m_.gathered;
        read_windows(src, read, m_.index.place_steps, 0, [&](const auto& source) {
            for_each_segment(
                {{{box_.first[0], box_.last[0]}, {box_.first[1], box_.last[1]}, {box_.first[2], box_.last[2]}}},
                [&](std::int64_t d, std::int64_t h, std::int64_t first, std::int64_t last) {
                    T* const to = panel + (d * y[2] + h * y[3] + first * y[4]);
                    window_results results = results_;
                    if constexpr (std::is_same_v<T, float>) {
                        if (direct) {
                            results.value = to;
                            results.value_step = y[4];
                        }
                    }
                    max_windows(source, d, h, first, last, results);
                    if (!direct)
                        unpack_lanes(results.value, m_.panel_width, used_, last - first, to, y[1], y[4], m_.accumulate);
                    if (indices != nullptr) store_indices(indices, d, h, first, last - first);
                });
        });
    }

private:
    /// Calls f with the source of the task's windows: the tensor, or the staging area after `box` was copied into it.
    template <class F>
    void read_windows(const T* src, const staging_box& box, const std::array<std::int64_t, 3>& place_steps,
                      std::int64_t place_origin, const F& f) noexcept {
        const T* panel = src + first_channel_ * m_.src[1];
        if (m_.staged) {
            stage_channels(panel, m_.src, box, used_, staging_);
            const shape::canonical_strides in = box.strides();
            f(window_source<float>{staging_ + (box_.first_image * in[0] - box.origin()), in, 1, place_steps,
                                   place_origin});
        } else {
            f(window_source<T>{panel + box_.first_image * m_.src[0], m_.src, m_.src[1], place_steps, place_origin});
        }
    }

    void store_indices(std::int64_t* indices, std::int64_t d, std::int64_t h, std::int64_t first,
                       std::int64_t count) const noexcept {
        const shape::canonical_strides& y = m_.indices;
        std::int64_t* const to =
            indices + (box_.first_image * y[0] + first_channel_ * y[1] + d * y[2] + h * y[3] + first * y[4]);
        const std::int64_t base = box_.first_image * m_.index.per_image + first_channel_ * m_.index.per_channel;
        const std::int64_t per_channel = m_.index.per_channel;
        const bool quick =
            results_.place_high == nullptr && m_.index.per_place <= UINT32_MAX && !any_without_place(count);
        const auto per_place = static_cast<std::uint32_t>(m_.index.per_place);
        // Stores the indices of results i, i + step, ... whose channels are `channels` apart.
        const auto store = [&](std::int64_t n, std::int64_t i, std::int64_t step, std::int64_t origin,
                               std::int64_t channels, std::int64_t* out, std::int64_t out_step) {
            if (!quick) {
                for (std::int64_t e = 0; e < n; ++e) {
                    const std::int64_t place = place_at(results_, i + e * step);
                    out[e * out_step] = place < 0 ? -1 : origin + e * channels + place * m_.index.per_place;
                }
            } else if (step == 1 && out_step == 1) {
                store_indices_quickly(results_.place + i, 1, n, origin, channels, per_place, out, 1);
            } else {
                store_indices_quickly(results_.place + i, step, n, origin, channels, per_place, out, out_step);
            }
        };
        if (y[1] == 1) {
            for (std::int64_t w = 0; w < count; ++w)
                store(used_, w * m_.panel_width, 1, base, per_channel, to + w * y[4], 1);
        } else {
            constexpr std::int64_t ahead = 8;  // channels
            for (std::int64_t j = 0; j < used_; ++j) {
                for (std::int64_t w = 0; w < count && j + ahead < used_; w += simd::line_elements<std::int64_t>)
                    simd::prefetch_to_write(to, (j + ahead) * y[1] + w * y[4]);
                store(count, j, m_.panel_width, base + j * per_channel, 0, to + j * y[1], y[4]);
            }
        }
    }

    /// out[e * out_step] = first + e * channels + place[e * step] * per_place: one product of 32 bits by 32 each.
    GRADKERN_ALWAYS_INLINE static void store_indices_quickly(const float* place, std::int64_t step, std::int64_t n,
                                                             std::int64_t first, std::int64_t channels,
                                                             std::uint32_t per_place, std::int64_t* out,
                                                             std::int64_t out_step) noexcept {
        for (std::int64_t e = 0; e < n; ++e)
            out[e * out_step] =
                first + e * channels +
                static_cast<std::int64_t>(std::uint64_t{std::bit_cast<std::uint32_t>(place[e * step])} * per_place);
    }

    /// Whether one of the segment's windows has no inside tap: none of its channels has.
    [[nodiscard]] bool any_without_place(std::int64_t count) const noexcept {
        bool any = false;
        for (std::int64_t w = 0; w < count; ++w)
            any = any || std::bit_cast<std::uint32_t>(results_.place[w * m_.panel_width]) == no_place;
        return any;
    }
};

/// Runs a forward plan. All checks have passed; `indices` may be null.
template <class T>
void run_max_pool(const max_plan& m, const T* src, T* dst, std::int64_t* indices, std::span<std::byte> workspace,
                  executor_ref executor) noexcept {
    run_tasks(executor, m.tasks(), slices(workspace, m.slice_bytes), [&](std::byte* slice, auto&& next) {
        for (std::int64_t task = next(); task >= 0; task = next())
            max_task<T>(m, task, slice).forward(src, dst, indices);
    });
}

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END
