/* DLPack tensors in and out of the C interface: an average pool of a transposed view, and what is refused. */
#include <gradkern/dlpack.h>

#include <math.h>
#include <stdlib.h>

static int failures = 0;
static void expect(int holds, const char* what) {
    if (holds) return;
    printf("failed: %s\n", what);
    ++failures;
}

static DLTensor floats(void* data, int rank, int64_t* shape, int64_t* strides) {
    DLTensor t;
    memset(&t, 0, sizeof t);
    t.data = data;
    t.device.device_type = kDLCPU;
    t.ndim = rank;
    t.dtype.code = kDLFloat;
    t.dtype.bits = 32;
    t.dtype.lanes = 1;
    t.shape = shape;
    t.strides = strides;
    return t;
}

static void pool_of_a_view(void) {
    /* memory: H W, one element in front; the view: N C H W with H and W exchanged */
    float memory[1 + 8], dst[2];
    int64_t shape[] = {1, 1, 2, 4}, strides[] = {8, 8, 1, 2}, two[] = {2, 2}, none[] = {0, 0};
    DLTensor view = floats(memory, 4, shape, strides);
    DLTensor back;
    gradkern_problem p;
    gradkern_plan* plan = NULL;
    gradkern_error error;
    void* tensors[2];
    void* workspace;
    size_t bytes;
    int i;
    view.byte_offset = sizeof(float);
    memory[0] = NAN;
    for (i = 0; i < 8; ++i) memory[1 + i] = (float)(i * i);
    gradkern_problem_init(&p, sizeof p, GRADKERN_AVG_POOL);
    p.data_format = GRADKERN_NCX;
    p.kernel = p.strides = gradkern_list_of(2, two);
    p.pads_begin = p.pads_end = gradkern_list_of(2, none);
    expect(gradkern_from_dlpack(&view, &p.tensors[0], &tensors[0], &error) == GRADKERN_OK, error.message);
    expect(gradkern_infer(&p, &p.tensors[1], &error, sizeof error) == GRADKERN_OK, error.message);
    tensors[1] = dst;
    expect(gradkern_plan_create(&p, &plan, &error, sizeof error) == GRADKERN_OK, error.message);
    bytes = gradkern_plan_workspace_bytes(plan, 1);
    workspace = malloc(bytes + 1);
    expect(gradkern_plan_run(plan, tensors, 2, workspace, bytes, NULL, &error, sizeof error) == GRADKERN_OK,
           error.message);
    free(workspace);
    gradkern_plan_destroy(plan);
    expect(dst[0] == (0 + 1 + 4 + 9) / 4.0F && dst[1] == (16 + 25 + 36 + 49) / 4.0F, "means of the view");
    p.tensors[1].type = GRADKERN_BF16;
    back = gradkern_to_dlpack(&p.tensors[1], dst);
    expect(back.data == dst && back.ndim == 4 && back.shape[3] == 2 && back.dtype.bits == 16 &&
               back.dtype.code == kDLBfloat && back.dtype.lanes == 1,
           "the tensor that goes out");
}

static void refused(void) {
    float memory[8];
    int64_t shape[] = {1, 2, 2, 2, 1, 1};
    gradkern_tensor t;
    gradkern_error error;
    void* data;
    DLTensor from = floats(memory, 4, shape, NULL);
    expect(gradkern_from_dlpack(NULL, &t, &data, &error) == GRADKERN_NULL_POINTER, "no tensor");
    expect(gradkern_from_dlpack(&from, &t, &data, NULL) == GRADKERN_OK && t.type == GRADKERN_F32, "without an error");
    expect(gradkern_indices_from_dlpack(&from, &t, &data, &error) == GRADKERN_UNSUPPORTED, "indices of float32");
    from.dtype.lanes = 4;
    expect(gradkern_from_dlpack(&from, &t, &data, &error) == GRADKERN_UNSUPPORTED, "vectors");
    from.dtype.lanes = 1;
    from.dtype.code = kDLInt;
    expect(gradkern_from_dlpack(&from, &t, &data, &error) == GRADKERN_UNSUPPORTED, "integers");
    expect(strstr(error.message, "dlpack: dtype.bits: got 32") != NULL, error.message);
    from.dtype.bits = 64;
    expect(gradkern_indices_from_dlpack(&from, &t, &data, &error) == GRADKERN_OK, "indices of int64");
    from.dtype.code = kDLFloat;
    from.ndim = 6;
    expect(gradkern_from_dlpack(&from, &t, &data, &error) == GRADKERN_UNSUPPORTED, "six axes");
    from.ndim = 4;
    from.device.device_type = kDLOpenCL;
    expect(gradkern_from_dlpack(&from, &t, &data, &error) == GRADKERN_UNSUPPORTED, "memory of another device");
}

int main(void) {
    pool_of_a_view();
    refused();
    printf("%d failures\n", failures);
    return failures == 0 ? 0 : 1;
}
