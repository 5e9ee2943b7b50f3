// Runs the plan of a weight gradient over typed tensors.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include <gradkern/detail/config.hpp>
#include <gradkern/detail/conv_weights/plan.hpp>
#include <gradkern/detail/run/tasks.hpp>
#include <gradkern/executor.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail::conv_weights {

/// G is the type of the weight gradient: T or float. All checks have passed.
template <class T, class G>
void run(const plan& planned, const T* large, const T* small, G* diff_weights, std::span<std::byte> workspace,
         executor_ref executor) noexcept {
    const task_plan& tasks = tasks_of(planned);
    if (tasks.sides == sides::swapped) std::swap(large, small);
    const slices memory(workspace, tasks.slice_bytes);
    const plan split = split_for(planned, std::min(static_cast<std::int64_t>(executor.concurrency()), memory.count()));
    run_tasks(executor, count_tasks(split), memory, [&](std::byte* slice, auto&& next) {
        for (std::int64_t task = next(); task >= 0; task = next()) {
            with_plan(split, [&](const auto& path) {
                const float* const sums = path.clear_sums(slice);
                add_task(path, large, small, task, slice);
                store_task(path, sums, task, diff_weights);
            });
        }
    });
}

}  // namespace detail::conv_weights
GRADKERN_ISA_NAMESPACE_END
