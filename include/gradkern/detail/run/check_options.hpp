// The check of plan_options, which operators and references share.
#pragma once

#include <cstdint>
#include <string_view>

#include <gradkern/detail/config.hpp>
#include <gradkern/options.hpp>
#include <gradkern/shape/check.hpp>
#include <gradkern/tensor_view.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail {

/// Whether an operator adds the images of a batch up: gradients of weights and bias do.
enum class batch_use : std::uint8_t { image_by_image, summed };

/// Enumerators that there are, and that the operator has.
GRADKERN_COLD constexpr void check_options(shape::operator_checks& checks, const plan_options& options,
                                           batch_use batch = batch_use::image_by_image) noexcept {
    checks.word("output", options.output, output_mode::accumulate);
    checks.word("precision", options.precision, precision::relaxed);
    checks.word("algorithm", options.algorithm, last_algorithm);
    checks.word("index_check", options.index_check, index_check::each);
    checks.word("scratch", options.scratch, scratch_use::least);
    checks.word("summation", options.summation, summation::per_image);
    checks.require_that(batch == batch_use::summed || options.summation != summation::per_image, errc::unsupported,
                        "summation", "per_image is for gradients of weights and bias, which are sums over the batch");
}

/// The layout of gradients that options.summation makes of the batch: `one`, or `images` of them one behind the other.
[[nodiscard]] constexpr tensor_layout batch_layout(const tensor_layout& one, std::int64_t images,
                                                   const plan_options& options) noexcept {
    if (options.summation != summation::per_image || one.empty()) return one;
    return tensor_layout(extents{images, shape::element_count(one.shape)});
}
/// Checks what batch_layout needs.
constexpr void check_batch_layout(shape::operator_checks& checks, std::string_view argument, const tensor_layout& one,
                                  std::int64_t images, std::int64_t element_bytes,
                                  const plan_options& options) noexcept {
    if (options.summation != summation::per_image || !checks.ok()) return;
    checks.require_that(one.is_dense() || one.strides == shape::strides_of(one.shape), errc::unsupported, argument,
                        "with summation::per_image it must be dense: images lie one behind the other");
    if (checks.ok()) checks.volume(argument, batch_layout(one, images, options).shape, element_bytes);
}

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END
