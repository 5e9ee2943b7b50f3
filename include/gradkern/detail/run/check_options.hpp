// The check of plan_options, which operators and references share.
#pragma once

#include <gradkern/detail/config.hpp>
#include <gradkern/options.hpp>
#include <gradkern/shape/check.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail {

/// Enumerators that there are.
constexpr void check_options(shape::operator_checks& checks, const plan_options& options) noexcept {
    checks.word("output", options.output, output_mode::accumulate);
    checks.word("precision", options.precision, precision::relaxed);
    checks.word("algorithm", options.algorithm, last_algorithm);
    checks.word("index_check", options.index_check, index_check::each);
    checks.word("scratch", options.scratch, scratch_use::least);
}

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END
