/// \file
/// \brief The C interface of gradkern's compiled library: every operator, for the best instruction set of the CPU.
///
///     gradkern_problem p;
///     gradkern_problem_init(&p, sizeof p, GRADKERN_AVG_POOL_BACKWARD);
///     p.tensors[0] = gradkern_dense(GRADKERN_F32, 4, (int64_t[]){1, 2, 2, 3});       // diff_dst, N H W C
///     p.tensors[1] = gradkern_dense(GRADKERN_F32, 4, (int64_t[]){1, 4, 4, 3});       // diff_src
///     p.kernel = p.strides = gradkern_list_of(2, (int64_t[]){2, 2});
///     gradkern_plan* plan = NULL;
///     gradkern_error error;
///     if (gradkern_plan_create(&p, &plan, &error, sizeof error) != GRADKERN_OK) puts(error.message);
///     void* tensors[] = {diff_dst, diff_src};
///     gradkern_plan_run(plan, tensors, 2, workspace, bytes, NULL, &error, sizeof error);
///     gradkern_plan_destroy(plan);
///
/// C99, and C++. No exception leaves a function. A plan is immutable: any number of threads may run it at the same time. The
/// library has no other state than the choice of the instruction set, which the first call makes.
///
/// Structs grow at their end. Whoever passes one passes its size, too, so that programs that were compiled against an older
/// header go on working.
#ifndef GRADKERN_GRADKERN_H
#define GRADKERN_GRADKERN_H

#include <stddef.h>
#include <stdint.h>

#if defined(_WIN32) && defined(GRADKERN_RUNTIME_SHARED)
#if defined(GRADKERN_RUNTIME_BUILD)
#define GRADKERN_API __declspec(dllexport)
#else
#define GRADKERN_API __declspec(dllimport)
#endif
#elif defined(GRADKERN_RUNTIME_BUILD) && (defined(__GNUC__) || defined(__clang__))
#define GRADKERN_API __attribute__((visibility("default")))
#else
/// Stands before each function of the library.
#define GRADKERN_API
#endif

#if defined(__cplusplus)
/// Stands behind each function of the library: none throws.
#define GRADKERN_NOEXCEPT noexcept
extern "C" {
#else
#define GRADKERN_NOEXCEPT
#endif

/// Version of this interface. It grows when something is added; nothing is removed or changed.
#define GRADKERN_C_API_VERSION 1

/// What kind of mistake was found.
typedef enum gradkern_code {
    GRADKERN_OK = 0,                   ///< nothing was wrong
    GRADKERN_INVALID_ARGUMENT = 1,     ///< an attribute value, or tensors that may not share memory
    GRADKERN_INVALID_SHAPE = 2,        ///< inconsistent shapes
    GRADKERN_MISSING_SHAPE = 3,        ///< a required shape was not given
    GRADKERN_UNSUPPORTED = 4,          ///< a rank, type or mode outside the library
    GRADKERN_OVERFLOW = 5,             ///< a size that does not fit a signed 64-bit integer
    GRADKERN_INDEX_OUT_OF_RANGE = 6,   ///< an index value outside the tensor it points into
    GRADKERN_NULL_POINTER = 7,         ///< a tensor with elements has no memory
    GRADKERN_WORKSPACE_TOO_SMALL = 8,  ///< fewer workspace bytes than the plan needs
    GRADKERN_OUT_OF_MEMORY = 9         ///< there is no memory for a plan
} gradkern_code;

/// Element types.
typedef enum gradkern_type {
    GRADKERN_F32 = 0,   ///< IEEE binary32
    GRADKERN_F16 = 1,   ///< IEEE binary16
    GRADKERN_BF16 = 2,  ///< the upper half of a binary32
    GRADKERN_F64 = 3    ///< IEEE binary64
} gradkern_type;

/// The operators, and their tensors in order. One in brackets may be absent (rank 0). Outputs stand last.
typedef enum gradkern_operator {
    GRADKERN_CONVOLUTION = 0,                      ///< src, weights, [bias], dst
    GRADKERN_CONVOLUTION_BACKWARD_DATA = 1,        ///< diff_dst, weights, diff_src
    GRADKERN_CONVOLUTION_BACKWARD_WEIGHTS = 2,     ///< src, diff_dst, diff_weights, [diff_bias]
    GRADKERN_CONV_TRANSPOSE = 3,                   ///< src, weights, [bias], dst
    GRADKERN_CONV_TRANSPOSE_BACKWARD_DATA = 4,     ///< diff_dst, weights, diff_src
    GRADKERN_CONV_TRANSPOSE_BACKWARD_WEIGHTS = 5,  ///< src, diff_dst, diff_weights, [diff_bias]
    GRADKERN_BIAS_BACKWARD = 6,                    ///< diff_dst, diff_bias
    GRADKERN_AVG_POOL = 7,                         ///< src, dst
    GRADKERN_AVG_POOL_BACKWARD = 8,                ///< diff_dst, diff_src
    GRADKERN_LP_POOL = 9,                          ///< src, dst
    GRADKERN_LP_POOL_BACKWARD = 10,                ///< src, dst, diff_dst, diff_src
    GRADKERN_MAX_POOL = 11,                        ///< src, dst, [indices of int64_t, whose type is not read]
    GRADKERN_MAX_POOL_BACKWARD = 12,               ///< src, diff_dst, diff_src
    GRADKERN_MAX_POOL_BACKWARD_FROM_INDICES = 13   ///< diff_dst, indices of int64_t, diff_src
} gradkern_operator;

/// The order of the axes of activations.
typedef enum gradkern_data_format {
    GRADKERN_NXC = 0,  ///< batch, spatial axes, channels
    GRADKERN_NCX = 1   ///< batch, channels, spatial axes
} gradkern_data_format;
/// The order of the axes of weights.
typedef enum gradkern_weights_format {
    GRADKERN_XIO = 0,  ///< spatial axes, in, out
    GRADKERN_OIX = 1   ///< out, in, spatial axes
} gradkern_weights_format;
/// How padding is chosen.
typedef enum gradkern_auto_pad {
    GRADKERN_PAD_NONE = 0,        ///< pads_begin and pads_end as given
    GRADKERN_PAD_SAME_UPPER = 1,  ///< ceil(input / stride) outputs, the odd element of padding at the end
    GRADKERN_PAD_SAME_LOWER = 2,  ///< the same with the odd element at the beginning
    GRADKERN_PAD_VALID = 3        ///< no padding
} gradkern_auto_pad;
/// How the number of windows of a pool is rounded.
typedef enum gradkern_rounding {
    GRADKERN_ROUND_FLOOR = 0,      ///< only windows that fit the padded input
    GRADKERN_ROUND_CEIL = 1,       ///< a last window may exceed the padded input
    GRADKERN_ROUND_CEIL_TORCH = 2  ///< the same unless it starts in the end padding
} gradkern_rounding;
/// What the index of a maximum counts from.
typedef enum gradkern_index_base {
    GRADKERN_INDEX_TENSOR = 0,  ///< the whole tensor as stored
    GRADKERN_INDEX_PLANE = 1,   ///< the plane of one image and channel
    GRADKERN_INDEX_IMAGE = 2    ///< one image with channels innermost
} gradkern_index_base;
/// What happens to the values an output holds before the run.
typedef enum gradkern_output {
    GRADKERN_OVERWRITE = 0,  ///< they are never read
    GRADKERN_ACCUMULATE = 1  ///< the result is added to them
} gradkern_output;
/// Whether results may differ from the definition.
typedef enum gradkern_precision {
    GRADKERN_STRICT = 0,  ///< f32 products and sums in the library's fixed order
    GRADKERN_RELAXED = 1  ///< dot products of bf16 where the CPU has them
} gradkern_precision;
/// How gradients of weights and bias are summed over the batch.
typedef enum gradkern_summation {
    GRADKERN_SUM_JOINT = 0,           ///< over all positions of the batch
    GRADKERN_SUM_IMAGE_BY_IMAGE = 1,  ///< each image by itself, then images in order
    GRADKERN_SUM_PER_IMAGE = 2        ///< each image has gradients of its own
} gradkern_summation;

/// Up to three numbers, one per spatial axis; count 0: absent.
typedef struct gradkern_list {
    int64_t count;      ///< how many values there are
    int64_t values[3];  ///< in the order depth, height, width
} gradkern_list;

/// Type, shape and strides (in elements) of a tensor, in the order of its format. Rank 0: absent.
typedef struct gradkern_tensor {
    int32_t type;         ///< gradkern_type
    int32_t rank;         ///< number of axes; 0: absent
    int64_t shape[5];     ///< sizes of the axes
    int32_t has_strides;  ///< 0: dense, row-major; else `strides` are read
    int32_t reserved;     ///< 0
    int64_t strides[5];   ///< of the axes, in elements
} gradkern_tensor;

/// An operator with its tensors, attributes and options; what the operator does not have is not read. Begin with
/// gradkern_problem_init. The C++ headers describe each member: attributes.hpp and options.hpp.
typedef struct gradkern_problem {
    size_t size;                       ///< of this struct, in bytes
    int32_t op;                        ///< gradkern_operator
    int32_t data_format;               ///< gradkern_data_format
    int32_t weights_format;            ///< gradkern_weights_format
    int32_t auto_pad;                  ///< gradkern_auto_pad
    gradkern_tensor tensors[4];        ///< in the order of gradkern_operator
    gradkern_list kernel;              ///< of a pool: taps on each axis
    gradkern_list strides;             ///< steps from window to window
    gradkern_list dilations;           ///< steps from tap to tap; 1 is dense
    gradkern_list pads_begin;          ///< padding before each axis
    gradkern_list pads_end;            ///< padding behind each axis
    gradkern_list output_padding;      ///< elements of the larger side that no window needs
    int64_t groups;                    ///< of channels
    int32_t rounding;                  ///< gradkern_rounding
    int32_t exclude_pad;               ///< not 0: divide by the taps inside the input alone
    int32_t has_divisor_override;      ///< not 0: divisor_override is read
    int32_t ignore_nan;                ///< not 0: a NaN loses against every number
    int64_t divisor_override;          ///< replaces the divisor of every window
    int32_t index_base;                ///< gradkern_index_base
    int32_t indices_are_column_major;  ///< not 0: column after column of a plane, as storage_order = 1 of ONNX
    int32_t output;                    ///< gradkern_output
    int32_t precision;                 ///< gradkern_precision
    int32_t summation;                 ///< gradkern_summation
    int32_t least_scratch;             ///< not 0: as little workspace as possible
    const char* algorithm;             ///< a name that gradkern_plan_describe prints; null: the fastest
} gradkern_problem;

/// What was wrong. Text ends with a zero.
typedef struct gradkern_error {
    int32_t code;       ///< gradkern_code
    int32_t axis;       ///< -1 if there is none
    int64_t got;        ///< the number that is wrong
    int64_t expected;   ///< what it has to be, or its bound
    char op[48];        ///< name of the operator
    char argument[32];  ///< name of the argument or attribute
    char message[400];  ///< one line
} gradkern_error;

/// The caller's threads. parallel_for calls fn(data, i) for every i of [0, n), in any order, on any threads, and returns when
/// all are done.
typedef struct gradkern_executor {
    void* context;        ///< the caller's, handed to parallel_for
    int64_t concurrency;  ///< how many calls usefully run at once
    /// Calls fn(data, i) for each i of [0, n).
    void (*parallel_for)(void* context, int64_t n, void (*fn)(void* data, int64_t i), void* data);
} gradkern_executor;

/// An operator whose problem is checked and planned.
typedef struct gradkern_plan gradkern_plan;

/// Default attributes and options: NXC, XIO, explicit padding, floor, 1 group, overwrite, strict. Tensors and lists are absent.
/// Does nothing if `problem` is null.
GRADKERN_API void gradkern_problem_init(gradkern_problem* problem, size_t size, gradkern_operator op) GRADKERN_NOEXCEPT;

/// Infers the shape of the first output from the other tensors and the attributes; its own layout in the problem is what was
/// asked for, or absent. Returns a gradkern_code. `error` may be null.
GRADKERN_API int gradkern_infer(const gradkern_problem* problem, gradkern_tensor* output, gradkern_error* error,
                                size_t error_size) GRADKERN_NOEXCEPT;

/// Checks and plans. An output that is absent has the shape that is inferred. Returns a gradkern_code; on failure *plan is null.
GRADKERN_API int gradkern_plan_create(const gradkern_problem* problem, gradkern_plan** plan, gradkern_error* error,
                                      size_t error_size) GRADKERN_NOEXCEPT;

/// Bytes of workspace that let so many workers run at once; any workspace of at least that of one worker is accepted. 0 if
/// `plan` is null.
GRADKERN_API size_t gradkern_plan_workspace_bytes(const gradkern_plan* plan, int64_t workers) GRADKERN_NOEXCEPT;

/// Runs: `tensors` are the addresses of the first elements, in the order of the operator, `count` of them (null where absent).
/// `executor` may be null: serial. Returns a gradkern_code.
GRADKERN_API int gradkern_plan_run(const gradkern_plan* plan, void* const* tensors, size_t count, void* workspace,
                                   size_t workspace_bytes, const gradkern_executor* executor, gradkern_error* error,
                                   size_t error_size) GRADKERN_NOEXCEPT;

/// One line about path, blocks and instruction set, cut to `bytes` and ended with a zero; returns the length of the whole line.
GRADKERN_API size_t gradkern_plan_describe(const gradkern_plan* plan, char* text, size_t bytes) GRADKERN_NOEXCEPT;

/// Frees a plan; null is allowed.
GRADKERN_API void gradkern_plan_destroy(gradkern_plan* plan) GRADKERN_NOEXCEPT;

/// The instruction set in use, for example "x86-64-v4". The environment's GRADKERN_ISA forces one by its name; if the CPU lacks
/// it, or the library does not have it, every plan is `unsupported` and this is "none".
GRADKERN_API const char* gradkern_isa(void) GRADKERN_NOEXCEPT;

/// What was found: each instruction set of the library, and what the CPU lacks for it. As gradkern_plan_describe.
GRADKERN_API size_t gradkern_describe_cpu(char* text, size_t bytes) GRADKERN_NOEXCEPT;

/// The library's version, for example "0.1.0".
GRADKERN_API const char* gradkern_version(void) GRADKERN_NOEXCEPT;

/// A dense tensor.
static inline gradkern_tensor gradkern_dense(gradkern_type type, int rank, const int64_t* shape) {
    gradkern_tensor t;
    int i;
    t.type = (int32_t)type;
    t.rank = rank;
    t.has_strides = 0;
    t.reserved = 0;
    for (i = 0; i < 5; ++i) {
        t.shape[i] = i < rank ? shape[i] : 0;
        t.strides[i] = 0;
    }
    return t;
}

/// A list of up to three numbers.
static inline gradkern_list gradkern_list_of(int count, const int64_t* values) {
    gradkern_list l;
    int i;
    l.count = count;
    for (i = 0; i < 3; ++i) l.values[i] = i < count ? values[i] : 0;
    return l;
}

#if defined(__cplusplus)
}
#endif

#endif  // GRADKERN_GRADKERN_H
