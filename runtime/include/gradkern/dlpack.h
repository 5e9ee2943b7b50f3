/// \file
/// \brief Tensors of the C interface from DLPack's, and DLPack's from them. It needs the header dlpack/dlpack.h.
///
///     gradkern_error error;
///     void* tensors[2];
///     if (gradkern_from_dlpack(&diff_dst->dl_tensor, &p.tensors[0], &tensors[0], &error) != GRADKERN_OK) puts(error.message);
///
/// Nothing is copied: both sides see the same memory, which its owner frees.
#ifndef GRADKERN_DLPACK_H
#define GRADKERN_DLPACK_H

#include <stdio.h>
#include <string.h>

#include <dlpack/dlpack.h>

#include <gradkern/gradkern.h>

/// Fills in an error; `axis` is -1 if there is none. Returns `code`.
static inline int gradkern_dlpack_error(gradkern_error* error, int code, const char* argument, int axis, int64_t got,
                                        int64_t expected, const char* why) {
    if (error == NULL) return code;
    memset(error, 0, sizeof *error);
    error->code = code;
    error->axis = axis;
    error->got = got;
    error->expected = expected;
    snprintf(error->op, sizeof error->op, "%s", "dlpack");
    snprintf(error->argument, sizeof error->argument, "%s", argument);
    snprintf(error->message, sizeof error->message, "gradkern: dlpack: %s: got %lld, expected %lld: %s", argument,
             (long long)got, (long long)expected, why);
    return code;
}

/// Shape, strides and address of a DLPack tensor on the CPU, whatever its element type: `to->type` is left as it is.
static inline int gradkern_layout_from_dlpack(const DLTensor* from, gradkern_tensor* to, void** data,
                                              gradkern_error* error) {
    int i;
    if (from == NULL || to == NULL || data == NULL)
        return gradkern_dlpack_error(error, GRADKERN_NULL_POINTER, "tensor", -1, 0, 1, "a pointer is null");
    if (from->device.device_type != kDLCPU)
        return gradkern_dlpack_error(error, GRADKERN_UNSUPPORTED, "device", -1, (int64_t)from->device.device_type,
                                     (int64_t)kDLCPU, "the tensor is not in the memory of the CPU");
    if (from->ndim < 0 || from->ndim > 5)
        return gradkern_dlpack_error(error, GRADKERN_UNSUPPORTED, "ndim", -1, from->ndim, 5,
                                     "tensors have at most five axes");
    to->rank = from->ndim;
    to->has_strides = from->strides != NULL;
    to->reserved = 0;
    for (i = 0; i < 5; ++i) {
        to->shape[i] = i < from->ndim ? from->shape[i] : 0;
        to->strides[i] = i < from->ndim && from->strides != NULL ? from->strides[i] : 0;
    }
    *data = from->data == NULL ? NULL : (void*)((char*)from->data + from->byte_offset);
    return GRADKERN_OK;
}

/// A tensor of numbers: f32, f64, f16 or bf16. Returns a gradkern_code, and on failure sets nothing but `error`, which may be
/// null.
static inline int gradkern_from_dlpack(const DLTensor* from, gradkern_tensor* to, void** data, gradkern_error* error) {
    int type = -1;
    int code;
    if (from == NULL) return gradkern_layout_from_dlpack(from, to, data, error);
    if (from->dtype.lanes == 1) {
        if (from->dtype.code == kDLFloat && from->dtype.bits == 64) type = GRADKERN_F64;
        if (from->dtype.code == kDLFloat && from->dtype.bits == 32) type = GRADKERN_F32;
        if (from->dtype.code == kDLFloat && from->dtype.bits == 16) type = GRADKERN_F16;
        if (from->dtype.code == kDLBfloat && from->dtype.bits == 16) type = GRADKERN_BF16;
    }
    if (type < 0)
        return gradkern_dlpack_error(error, GRADKERN_UNSUPPORTED, "dtype.bits", -1, from->dtype.bits, 32,
                                     "the elements are none of float64, float32, float16 and bfloat16");
    code = gradkern_layout_from_dlpack(from, to, data, error);
    if (code == GRADKERN_OK) to->type = type;
    return code;
}

/// A tensor of indices: int64. As gradkern_from_dlpack; the type of `to` is not read by any operator.
static inline int gradkern_indices_from_dlpack(const DLTensor* from, gradkern_tensor* to, void** data,
                                               gradkern_error* error) {
    if (from != NULL && (from->dtype.lanes != 1 || from->dtype.code != kDLInt || from->dtype.bits != 64))
        return gradkern_dlpack_error(error, GRADKERN_UNSUPPORTED, "dtype.bits", -1, from->dtype.bits, 64,
                                     "indices are of int64");
    return gradkern_layout_from_dlpack(from, to, data, error);
}

/// A DLPack tensor that refers to `data` and to shape and strides in `from`: both must outlive it.
static inline DLTensor gradkern_to_dlpack(gradkern_tensor* from, void* data) {
    DLTensor to;
    memset(&to, 0, sizeof to);
    to.data = data;
    to.device.device_type = kDLCPU;
    to.ndim = from->rank;
    to.dtype.code = (uint8_t)(from->type == GRADKERN_BF16 ? kDLBfloat : kDLFloat);
    to.dtype.bits = (uint8_t)(from->type == GRADKERN_F64 ? 64 : from->type == GRADKERN_F32 ? 32 : 16);
    to.dtype.lanes = 1;
    to.shape = from->shape;
    to.strides = from->has_strides ? from->strides : NULL;
    return to;
}

#endif  // GRADKERN_DLPACK_H
