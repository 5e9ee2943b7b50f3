// aclnnAvgPool2dBackward under its own names. This header only translates: the operator is the core's avg_pool_backward.
// Everything is in namespace gradkern::aclnn and nothing has a global name, so the original's headers can be included, too.
//
//     aclnn                                         core
//     -------------------------------------------   ----------------------------------------------------------------
//     aclnnAvgPool2dBackwardGetWorkspaceSize        plan_avg_pool_backward, and workspace_bytes of the plan
//     aclnnAvgPool2dBackward                        run of the plan
//       gradOutput                                    diff_dst
//       self                                          only its shape: diff_src_shape; its memory is never read
//       gradInput                                     diff_src
//       kernelSize, stride                            kernel, strides; one number for both axes; without stride,
//                                                     kernelSize
//       padding                                       both pads_begin and pads_end
//       ceilMode                                      rounding_type::ceil_torch if true, floor if false
//       countIncludePad                               !exclude_pad
//       divisorOverride                               divisor_override; 0 means absent
//       cubeMathType                                  none: gradOutput is rounded before the core reads it
//       stream                                        executor_ref; null is serial
//     aclTensor, aclIntArray                        tensor_layout and an address, extents
//     (N, C, H, W), tagged NCHW                     data_format::ncx
//     (C, H, W), tagged NCL or NCHW                 the same with N = 1; it is an image, not a line
//     161001                                        errc::null_pointer
//     161002                                        every other error
//     aclOpExecutor                                 the plan with its addresses, referred to by a handle
//
// What differs from the original:
//
//     - The work is done when phase 2 returns; there are no devices, and workspaces and tensors are ordinary memory, at
//       any alignment.
//     - An executor keeps sizes, strides and addresses by value. aclTensor and aclIntArray objects may be destroyed
//       after phase 1; the memory of gradOutput and gradInput is first used in phase 2. There are no functions that change
//       the addresses of an executor (such as aclSetInputTensorAddr): make a new executor.
//     - gradOutput must have the size of the forward operator's result for self, and gradInput must not overlap it. The
//       original reads past the end instead.
//     - A cubeMathType outside 0 ... 3 is 161002, as its document says; its code says 161001.
//     - More than 65535 channels are accepted. N = 0 or C = 0 succeeds and does nothing, an H or W of 0 is refused.
//     - Handles of consumed or destroyed executors, and values that never were a handle, are 161002.
//     - A view must stay inside the storage it was created with.
//     - Results do not depend on the product. HF32 rounds ties to even.
//
// The executors are the only state of the library: one table for each program and instruction set (or for each shared
// library that hides its symbols). All functions may be called by many threads at once.
//
//     using namespace gradkern::aclnn;
//     std::uint64_t bytes = 0;
//     aclOpExecutor* executor = nullptr;
//     aclnnStatus s = aclnnAvgPool2dBackwardGetWorkspaceSize(gradOutput, self, kernel, nullptr, padding, false, true,
//                                                            0, 0, gradInput, &bytes, &executor);
//     std::vector<std::byte> workspace(bytes);
//     if (s == ACLNN_SUCCESS) s = aclnnAvgPool2dBackward(workspace.data(), bytes, executor, nullptr);
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <gradkern/avg_pool.hpp>
#include <gradkern/detail/config.hpp>
#include <gradkern/executor.hpp>
#include <gradkern/frontend/aclnn/handle_table.hpp>
#include <gradkern/frontend/aclnn/pool_operation.hpp>
#include <gradkern/frontend/aclnn/translation.hpp>
#include <gradkern/frontend/aclnn/types.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace aclnn {

/// A handle of an executor. It is not a valid pointer.
struct aclOpExecutor;

/// Threads for phase 2: null, or the address of a gradkern::executor_ref, which must live until the call returns.
using aclrtStream = void*;

namespace translation {

/// The executors of the program.
inline constinit handle_table<pool_operation, sizeof(std::uintptr_t) * 3, sizeof(std::uintptr_t) * 5> executors{};

/// The bits of a handle.
[[nodiscard]] inline std::uintptr_t bits(const aclOpExecutor* executor) noexcept {
    return reinterpret_cast<std::uintptr_t>(executor);
}

}  // namespace translation

// ----------------------------------------------------------------------------------------------------------- executors

/// Allows any number of runs of an executor, also at the same time, each with its own workspace. The caller then destroys it.
/// Errors: 161001 for null, 161002 for an invalid handle.
inline aclnnStatus aclSetAclOpExecutorRepeatable(aclOpExecutor* executor) noexcept {
    if (executor == nullptr) return ACLNN_ERR_PARAM_NULLPTR;
    return translation::executors.set_repeatable(translation::bits(executor)) ? ACLNN_SUCCESS : ACLNN_ERR_PARAM_INVALID;
}

/// Destroys an executor: a repeatable one, or one that is no longer needed. Runs in progress finish. Errors: 161001
/// for null, 161002 for an invalid handle.
inline aclnnStatus aclDestroyAclOpExecutor(aclOpExecutor* executor) noexcept {
    if (executor == nullptr) return ACLNN_ERR_PARAM_NULLPTR;
    return translation::executors.remove(translation::bits(executor)) ? ACLNN_SUCCESS : ACLNN_ERR_PARAM_INVALID;
}

/// Not in the original: bytes of workspace that let `workers` threads of phase 2 work at once. Phase 1 returns the bytes for
/// one worker; with a larger workspace, phase 2 uses more. 0 for an invalid handle.
[[nodiscard]] inline std::uint64_t workspace_bytes(const aclOpExecutor* executor, std::ptrdiff_t workers) noexcept {
    const auto operation = translation::executors.borrow(translation::bits(executor));
    return operation ? operation->workspace_bytes(workers) : 0;
}

// ---------------------------------------------------------------------------------------------- aclnnAvgPool2dBackward

/// Phase 1 of the gradient of a two-dimensional average pool: checks everything and plans. Touches no tensor memory.
///
///     gradInput[n, c, q] = sum over windows o that reach q of gradOutput[n, c, o] / divisor(o)
///
/// with the divisors of avg_pool.hpp: divisorOverride, unless it is 0; else the number of taps inside self, or with
/// countIncludePad also those in the padding. Quotients and sums are f32, rounded once to the type of the tensors;
/// positions that no window reaches become +0. The bits are those of avg_pool_backward, and ref::avg_pool_backward is
/// the reference.
///
/// gradOutput                    (N, C, OH, OW) or (C, OH, OW), with the size of the forward operator's result
/// self                          (N, C, H, W) or (C, H, W), the input of the forward operator
/// kernelSize                    1 or 2 numbers > 0, for (H, W)
/// stride                        null, or 0, 1 or 2 numbers > 0; without any, kernelSize
/// padding                       1 or 2 numbers >= 0, at most half of kernelSize
/// ceilMode                      round the number of windows up; one that would start in the end padding is dropped
/// countIncludePad               see above
/// divisorOverride               see above; may be negative
/// cubeMathType                  what f32 gradOutput is rounded to, once, before the division: 0 nothing; 1 and 3
///                               HF32 (11 fraction bits); 2 f16. 16-bit tensors are never rounded: 2 is refused for
///                               bf16, 3 for both
/// gradInput                     the shape of self; all of it will be written
/// workspaceSize                 receives the bytes that phase 2 needs: 0 if there is nothing to compute. Rounding
///                               takes 4 bytes per element of gradOutput (axes with stride 0 count as 1)
/// executor                      receives the handle for phase 2
/// profile                       limits of which products apply
///
/// All three tensors have one type (ACL_FLOAT, ACL_FLOAT16, ACL_BF16) and 4 axes tagged NCHW or 3 tagged NCL or NCHW.
/// Any strides and offsets are accepted, except that elements of gradInput must not overlap.
///
/// Errors, which leave *executor null and *workspaceSize 0: 161001 if a pointer other than stride is null, 161002
/// for every other mistake, 561101 if there is no memory for the executor. The first mistake is reported, in the order of
/// translation::check.
[[nodiscard]] inline aclnnStatus aclnnAvgPool2dBackwardGetWorkspaceSize(
    const aclTensor* gradOutput, const aclTensor* self, const aclIntArray* kernelSize, const aclIntArray* stride,
    const aclIntArray* padding, bool ceilMode, bool countIncludePad, std::int64_t divisorOverride,
    std::int8_t cubeMathType, aclTensor* gradInput, std::uint64_t* workspaceSize, aclOpExecutor** executor,
    product profile = product::current) noexcept {
    if (workspaceSize != nullptr) *workspaceSize = 0;
    if (executor != nullptr) *executor = nullptr;
    translation::pool_operation operation;
    const translation::check failed = operation.plan({.gradOutput = gradOutput,
                                                      .self = self,
                                                      .kernelSize = kernelSize,
                                                      .stride = stride,
                                                      .padding = padding,
                                                      .ceilMode = ceilMode,
                                                      .countIncludePad = countIncludePad,
                                                      .divisorOverride = divisorOverride,
                                                      .cubeMathType = cubeMathType,
                                                      .gradInput = gradInput,
                                                      .has_results = workspaceSize != nullptr && executor != nullptr,
                                                      .profile = profile});
    if (failed != translation::check::none) return translation::status_of(failed);
    const std::uintptr_t handle = translation::executors.insert(operation);
    if (handle == 0) return ACLNN_ERR_INNER_CREATE_EXECUTOR;
    *workspaceSize = operation.workspace_bytes(1);
    *executor = reinterpret_cast<aclOpExecutor*>(handle);
    return ACLNN_SUCCESS;
}

/// Phase 2: computes gradInput, and consumes the executor unless it is repeatable.
///
/// workspace, workspaceSize      at least the bytes that phase 1 returned, at any alignment, not used otherwise during the
///                               call and not overlapping the tensors; null if the size is 0
/// executor                      the handle of phase 1
/// stream                        null, or the address of a gradkern::executor_ref that lends threads. The bits of the
///                               result do not depend on it
///
/// Errors, in this order: 161001 for a null executor; 161002 for an invalid handle (consumed, destroyed, never
/// one); 161002 for a short workspace; 161001 for a null workspace of a size other than 0; 161001 for a tensor without
/// memory; 161002 for a gradInput that overlaps gradOutput, or a workspace that overlaps either. A call that returns one of these has
/// written nothing, and the executor is unchanged: use it in another call, or destroy it.
[[nodiscard]] inline aclnnStatus aclnnAvgPool2dBackward(void* workspace, std::uint64_t workspaceSize,
                                                        aclOpExecutor* executor, aclrtStream stream) noexcept {
    if (executor == nullptr) return ACLNN_ERR_PARAM_NULLPTR;
    const auto operation = translation::executors.borrow(translation::bits(executor));
    if (!operation) return ACLNN_ERR_PARAM_INVALID;
    const aclnnStatus refused = operation->check_run(workspace, workspaceSize);
    if (refused != ACLNN_SUCCESS) return refused;
    if (!translation::executors.use(translation::bits(executor))) return ACLNN_ERR_PARAM_INVALID;
    const std::span<std::byte> bytes(static_cast<std::byte*>(workspace), static_cast<std::size_t>(workspaceSize));
    return operation->run(bytes, stream == nullptr ? executor_ref{} : *static_cast<const executor_ref*>(stream));
}

}  // namespace aclnn
GRADKERN_ISA_NAMESPACE_END
