// The max engine, forward: max pooling, with indices or without.
//
// A task is one box of windows of one image and one panel of channels (window_task.hpp). Where channels are neighbours, the
// values and indices of a window are written as soon as they are there; else a segment of a line is, or whole lines that follow
// one another are, once computed.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include <gradkern/detail/config.hpp>
#include <gradkern/detail/max_pool/plan.hpp>
#include <gradkern/detail/max_pool/window_task.hpp>
#include <gradkern/detail/micro/window_max.hpp>
#include <gradkern/detail/own.hpp>
#include <gradkern/detail/pack/panels.hpp>
#include <gradkern/detail/pack/staging.hpp>
#include <gradkern/detail/run/tasks.hpp>
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
        if (m_.staged) {
            read = reads_of(m_.axes, shape::side::small, box_, m_.panel_width);
            if (columns_staged(m_, box_.last[2] - box_.first[2]) == m_.axes[2].large) {
                read.first[2] = 0;
                read.extent[2] = m_.axes[2].large;
            }
        }
        const shape::canonical_strides& y = m_.small;
        const shape::canonical_strides& z = m_.indices;
        const std::int64_t base = box_.first_image * m_.index.per_image + first_channel_ * m_.index.per_channel;
        T* const panel = dst + (box_.first_image * y[0] + first_channel_ * y[1]);
        if (indices != nullptr) indices += box_.first_image * z[0] + first_channel_ * z[1];
        // Values, and indices, of neighbouring channels leave with their windows: memory takes them while others are compared.
        const bool direct = y[1] == 1 && !m_.accumulate && !m_.gathered;
        const bool indexed = indices != nullptr && z[1] == 1 && m_.scaled && m_.index.per_channel <= 1;
        std::array<std::int64_t, 3> place_steps = m_.index.place_steps;
        if (m_.scaled)
            for (std::int64_t& step : place_steps) step *= m_.index.per_place;
        const bool lines_follow = indices == nullptr || indexed || z[3] == m_.axes[2].small * z[4];
        std::int64_t waiting = 0;  // windows whose results are in scratch; the first of them go to
        T* to_first = nullptr;
        std::int64_t* index_first = nullptr;
        const auto leave = [&] {
            if (waiting == 0) return;
            unpack_lanes(results_.value, m_.panel_width, used_, waiting, to_first, y[1], y[4], m_.accumulate);
            if (indices != nullptr && !indexed) store_indices(index_first, base, waiting);
            waiting = 0;
        };
        read_windows(src, read, place_steps, 0, [&](const auto& source) {
            for_each_segment(
                {{{box_.first[0], box_.last[0]}, {box_.first[1], box_.last[1]}, {box_.first[2], box_.last[2]}}},
                [&](std::int64_t d, std::int64_t h, std::int64_t first, std::int64_t last) {
                    T* const to = panel + (d * y[2] + h * y[3] + first * y[4]);
                    std::int64_t* const index =
                        indices == nullptr ? nullptr : indices + (d * z[2] + h * z[3] + first * z[4]);
                    index_store store;
                    if (indexed) store = {index, z[4], base, m_.index.per_channel != 0};
                    if (direct) {
                        const window_results_of<T> results{to, results_.place, nullptr, y[4], m_.panel_width, store};
                        max_windows(source, d, h, first, last, results);
                    } else {
                        // whole lines of a plane may wait for one another
                        if (!lines_follow || h == box_.first[1] || last - first < m_.axes[2].small ||
                            waiting + (last - first) > m_.results)
                            leave();
                        if (waiting == 0) {
                            to_first = to;
                            index_first = index;
                        }
                        window_results results = results_.at(waiting, 0);
                        results.index = store;
                        max_windows(source, d, h, first, last, results);
                        waiting += last - first;
                    }
                    if (direct && indices != nullptr && !indexed) store_indices(index, base, last - first);
                });
        });
        leave();
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

    /// Stores the indices of `count` windows, the first of which go to `to`, from their places.
    void store_indices(std::int64_t* to, std::int64_t base, std::int64_t count) const noexcept {
        const shape::canonical_strides& z = m_.indices;
        const std::int64_t per_channel = m_.index.per_channel;
        const bool quick = m_.scaled && !any_without_place(count);
        const std::int64_t per_place = m_.scaled ? 1 : m_.index.per_place;
        const std::int64_t place_step = m_.panel_width;
        const std::int64_t index_step = z[4];
        constexpr std::int64_t lanes = simd::lanes;
        std::int64_t j = 0;
        for (; quick && index_step == 1 && count >= lanes && j + lanes <= used_; j += lanes) {  // by squares of places
            for (std::int64_t next = 0; next < count; next += lanes) {
                const std::int64_t w = std::min(next, count - lanes);  // the last square overlaps its predecessor
                float places[lanes * lanes];
                simd::transpose(results_.place + w * place_step + j, place_step, places, lanes);
                for (std::int64_t i = 0; i < lanes; ++i) {
                    std::int64_t* const line = to + (j + i) * z[1] + w;
                    for (std::int64_t k = 0; k < lanes; k += simd::line_elements<std::int64_t>)
                        simd::prefetch_to_write(line, lanes * z[1] + k);
                    simd::store_bits_plus(line, simd::load(places + i * lanes), base + (j + i) * per_channel);
                }
            }
        }
        const auto store_one = [&](std::int64_t w, std::int64_t channel) {
            const std::int64_t place = place_at(results_, w * place_step + channel);
            to[channel * z[1] + w * index_step] = place < 0 ? -1 : base + channel * per_channel + place * per_place;
        };
        if (z[1] == 1) {  // neighbours
            for (std::int64_t w = 0; w < count; ++w)
                for (std::int64_t i = j; i < used_; ++i) store_one(w, i);
            return;
        }
        for (; j < used_; ++j) {
            if (!quick) {
                for (std::int64_t w = 0; w < count; ++w) store_one(w, j);
                continue;
            }
            const std::int64_t first = base + j * per_channel;
            const float* const place = results_.place + j;
            std::int64_t* const line = to + j * z[1];
            for (std::int64_t w = 0; w < count; ++w)
                line[w * index_step] = first + own::bit_cast<std::uint32_t>(place[w * place_step]);
        }
    }

    /// Whether one of the segment's windows has no inside tap: none of its channels has.
    [[nodiscard]] bool any_without_place(std::int64_t count) const noexcept {
        bool any = false;
        for (std::int64_t w = 0; w < count; ++w)
            any = any || own::bit_cast<std::uint32_t>(results_.place[w * m_.panel_width]) == no_place;
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
