// The scatter engine where indices point into planes of other elements: right and slow.
//
// Sums are f32, or f64 where the tensor has very many elements (order/summation.hpp). f32 outputs that are overwritten hold
// their sums themselves, f32 between the visits of recent_sums: the scratch for all of them is not to be had.
//
// Loops: task = block of places of all planes > all elements, in row-major order of (n, c, o), of which each adds its gradient
// if it points into the block.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include <gradkern/detail/config.hpp>
#include <gradkern/detail/max_pool_indices/plan.hpp>
#include <gradkern/detail/max_pool_indices/runs.hpp>
#include <gradkern/detail/own.hpp>
#include <gradkern/detail/run/tasks.hpp>
#include <gradkern/executor.hpp>
#include <gradkern/half.hpp>
#include <gradkern/shape/check.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail {

/// Calls f(place among all planes, gradient's offset) for every element in row-major order of (n, c, o), but for those
/// without a place.
template <class F>
void for_each_target(const scatter_plan& g, const std::int64_t* indices, const F& f) noexcept {
    for (std::int64_t n = 0; n < g.batch; ++n)
        for (std::int64_t c = 0; c < g.channels; ++c)
            for_each_run_of_windows(g, n, c, [&](const element_run& run) {
                for (std::int64_t e = 0; e < run.count; ++e) {
                    const std::int64_t i = indices[run.at + e * run.at_step];
                    if (i == -1) continue;
                    const scatter_plan::target t = g.target_of(i, n, c);
                    f((t.n * g.channels + t.c) * g.plane + t.place, run.from + e * run.from_step);
                }
            });
}

/// The element of the output at a place among all planes.
template <class T>
[[nodiscard]] T* element_at(const scatter_plan& g, T* out, std::int64_t place) noexcept {
    const std::int64_t plane = place / g.plane;
    return out + (plane / g.channels * g.out[0] + plane % g.channels * g.out[1] + g.offset_of(place % g.plane));
}

/// Computes the places [first, last) among all planes with their sums in scratch.
template <class T, class Sum>
void scatter_block_anywhere(const scatter_plan& g, const T* gradient, const std::int64_t* indices, T* out,
                            std::int64_t first, std::int64_t last, Sum* sums) noexcept {
    own::fill_n(sums, last - first, Sum{0});
    for_each_target(g, indices, [&](std::int64_t place, std::int64_t from) {
        if (place >= first && place < last) sums[place - first] += load_element(gradient + from);
    });
    for (std::int64_t i = first; i < last; ++i)
        store_result(element_at(g, out, i), static_cast<float>(sums[i - first]), g.accumulate);
}

/// Adds to sums in the output itself, by way of f64 sums of the places named last: where few places are named by very many
/// elements, those are not added one by one.
class recent_sums {
public:
    recent_sums(const scatter_plan& g, float* out) noexcept : g_(g), out_(out) {}
    void add(std::int64_t place, float gradient) noexcept {
        entry& e = entries_[static_cast<std::size_t>(place) % entries_.size()];
        if (e.place != place) {
            leave(e);
            e = {place, 0.0};
        }
        e.sum += static_cast<double>(gradient);
    }
    void finish() noexcept {
        for (const entry& e : entries_) leave(e);
    }

private:
    struct entry {
        std::int64_t place = -1;
        double sum = 0.0;
    };
    void leave(const entry& e) noexcept {
        if (e.place < 0) return;
        float* const to = element_at(g_, out_, e.place);
        *to = static_cast<float>(static_cast<double>(*to) + e.sum);
    }

    const scatter_plan& g_;
    float* out_;
    std::array<entry, 256> entries_{};
};

/// Runs a plan whose indices point anywhere in the tensor: every block of sums looks at all elements.
template <class T>
void run_scatter_anywhere(const scatter_plan& g, const T* gradient, const std::int64_t* indices, T* out,
                          std::span<std::byte> workspace, executor_ref executor) noexcept {
    const std::int64_t count = g.batch * g.channels * g.plane;
    if constexpr (std::is_same_v<T, float>) {
        if (g.direct) {  // one pass, in the caller's thread
            for (std::int64_t i = 0; i < count; ++i) *element_at(g, out, i) = 0.0F;
            if (g.anywhere_in_f64) {
                recent_sums sums(g, out);
                for_each_target(g, indices,
                                [&](std::int64_t place, std::int64_t from) { sums.add(place, gradient[from]); });
                sums.finish();
                return;
            }
            for_each_target(g, indices, [&](std::int64_t place, std::int64_t from) {
                *element_at(g, out, place) += gradient[from];
            });
            return;
        }
    }
    const std::int64_t sum_bytes = g.anywhere_in_f64 ? sizeof(double) : sizeof(float);
    const std::int64_t block = g.slice_bytes / sum_bytes;
    run_tasks(
        executor, shape::ceil_div(count, block), slices(workspace, g.slice_bytes), [&](std::byte* slice, auto&& next) {
            for (std::int64_t task = next(); task >= 0; task = next()) {
                const std::int64_t first = task * block;
                const std::int64_t last = std::min(count, first + block);
                if (g.anywhere_in_f64) {
                    scatter_block_anywhere(g, gradient, indices, out, first, last, reinterpret_cast<double*>(slice));
                } else {
                    scatter_block_anywhere(g, gradient, indices, out, first, last, reinterpret_cast<float*>(slice));
                }
            }
        });
}

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END
