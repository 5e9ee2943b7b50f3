// The entry points of the engines for the element types of most tests, declared as instantiated elsewhere: once, by the sources of this
// folder, with the flags of users. A program of gradkern_add_test(... ENGINES) includes this first and links their objects. Mixed
// element types, and those that tests define, are instantiated in the tests as ever.
//
// Entry points are no `inline` functions, since compilers would instantiate these all the same. Of the classes of convolutions, whose
// functions are inline, compilers emit no more than they inline.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include <gradkern/gradkern.hpp>

// The source that instantiates a group defines its macro as nothing, in place of `extern`.
#ifndef GRADKERN_TEST_CONVOLUTION
#define GRADKERN_TEST_CONVOLUTION extern
#endif
#ifndef GRADKERN_TEST_WEIGHTS
#define GRADKERN_TEST_WEIGHTS extern
#endif
#ifndef GRADKERN_TEST_MAX_POOL
#define GRADKERN_TEST_MAX_POOL extern
#endif
#ifndef GRADKERN_TEST_MEAN_POOL
#define GRADKERN_TEST_MEAN_POOL extern
#endif

// Compiled once for each type of sums.
#define GRADKERN_TEST_SUMS(Real)                                                                                     \
    GRADKERN_TEST_CONVOLUTION template void run_conv(const conv_plan&, conv_call<Real>, std::span<std::byte>,        \
                                                     executor_ref) noexcept;                                         \
    GRADKERN_TEST_WEIGHTS template void run_bias(const bias_plan&, const bias_operands<Real>&, std::span<std::byte>, \
                                                 executor_ref) noexcept;                                             \
    GRADKERN_TEST_WEIGHTS template void conv_weights::run(const conv_weights::plan&, conv_weights::operands<Real>,   \
                                                          std::span<std::byte>, executor_ref) noexcept;

// What convolutions compile for each type of elements, beside which biases and gradients of weights have elements of type Other.
#define GRADKERN_TEST_CONVOLUTIONS(T, Other)                                \
    GRADKERN_TEST_CONVOLUTION template class conv_operator<T, T, T, Other>; \
    GRADKERN_TEST_WEIGHTS template class weight_gradient_operator<T, Other>;

// Pools are compiled for each type of elements as a whole.
#define GRADKERN_TEST_POOLS(T)                                                                                         \
    GRADKERN_TEST_MAX_POOL template void max_pool::run_path(                                                           \
        const max_pool::windows_plan&, const T*, T*, std::int64_t*, std::span<std::byte>, executor_ref) noexcept;      \
    GRADKERN_TEST_MAX_POOL template void max_pool::run_path(const max_pool::gather_form_plan&, const T*, const T*, T*, \
                                                            std::span<std::byte>, executor_ref) noexcept;              \
    GRADKERN_TEST_MAX_POOL template void max_pool::run_path(const max_pool::scatter_form_plan&, const T*, const T*,    \
                                                            T*, std::span<std::byte>, executor_ref) noexcept;          \
    GRADKERN_TEST_MAX_POOL template status max_pool_indices::run(std::string_view, const max_pool_indices::plan&,      \
                                                                 const T*, const std::int64_t*, T*,                    \
                                                                 std::span<std::byte>, executor_ref) noexcept;         \
    GRADKERN_TEST_MEAN_POOLS(T, shape::side::small)                                                                    \
    GRADKERN_TEST_MEAN_POOLS(T, shape::side::large)

#define GRADKERN_TEST_MEAN_POOLS(T, outputs)                                                                           \
    GRADKERN_TEST_MEAN_POOL template void avg_pool::run_plan<T, outputs>(const avg_pool::plan&, const T*, T*,          \
                                                                         std::span<std::byte>, executor_ref) noexcept; \
    GRADKERN_TEST_MEAN_POOL template void lp_pool::run_plan<outputs, T>(                                               \
        const lp_pool::plan&, const std::array<const T*, 3>&, T*, std::span<std::byte>, executor_ref) noexcept;

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail {

GRADKERN_TEST_SUMS(float)
GRADKERN_TEST_SUMS(double)

GRADKERN_TEST_CONVOLUTIONS(float, float)
GRADKERN_TEST_CONVOLUTIONS(double, double)
GRADKERN_TEST_CONVOLUTIONS(float16, float16)
GRADKERN_TEST_CONVOLUTIONS(float16, float)
GRADKERN_TEST_CONVOLUTIONS(bfloat16, bfloat16)
GRADKERN_TEST_CONVOLUTIONS(bfloat16, float)

GRADKERN_TEST_POOLS(float)
GRADKERN_TEST_POOLS(double)
GRADKERN_TEST_POOLS(float16)
GRADKERN_TEST_POOLS(bfloat16)

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END
