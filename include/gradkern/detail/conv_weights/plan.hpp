// The plan of a weight gradient: that of the path that computes it.
#pragma once

#include <string_view>
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

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail::conv_weights {

using plan = std::variant<dense_plan, dense_packed_plan, dense_bf16_plan, few_channels_plan, grouped_plan,
                          depthwise_sliding_plan, depthwise_plan, across_groups_plan>;

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
[[nodiscard]] GRADKERN_NOINLINE inline plan split_for(const plan& p, std::int64_t workers) noexcept {
    plan split = p;
    with_plan(p, [&](auto path) GRADKERN_INLINE_LAMBDA {
        path.split_for(workers);
        split = path;
    });
    return split;
}

}  // namespace detail::conv_weights
GRADKERN_ISA_NAMESPACE_END
