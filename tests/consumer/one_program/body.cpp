// Compiled once per instruction set, in a namespace of that name: calls plans and the whole vocabulary (lean: few plans). What the test itself needs is
// written without the standard library's templates, whose bodies all objects share: shared_symbols.py looks at those of the headers.
#include <everything.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <new>
#include <sstream>
#include <string>

#ifndef GRADKERN_VERSION_MAJOR
#error "the headers do not state their version"
#endif

#if defined(__GNUC__)
#define NOT_INLINE __attribute__((noinline))
#else
#define NOT_INLINE
#endif

namespace GRADKERN_ONE_PROGRAM {

// Number of wrong results.
int check();

namespace {

using namespace gradkern;

int wrong = 0;
NOT_INLINE void expect(bool right) { wrong += right ? 0 : 1; }

// ------------------------------------------------------------------------------------------------------------ vocabulary

alignas(64) std::byte memory[4096];

// The constructor that `T x;` calls.
template <class T>
NOT_INLINE T& made() {
    static_assert(sizeof(T) <= sizeof memory);
    for (std::byte& b : memory) b = std::byte{0xa5};
    return *new (memory) T;
}

void check_default_constructors() {
    expect(made<error>() == error{});
    expect(made<remark>().why.empty());
    expect(made<status>().ok());
    expect(made<extents>().empty() && made<extents>() == extents{});
    expect(made<tensor_layout>() == tensor_layout{});
    expect(made<tensor_view<float>>().data == nullptr);
    expect(made<dynamic_view>().layout.empty() && made<const_dynamic_view>().data == nullptr);
    expect(made<convolution_attributes>().groups == 1 && made<convolution_attributes>().pads_end.empty());
    expect(made<conv_transpose_attributes>().groups == 1);
    expect(made<bias_attributes>().data_format == data_format::nxc);
    expect(!made<avg_pool_attributes>().divisor_override && made<avg_pool_attributes>().diff_src_shape.empty());
    expect(made<max_pool_attributes>().kernel.empty());
    expect(made<max_pool_indices_attributes>().diff_src_shape.empty());
    expect(made<plan_options>().output == output_mode::overwrite);
    expect(made<call_options>().workspace.empty() && made<call_options>().executor.concurrency() == 1);
    expect(made<executor_ref>().concurrency() == 1);
    expect(made<serial_executor>().concurrency() == 1);
    expect(made<workspace>().size() == 0);
    made<float16>().bits = 0;
    made<bfloat16>().bits = 0;
}

void check_errors() {
    const error e{
        .code = errc::invalid_argument, .op = "convolution", .argument = "strides", .axis = 1, .expected = -12};
    const std::string text = to_string(e);
    expect(text.size() == e.format({}) && text == to_string(status(e)) && e == error(e));
    std::ostringstream out;
    out << e << status(e);
    expect(out.str().size() == 2 * text.size());
    expect(to_string(errc::overflow) == "overflow");
    result<extents> r = e;
    expect(!r && !r.has_value() && r.error().code == errc::invalid_argument && r.value_or(extents{2})[0] == 2);
    r = extents{1, 2};
    expect(r && r->rank() == 2 && (*r)[1] == 2 && r.value() == extents{1, 2});
    const result<extents> constant = r;
    expect(constant.value().rank() == 2 && status(e).code() == e.code && !status(e).ok() && status());
    char letters[4];
    text_writer writer(letters);
    expect((writer << "a" << std::int64_t{-12345}).size() == 7);
}

void check_shapes() {
    const std::int64_t wide[]{2, 3};
    const std::int32_t narrow[]{2, 3};
    extents e(wide);
    expect(e == extents(std::span<const std::int32_t>(narrow)) && e.values().size() == 2);
    e.push_back(4);
    e[0] = 5;
    expect(e == extents{5, 3, 4} && extents::filled(3, 1)[2] == 1 && !e.empty());
    const tensor_layout layout(e, extents{12, 4, 1});
    expect(!layout.is_dense() && !layout.empty() && layout == tensor_layout(layout) && tensor_layout(e).is_dense());
    expect(tensor_layout{5, 3, 4}.shape == e);
    float x[60];
    const tensor_view<float> view(x, layout);
    const tensor_view<const float> constant = view;
    const dynamic_view dynamic = view;
    const const_dynamic_view from_dynamic = dynamic;
    const const_dynamic_view from_typed = constant;
    expect(constant.data == x && dynamic.as<float>().data == x && from_dynamic.as<float>().data == x);
    expect(from_typed.data == dynamic_view(data_type::f32, x, layout).data);
    expect(const_dynamic_view(data_type::f32, x, layout).layout == layout);
    data_format format{};
    weights_format weights{};
    auto_pad pad{};
    rounding_type rounding{};
    expect(parse("NCX", format) && parse("OIX", weights) && parse("VALID", pad) && parse("ceil", rounding));
}

template <class T>
void check_half() {
    using limits = std::numeric_limits<T>;
    const T one(1.0F);
    expect(static_cast<float>(one) == 1 && one == T(1.0F) && one < T(2.0F) && T::from_bits(one.bits) == one);
    expect(limits::min() < one && limits::lowest() < limits::max() && limits::epsilon() < one);
    expect(limits::round_error() < one && one < limits::infinity() && limits::denorm_min() < one);
    expect(limits::quiet_NaN() != one && limits::signaling_NaN() != one);
}

template <class Executor>
void check_executor(Executor&& pool) {
    int counts[8]{};
    auto count = [&](std::ptrdiff_t i) { ++counts[i]; };
    pool.parallel_for(8, count);
    const executor_ref reference = pool;
    auto nested = [&](std::ptrdiff_t i) { pool.parallel_for(1, [&](std::ptrdiff_t) { ++counts[i]; }); };
    reference.parallel_for(8, nested);
    executor_ref().parallel_for(8, count);
    for (const int c : counts) expect(c == 3);
    expect(reference.concurrency() >= 1 && pool.concurrency() >= 1);
}

void check_lent() {
    growing_workspace growing;
    growing_workspace grown = static_cast<growing_workspace&&>(growing);
    growing = static_cast<growing_workspace&&>(grown);
    expect(growing.of(100).size() == 100 && growing.size() == 100);
    workspace first(100);
    workspace second = static_cast<workspace&&>(first);
    first = static_cast<workspace&&>(second);
    expect(first && first.size() == 100 && second.data() == nullptr && std::span<std::byte>(first).size() == 100);
    check_executor(serial_executor{});
    check_executor(thread_pool(2));
    expect(thread_pool::hardware_threads() >= 1);
}

// ----------------------------------------------------------------------------------------------------------------- plans

// Enough channels for whole vectors and tails of every instruction set; small integers, so that sums are exact.
constexpr std::int64_t channels = 37;
constexpr std::int64_t width = 9;
constexpr std::size_t size = width * channels;
constexpr std::size_t filter_size = 3 * channels * channels;
float x[size];
float fast[size];
float plain[size];
float w[filter_size];
float fast_w[filter_size];
float plain_w[filter_size];
float fast_b[channels];
float plain_b[channels];
std::int64_t indices[size];
bfloat16 x16[size];
bfloat16 fast16[size];
bfloat16 plain16[size];
alignas(64) std::byte scratch[1U << 20];

NOT_INLINE void compare(const status& a, const status& b) {
    expect(a.ok() && b.ok());
    for (std::size_t i = 0; i < size; ++i) expect(fast[i] == plain[i] && fast16[i].bits == plain16[i].bits);
    for (std::size_t i = 0; i < filter_size; ++i) expect(fast_w[i] == plain_w[i]);
    for (std::size_t i = 0; i < channels; ++i) expect(fast_b[i] == plain_b[i]);
}

void check_plans() {
    for (std::size_t i = 0; i < size; ++i) x[i] = static_cast<float>(i % 5) - 2;
    for (std::size_t i = 0; i < size; ++i) x16[i] = bfloat16(x[i]);
    for (std::size_t i = 0; i < filter_size; ++i) w[i] = static_cast<float>(i % 7) - 3;
    const extents activation{1, width, channels};
    const extents filter{3, channels, channels};
    const convolution_attributes conv{.strides = {1}, .dilations = {1}, .pads_begin = {1}, .pads_end = {1}};
    const conv_transpose_attributes transposed{.strides = {1}, .dilations = {1}, .pads_begin = {1}, .pads_end = {1}};
    const avg_pool_attributes avg{.kernel = {2}, .strides = {1}};
    const max_pool_attributes max{.kernel = {2}, .strides = {1}};
    const call_options options{.workspace = scratch};
    const tensor_view<const float> src(x, activation);
    const tensor_view<const bfloat16> src16(x16, activation);
    const tensor_view<const float> weights(w, filter);
    const tensor_view<const float> pooled(x, extents{1, width - 1, channels});
    const tensor_view<float> a(fast, activation);
    const tensor_view<float> b(plain, activation);
    const tensor_view<float> aw(fast_w, filter);
    const tensor_view<float> bw(plain_w, filter);

#if !defined(GRADKERN_ONE_PROGRAM_LEAN)
    compare(convolution(src, weights, {}, conv, a, options), ref::convolution(src, weights, {}, conv, b));
    compare(convolution_backward_data(src, weights, conv, a, options),
            ref::convolution_backward_data(src, weights, conv, b));
    compare(convolution_backward_weights(src, src, conv, aw, tensor_view<float>(fast_b, extents{channels}), options),
            ref::convolution_backward_weights(src, src, conv, bw, tensor_view<float>(plain_b, extents{channels})));
    compare(conv_transpose_backward_data(src, weights, transposed, a, options),
            ref::conv_transpose_backward_data(src, weights, transposed, b));
    compare(lp_pool_backward(src, pooled, pooled, {.kernel = {2}, .strides = {1}}, a, options),
            ref::lp_pool_backward(src, pooled, pooled, {.kernel = {2}, .strides = {1}}, b));
    compare(max_pool_backward(src, pooled, max, a, options), ref::max_pool_backward(src, pooled, max, b));
    const tensor_view<std::int64_t> where(indices, pooled.layout);
    compare(max_pool(src, max, tensor_view<float>(fast, pooled.layout), where, options),
            ref::max_pool(src, max, tensor_view<float>(plain, pooled.layout), where));
    compare(avg_pool_backward(dynamic_view(data_type::f32, x, pooled.layout), avg, a, options),
            ref::avg_pool_backward(pooled, avg, b));
    compare(avg_pool(src16, {.kernel = {1}, .strides = {1}}, tensor_view<bfloat16>(fast16, activation), options),
            ref::avg_pool(src16, {.kernel = {1}, .strides = {1}}, tensor_view<bfloat16>(plain16, activation)));
#endif
    compare(avg_pool_backward(pooled, avg, a, options), ref::avg_pool_backward(pooled, avg, b));

    // More channels than the tensor has: the error comes from the depths of the shape checks.
    const result<extents> r = infer_convolution(activation, extents{3, channels + 1, 1}, conv);
    expect(!r && !to_string(r.error()).empty());
}

void check_front_ends() {
    const std::int64_t dims[]{1, 1, 4, 4};
    const std::int64_t pooled_dims[]{1, 1, 2, 2};
    const std::int64_t twice[]{2};
    const std::int64_t no_padding[]{0};
    aclnn::aclTensor* dy =
        aclnn::aclCreateTensor(pooled_dims, 4, aclnn::ACL_FLOAT, nullptr, 0, aclnn::ACL_FORMAT_NCHW, pooled_dims, 4, x);
    aclnn::aclTensor* dx =
        aclnn::aclCreateTensor(dims, 4, aclnn::ACL_FLOAT, nullptr, 0, aclnn::ACL_FORMAT_NCHW, dims, 4, fast);
    aclnn::aclIntArray* kernel = aclnn::aclCreateIntArray(twice, 1);
    aclnn::aclIntArray* padding = aclnn::aclCreateIntArray(no_padding, 1);
    std::uint64_t bytes = 0;
    aclnn::aclOpExecutor* executor = nullptr;
    expect(aclnn::aclnnAvgPool2dBackwardGetWorkspaceSize(dy, dx, kernel, nullptr, padding, false, true, 0, 1, dx,
                                                         &bytes, &executor) == aclnn::ACLNN_SUCCESS);
    expect(bytes <= sizeof scratch &&
           aclnn::aclnnAvgPool2dBackward(scratch, bytes, executor, nullptr) == aclnn::ACLNN_SUCCESS);
    aclnn::aclDestroyIntArray(kernel);
    aclnn::aclDestroyIntArray(padding);
    aclnn::aclDestroyTensor(dy);
    aclnn::aclDestroyTensor(dx);

    const tensor_view<const float> pooled(x, extents{1, 1, 2, 2});
    const tensor_view<float> large(plain, extents{1, 1, 4, 4});
    expect(onnxruntime::AveragePoolGrad<float>(pooled, {.kernel_shape = {2, 2}, .strides = {2, 2}}, large).ok());
    for (std::size_t i = 0; i < 16; ++i) expect(fast[i] == plain[i]);
    expect(onednn_graph::AvgPoolBackprop<float>(pooled, {},
                                                {.strides = {2, 2},
                                                 .kernel = {2, 2},
                                                 .exclude_pad = true,
                                                 .data_format = "NCX",
                                                 .input_shape = {1, 1, 4, 4}},
                                                large)
               .ok());
    for (std::size_t i = 0; i < 16; ++i) expect(fast[i] == plain[i]);
    const std::int64_t where[]{0, 2, 8, 10};
    expect(
        onnxruntime::MaxPoolGrad<float>(pooled, tensor_view<const std::int64_t>(where, pooled.layout), {}, large).ok());
    expect(!onnxruntime::infer_ConvGrad(extents{1, 1, 3, 3}, extents{1, 2, 4, 4}, extents{1, 1, 2, 2}, {}));
}

}  // namespace

int check() {
    wrong = 0;
    check_default_constructors();
    check_errors();
    check_shapes();
    check_half<float16>();
    check_half<bfloat16>();
    check_lent();
    check_plans();
    check_front_ends();
    return wrong;
}

}  // namespace GRADKERN_ONE_PROGRAM
