// The shape rules of each operator: which tensor has which role. Kernels and references use them.
#pragma once

#include <cstdint>

#include <gradkern/attributes.hpp>
#include <gradkern/detail/config.hpp>
#include <gradkern/shape/convolution.hpp>
#include <gradkern/shape/pooling.hpp>
#include <gradkern/status.hpp>
#include <gradkern/tensor_view.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace shape {

/// The source of the shape of a result if the caller gives one: an output tensor or a shape input takes precedence over the
/// attribute, which is then ignored.
struct requested_shape {
    extents shape{};
    bool is_tensor = false;

    constexpr requested_shape(const extents& input, bool tensor, const extents& attribute) noexcept
        : shape(input.empty() ? attribute : input), is_tensor(!input.empty() && tensor) {}
};

/// src, weights, bias -> dst. `bias` and `dst` may be empty; `tensor` says that `dst` is the shape of an output tensor.
[[nodiscard]] GRADKERN_NOINLINE constexpr result<convolution_problem> convolution_shapes(
    const extents& src, const extents& weights, const convolution_attributes& a, const extents& dst, bool tensor,
    std::int64_t element_bytes, const extents& bias = {}) noexcept {
    convolution_request q{.op = "convolution",
                          .result = convolution_result::small,
                          .large_name = "src",
                          .small_name = "dst",
                          .large = src,
                          .small = dst,
                          .weights = weights,
                          .bias = bias,
                          .result_is_tensor = tensor,
                          .element_bytes = element_bytes};
    q.take(a);
    return infer_convolution_problem(q);
}

/// diff_dst, weights -> diff_src. Without a shape the smallest size that fits, plus output_padding.
[[nodiscard]] GRADKERN_NOINLINE constexpr result<convolution_problem> convolution_backward_data_shapes(
    const extents& diff_dst, const extents& weights, const convolution_attributes& a, const extents& diff_src,
    bool tensor, std::int64_t element_bytes) noexcept {
    const requested_shape asked(diff_src, tensor, a.diff_src_shape);
    convolution_request q{.op = "convolution_backward_data",
                          .result = convolution_result::large,
                          .large_name = "diff_src",
                          .small_name = "diff_dst",
                          .large = asked.shape,
                          .small = diff_dst,
                          .weights = weights,
                          .result_is_tensor = asked.is_tensor,
                          .uses_output_padding = true,
                          .element_bytes = element_bytes};
    q.take(a);
    return infer_convolution_problem(q);
}

/// src, diff_dst -> diff_weights.
[[nodiscard]] GRADKERN_NOINLINE constexpr result<convolution_problem> convolution_backward_weights_shapes(
    const extents& src, const extents& diff_dst, const convolution_attributes& a, const extents& diff_weights,
    bool tensor, std::int64_t element_bytes, const extents& diff_bias = {}) noexcept {
    const requested_shape asked(diff_weights, tensor, a.diff_weights_shape);
    convolution_request q{.op = "convolution_backward_weights",
                          .result = convolution_result::weights,
                          .large_name = "src",
                          .small_name = "diff_dst",
                          .weights_name = "diff_weights",
                          .large = src,
                          .small = diff_dst,
                          .weights = asked.shape,
                          .bias_name = "diff_bias",
                          .bias = diff_bias,
                          .result_is_tensor = asked.is_tensor,
                          .element_bytes = element_bytes};
    q.take(a);
    return infer_convolution_problem(q);
}

/// src, weights, bias -> dst. Rule T without a shape, rule TB with one.
[[nodiscard]] GRADKERN_NOINLINE constexpr result<convolution_problem> conv_transpose_shapes(
    const extents& src, const extents& weights, const conv_transpose_attributes& a, const extents& dst, bool tensor,
    std::int64_t element_bytes, const extents& bias = {}) noexcept {
    const requested_shape asked(dst, tensor, a.dst_shape);
    convolution_request q{.op = "conv_transpose",
                          .transposed = true,
                          .result = convolution_result::large,
                          .large_name = "dst",
                          .small_name = "src",
                          .large = asked.shape,
                          .small = src,
                          .weights = weights,
                          .bias = bias,
                          .result_is_tensor = asked.is_tensor,
                          .uses_output_padding = true,
                          .element_bytes = element_bytes};
    q.take(a);
    return infer_convolution_problem(q);
}

/// diff_dst, weights -> diff_src.
[[nodiscard]] GRADKERN_NOINLINE constexpr result<convolution_problem> conv_transpose_backward_data_shapes(
    const extents& diff_dst, const extents& weights, const conv_transpose_attributes& a, const extents& diff_src,
    bool tensor, std::int64_t element_bytes) noexcept {
    const requested_shape asked(diff_src, tensor, a.diff_src_shape);
    convolution_request q{.op = "conv_transpose_backward_data",
                          .transposed = true,
                          .result = convolution_result::small,
                          .large_name = "diff_dst",
                          .small_name = "diff_src",
                          .large = diff_dst,
                          .small = asked.shape,
                          .weights = weights,
                          .result_is_tensor = asked.is_tensor,
                          .uses_output_padding = true,
                          .element_bytes = element_bytes};
    q.take(a);
    return infer_convolution_problem(q);
}

/// src, diff_dst -> diff_weights.
[[nodiscard]] GRADKERN_NOINLINE constexpr result<convolution_problem> conv_transpose_backward_weights_shapes(
    const extents& src, const extents& diff_dst, const conv_transpose_attributes& a, const extents& diff_weights,
    bool tensor, std::int64_t element_bytes, const extents& diff_bias = {}) noexcept {
    const requested_shape asked(diff_weights, tensor, a.diff_weights_shape);
    convolution_request q{.op = "conv_transpose_backward_weights",
                          .transposed = true,
                          .result = convolution_result::weights,
                          .large_name = "diff_dst",
                          .small_name = "src",
                          .weights_name = "diff_weights",
                          .large = diff_dst,
                          .small = src,
                          .weights = asked.shape,
                          .bias_name = "diff_bias",
                          .bias = diff_bias,
                          .result_is_tensor = asked.is_tensor,
                          .uses_output_padding = true,
                          .element_bytes = element_bytes};
    q.take(a);
    return infer_convolution_problem(q);
}

/// src -> dst.
[[nodiscard]] constexpr result<pooling_problem> avg_pool_shapes(const extents& src, const avg_pool_attributes& a,
                                                                const extents& dst, bool tensor,
                                                                std::int64_t element_bytes) noexcept {
    pooling_request q{.op = "avg_pool",
                      .large_name = "src",
                      .small_name = "dst",
                      .large = src,
                      .small = dst,
                      .result_is_tensor = tensor,
                      .element_bytes = element_bytes};
    q.take(a);
    q.divisor_override = a.divisor_override;
    return infer_pooling_problem(q);
}

/// diff_dst -> diff_src.
[[nodiscard]] constexpr result<pooling_problem> avg_pool_backward_shapes(const extents& diff_dst,
                                                                         const avg_pool_attributes& a,
                                                                         const extents& diff_src, bool tensor,
                                                                         std::int64_t element_bytes) noexcept {
    const requested_shape asked(diff_src, tensor, a.diff_src_shape);
    pooling_request q{.op = "avg_pool_backward",
                      .backward = true,
                      .large_name = "diff_src",
                      .small_name = "diff_dst",
                      .large = asked.shape,
                      .small = diff_dst,
                      .result_is_tensor = asked.is_tensor,
                      .element_bytes = element_bytes};
    q.take(a);
    q.divisor_override = a.divisor_override;
    return infer_pooling_problem(q);
}

/// src -> dst.
[[nodiscard]] constexpr result<pooling_problem> lp_pool_shapes(const extents& src, const lp_pool_attributes& a,
                                                               const extents& dst,
                                                               std::int64_t element_bytes) noexcept {
    pooling_request q{.op = "lp_pool",
                      .large_name = "src",
                      .small_name = "dst",
                      .large = src,
                      .small = dst,
                      .result_is_tensor = true,
                      .element_bytes = element_bytes};
    q.take(a);
    return infer_pooling_problem(q);
}

/// src, dst, diff_dst -> diff_src. `diff_src` may be empty.
[[nodiscard]] constexpr result<pooling_problem> lp_pool_backward_shapes(const extents& src, const extents& dst,
                                                                        const extents& diff_dst,
                                                                        const lp_pool_attributes& a,
                                                                        const extents& diff_src,
                                                                        std::int64_t element_bytes) noexcept {
    pooling_request q{.op = "lp_pool_backward",
                      .needs_small = true,
                      .large_name = "src",
                      .small_name = "dst",
                      .large = src,
                      .small = dst,
                      .large_twin_name = "diff_src",
                      .large_twin = diff_src,
                      .small_twin_name = "diff_dst",
                      .small_twin = diff_dst,
                      .needs_small_twin = true,
                      .result_is_tensor = true,
                      .element_bytes = element_bytes};
    q.take(a);
    return infer_pooling_problem(q);
}

/// src -> dst, indices. `indices` may be empty.
[[nodiscard]] constexpr result<pooling_problem> max_pool_shapes(const extents& src, const max_pool_attributes& a,
                                                                const extents& dst, const extents& indices,
                                                                std::int64_t element_bytes) noexcept {
    pooling_request q{.op = "max_pool",
                      .large_name = "src",
                      .small_name = "dst",
                      .large = src,
                      .small = dst,
                      .small_twin_name = "indices",
                      .small_twin = indices,
                      .result_is_tensor = true,
                      .element_bytes = indices.empty() ? element_bytes : std::int64_t{sizeof(std::int64_t)}};
    q.take(a);
    q.index_base = a.index_base;
    q.storage_order = a.storage_order;
    return infer_pooling_problem(q);
}

/// src, diff_dst -> diff_src. `diff_src` may be empty.
[[nodiscard]] constexpr result<pooling_problem> max_pool_backward_shapes(const extents& src, const extents& diff_dst,
                                                                         const max_pool_attributes& a,
                                                                         const extents& diff_src,
                                                                         std::int64_t element_bytes) noexcept {
    pooling_request q{.op = "max_pool_backward",
                      .needs_small = true,
                      .large_name = "src",
                      .small_name = "diff_dst",
                      .large = src,
                      .small = diff_dst,
                      .large_twin_name = "diff_src",
                      .large_twin = diff_src,
                      .result_is_tensor = true,
                      .element_bytes = element_bytes};
    q.take(a);
    q.index_base = a.index_base;
    q.storage_order = a.storage_order;
    return infer_pooling_problem(q);
}

}  // namespace shape
GRADKERN_ISA_NAMESPACE_END
