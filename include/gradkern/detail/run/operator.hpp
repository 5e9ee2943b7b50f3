// What every plan checks and prints beside its arithmetic: memory of tensors, workspaces, one-line descriptions.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string_view>
#include <type_traits>

#include <gradkern/detail/config.hpp>
#include <gradkern/detail/run/tasks.hpp>
#include <gradkern/detail/run/tensor_memory.hpp>
#include <gradkern/options.hpp>
#include <gradkern/shape/checked.hpp>
#include <gradkern/shape/convolution.hpp>
#include <gradkern/status.hpp>
#include <gradkern/tensor_view.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail {

/// The error of a plan that nobody made: default constructed, or out of a result that holds an error.
[[nodiscard]] constexpr error never_planned(std::string_view op) noexcept {
    return shape::error_because(errc::invalid_argument, op, "plan", "was never made");
}
/// The checks of every run, all in constant time: that it was planned at all, pointers, outputs apart from inputs and from one
/// another, workspace size, workspace apart from tensors. The first of `tensors` has a name in every plan that was made; the
/// last `outputs` are written.
[[nodiscard]] GRADKERN_NOINLINE inline status check_run(std::string_view op,
                                                        std::initializer_list<placed_tensor> tensors,
                                                        std::span<std::byte> workspace, std::size_t needed,
                                                        std::ptrdiff_t outputs = 1) noexcept {
    if (tensors.begin()->memory->name.empty()) return never_planned(op);
    for (const placed_tensor& t : tensors)
        if (t.data == nullptr && !t.memory->empty())
            return shape::error_because(errc::null_pointer, op, t.memory->name, shape::no_memory);
    for (const placed_tensor* out = tensors.end() - outputs; out != tensors.end(); ++out)
        for (const placed_tensor* t = tensors.begin(); t != out; ++t)
            if (share_bytes(*out, *t))
                return shape::error_because(errc::invalid_argument, op, out->memory->name, "shares memory with",
                                            t->memory->name);
    if (workspace.size() < needed) {
        return error{errc::workspace_too_small,
                     op,
                     "workspace",
                     -1,
                     static_cast<std::int64_t>(workspace.size()),
                     static_cast<std::int64_t>(needed),
                     expectation::at_least,
                     quantity::bytes};
    }
    const auto first = reinterpret_cast<std::uintptr_t>(workspace.data());
    for (const placed_tensor& t : tensors)
        if (t.meets(first, first + workspace.size()) && meeting_workspace_shares_bytes(t, workspace))
            return shape::error_because(errc::invalid_argument, op, "workspace", "shares memory with", t.memory->name);
    return {};
}

/// True where no size that a plan computes can overflow, with room to spare: the product of everything that scratch
/// memory may be proportional to. `p` without taps that no position meets, where the plan drops them.
[[nodiscard]] GRADKERN_COLD constexpr bool scratch_is_countable(const shape::convolution_problem& p) noexcept {
    constexpr std::int64_t bytes_per_element =
        64 * 1024;  // lanes of several panels, list entries, all arrays of a lane
    shape::checked bytes(bytes_per_element);
    bytes *= std::max<std::int64_t>(p.batch, 1);
    bytes *= shape::checked(p.large_channels) + p.small_channels + 64;
    for (const shape::axis& a : p.axes)
        if (a.large > 1 || a.small > 1 || a.kernel > 1) bytes *= shape::checked(a.large) + a.small + a.kernel;
    return bytes.ok();
}

/// Runs a plan with a workspace on the stack. What runs is compiled once for both kinds of workspace, and the stack is used
/// for this one alone.
template <class Run>
[[nodiscard]] GRADKERN_NOINLINE status call_run(const void* run, std::span<std::byte> workspace) noexcept {
    return (*static_cast<const Run*>(run))(workspace);
}
[[nodiscard]] GRADKERN_NOINLINE inline status run_on_stack(status (*call)(const void*, std::span<std::byte>) noexcept,
                                                           const void* run) noexcept {
    alignas(64) std::array<std::byte, call_workspace> bytes;
    return call(run, std::span<std::byte>(bytes));
}

/// Whether a call without a workspace is accepted, where `plan` is `make(options)`: if the plan with the least scratch fits
/// the stack, which follows from the problem alone. `plan` gives up its optional scratch where so many workers do not fit, and becomes the
/// least one where it does not fit itself. `always`: the least one always does.
template <bool always, class Plan, class Make>
[[nodiscard]] bool fit_stack(Plan& plan, plan_options options, const Make& make, std::ptrdiff_t workers = 1) noexcept {
    using planned = std::remove_cvref_t<decltype(*plan)>;
    if constexpr (requires(planned p) { p.drop_optional_scratch(); }) {
        if (plan->workspace_bytes(workers) > call_workspace) {
            planned smaller = *plan;
            smaller.drop_optional_scratch();
            if (smaller.workspace_bytes() <= call_workspace) plan = smaller;
        }
    }
    const bool fits = plan->workspace_bytes() <= call_workspace;
    if ((always && fits) || plan->workspace_bytes() == 0) return true;
    if constexpr (requires { plan->is_small(); }) {
        if (fits && plan->is_small()) return true;
    }
    options.scratch = scratch_use::least;
    const auto least = make(options);
    if (!least || least->workspace_bytes() > call_workspace) return false;
    if (!fits) plan = least;
    return true;
}

/// A one-call form: runs the plan `make(plan_options)`, or one that fits the stack, with these pointers. `always`: as for
/// fit_stack.
template <bool always, class Make, class... Pointers>
[[nodiscard]] status run_call(const call_options& options, const Make& make, Pointers... tensors) noexcept {
    auto plan = make(options.plan);
    if (!plan) return plan.error();
    const auto run = [&](std::span<std::byte> workspace) { return plan->run(tensors..., workspace, options.executor); };
    using run_type = decltype(run);
    const bool on_stack = options.workspace.empty() && plan->workspace_bytes() != 0 &&
                          fit_stack<always>(plan, options.plan, make, options.executor.concurrency());
    return on_stack ? run_on_stack(&call_run<run_type>, &run) : call_run<run_type>(&run, options.workspace);
}

/// The instruction set the kernels are compiled for, e.g. "avx2_fma_f16c_bmi2".
inline constexpr std::string_view isa_name = GRADKERN_DETAIL_TEXT(GRADKERN_DETAIL_ISA_NAME);

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END
