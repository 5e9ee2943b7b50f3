// The answers of one instruction set; ONE_CALL_ASK names the function. Nothing here is shared with other objects.
#include "one_call/probe.hpp"

#include <vector>

#include <gradkern/avg_pool.hpp>
#include <gradkern/bias.hpp>
#include <gradkern/conv_transpose.hpp>
#include <gradkern/convolution.hpp>
#include <gradkern/detail/run/operator.hpp>
#include <gradkern/lp_pool.hpp>
#include <gradkern/max_pool.hpp>

namespace one_call {
namespace {

/// As run_call decides.
template <bool always, class Make>
answer decide(const gk::plan_options& options, const Make& make) {
    auto plan = make(options);
    if (!plan) return {};
    answer a{.planned = true, .fast_bytes = plan->workspace_bytes()};
    a.accepted = gk::detail::fit_stack<always>(plan, options, make);
    a.bytes = plan->workspace_bytes();
    a.fast = a.bytes == a.fast_bytes;
    return a;
}

template <class T, class G>
answer ask(const problem& p) {
    switch (p.op) {
        case op::avg_pool:
            return decide<true>(p.options, [&](const gk::plan_options& how) {
                return gk::plan_avg_pool<T>(p.large, p.average, p.small, how);
            });
        case op::avg_pool_backward:
            return decide<true>(p.options, [&](const gk::plan_options& how) {
                return gk::plan_avg_pool_backward<T>(p.small, p.average, p.large, how);
            });
        case op::lp_pool:
            return decide<true>(p.options, [&](const gk::plan_options& how) {
                return gk::plan_lp_pool<T>(p.large, p.norm, p.small, how);
            });
        case op::lp_pool_backward:
            return decide<true>(p.options, [&](const gk::plan_options& how) {
                return gk::plan_lp_pool_backward<T>(p.large, p.small, p.small, p.norm, p.large, how);
            });
        case op::max_pool:
            return decide<true>(p.options, [&](const gk::plan_options& how) {
                return gk::plan_max_pool<T>(p.large, p.maximum, p.small,
                                            p.with_indices ? gk::tensor_layout(p.small.shape) : gk::tensor_layout{},
                                            how);
            });
        case op::max_pool_backward:
            return decide<true>(p.options, [&](const gk::plan_options& how) {
                return gk::plan_max_pool_backward<T>(p.large, p.small, p.maximum, p.large, how);
            });
        case op::max_pool_backward_from_indices:
            return decide<false>(p.options, [&](const gk::plan_options& how) {
                return gk::plan_max_pool_backward_from_indices<T>(
                    p.small, p.small, {.data_format = p.maximum.data_format, .index_base = p.maximum.index_base},
                    p.large, how);
            });
        case op::bias_backward:
            return decide<true>(p.options, [&](const gk::plan_options& how) {
                return gk::plan_bias_backward<T, G>(p.large, {.data_format = p.average.data_format}, {}, how);
            });
        case op::convolution:
            return decide<false>(p.options, [&](const gk::plan_options& how) {
                return gk::plan_convolution<T>(p.large, p.weights, {}, p.conv, p.small, how);
            });
        case op::convolution_backward_data:
            return decide<false>(p.options, [&](const gk::plan_options& how) {
                return gk::plan_convolution_backward_data<T>(p.small, p.weights, p.conv, p.large, how);
            });
        case op::convolution_backward_weights:
            return decide<false>(p.options, [&](const gk::plan_options& how) {
                return gk::plan_convolution_backward_weights<T, G>(p.large, p.small, p.conv, p.weights, {}, how);
            });
        case op::conv_transpose:
            return decide<false>(p.options, [&](const gk::plan_options& how) {
                return gk::plan_conv_transpose<T>(p.small, p.weights, {}, p.transpose, p.large, how);
            });
        case op::conv_transpose_backward_data:
            return decide<false>(p.options, [&](const gk::plan_options& how) {
                return gk::plan_conv_transpose_backward_data<T>(p.large, p.weights, p.transpose, p.small, how);
            });
        case op::conv_transpose_backward_weights:
            return decide<false>(p.options, [&](const gk::plan_options& how) {
                return gk::plan_conv_transpose_backward_weights<T, G>(p.small, p.large, p.transpose, p.weights, {},
                                                                      how);
            });
    }
    return {};
}

}  // namespace

std::vector<answer> ONE_CALL_ASK(const std::vector<problem>& problems) {
    std::vector<answer> answers;
    answers.reserve(problems.size());
    for (const problem& p : problems) {
        switch (p.type) {
            case gk::data_type::f16:
                answers.push_back(p.f32_gradient ? ask<gk::float16, float>(p) : ask<gk::float16, gk::float16>(p));
                break;
            case gk::data_type::bf16:
                answers.push_back(p.f32_gradient ? ask<gk::bfloat16, float>(p) : ask<gk::bfloat16, gk::bfloat16>(p));
                break;
            default: answers.push_back(ask<float, float>(p));
        }
    }
    return answers;
}

}  // namespace one_call
