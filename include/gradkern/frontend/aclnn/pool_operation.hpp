// The contents of an executor of aclnnAvgPool2dBackward: the core's plan, the addresses, and the rounding before it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <type_traits>
#include <variant>

#include <gradkern/avg_pool.hpp>
#include <gradkern/detail/config.hpp>
#include <gradkern/detail/run/operator.hpp>
#include <gradkern/executor.hpp>
#include <gradkern/frontend/aclnn/translation.hpp>
#include <gradkern/frontend/aclnn/types.hpp>
#include <gradkern/half.hpp>
#include <gradkern/shape/checked.hpp>
#include <gradkern/tensor_view.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace aclnn {

namespace translation {

/// A planned call. It refers to the tensors' memory, but not to the objects it was made from.
class pool_operation {
    // First, since clang 14 loses member templates that a generic lambda uses before their definition.
    static constexpr std::size_t alignment = 64;  // of the copy, in bytes

    template <class Plan>
    static constexpr bool is_plan = !std::is_same_v<std::remove_cvref_t<Plan>, std::monostate>;

    [[nodiscard]] std::size_t copy_bytes() const noexcept {
        if (rounding_ == rounding::none) return 0;
        return static_cast<std::size_t>(rounded_count(copy_)) * sizeof(float) + alignment - 1;
    }

    template <class T>
    [[nodiscard]] aclnnStatus run_plan(const avg_pool_backward_plan<T>& plan, std::span<std::byte> workspace,
                                       executor_ref executor) const noexcept {
        const auto* in = static_cast<const T*>(in_);
        if constexpr (std::is_same_v<T, float>) {
            if (rounding_ != rounding::none) {
                const auto address = reinterpret_cast<std::uintptr_t>(workspace.data());
                const std::size_t skip = (alignment - address % alignment) % alignment;
                auto* copy = reinterpret_cast<float*>(workspace.data() + skip);
                round_elements(rounding_, in, layout_, copy, copy_, executor);
                in = copy;
                workspace = workspace.subspan(copy_bytes());
            }
        }
        const status s = plan.run(in, static_cast<T*>(out_), workspace, executor);
        return s ? ACLNN_SUCCESS : ACLNN_ERR_RUNTIME_ERROR;
    }

public:
    /// Checks all arguments and plans. If a check fails, returns it and leaves the object unchanged.
    [[nodiscard]] check plan(const pool_call& c) noexcept {
        const check failed = first_failure(c);
        if (failed != check::none) return failed;
        switch (c.self->data_type) {
            case ACL_FLOAT16: return plan_as<float16>(c);
            case ACL_BF16: return plan_as<bfloat16>(c);
            default: return plan_as<float>(c);
        }
    }

    /// Bytes of workspace for `workers` tasks at once; SIZE_MAX on overflow.
    [[nodiscard]] std::size_t workspace_bytes(std::ptrdiff_t workers) const noexcept {
        const std::size_t core = std::visit(
            [&](const auto& plan) -> std::size_t {
                if constexpr (is_plan<decltype(plan)>) return plan.workspace_bytes(workers);
                return 0;
            },
            plan_);
        return core > SIZE_MAX - copy_bytes() ? SIZE_MAX : core + copy_bytes();
    }

    /// The checks of phase 2, all in constant time.
    [[nodiscard]] aclnnStatus check_run(const void* workspace, std::uint64_t bytes) const noexcept {
        if (bytes < workspace_bytes(1)) return ACLNN_ERR_PARAM_INVALID;
        if (workspace == nullptr && bytes != 0) return ACLNN_ERR_PARAM_NULLPTR;
        return std::visit(
            [&](const auto& plan) -> aclnnStatus {
                if constexpr (is_plan<decltype(plan)>) {
                    constexpr std::string_view op = "aclnnAvgPool2dBackward";
                    auto* const first = static_cast<std::byte*>(const_cast<void*>(workspace));
                    // as much of it as there are addresses
                    const std::uint64_t most =
                        std::min<std::uint64_t>(UINTPTR_MAX - reinterpret_cast<std::uintptr_t>(first), INT64_MAX);
                    const std::span<std::byte> scratch(first, static_cast<std::size_t>(std::min(bytes, most)));
                    const status s =
                        detail::check_run(op, {{&in_memory_, in_}, {&out_memory_, out_}}, scratch, workspace_bytes(1));
                    return status_of(s);
                }
                return ACLNN_SUCCESS;
            },
            plan_);
    }

    /// Computes, after check_run succeeded.
    [[nodiscard]] aclnnStatus run(std::span<std::byte> workspace, executor_ref executor) const noexcept {
        return std::visit(
            [&](const auto& plan) -> aclnnStatus {
                if constexpr (is_plan<decltype(plan)>) return run_plan(plan, workspace, executor);
                return ACLNN_SUCCESS;
            },
            plan_);
    }

private:
    template <class T>
    [[nodiscard]] check plan_as(const pool_call& c) noexcept {
        const tensor_layout large = nchw(c.gradInput->view);
        if (is_empty(large.shape)) return check::none;
        if (!memory_is_sound(*c.gradOutput) || !memory_is_sound(*c.gradInput)) return check::memory;
        pool_operation next;
        next.layout_ = nchw(c.gradOutput->view);
        next.rounding_ = rounding_of(c.cubeMathType, c.self->data_type);
        next.copy_ = next.rounding_ == rounding::none ? next.layout_ : rounded_layout(next.layout_);
        const auto plan = plan_avg_pool_backward<T>(next.copy_, attributes_of(c), large);
        if (!plan) return check::memory;
        next.plan_ = *plan;
        next.in_memory_ = detail::tensor_memory("gradOutput", next.layout_, sizeof(T));
        next.out_memory_ = detail::tensor_memory("gradInput", large, sizeof(T));
        next.in_ = first_element<const T>(*c.gradOutput);
        next.out_ = first_element<T>(*c.gradInput);
        if (next.workspace_bytes(1) == SIZE_MAX) return check::memory;
        *this = next;
        return check::none;
    }

    std::variant<std::monostate, avg_pool_backward_plan<float>, avg_pool_backward_plan<float16>,
                 avg_pool_backward_plan<bfloat16>>
        plan_{};  // std::monostate: nothing to compute
    const void* in_ = nullptr;
    void* out_ = nullptr;
    detail::tensor_memory in_memory_{};
    detail::tensor_memory out_memory_{};
    rounding rounding_ = rounding::none;
    tensor_layout layout_{};  // of gradOutput
    tensor_layout copy_{};    // of what the plan reads
};

}  // namespace translation

}  // namespace aclnn
GRADKERN_ISA_NAMESPACE_END
