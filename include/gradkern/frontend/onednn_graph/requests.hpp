// Every operator of the oneDNN Graph documents as a request to the core (see translation.hpp).
#pragma once

#include <cstdint>

#include <gradkern/attributes.hpp>
#include <gradkern/detail/config.hpp>
#include <gradkern/frontend/onednn_graph/attributes.hpp>
#include <gradkern/frontend/onednn_graph/translation.hpp>
#include <gradkern/shape/bias.hpp>
#include <gradkern/shape/check.hpp>
#include <gradkern/shape/operators.hpp>
#include <gradkern/status.hpp>
#include <gradkern/tensor_view.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace onednn_graph {

namespace translation {

using pool_request = request<avg_pool_attributes>;
using max_pool_request = request<max_pool_attributes>;
using convolution_request = request<convolution_attributes>;
using conv_transpose_request = request<conv_transpose_attributes>;
using bias_request = request<bias_attributes>;

// The operators: shapes of the inputs, attributes, bytes of the widest element of the call, and the shape of the output
// tensor, if there is one. A new one needs its names in translation.hpp, a request here, and its forms in the header of
// its family.

[[nodiscard]] constexpr result<pool_request> AvgPool_request(const extents& src, const AvgPool_attributes& a,
                                                             std::int64_t bytes, const extents& dst = {}) noexcept {
    return finish(AvgPool_names, start_pool<avg_pool_attributes>(AvgPool_names, src, a), src.rank(), false, dst,
                  [&](const pool_request& q, const extents& output, bool tensor) {
                      return shape_in(shape::avg_pool_shapes(src, q.attributes, output, tensor, bytes),
                                      &shape::pooling_problem::small_shape);
                  });
}

[[nodiscard]] constexpr result<pool_request> AvgPoolBackprop_request(const extents& output_delta,
                                                                     const shape_input& input_shape,
                                                                     const AvgPoolBackprop_attributes& a,
                                                                     std::int64_t bytes,
                                                                     const extents& input_delta = {}) noexcept {
    const names& n = AvgPoolBackprop_names;
    auto started = start_pool<avg_pool_attributes>(n, output_delta, a);
    const extents& asked = asked_for(input_shape, a.src_shape, a.input_shape);
    started.value().attributes.diff_src_shape = asked;
    return finish(n, started, output_delta.rank(), asked.empty(), input_delta,
                  [&](const pool_request& q, const extents& output, bool tensor) {
                      return shape_in(
                          shape::avg_pool_backward_shapes(output_delta, q.attributes, output, tensor, bytes),
                          &shape::pooling_problem::large_shape);
                  });
}

[[nodiscard]] constexpr result<max_pool_request> MaxPool_request(const extents& src, const MaxPool_attributes& a,
                                                                 std::int64_t bytes, const extents& dst = {}) noexcept {
    const names& n = MaxPool_names;
    return finish(n, start_pool<max_pool_attributes>(n, src, a), src.rank(), false, dst,
                  [&](const max_pool_request& q, const extents& output, bool) {
                      return shape_in(shape::max_pool_shapes(src, q.attributes, output, {}, bytes),
                                      &shape::pooling_problem::small_shape);
                  });
}

[[nodiscard]] constexpr result<max_pool_request> MaxPoolBackward_request(const extents& src, const extents& diff_dst,
                                                                         const MaxPoolBackward_attributes& a,
                                                                         std::int64_t bytes,
                                                                         const extents& diff_src = {}) noexcept {
    const names& n = MaxPoolBackward_names;
    return finish(n, start_pool<max_pool_attributes>(n, src, a), src.rank(), false, diff_src,
                  [&](const max_pool_request& q, const extents& output, bool) {
                      return shape_in(shape::max_pool_backward_shapes(src, diff_dst, q.attributes, output, bytes),
                                      &shape::pooling_problem::large_shape);
                  });
}

[[nodiscard]] constexpr result<convolution_request> Convolution_request(const extents& src, const extents& weights,
                                                                        const extents& bias,
                                                                        const Convolution_attributes& a,
                                                                        std::int64_t bytes,
                                                                        const extents& dst = {}) noexcept {
    const names& n = Convolution_names;
    return finish(n, start_convolution<convolution_attributes>(n, src, a), src.rank(), false, dst,
                  [&](const convolution_request& q, const extents& output, bool tensor) {
                      return shape_in(
                          shape::convolution_shapes(src, weights, q.attributes, output, tensor, bytes, bias),
                          &shape::convolution_problem::small_shape);
                  });
}

[[nodiscard]] constexpr result<convolution_request> ConvolutionBackwardData_request(
    const extents& diff_dst, const extents& weights, const shape_input& dst_shape,
    const ConvolutionBackwardData_attributes& a, std::int64_t bytes, const extents& diff_src = {}) noexcept {
    const names& n = ConvolutionBackwardData_names;
    auto started = start_convolution<convolution_attributes>(n, diff_dst, a);
    const extents& asked = asked_for(dst_shape, a.dst_shape, a.output_shape);
    started.value().attributes.diff_src_shape = asked;
    return finish(n, started, diff_dst.rank(), asked.empty(), diff_src,
                  [&](const convolution_request& q, const extents& output, bool tensor) {
                      return shape_in(shape::convolution_backward_data_shapes(diff_dst, weights, q.attributes, output,
                                                                              tensor, bytes),
                                      &shape::convolution_problem::large_shape);
                  });
}

[[nodiscard]] constexpr result<convolution_request> ConvolutionBackwardWeights_request(
    const extents& src, const extents& diff_dst, const shape_input& weights_shape,
    const ConvolutionBackwardWeights_attributes& a, std::int64_t bytes, const extents& diff_weights = {}) noexcept {
    const names& n = ConvolutionBackwardWeights_names;
    auto started = start_convolution<convolution_attributes>(n, src, a);
    const extents& asked = asked_for(weights_shape, a.weights_shape, a.filter_shape);
    started.value().attributes.diff_weights_shape = asked;
    return finish(n, started, src.rank(), asked.empty(), diff_weights,
                  [&](const convolution_request& q, const extents& output, bool tensor) {
                      return shape_in(shape::convolution_backward_weights_shapes(src, diff_dst, q.attributes, output,
                                                                                 tensor, bytes),
                                      &shape::convolution_problem::weights_shape);
                  });
}

[[nodiscard]] constexpr result<conv_transpose_request> ConvTranspose_request(const extents& src, const extents& weights,
                                                                             const extents& bias,
                                                                             const ConvTranspose_attributes& a,
                                                                             std::int64_t bytes,
                                                                             const extents& dst = {}) noexcept {
    const names& n = ConvTranspose_names;
    return finish(n, start_convolution<conv_transpose_attributes>(n, src, a), src.rank(), false, dst,
                  [&](const conv_transpose_request& q, const extents& output, bool tensor) {
                      return shape_in(shape::conv_transpose_shapes(src, q.filter(weights), q.attributes, output, tensor,
                                                                   bytes, bias),
                                      &shape::convolution_problem::large_shape);
                  });
}

[[nodiscard]] constexpr result<conv_transpose_request> ConvTransposeBackwardData_request(
    const extents& diff_dst, const extents& weights, const ConvTransposeBackwardData_attributes& a, std::int64_t bytes,
    const extents& diff_src = {}) noexcept {
    const names& n = ConvTransposeBackwardData_names;
    return finish(n, start_convolution<conv_transpose_attributes>(n, diff_dst, a), diff_dst.rank(), false, diff_src,
                  [&](const conv_transpose_request& q, const extents& output, bool tensor) {
                      return shape_in(shape::conv_transpose_backward_data_shapes(diff_dst, q.filter(weights),
                                                                                 q.attributes, output, tensor, bytes),
                                      &shape::convolution_problem::small_shape);
                  });
}

[[nodiscard]] constexpr result<conv_transpose_request> ConvTransposeBackpropFilters_request(
    const extents& input_forward, const extents& output_delta, const shape_input& filter_shape,
    const ConvTransposeBackpropFilters_attributes& a, std::int64_t bytes, const extents& filter_delta = {}) noexcept {
    const names& n = ConvTransposeBackpropFilters_names;
    auto started = start_convolution<conv_transpose_attributes>(n, input_forward, a);
    const extents& asked = asked_for(filter_shape, a.weights_shape, a.filter_shape);
    started.value().attributes.diff_weights_shape = started->filter(asked);
    return finish(n, started, input_forward.rank(), asked.empty(), filter_delta,
                  [&](const conv_transpose_request& q, const extents& output, bool tensor) {
                      const auto core =
                          shape_in(shape::conv_transpose_backward_weights_shapes(
                                       input_forward, output_delta, q.attributes, q.filter(output), tensor, bytes),
                                   &shape::convolution_problem::weights_shape);
                      return core ? result<extents>(q.filter(*core)) : core;
                  });
}

[[nodiscard]] constexpr result<bias_request> BiasAddBackward_request(const extents& diff_dst,
                                                                     const BiasAddBackward_attributes& a,
                                                                     std::int64_t bytes,
                                                                     const extents& diff_bias = {}) noexcept {
    const names& n = BiasAddBackward_names;
    shape::operator_checks checks(n.op);
    checks.spatial_rank(n.first, diff_dst);
    bias_request started;
    read(checks, "data_format", a.data_format, started.attributes.data_format);
    if (!checks.ok()) return checks.error();
    return finish(n, result<bias_request>(started), 1, false, diff_bias,
                  [&](const bias_request& q, const extents& output, bool tensor) {
                      return shape_in(shape::bias_backward_shapes(diff_dst, q.attributes, output, tensor, bytes),
                                      &shape::bias_problem::diff_bias_shape);
                  });
}

}  // namespace translation

}  // namespace onednn_graph
GRADKERN_ISA_NAMESPACE_END
