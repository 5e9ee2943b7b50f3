/* A C99 program that uses the compiled library as a stranger would: an average gradient, a convolution with threads of its own, and
 * what goes wrong. It prints the instruction set and fails with a message. */
#include <gradkern/gradkern.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int failures = 0;
static void expect(int holds, const char* what) {
    if (holds) return;
    printf("failed: %s\n", what);
    ++failures;
}

/* Calls the tasks in reverse order: an executor of the caller's. */
static int calls = 0;
static void reversed(void* context, int64_t n, void (*fn)(void* data, int64_t i), void* data) {
    ++*(int*)context;
    while (n-- > 0) fn(data, n);
}

static void average_gradient(void) {
    gradkern_problem p;
    gradkern_plan* plan = NULL;
    gradkern_error error;
    gradkern_tensor inferred;
    const int64_t small[] = {1, 2, 2, 1};
    const int64_t large[] = {1, 4, 4, 1};
    const int64_t two[] = {2, 2};
    const int64_t none[] = {0, 0};
    const float diff_dst[4] = {4, 8, 12, 16};
    float diff_src[16];
    const void* tensors[2];
    int i;
    char text[200];
    gradkern_problem_init(&p, sizeof p, GRADKERN_AVG_POOL_BACKWARD);
    p.tensors[0] = gradkern_dense(GRADKERN_F32, 4, small);
    p.tensors[1] = gradkern_dense(GRADKERN_F32, 4, large);
    p.kernel = p.strides = gradkern_list_of(2, two);
    p.pads_begin = p.pads_end = gradkern_list_of(2, none);
    expect(gradkern_infer(&p, &inferred, &error, sizeof error) == GRADKERN_OK, "infer");
    expect(inferred.rank == 4 && inferred.shape[1] == 4, "the inferred shape");
    expect(gradkern_plan_create(&p, &plan, &error, sizeof error) == GRADKERN_OK, error.message);
    expect(gradkern_plan_describe(plan, text, sizeof text) > 10 && strstr(text, "avg_pool_backward") != NULL,
           "describe");
    expect(gradkern_plan_describe(plan, text, 5) > 10 && strlen(text) == 4, "a description that is cut");
    {
        const size_t bytes = gradkern_plan_workspace_bytes(plan, 1);
        void* workspace = malloc(bytes + 1);
        tensors[0] = diff_dst;
        tensors[1] = diff_src;
        expect(gradkern_plan_run(plan, (void* const*)tensors, 2, workspace, bytes, NULL, &error, sizeof error) ==
                   GRADKERN_OK,
               error.message);
        free(workspace);
    }
    for (i = 0; i < 16; ++i)
        expect(diff_src[i] == (float)(1 + i % 4 / 2 + i / 8 * 2), "a quarter of the window's gradient");
    gradkern_plan_destroy(plan);
}

static void convolution(void) {
    enum { n = 2, c = 5, h = 9, w = 11, k = 7 };
    static float src[n * c * h * w], weights[k * c * 9], dst[n * k * h * w], bias[k];
    gradkern_problem p;
    gradkern_plan* plan = NULL;
    gradkern_error error;
    const int64_t s[] = {n, c, h, w}, f[] = {k, c, 3, 3}, b[] = {k}, one[] = {1, 1};
    void* tensors[4];
    gradkern_executor threads;
    size_t bytes, i;
    int y, x, o;
    void* workspace;
    for (i = 0; i < sizeof src / sizeof *src; ++i) src[i] = (float)(i * 7 % 11) - 5.0F;
    for (i = 0; i < sizeof weights / sizeof *weights; ++i) weights[i] = (float)(i * 5 % 7) - 3.0F;
    for (i = 0; i < k; ++i) bias[i] = (float)i;
    gradkern_problem_init(&p, sizeof p, GRADKERN_CONVOLUTION);
    p.data_format = GRADKERN_NCX;
    p.weights_format = GRADKERN_OIX;
    p.strides = p.dilations = p.pads_begin = p.pads_end = gradkern_list_of(2, one);
    p.tensors[0] = gradkern_dense(GRADKERN_F32, 4, s);
    p.tensors[1] = gradkern_dense(GRADKERN_F32, 4, f);
    p.tensors[2] = gradkern_dense(GRADKERN_F32, 1, b);
    expect(gradkern_plan_create(&p, &plan, &error, sizeof error) == GRADKERN_OK, error.message);
    if (plan == NULL) return;
    bytes = gradkern_plan_workspace_bytes(plan, 3);
    workspace = malloc(bytes + 1);
    tensors[0] = src;
    tensors[1] = weights;
    tensors[2] = bias;
    tensors[3] = dst;
    threads.context = &calls;
    threads.concurrency = 3;
    threads.parallel_for = reversed;
    expect(gradkern_plan_run(plan, tensors, 4, workspace, bytes, &threads, &error, sizeof error) == GRADKERN_OK,
           error.message);
    expect(calls > 0, "the caller's executor is called");
    for (i = 0; i < n; ++i)
        for (o = 0; o < k; ++o)
            for (y = 0; y < h; ++y)
                for (x = 0; x < w; ++x) {
                    float sum = bias[o];
                    int j, dy, dx;
                    for (j = 0; j < c; ++j)
                        for (dy = 0; dy < 3; ++dy)
                            for (dx = 0; dx < 3; ++dx) {
                                const int yy = y + dy - 1, xx = x + dx - 1;
                                if (yy < 0 || yy >= h || xx < 0 || xx >= w) continue;
                                sum += src[(((int)i * c + j) * h + yy) * w + xx] *
                                       weights[((o * c + j) * 3 + dy) * 3 + dx];
                            }
                    expect(dst[(((int)i * k + o) * h + y) * w + x] == sum, "an output of the convolution");
                }
    free(workspace);
    gradkern_plan_destroy(plan);
}

static void mistakes(void) {
    gradkern_problem p;
    gradkern_plan* plan = NULL;
    gradkern_error error;
    gradkern_tensor t;
    const int64_t s[] = {1, 4, 4, 1}, two[] = {2, 2}, none[] = {0, 0}, zero[] = {0, 2};
    float memory[64];
    void* tensors[3];
    gradkern_problem_init(NULL, 0, GRADKERN_AVG_POOL);
    expect(gradkern_plan_create(NULL, &plan, &error, sizeof error) == GRADKERN_NULL_POINTER, "no problem");
    gradkern_problem_init(&p, sizeof p, GRADKERN_AVG_POOL);
    p.tensors[0] = gradkern_dense(GRADKERN_F32, 4, s);
    p.kernel = gradkern_list_of(2, two);
    p.strides = gradkern_list_of(2, zero);
    p.pads_begin = p.pads_end = gradkern_list_of(2, none);
    expect(gradkern_plan_create(&p, NULL, &error, sizeof error) == GRADKERN_NULL_POINTER, "no place for the plan");
    expect(gradkern_plan_create(&p, &plan, &error, sizeof error) == GRADKERN_INVALID_ARGUMENT && plan == NULL,
           "a stride of 0");
    expect(strcmp(error.argument, "strides") == 0 && error.axis == 0 && error.got == 0 && error.expected == 1,
           "what was wrong");
    expect(strstr(error.message, "avg_pool: strides[0]: got 0, expected at least 1") != NULL, error.message);
    expect(gradkern_plan_create(&p, &plan, NULL, 0) == GRADKERN_INVALID_ARGUMENT, "without an error");
    p.strides = gradkern_list_of(2, two);
    p.data_format = 256; /* NXC, cut to a byte */
    expect(gradkern_plan_create(&p, &plan, &error, sizeof error) == GRADKERN_INVALID_ARGUMENT, "an unknown format");
    p.data_format = GRADKERN_NXC;
    p.tensors[0].rank = 6;
    expect(gradkern_plan_create(&p, &plan, &error, sizeof error) == GRADKERN_UNSUPPORTED, "six axes");
    expect(strcmp(error.message, "avg_pool: tensors[0]: got rank 6, expected 0 to 5 (unsupported)") == 0, error.message);
    expect(strcmp(error.op, "avg_pool") == 0 && error.axis == 0 && error.got == 6 && error.expected == 5, "the rank");
    p.tensors[0].rank = 4;
    p.pads_begin.count = -1;
    expect(gradkern_plan_create(&p, &plan, &error, sizeof error) == GRADKERN_INVALID_ARGUMENT, "fewer pads than none");
    expect(strcmp(error.argument, "pads_begin") == 0 && error.got == -1, error.message);
    p.pads_begin = gradkern_list_of(2, none);
    p.size = 4000;
    expect(gradkern_plan_create(&p, &plan, &error, sizeof error) == GRADKERN_INVALID_ARGUMENT,
           "a struct of another version");
    p.size = sizeof p;
    p.op = 14;
    expect(gradkern_plan_create(&p, &plan, &error, sizeof error) == GRADKERN_UNSUPPORTED, "an unknown operator");
    p.op = GRADKERN_AVG_POOL;
    p.algorithm = "no such path";
    expect(gradkern_plan_create(&p, &plan, &error, sizeof error) != GRADKERN_OK, "an unknown path");
    p.algorithm = NULL;
    expect(gradkern_infer(&p, NULL, &error, sizeof error) == GRADKERN_NULL_POINTER, "no place for the shape");
    expect(gradkern_infer(&p, &t, &error, sizeof error) == GRADKERN_OK && t.shape[1] == 2, "the shape of dst");
    expect(gradkern_plan_create(&p, &plan, &error, sizeof error) == GRADKERN_OK, error.message);
    tensors[0] = tensors[1] = tensors[2] = memory;
    expect(gradkern_plan_run(plan, tensors, 2, NULL, 0, NULL, &error, sizeof error) != GRADKERN_OK, "shared memory");
    expect(gradkern_plan_run(plan, tensors, 3, NULL, 0, NULL, &error, sizeof error) == GRADKERN_INVALID_ARGUMENT,
           "three tensors");
    expect(gradkern_plan_run(plan, tensors, 1, NULL, 0, NULL, &error, sizeof error) != GRADKERN_OK, "one tensor");
    expect(gradkern_plan_run(NULL, tensors, 2, NULL, 0, NULL, &error, sizeof error) == GRADKERN_NULL_POINTER,
           "no plan");
    expect(gradkern_plan_workspace_bytes(NULL, 1) == 0, "no plan has no workspace");
    gradkern_plan_destroy(plan);
    gradkern_plan_destroy(NULL);
}

int main(int argc, char** argv) {
    char text[2000];
    gradkern_describe_cpu(text, sizeof text);
    printf("gradkern %s, %s\n%s", gradkern_version(), gradkern_isa(), text);
    if (argc > 1) expect(strcmp(gradkern_isa(), argv[1]) == 0, "the instruction set that was asked for");
    if (strcmp(gradkern_isa(), "none") == 0) {
        gradkern_problem p;
        gradkern_plan* plan = NULL;
        gradkern_error error;
        gradkern_problem_init(&p, sizeof p, GRADKERN_AVG_POOL);
        expect(gradkern_plan_create(&p, &plan, &error, sizeof error) == GRADKERN_UNSUPPORTED, "no instruction set");
        expect(strcmp(error.argument, "GRADKERN_ISA") == 0, error.message);
    } else {
        average_gradient();
        convolution();
        mistakes();
    }
    printf("%d failures\n", failures);
    return failures == 0 ? 0 : 1;
}
