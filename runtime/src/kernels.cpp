// The table of one instruction set. GRADKERN_RUNTIME_TABLE is its symbol, the only one that the archive shows of these objects, and
// GRADKERN_RUNTIME_NAME its name.
#include "kernels.hpp"

#include <algorithm>
#include <cstring>

#include <gradkern/cpu.hpp>

#include "plans.hpp"

#define GRADKERN_RUNTIME_TEXT2(x) #x
#define GRADKERN_RUNTIME_TEXT(x) GRADKERN_RUNTIME_TEXT2(x)

namespace gradkern_runtime {
namespace {

// The numbers of both interfaces are the same.
static_assert(GRADKERN_WORKSPACE_TOO_SMALL == static_cast<int>(gk::errc::workspace_too_small));
static_assert(GRADKERN_F64 == static_cast<int>(gk::data_type::f64));
static_assert(GRADKERN_NCX == static_cast<int>(gk::data_format::ncx) &&
              GRADKERN_OIX == static_cast<int>(gk::weights_format::oix));
static_assert(GRADKERN_PAD_SAME_UPPER == static_cast<int>(gk::auto_pad::same_upper) &&
              GRADKERN_PAD_VALID == static_cast<int>(gk::auto_pad::valid));
static_assert(GRADKERN_ROUND_CEIL_TORCH == static_cast<int>(gk::rounding_type::ceil_torch));
static_assert(GRADKERN_INDEX_IMAGE == static_cast<int>(gk::index_base::image));
static_assert(GRADKERN_ACCUMULATE == static_cast<int>(gk::output_mode::accumulate) &&
              GRADKERN_RELAXED == static_cast<int>(gk::precision::relaxed) &&
              GRADKERN_SUM_PER_IMAGE == static_cast<int>(gk::summation::per_image));

template <std::size_t N>
void copy_text(std::string_view from, char (&to)[N]) noexcept {
    const std::size_t n = (std::min)(from.size(), N - 1);
    std::memcpy(to, from.data(), n);
    to[n] = '\0';
}

int report(const gk::error& e, gradkern_error& to) noexcept {
    to = gradkern_error{};
    to.code = static_cast<std::int32_t>(e.code);
    to.axis = e.axis;
    to.got = e.got;
    to.expected = e.expected;
    copy_text(e.op, to.op);
    copy_text(e.argument, to.argument);
    const std::size_t length = e.format(std::span<char>(to.message, sizeof to.message - 1));
    to.message[(std::min)(length, sizeof to.message - 1)] = '\0';
    return to.code;
}

int create(const gradkern_problem& problem, void** plan, gradkern_error& error) {
    const bool convolution =
        problem.op <= GRADKERN_CONVOLUTION_BACKWARD_WEIGHTS || problem.op == GRADKERN_BIAS_BACKWARD;
    const made_plan made = convolution                           ? make_convolution(problem)
                           : problem.op < GRADKERN_BIAS_BACKWARD ? make_conv_transpose(problem)
                                                                 : make_pool(problem);
    *plan = made.plan;
    if (made.plan != nullptr) return report({}, error);
    if (made.error.code != gk::errc::ok) return report(made.error, error);
    report({}, error);
    copy_text("no memory for a plan", error.message);
    return error.code = GRADKERN_OUT_OF_MEMORY;
}

/// The shape of the first output.
gk::result<gk::extents> infer_shape(const gradkern_problem& p) noexcept {
    const auto shape = [&](int i) { return extents_of(p.tensors[i].shape, p.tensors[i].rank); };
    const auto conv = attributes_of<gk::convolution_attributes>(p);
    const auto transpose = attributes_of<gk::conv_transpose_attributes>(p);
    const auto max = attributes_of<gk::max_pool_attributes>(p);
    switch (p.op) {
        case GRADKERN_CONVOLUTION: return gk::infer_convolution(shape(0), shape(1), conv);
        case GRADKERN_CONVOLUTION_BACKWARD_DATA:
            return gk::infer_convolution_backward_data(shape(0), shape(1), conv, shape(2));
        case GRADKERN_CONVOLUTION_BACKWARD_WEIGHTS:
            return gk::infer_convolution_backward_weights(shape(0), shape(1), conv, shape(2));
        case GRADKERN_CONV_TRANSPOSE: return gk::infer_conv_transpose(shape(0), shape(1), transpose, shape(3));
        case GRADKERN_CONV_TRANSPOSE_BACKWARD_DATA:
            return gk::infer_conv_transpose_backward_data(shape(0), shape(1), transpose, shape(2));
        case GRADKERN_CONV_TRANSPOSE_BACKWARD_WEIGHTS:
            return gk::infer_conv_transpose_backward_weights(shape(0), shape(1), transpose, shape(2));
        case GRADKERN_BIAS_BACKWARD: return gk::infer_bias_backward(shape(0), attributes_of<gk::bias_attributes>(p));
        case GRADKERN_AVG_POOL: return gk::infer_avg_pool(shape(0), attributes_of<gk::avg_pool_attributes>(p));
        case GRADKERN_AVG_POOL_BACKWARD:
            return gk::infer_avg_pool_backward(shape(0), attributes_of<gk::avg_pool_attributes>(p), shape(1));
        case GRADKERN_LP_POOL: return gk::infer_lp_pool(shape(0), attributes_of<gk::lp_pool_attributes>(p));
        case GRADKERN_LP_POOL_BACKWARD:
            return gk::infer_lp_pool_backward(shape(0), shape(1), shape(2), attributes_of<gk::lp_pool_attributes>(p));
        case GRADKERN_MAX_POOL: return gk::infer_max_pool(shape(0), max);
        case GRADKERN_MAX_POOL_BACKWARD: return gk::infer_max_pool_backward(shape(0), shape(1), max);
        default:
            return gk::infer_max_pool_backward_from_indices(
                shape(0), shape(1), attributes_of<gk::max_pool_indices_attributes>(p), shape(2));
    }
}

int infer(const gradkern_problem& problem, gradkern_tensor& output, gradkern_error& error) {
    const auto shape = infer_shape(problem);
    if (!shape) return report(shape.error(), error);
    output = gradkern_tensor{};
    output.type = problem.tensors[0].type;
    output.rank = static_cast<std::int32_t>(shape->rank());
    for (std::size_t i = 0; i < shape->rank(); ++i) output.shape[i] = (*shape)[i];
    return report({}, error);
}

std::size_t workspace_bytes(const void* plan, std::int64_t workers) {
    return static_cast<const any_plan*>(plan)->workspace_bytes(static_cast<std::ptrdiff_t>(workers));
}

/// The executor of the C interface.
struct callback_executor {
    const gradkern_executor* with;

    template <class F>
    void parallel_for(std::ptrdiff_t n, const F& fn) const {
        F call = fn;
        with->parallel_for(
            with->context, n,
            [](void* data, std::int64_t i) { (*static_cast<F*>(data))(static_cast<std::ptrdiff_t>(i)); }, &call);
    }
    [[nodiscard]] std::ptrdiff_t concurrency() const noexcept {
        return with->concurrency < 1 ? 1 : static_cast<std::ptrdiff_t>(with->concurrency);
    }
};

int run(const void* plan, void* const* tensors, void* workspace, std::size_t bytes, const gradkern_executor* executor,
        gradkern_error& error) {
    callback_executor threads{executor};
    const std::span<std::byte> memory(static_cast<std::byte*>(workspace), workspace == nullptr ? 0 : bytes);
    const bool serial = executor == nullptr || executor->parallel_for == nullptr;
    const gk::status s = static_cast<const any_plan*>(plan)->run(
        tensors, memory, serial ? gk::executor_ref() : gk::executor_ref(threads));
    return report(s.ok() ? gk::error{} : s.error(), error);
}

std::size_t describe(const void* plan, char* text, std::size_t bytes) {
    return static_cast<const any_plan*>(plan)->describe(std::span<char>(text, bytes));
}

void destroy(void* plan) { delete static_cast<any_plan*>(plan); }

const char* missing_feature() { return gk::missing_cpu_feature(); }

}  // namespace
}  // namespace gradkern_runtime

extern "C" const gradkern_kernels GRADKERN_RUNTIME_TABLE;
extern "C" const gradkern_kernels GRADKERN_RUNTIME_TABLE = {
    GRADKERN_RUNTIME_TEXT(GRADKERN_RUNTIME_NAME),
    gradkern_runtime::missing_feature,
    gradkern_runtime::create,
    gradkern_runtime::infer,
    gradkern_runtime::workspace_bytes,
    gradkern_runtime::run,
    gradkern_runtime::describe,
    gradkern_runtime::destroy,
    {4, 3, 4, 4, 3, 4, 2, 2, 2, 2, 4, 3, 3, 3},
};
