// gradkern: gradients of pooling and convolution. This header includes the operators and the types they use:
//
//     using namespace gradkern;
//     const tensor_layout diff_dst{1, 64, 56, 56};                     // (N, OC, OH, OW), dense
//     const tensor_layout weights{64, 32, 3, 3};                       // (OC, IC, KH, KW)
//     const convolution_attributes conv{.strides = {1, 1}, .dilations = {1, 1},
//                                       .pads_begin = {1, 1}, .pads_end = {1, 1},
//                                       .data_format = data_format::ncx, .weights_format = weights_format::oix};
//     const auto plan = plan_convolution_backward_data<float>(diff_dst, weights, conv);   // checks everything once
//     if (!plan) return plan.error();                                  // errors are values; nothing throws
//     std::vector<std::byte> scratch(plan->workspace_bytes());         // memory and threads come from the caller
//     return plan->run(diff_dst_data, weights_data, diff_src_data, scratch);              // or: run(..., executor)
//
// Besides plan_X there are X, which does both steps in one call, and infer_X, which returns the shape of the result.
// (infer_X assumes elements of four bytes when it checks for overflow.)
//
// Not included: executors/*.hpp (threads), workspace.hpp (owning buffers), separate_images.hpp (batches whose images are buffers
// of their own), dynamic.hpp (element types known at run time), error_text.hpp (messages as strings), accuracy.hpp (error
// bounds), ref/*.hpp (plain-loop references), testing.hpp (tools to test kernels of your own), frontend/*.hpp (the names of
// other libraries).
#pragma once

#include <gradkern/attributes.hpp>
#include <gradkern/avg_pool.hpp>
#include <gradkern/bias.hpp>
#include <gradkern/conv_transpose.hpp>
#include <gradkern/convolution.hpp>
#include <gradkern/executor.hpp>
#include <gradkern/half.hpp>
#include <gradkern/lp_pool.hpp>
#include <gradkern/max_pool.hpp>
#include <gradkern/options.hpp>
#include <gradkern/shape.hpp>
#include <gradkern/status.hpp>
#include <gradkern/tensor_view.hpp>
#include <gradkern/version.hpp>
