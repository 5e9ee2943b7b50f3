// The pooling and convolution operators of the oneDNN Graph documents, under their newer and older names. These headers
// only translate: each operator is one of the core, with the names in the left column.
//
//     document                                        core
//     ---------------------------------------------   --------------------------------------------------------------
//     AvgPool                                         avg_pool
//       input  src, output dst                          src, dst
//     AvgPoolBackprop, AvgPoolBackward                avg_pool_backward
//       input  output_delta                             diff_dst
//       input  input_shape (1-D), or the attribute,     diff_src_shape
//              newer: src_shape
//       output input_delta                              diff_src
//     MaxPool                                         max_pool, without indices
//       input  src, output dst                          src, dst
//     MaxPoolBackward, MaxPoolBackprop                max_pool_backward
//       input  src, diff_dst                            src, diff_dst
//              older, optional: output_forward_indices  none: every maximum is recomputed from src
//       output diff_src                                 diff_src
//     Convolution                                     convolution
//       input  src, weights, bias (optional)            src, weights, bias
//       output dst                                      dst
//     ConvolutionBackwardData,                        convolution_backward_data
//     ConvolutionBackpropData
//       input  diff_dst, weights                        diff_dst, weights
//       input  dst_shape (1-D), or the attribute,       diff_src_shape: "dst" is the result of the operator, diff_src
//              older: output_shape
//       output diff_src                                 diff_src
//     ConvolutionBackwardWeights,                     convolution_backward_weights
//     ConvolutionBackpropFilters
//       input  src, diff_dst                            src, diff_dst
//       input  weights_shape (1-D), or the attribute,   diff_weights_shape
//              older: filter_shape
//       output diff_weights                             diff_weights
//     ConvTranspose                                   conv_transpose
//       input  src, weights, bias (optional)            src, weights, bias
//       output dst                                      dst
//     ConvTransposeBackwardData,                      conv_transpose_backward_data
//     ConvTransposeBackpropData
//       input  diff_dst, weights                        diff_dst, weights
//       output diff_src                                 diff_src
//     ConvTransposeBackpropFilters,                   conv_transpose_backward_weights
//     ConvTransposeBackwardWeights
//       input  input_forward                            src
//       input  output_delta                             diff_dst
//       input  filter_shape (1-D), or the attribute,    diff_weights_shape
//              newer: weights_shape
//       output filter_delta                             diff_weights
//     BiasAddBackward, BiasAddBackprop                bias_backward
//       input  diff_dst, output diff_bias               diff_dst, diff_bias
//     kernel, strides, dilations, pads_begin,         the same
//     pads_end, exclude_pad, rounding_type,
//     auto_pad, groups, output_padding, data_format
//     weights_format, older: filter_format            weights_format
//     divisor_override                                the same; an extension of both average pools
//     ignore_nan                                      the same; an extension of both max pools. oneDNN behaves like
//                                                     true; with false, the default, a NaN is its window's maximum
//     rounding_type ceil_torch, and any               the same; extensions
//     rounding_type of a pool's gradient
//
// The attribute called weights_format (filter_format) names the order of a filter's axes; O and I are output and input
// channels of the forward operator, and the ConvTranspose family divides O by groups (shape/layout.hpp). Besides the
// documents' OIX and XIO that family accepts IOX and XOI, the names of oneDNN's code for filters whose channels are swapped.
// That code uses XOI if no format is given. Here it is XIO, as in the documents: pass `XOI` for such a graph.
//
// ConvTranspose and ConvTransposeBackwardData have no shape input or attribute in the documents, and none here. To choose
// among the sizes that fit, use the core: its attributes have dst_shape and diff_src_shape.
//
// Tensors have the names of the document named first; the other name of an operator takes the same arguments. A shape
// tensor takes precedence over the attribute of the same name, which is then ignored. If an operator has such a shape and
// neither is given, the error is missing_shape, also for ConvolutionBackwardData, whose size the core would infer.
// Attributes whose value is a word accept the documents' spelling (`same_upper`), the upper-case spelling of oneDNN's code
// (`SAME_UPPER`), or the core's enumerator. Errors use the names of the documents.
#pragma once

#include <gradkern/frontend/onednn_graph/attributes.hpp>
#include <gradkern/frontend/onednn_graph/bias.hpp>
#include <gradkern/frontend/onednn_graph/conv_transpose.hpp>
#include <gradkern/frontend/onednn_graph/convolution.hpp>
#include <gradkern/frontend/onednn_graph/pooling.hpp>
