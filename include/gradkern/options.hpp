// Choices that every plan offers beside the operator's own attributes.
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
    /// result = T(f32(previous value) + sum), one rounding. Of many calls each rounds, and where the output has 16 bits a sum
    /// stops growing once a call adds less than half of its last bit: in bf16 ones add up to 256, in f16 to 2048. Whoever
    /// accumulates gradients of weights or of a bias over many calls asks for them in f32, which 16-bit inputs allow.
    accumulate
};
/// The words an error names.
[[nodiscard]] GRADKERN_ALWAYS_INLINE constexpr std::string_view words_of(output_mode) noexcept {
    return "overwrite or accumulate";
}

/// How far results may leave the definition. Only `strict` promises the same bits everywhere.
///
/// `relaxed` is for convolutions of bf16 on targets with dot products of bf16 pairs (AVX512_BF16; GRADKERN_DOT_BF16 in
/// detail/config.hpp): where a plan uses them, describe() says `dot_bf16`. Everywhere else it is `strict`, bit for bit. With
/// dot products
///
/// - sums are still f32, in an order that shapes, `algorithm` and the CPU decide: threads, executors and workspaces do not
///   change a bit. Two products may be added to one another before the sum takes them;
/// - the error of a sum may be twice that of a strict one, which accuracy.hpp counts in, where inputs are 0 or normal
///   numbers: subnormal inputs, products and sums may count as 0;
/// - Inf and NaN appear where they do with `strict`, but for a subnormal number times Inf, which may be a NaN, and for sums
///   that leave the range of f32 on the way.
enum class precision : std::uint8_t {
    strict,  ///< f32 products and sums in the library's fixed order
    relaxed  ///< hardware dot products of bf16 may be used where the target has them
};
/// The words an error names.
[[nodiscard]] GRADKERN_ALWAYS_INLINE constexpr std::string_view words_of(precision) noexcept {
    return "strict or relaxed";
}

/// Which way an operator is computed: a row of the table of paths of its engine (detail/*/select.hpp). The bits of a strict result
/// are the same for all of them. `automatic` takes the fastest for the shape; the others exist to be tested and measured. One
/// that the operator does not have, or that does not fit its problem, is `unsupported`.
enum class algorithm : std::uint8_t {
    automatic,  ///< the plan chooses
    // Convolutions.
    dense,              ///< lanes hold output channels of one group; activations are read in place
    dense_packed,       ///< the same from a packing buffer of bounded size, channels innermost
    dense_staged,       // (old name)
    channelwise,        // (old name)
    positionwise,       // (old name)
};
/// The words an error names.
[[nodiscard]] GRADKERN_ALWAYS_INLINE constexpr std::string_view words_of(algorithm) noexcept {
    return "automatic, or an algorithm that the operator has";
}
/// The word that describe() prints for it.
[[nodiscard]] GRADKERN_ALWAYS_INLINE constexpr std::string_view name_of(algorithm a) noexcept {
    switch (a) {
        case algorithm::automatic: return "automatic";
        case algorithm::dense: return "dense";
        case algorithm::dense_packed: return "dense_packed";
        default: return "unknown";
    }
}

/// When max_pool_backward_from_indices checks the indices. No index leads to a write out of bounds either way.
enum class index_check : std::uint8_t {
    first,  ///< all of them before the first write: where one is out of range, nothing is written
    each    ///< each one just before its own write, which saves a pass over the indices: where one is out of range, the
            ///< output is left partly written. Accumulating plans check first all the same
};
/// The words an error names.
[[nodiscard]] GRADKERN_ALWAYS_INLINE constexpr std::string_view words_of(index_check) noexcept {
    return "first or each";
}

/// How much scratch memory a plan asks for. The bits of a strict result are the same either way.
enum class scratch_use : std::uint8_t {
    fast,  ///< as much as makes it fast
    /// As little as it can do with: at most 40 KiB for each lane of a pool, whatever its size (but for
    /// max_pool_backward_from_indices); some take many times as long. `algorithm` is not looked at, and where dot products of
    /// bf16 are taken it is `fast`. Calls without a workspace fall back on it
    least
};
/// The words an error names.
[[nodiscard]] GRADKERN_ALWAYS_INLINE constexpr std::string_view words_of(scratch_use) noexcept {
    return "fast or least";
}

/// Options of a plan. None of them changes a shape. A number that names no enumerator is invalid_argument, found after the
/// errors of shapes.
struct plan_options {
    output_mode output = output_mode::overwrite;             ///< overwrite or accumulate
    gradkern::precision precision = precision::strict;       ///< numerical contract
    gradkern::algorithm algorithm = algorithm::automatic;    ///< path; the result does not depend on it
    gradkern::index_check index_check = index_check::first;  ///< what a bad index may leave behind
    scratch_use scratch = scratch_use::fast;                 ///< how much workspace is asked for
};

/// Options of a one-call operator: the plan's, scratch memory and threads. A call that fails with workspace_too_small needs
/// a workspace here: error::expected has its bytes, and plan_X(...)->workspace_bytes(threads) says them beforehand.
struct call_options {
    plan_options plan{};  ///< as for plan_X
    /// May be empty for pools and bias gradients, and for convolutions whose plan with scratch_use::least needs no more than
    /// 40 KiB on a CPU with vectors of 16 floats: the problem alone decides, on every CPU, unless precision::relaxed takes
    /// dot products of bf16. (max_pool_backward_from_indices
    /// does without for planes of up to 10,240 places, and for f32 results that are overwritten in planes of up to 2^18
    /// windows.) The 40 KiB are on the stack, more where vectors are longer.
    std::span<std::byte> workspace{members::no_bytes, members::no_bytes};
    executor_ref executor{};  ///< serial by default
};

GRADKERN_NAMESPACE_END
