// The operators of the pooling and convolution families of the oneDNN Graph documents in their own spelling, under the
// newer and the older names. These headers translate and compute nothing: each operator is one of the core, under the
// names on the left.
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
//              older, optional: output_forward_indices  none: every maximum is found in src again
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
//                                                     true; false, the default, lets a NaN be its window's maximum
//     rounding_type ceil_torch, and any               the same; extensions
//     rounding_type of a pool's gradient
//
// The attribute called weights_format (filter_format) names the order of a filter's axes; O and I are output and input
// channels of the forward operator, and the ConvTranspose family divides O by groups (shape/layout.hpp). Beside the
// documents' OIX and XIO that family takes IOX and XOI, as oneDNN's code calls a filter whose channels stand the other
// way round. That code takes XOI where the format is left out; here it is the documents' XIO: say `XOI` for such a graph.
//
// ConvTranspose and ConvTransposeBackwardData have no shape input or attribute in the documents and none here. Whoever
// wants another one of the sizes that fit asks the core, whose attributes have dst_shape and diff_src_shape.
//
// Names of tensors are those of the document named first; the other name of an operator takes the same arguments. A
// shape tensor wins over the attribute of its name, which is then not looked at. Where an operator has such a shape and
// neither is there, the answer is missing_shape: also for ConvolutionBackwardData, whose size the core would infer.
// Attributes whose value is one of a few words take the word in the documents' spelling (`same_upper`), in the
// upper-case one of oneDNN's code (`SAME_UPPER`), or the core's enumerator. Errors carry the names of the documents.
#pragma once

#include <gradkern/frontend/onednn_graph/attributes.hpp>
#include <gradkern/frontend/onednn_graph/bias.hpp>
#include <gradkern/frontend/onednn_graph/conv_transpose.hpp>
#include <gradkern/frontend/onednn_graph/convolution.hpp>
#include <gradkern/frontend/onednn_graph/pooling.hpp>
