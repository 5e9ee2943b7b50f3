// Which calls do without a workspace: problems, and what objects compiled for other vectors say of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <gradkern/attributes.hpp>
#include <gradkern/half.hpp>
#include <gradkern/options.hpp>
#include <gradkern/tensor_view.hpp>

namespace one_call {

namespace gk = gradkern;

enum class op : std::uint8_t {
    avg_pool,
    avg_pool_backward,
    lp_pool,
    lp_pool_backward,
    max_pool,
    max_pool_backward,
    max_pool_backward_from_indices,
    bias_backward,
    convolution,
    convolution_backward_data,
    convolution_backward_weights,
    conv_transpose,
    conv_transpose_backward_data,
    conv_transpose_backward_weights
};

/// A call. Pools have a large and a small side alone; the bias gradient is that of the large side.
struct problem {
    one_call::op op{};
    gk::data_type type{};
    bool f32_gradient = false;  ///< of weights and bias, beside 16 bits
    gk::plan_options options{};
    gk::tensor_layout large{};
    gk::tensor_layout small{};
    gk::tensor_layout weights{};
    bool with_indices = false;
    gk::avg_pool_attributes average{};
    gk::lp_pool_attributes norm{};
    gk::max_pool_attributes maximum{};
    gk::convolution_attributes conv{};
    gk::conv_transpose_attributes transpose{};
};

/// What a call without a workspace makes of it.
struct answer {
    bool planned = false;
    bool accepted = false;
    bool fast = false;           ///< with the plan that a workspace would have got, too
    std::size_t fast_bytes = 0;  ///< of that plan
    std::size_t bytes = 0;       ///< of the plan that runs
};

using probe = std::vector<answer> (*)(const std::vector<problem>&);
std::vector<answer> ask_1(const std::vector<problem>& problems);
std::vector<answer> ask_2(const std::vector<problem>& problems);
std::vector<answer> ask_4(const std::vector<problem>& problems);
std::vector<answer> ask_8(const std::vector<problem>& problems);
std::vector<answer> ask_16(const std::vector<problem>& problems);
std::vector<answer> ask_32(const std::vector<problem>& problems);
std::vector<answer> ask_64(const std::vector<problem>& problems);
std::vector<answer> ask_real(const std::vector<problem>& problems);

}  // namespace one_call
