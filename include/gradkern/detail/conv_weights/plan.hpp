// The plan of a weight gradient, that of the path that computes it, and its run.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <variant>

#include <gradkern/detail/config.hpp>
#include <gradkern/detail/conv_weights/across_groups.hpp>
#include <gradkern/detail/conv_weights/dense.hpp>
#include <gradkern/detail/conv_weights/dense_bf16.hpp>
#include <gradkern/detail/conv_weights/dense_packed.hpp>
#include <gradkern/detail/conv_weights/depthwise.hpp>
#include <gradkern/detail/conv_weights/depthwise_sliding.hpp>
#include <gradkern/detail/conv_weights/few_channels.hpp>
#include <gradkern/detail/conv_weights/grouped.hpp>
#include <gradkern/detail/run/select.hpp>
#include <gradkern/detail/run/tasks.hpp>
#include <gradkern/executor.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail::conv_weights {

using plan = std::variant<dense_plan, dense_packed_plan, dense_bf16_plan, tap_rows_plan>;

/// Computes the sums of one task of the paths whose rows are taps.
template <class T>
void add_task(const tap_rows_plan& p, const T* large, const T* small, std::int64_t task, std::byte* slice) noexcept {
    const tap_rows_steps<T>& steps = p.path == algorithm::few_channels        ? few_channels_steps<T>
                                     : p.path == algorithm::grouped           ? grouped_steps<T>
                                     : p.path == algorithm::depthwise_sliding ? depthwise_sliding_steps<T>
                                                                              : across_groups_steps<T>;
    add_tap_rows(p, steps, large, small, task, slice);
}

/// What the plans of all paths share.
[[nodiscard]] inline const task_plan& tasks_of(const plan& p) noexcept {
    const task_plan* tasks = nullptr;
    with_plan(p, [&](const auto& path) GRADKERN_INLINE_LAMBDA { tasks = &path; });
    return *tasks;
}
[[nodiscard]] inline std::int64_t count_tasks(const plan& p) noexcept {
    std::int64_t tasks = 0;
    with_plan(p, [&](const auto& path) GRADKERN_INLINE_LAMBDA { tasks = path.tasks(); });
    return tasks;
}
/// What tiles read of the large side.
[[nodiscard]] inline std::string_view words_of_activations(const plan& p) noexcept {
    bool in_place = std::holds_alternative<dense_plan>(p);
    if (const auto* const packed = std::get_if<dense_packed_plan>(&p))
        if (packed->order == window_order::pixels && packed->large[4] != 1) return "transposed";
    with_plan(p, [&](const auto& path) {
        if constexpr (requires { path.large_source; }) in_place = path.large_source == source::in_place;
    });
    return in_place ? "in place" : "packed";
}
/// The same plan with tasks for so many workers.
[[nodiscard]] GRADKERN_NOINLINE inline plan split_for(plan p, std::int64_t workers) noexcept {
    const auto split = [&](auto* path) GRADKERN_INLINE_LAMBDA {
        if (path != nullptr) path->split_for(workers);
    };
    split(std::get_if<dense_plan>(&p));
    split(std::get_if<dense_packed_plan>(&p));
    split(std::get_if<dense_bf16_plan>(&p));
    split(std::get_if<tap_rows_plan>(&p));
    return p;
}

/// Runs a plan over typed tensors. G is the type of the weight gradient: T or float. All checks have passed.
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
