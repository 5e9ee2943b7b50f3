// The reduction engine: runs a reduce_plan over typed tensors. What it computes, and how, is told in conv_weights/plan.hpp.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include <gradkern/detail/config.hpp>
#include <gradkern/detail/conv_weights/channelwise.hpp>
#include <gradkern/detail/conv_weights/dense.hpp>
#include <gradkern/detail/conv_weights/plan.hpp>
#include <gradkern/detail/own.hpp>
#include <gradkern/detail/run/tasks.hpp>
#include <gradkern/executor.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail {

/// Runs a plan over typed tensors. G is the type of the weight gradient: T or float. All checks have passed.
template <class T, class G>
void run_reduce(const reduce_plan& plan, const T* large, const T* small, G* diff_weights,
                std::span<std::byte> workspace, executor_ref executor) noexcept {
    if (plan.swapped) std::swap(large, small);
    const slices memory(workspace, plan.slice_bytes);
    const reduce_plan r = plan.for_lanes(std::min(static_cast<std::int64_t>(executor.concurrency()), memory.count()));
    run_tasks(executor, r.tasks(), memory, [&](std::byte* slice, auto&& next) {
        for (std::int64_t task = next(); task >= 0; task = next()) {
            auto* sum = reinterpret_cast<float*>(slice + r.at_sum);
            own::fill(sum, sum + r.sum_floats, 0.0F);
            const float* done = sum;
            if (r.two_levels()) {
                auto* total = reinterpret_cast<float*>(slice + r.at_total);
                own::fill(total, total + r.sum_floats, 0.0F);
                done = total;
            }
            if (r.channelwise) {
                auto* chunk_sum = reinterpret_cast<float*>(slice + r.at_chunk);
                own::fill(chunk_sum, chunk_sum + r.sum_floats, 0.0F);
                reduce_channelwise(r, large, small, task, slice);
                store_channelwise(r, done, task, diff_weights);
            } else {
                reduce_dense(r, large, small, task, slice);
                store_dense(r, done, task, diff_weights);
            }
        }
    });
}

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END
