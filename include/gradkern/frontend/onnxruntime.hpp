// The gradient operators of ONNX Runtime Training, with the attributes of their ONNX operators. This header only
// translates: each operator is one or more of the core, with the names in the left column.
//
//     ONNX                                            core
//     ---------------------------------------------   --------------------------------------------------------------
//     AveragePoolGrad                                 avg_pool_backward
//       input  dY                                       diff_dst
//       output dX, its shape the caller's               diff_src
//       count_include_pad 0, 1                          exclude_pad true, false
//       ceil_mode 0, 1                                  rounding_type floor, ceil_torch
//     MaxPoolGrad                                     max_pool_backward_from_indices
//       inputs dY, indices (int64)                      diff_dst, indices; index_base tensor
//       output dX, its shape the caller's               diff_src
//       storage_order 0, 1                              storage_order row_major, column_major
//     ConvGrad                                        convolution_backward_data, convolution_backward_weights,
//                                                     bias_backward
//     ConvTransposeGrad                               conv_transpose_backward_data, conv_transpose_backward_weights,
//                                                     bias_backward
//       inputs  dY, X, W                                diff_dst, src, weights
//       outputs dX, dW, dB, each optional               diff_src, diff_weights, diff_bias
//       W and dW of ConvGrad          (OC, IC/g, K...)    weights_format oix
//       W and dW of ConvTransposeGrad (IC, OC/g, K...)    weights_format oix, (OC/g, IC, K...), by strides
//     kernel_shape, strides, dilations, group         kernel, strides, dilations, groups
//     pads: all begins, then all ends                 pads_begin, pads_end
//     auto_pad NOTSET, VALID, SAME_UPPER, SAME_LOWER  auto_pad none, valid, same_upper, same_lower
//
// Tensors are (N, C, spatial...). Absent attributes have ONNX's defaults: no padding, strides and dilations of one, one
// group; a convolution takes kernel_shape from W. A pool never infers the size of dX. A convolution plans the results that
// have a layout, and computes those that have memory; dW and dB may be f32 if all other tensors have 16 bits. Errors use
// ONNX's names. The axis of an error about pads is the index in the whole vector.
//
// What differs from ONNX Runtime:
//
//     AveragePoolGrad  auto_pad and ceil_mode are used, not ignored. The divisor of a last window that exceeds the padded
//                      input counts the given padding, not the whole kernel.
//                      Overlapping windows of three axes are added, not assigned.
//                      dY must have the size that AveragePool gives for dX; other sizes are an error.
//                      dilations are accepted.
//     MaxPoolGrad      an index outside dX is an error, found before the first write; -1 (a window without a source) adds
//                      nothing. dY and indices must have one shape.
//                      storage_order is an attribute here, so that indices of a MaxPool with it are read correctly.
//     Conv             SAME_* pads for the kernel's extent with dilation, which ONNX Runtime refuses.
//     ConvTranspose    pads are used as given (or as auto_pad gives them), and dY must fit them: a given
//                      output_shape is checked against dY and does not change pads.
//                      Without output_padding every size of dY that fits is accepted; elements after the last window
//                      are ignored.
//     all              negative pads are refused; padding is skipped, never multiplied; 16-bit types are summed
//                      in f32 and rounded once.
#pragma once

#include <gradkern/frontend/onnxruntime/attributes.hpp>
#include <gradkern/frontend/onnxruntime/average_pool_grad.hpp>
#include <gradkern/frontend/onnxruntime/conv_grad.hpp>
#include <gradkern/frontend/onnxruntime/max_pool_grad.hpp>
#include <gradkern/frontend/onnxruntime/translation.hpp>
