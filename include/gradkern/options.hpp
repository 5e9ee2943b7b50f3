// Options of every plan, besides the attributes of the operator.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include <gradkern/detail/config.hpp>
#include <gradkern/detail/members.hpp>
#include <gradkern/executor.hpp>

GRADKERN_NAMESPACE_BEGIN

/// What happens to the values an output holds before the call.
enum class output_mode : std::uint8_t {
    /// they are never read
    overwrite,
    /// result = T(f32(previous value) + sum), one rounding. Each call rounds. So a 16-bit output stops growing once a call
    /// adds less than half of its last bit: a sum of ones stops at 256 in bf16 and at 2048 in f16. To accumulate gradients of
    /// weights or bias over many calls, use f32 gradients, which 16-bit inputs allow.
    accumulate
};
/// The accepted words, as an error lists them.
[[nodiscard]] GRADKERN_ALWAYS_INLINE constexpr std::string_view words_of(output_mode) noexcept {
    return "overwrite or accumulate";
}

/// Whether results may differ from the definition. Only `strict` promises the same bits everywhere.
///
/// `relaxed` is for convolutions of bf16 on targets with dot products of bf16 pairs (AVX512_BF16; GRADKERN_DOT_BF16 in
/// detail/config.hpp). If a plan uses them, describe() says `dot_bf16`. Otherwise `relaxed` has the bits of `strict`. With
/// dot products
///
/// - sums are still f32. Their order depends on shapes, `algorithm` and the CPU, not on threads, executors or workspaces.
///   Two products may be added before they are added to the sum;
/// - the error of a sum may be twice that of a strict one if inputs are 0 or normal numbers; accuracy.hpp includes this.
///   Subnormal inputs, products and sums may be treated as 0;
/// - Inf and NaN appear where they do with `strict`, with two exceptions: a subnormal number times Inf may be a NaN, and a
///   partial sum may exceed the range of f32.
enum class precision : std::uint8_t {
    strict,  ///< f32 products and sums in the library's fixed order
    relaxed  ///< hardware dot products of bf16 may be used where the target has them
};
/// The accepted words, as an error lists them.
[[nodiscard]] GRADKERN_ALWAYS_INLINE constexpr std::string_view words_of(precision) noexcept {
    return "strict or relaxed";
}

/// Which way an operator is computed: a row of the table of paths of its engine (detail/*/select.hpp). The bits of a strict result
/// are the same for all of them. `automatic` takes the fastest for the shape; the others exist to be tested and measured. One
/// that the operator does not have, or that does not fit its problem, is `unsupported`.
enum class algorithm : std::uint8_t {
    automatic,  ///< the plan chooses
    // Convolutions; the first two of bias_backward, too.
    dense,              ///< lanes hold output channels of one group; activations are read in place
    dense_packed,       ///< the same from a packing buffer of bounded size, channels innermost
    depthwise,          ///< groups of few channels, often of one: lanes hold channels of all groups
    depthwise_sliding,  ///< groups of one channel: each number is read once for several column taps of a line
    grouped,            ///< groups of 4 or 8 channels: lanes hold channels of all groups and share those of their group
    // Forward passes, and data gradients, of convolutions alone.
    pointwise,        ///< 1x1 kernels: lanes hold pixels
    narrow_output,    ///< few output channels: lanes hold pixels of a line
    depthwise_lines,  ///< one channel in each group, in NCX: lanes hold columns, windows slide along the rows
    // Weight gradients of convolutions alone.
    few_channels,  ///< one group: lanes share its few input channels
    tap_lanes,     ///< groups of few channels, or one group: lanes hold the column taps of all channels of a group
    dense_bf16,    ///< dense, with dot products of pairs of bf16 pixels: precision::relaxed
    // Average pools, forward and backward; forward `windows`, too.
    collapsed_lines,  ///< the short lines of a block are one: lanes hold pixels, over the ends of rows, or of planes
    non_overlapping,  ///< each column belongs to one window at most. Backward alone
    lines,            ///< sums over depth and rows, line by line, then over the columns of a line
    taps,             ///< such sums for each tap of the columns: windows of any size
    // max_pool; the first two of lp_pool and lp_pool_backward, too.
    windows,          ///< lanes hold channels; windows are read in place
    windows_packed,   ///< the same from a packing buffer of bounded size, channels innermost
    windows_strided,  ///< the same element by element, for planes and kernels of any size
    // max_pool_backward.
    gather_form,           ///< each pixel adds the gradients of the windows whose maximum it is; src is read in place
    scatter_form,          ///< each window adds its gradient to a sum in scratch; src is read in place
    scatter_form_packed,   ///< the same from a packing buffer
    scatter_form_strided,  ///< the same element by element, for planes and kernels of any size
    // max_pool_backward_from_indices.
    sums_in_place,  ///< gradients are added to diff_src itself
    sums_sliding,   ///< to sums in scratch that slide along the planes, as far as indices look back
    sums_buffered,  ///< to sums of a block of pixels in scratch
};
inline constexpr algorithm last_algorithm = algorithm::sums_buffered;  ///< the enumerator with the largest number
/// The accepted words, as an error lists them.
[[nodiscard]] GRADKERN_ALWAYS_INLINE constexpr std::string_view words_of(algorithm) noexcept {
    return "automatic, or an algorithm that the operator has";
}
/// The word that describe() prints for it; "unknown" for a number that names no enumerator.
[[nodiscard]] GRADKERN_ALWAYS_INLINE constexpr std::string_view name_of(algorithm a) noexcept {
    constexpr std::string_view names[]{"automatic",
                                       "dense",
                                       "dense_packed",
                                       "depthwise",
                                       "depthwise_sliding",
                                       "grouped",
                                       "pointwise",
                                       "narrow_output",
                                       "depthwise_lines",
                                       "few_channels",
                                       "tap_lanes",
                                       "dense_bf16",
                                       "collapsed_lines",
                                       "non_overlapping",
                                       "lines",
                                       "taps",
                                       "windows",
                                       "windows_packed",
                                       "windows_strided",
                                       "gather_form",
                                       "scatter_form",
                                       "scatter_form_packed",
                                       "scatter_form_strided",
                                       "sums_in_place",
                                       "sums_sliding",
                                       "sums_buffered"};
    const auto i = static_cast<std::size_t>(a);
    return i < sizeof names / sizeof *names ? names[i] : "unknown";
}
static_assert(name_of(last_algorithm) == "sums_buffered");  // both lists have one order

/// When max_pool_backward_from_indices checks the indices. In both cases no index causes a write out of bounds.
enum class index_check : std::uint8_t {
    first,  ///< all of them before the first write: if one is out of range, nothing is written
    each    ///< each one just before its own write, which saves a pass over the indices: if one is out of range, the
            ///< output is partly written. Accumulating plans always check first
};
/// The accepted words, as an error lists them.
[[nodiscard]] GRADKERN_ALWAYS_INLINE constexpr std::string_view words_of(index_check) noexcept {
    return "first or each";
}

/// How much scratch memory a plan needs. The bits of a strict result are the same in both cases.
enum class scratch_use : std::uint8_t {
    fast,  ///< as much as the fastest plan needs
    /// Little for large problems: pools of any size need at most 40 KiB for each worker (except
    /// max_pool_backward_from_indices). Small problems may need more than with `fast`, and some plans take many times as
    /// long. Which algorithm of the operator is named is ignored. With dot products of bf16 it is the same as `fast`. Calls
    /// without a workspace use it where the fast plan does not fit the stack, even without scratch that only saves time
    least
};
/// The accepted words, as an error lists them.
[[nodiscard]] GRADKERN_ALWAYS_INLINE constexpr std::string_view words_of(scratch_use) noexcept {
    return "fast or least";
}

/// How gradients of weights and bias are summed over the batch. Other operators compute each image by itself, and their
/// results are the same for the first two.
enum class summation : std::uint8_t {
    joint,  ///< chunks of positions run over the ends of images, which is fastest where images are small
    /// each image is summed by itself, and then images are added in order: rounding errors grow with the number of images,
    /// which those of `joint` do not. The first image is added to the previous value where
    /// results accumulate. So if a batch is split into consecutive micro-batches, of which the first overwrites and the others
    /// accumulate, f32 gradients have the bits of one call over the whole batch
    image_by_image,
    /// each image has gradients of its own: `diff_weights` and `diff_bias` are N dense tensors one behind the other, and their
    /// layouts are those of one image. If the gradients of all images are added in order, beginning with the first, they have
    /// the bits of image_by_image. `unsupported` by operators that do not sum over the batch
    per_image
};
/// The accepted words, as an error lists them.
[[nodiscard]] GRADKERN_ALWAYS_INLINE constexpr std::string_view words_of(summation) noexcept {
    return "joint, image_by_image or per_image";
}

/// Options of a plan. None of them changes the shape of a tensor; with summation::per_image there are N of some. A value that is no
/// enumerator is invalid_argument, reported after errors of shapes.
struct plan_options {
    output_mode output = output_mode::overwrite;             ///< overwrite or accumulate
    gradkern::precision precision = precision::strict;       ///< numerical contract
    gradkern::algorithm algorithm = algorithm::automatic;    ///< path; the result does not depend on it
    gradkern::index_check index_check = index_check::first;  ///< when indices are checked
    scratch_use scratch = scratch_use::fast;                 ///< how much workspace the plan needs
    gradkern::summation summation = summation::joint;        ///< how gradients of weights and bias sum over the batch

    /// Whether all members are equal: for a cache of plans.
    GRADKERN_PER_ISA friend constexpr bool operator==(const plan_options&, const plan_options&) noexcept = default;
};

/// Options of a one-call operator: those of the plan, scratch memory and threads. A call that fails with
/// workspace_too_small needs a workspace: error::expected is its size in bytes, and plan_X(...)->workspace_bytes(threads)
/// tells it beforehand.
struct call_options {
    plan_options plan{};  ///< as for plan_X
    /// May be empty for pools and bias gradients, and for convolutions whose plan with scratch_use::least needs no more than
    /// 40 KiB on a CPU with vectors of 16 floats. So the problem alone decides, on every CPU, unless precision::relaxed uses
    /// dot products of bf16. (For max_pool_backward_from_indices it may be empty if planes have up to 10,240 elements, 5,120
    /// where they are f64 or have more than 2^18 windows; or if f32 results are overwritten and planes have up to 2^18
    /// windows.) The 40 KiB are on the stack; longer vectors need
    /// more.
    std::span<std::byte> workspace{members::no_bytes, members::no_bytes};
    executor_ref executor{};  ///< serial by default
};

GRADKERN_NAMESPACE_END
