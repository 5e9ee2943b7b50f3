// PyTorch's convolutions and pools on the CPU, computed by gradkern.
//
// torch.ops.gradkern.enable() registers the functions below for PyTorch's own operators, and disable() takes them back. So models
// keep their source, and autograd its formulas: it calls convolution_backward and the like, which are here, too.
//
// Tensors are passed with the sizes and strides that they have, so that channels_last needs no copy.
#include <ATen/ATen.h>
#include <ATen/CPUFunctions.h>
#include <ATen/NativeFunctions.h>
#include <ATen/Parallel.h>
#include <torch/library.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <tuple>
#include <utility>

#include <gradkern/error_text.hpp>
#include <gradkern/executors/thread_pool.hpp>
#include <gradkern/gradkern.hpp>
#include <gradkern/workspace.hpp>

namespace gk = gradkern;
using at::IntArrayRef;
using at::Tensor;

namespace {

// As many threads as torch.set_num_threads() says. A call keeps the pool that it began with.
std::shared_ptr<gk::thread_pool> workers() {
    static std::mutex mutex;
    static std::shared_ptr<gk::thread_pool> pool;
    const std::scoped_lock lock(mutex);
    const std::ptrdiff_t threads = at::in_parallel_region() ? 1 : at::get_num_threads();
    if (!pool || pool->concurrency() != threads) pool = std::make_shared<gk::thread_pool>(threads);
    return pool;
}

std::atomic<int64_t> calls{0};

template <class Plan, class... Pointers>
void run(const gk::result<Plan>& plan, Pointers... tensors) {
    thread_local gk::growing_workspace memory;
    TORCH_CHECK(plan.has_value(), gk::to_string(gk::status(plan.error())));
    const auto pool = workers();
    const gk::status s = plan->run(tensors..., memory.of(plan->workspace_bytes(pool->concurrency())), *pool);
    TORCH_CHECK(s.ok(), gk::to_string(s));
    calls.fetch_add(1, std::memory_order_relaxed);
}

gk::tensor_layout layout_of(const Tensor& t) { return {gk::extents(t.sizes()), gk::extents(t.strides())}; }
// OIX. PyTorch has the weight of a transposed convolution as (in, out/groups, K...): the same memory, two axes swapped.
gk::tensor_layout weights_of(const Tensor& t, bool transposed) {
    gk::tensor_layout l = layout_of(t);
    if (transposed) {
        std::swap(l.shape[0], l.shape[1]);
        std::swap(l.strides[0], l.strides[1]);
    }
    return l;
}
gk::tensor_layout optional_layout(const std::optional<Tensor>& t) {
    return t && t->defined() ? layout_of(*t) : gk::tensor_layout{};
}
template <class T>
const T* optional_data(const std::optional<Tensor>& t) {
    return t && t->defined() ? t->const_data_ptr<T>() : nullptr;
}

// One number stands for all axes.
gk::extents per_axis(IntArrayRef values, std::size_t axes) {
    return values.size() == 1 ? gk::extents::filled(axes, values[0]) : gk::extents(values);
}
template <class Attributes>
Attributes layer(std::size_t axes, IntArrayRef stride, IntArrayRef padding, IntArrayRef dilation) {
    Attributes a;
    a.strides = per_axis(stride, axes);
    a.pads_begin = a.pads_end = per_axis(padding, axes);
    a.dilations = per_axis(dilation, axes);
    a.data_format = gk::data_format::ncx;
    if constexpr (requires { a.weights_format; }) a.weights_format = gk::weights_format::oix;
    return a;
}

Tensor empty(const gk::result<gk::extents>& shape, const Tensor& like, at::MemoryFormat format, at::ScalarType type) {
    TORCH_CHECK(shape.has_value(), gk::to_string(gk::status(shape.error())));
    const auto sizes = shape->values();
    return at::empty(IntArrayRef(sizes.data(), sizes.size()), like.options().dtype(type).memory_format(format));
}

// What gradkern computes here; the rest stays with PyTorch.
bool takes(const Tensor& t) {
    return t.layout() == at::kStrided && !t.is_neg() &&
           (t.scalar_type() == at::kFloat || t.scalar_type() == at::kDouble);
}
template <class F>
auto with_type(const Tensor& t, F&& f) {
    return t.scalar_type() == at::kFloat ? f(float{}) : f(double{});
}

// ------------------------------------------------------------------------------------------------------------ convolutions

// Calls f(plans and shapes of the family, attributes): the two families differ in names alone.
struct plain_family {
    using attributes = gk::convolution_attributes;
    static constexpr bool transposed = false;
    template <class T, class... A>
    static auto forward(const A&... a) {
        return gk::plan_convolution<T>(a...);
    }
    template <class T, class... A>
    static auto data(const A&... a) {
        return gk::plan_convolution_backward_data<T>(a...);
    }
    template <class T, class... A>
    static auto weights(const A&... a) {
        return gk::plan_convolution_backward_weights<T>(a...);
    }
    template <class... A>
    static auto infer(const A&... a) {
        return gk::infer_convolution(a...);
    }
};
struct transposed_family {
    using attributes = gk::conv_transpose_attributes;
    static constexpr bool transposed = true;
    template <class T, class... A>
    static auto forward(const A&... a) {
        return gk::plan_conv_transpose<T>(a...);
    }
    template <class T, class... A>
    static auto data(const A&... a) {
        return gk::plan_conv_transpose_backward_data<T>(a...);
    }
    template <class T, class... A>
    static auto weights(const A&... a) {
        return gk::plan_conv_transpose_backward_weights<T>(a...);
    }
    template <class... A>
    static auto infer(const A&... a) {
        return gk::infer_conv_transpose(a...);
    }
};

template <class Family>
typename Family::attributes conv_attributes(const Tensor& input, IntArrayRef stride, IntArrayRef padding,
                                            IntArrayRef dilation, IntArrayRef output_padding, int64_t groups) {
    const auto axes = static_cast<std::size_t>(input.dim() - 2);
    auto a = layer<typename Family::attributes>(axes, stride, padding, dilation);
    a.groups = groups;
    if constexpr (Family::transposed) a.output_padding = per_axis(output_padding, axes);
    return a;
}
// channels_last if either is, as in PyTorch.
at::MemoryFormat format_of(const Tensor& input, const Tensor& weight) {
    const auto f = input.suggest_memory_format();
    return f == at::MemoryFormat::Contiguous && weight.dim() == input.dim() ? weight.suggest_memory_format() : f;
}

template <class Family>
Tensor forward(const Tensor& input, const Tensor& weight, const std::optional<Tensor>& bias,
               const typename Family::attributes& a) {
    const gk::tensor_layout x = layout_of(input), w = weights_of(weight, Family::transposed);
    Tensor y = empty(Family::infer(x.shape, w.shape, a), input, format_of(input, weight), input.scalar_type());
    with_type(input, [&]<class T>(T) {
        run(Family::template forward<T>(x, w, optional_layout(bias), a, layout_of(y)), input.const_data_ptr<T>(),
            weight.const_data_ptr<T>(), optional_data<T>(bias), y.mutable_data_ptr<T>());
    });
    return y;
}

template <class Family>
std::tuple<Tensor, Tensor, Tensor> backward(const Tensor& dy, const Tensor& input, const Tensor& weight,
                                            const typename Family::attributes& a, std::array<bool, 3> wanted) {
    Tensor dx, dw, db;
    const gk::tensor_layout g = layout_of(dy), x = layout_of(input), w = weights_of(weight, Family::transposed);
    if (wanted[0]) dx = at::empty(input.sizes(), input.options().memory_format(format_of(input, weight)));
    if (wanted[1]) dw = at::empty_like(weight);
    if (wanted[2]) db = at::empty({dy.size(1)}, weight.options());
    with_type(input, [&]<class T>(T) {
        if (wanted[0])
            run(Family::template data<T>(g, w, a, layout_of(dx)), dy.const_data_ptr<T>(), weight.const_data_ptr<T>(),
                dx.mutable_data_ptr<T>());
        if (wanted[1])
            run(Family::template weights<T>(x, g, a, weights_of(dw, Family::transposed),
                                            wanted[2] ? layout_of(db) : gk::tensor_layout{}),
                input.const_data_ptr<T>(), dy.const_data_ptr<T>(), dw.mutable_data_ptr<T>(),
                wanted[2] ? db.mutable_data_ptr<T>() : nullptr);
        else if (wanted[2])
            run(gk::plan_bias_backward<T>(g, {.data_format = gk::data_format::ncx}, layout_of(db)),
                dy.const_data_ptr<T>(), db.mutable_data_ptr<T>());
    });
    return {dx, dw, db};
}

bool takes(const Tensor& input, const Tensor& weight, const std::optional<Tensor>& bias) {
    return takes(input) && takes(weight) && input.dim() >= 3 && input.dim() <= 5 && weight.dim() == input.dim() &&
           weight.scalar_type() == input.scalar_type() &&
           (!bias || !bias->defined() || bias->scalar_type() == input.scalar_type());
}

Tensor convolution(const Tensor& input, const Tensor& weight, const std::optional<Tensor>& bias, IntArrayRef stride,
                   IntArrayRef padding, IntArrayRef dilation, bool transposed, IntArrayRef output_padding,
                   int64_t groups) {
    if (!takes(input, weight, bias))
        return at::native::convolution(input, weight, bias, stride, padding, dilation, transposed, output_padding,
                                       groups);
    const auto go = [&]<class Family>(Family) {
        return forward<Family>(input, weight, bias,
                               conv_attributes<Family>(input, stride, padding, dilation, output_padding, groups));
    };
    return transposed ? go(transposed_family{}) : go(plain_family{});
}

std::tuple<Tensor, Tensor, Tensor> convolution_backward(const Tensor& dy, const Tensor& input, const Tensor& weight,
                                                        at::OptionalIntArrayRef bias_sizes, IntArrayRef stride,
                                                        IntArrayRef padding, IntArrayRef dilation, bool transposed,
                                                        IntArrayRef output_padding, int64_t groups,
                                                        std::array<bool, 3> output_mask) {
    if (!takes(input, weight, dy) || !takes(dy))
        return at::native::convolution_backward(dy, input, weight, bias_sizes, stride, padding, dilation, transposed,
                                                output_padding, groups, output_mask);
    const auto go = [&]<class Family>(Family) {
        return backward<Family>(dy, input, weight,
                                conv_attributes<Family>(input, stride, padding, dilation, output_padding, groups),
                                output_mask);
    };
    return transposed ? go(transposed_family{}) : go(plain_family{});
}

// ------------------------------------------------------------------------------------------------------------------- pools

template <class Attributes>
Attributes pool(std::size_t axes, IntArrayRef kernel, IntArrayRef stride, IntArrayRef padding, IntArrayRef dilation,
                bool ceil_mode) {
    auto a = layer<Attributes>(axes, stride.empty() ? kernel : stride, padding, dilation);
    a.kernel = per_axis(kernel, axes);
    a.rounding_type = ceil_mode ? gk::rounding_type::ceil_torch : gk::rounding_type::floor;
    return a;
}
template <std::size_t axes>
gk::avg_pool_attributes average(IntArrayRef kernel, IntArrayRef stride, IntArrayRef padding, bool ceil_mode,
                                bool count_include_pad, std::optional<int64_t> divisor) {
    auto a = pool<gk::avg_pool_attributes>(axes, kernel, stride, padding, {1}, ceil_mode);
    a.exclude_pad = !count_include_pad;
    a.divisor_override = divisor;
    return a;
}
// With a batch, which PyTorch's pools can be without.
template <std::size_t axes>
Tensor batch(const Tensor& t) {
    return t.dim() == axes + 1 ? t.unsqueeze(0) : t;
}
template <std::size_t axes>
Tensor unbatch(const Tensor& t, const Tensor& like) {
    return like.dim() == axes + 1 ? t.squeeze(0) : t;
}
template <std::size_t axes>
bool takes_pool(const Tensor& t) {
    return takes(t) && (t.dim() == axes + 1 || t.dim() == axes + 2);
}

template <std::size_t axes>
Tensor avg_pool(const Tensor& self, IntArrayRef kernel, IntArrayRef stride, IntArrayRef padding, bool ceil_mode,
                bool count_include_pad, std::optional<int64_t> divisor) {
    if (!takes_pool<axes>(self)) {
        constexpr auto theirs = [](const auto&... a) {
            if constexpr (axes == 2)
                return at::cpu::avg_pool2d(a...);
            else
                return at::cpu::avg_pool3d(a...);
        };
        return theirs(self, kernel, stride, padding, ceil_mode, count_include_pad, divisor);
    }
    const auto a = average<axes>(kernel, stride, padding, ceil_mode, count_include_pad, divisor);
    const Tensor x = batch<axes>(self);
    Tensor y = empty(gk::infer_avg_pool(gk::extents(x.sizes()), a), x, x.suggest_memory_format(), x.scalar_type());
    with_type(x, [&]<class T>(T) {
        run(gk::plan_avg_pool<T>(layout_of(x), a, layout_of(y)), x.const_data_ptr<T>(), y.mutable_data_ptr<T>());
    });
    return unbatch<axes>(y, self);
}
template <std::size_t axes>
Tensor avg_pool_backward(const Tensor& grad_output, const Tensor& self, IntArrayRef kernel, IntArrayRef stride,
                         IntArrayRef padding, bool ceil_mode, bool count_include_pad, std::optional<int64_t> divisor) {
    if (!takes_pool<axes>(self) || !takes(grad_output)) {
        constexpr auto theirs = [](const auto&... a) {
            if constexpr (axes == 2)
                return at::cpu::avg_pool2d_backward(a...);
            else
                return at::cpu::avg_pool3d_backward(a...);
        };
        return theirs(grad_output, self, kernel, stride, padding, ceil_mode, count_include_pad, divisor);
    }
    const auto a = average<axes>(kernel, stride, padding, ceil_mode, count_include_pad, divisor);
    const Tensor x = batch<axes>(self), dy = batch<axes>(grad_output);
    Tensor dx = at::empty(x.sizes(), x.options().memory_format(x.suggest_memory_format()));
    with_type(x, [&]<class T>(T) {
        run(gk::plan_avg_pool_backward<T>(layout_of(dy), a, layout_of(dx)), dy.const_data_ptr<T>(),
            dx.mutable_data_ptr<T>());
    });
    return unbatch<axes>(dx, self);
}

template <std::size_t axes>
std::tuple<Tensor, Tensor> max_pool(const Tensor& self, IntArrayRef kernel, IntArrayRef stride, IntArrayRef padding,
                                    IntArrayRef dilation, bool ceil_mode) {
    if (!takes_pool<axes>(self)) {
        constexpr auto theirs = [](const auto&... a) {
            if constexpr (axes == 2)
                return at::cpu::max_pool2d_with_indices(a...);
            else
                return at::cpu::max_pool3d_with_indices(a...);
        };
        return theirs(self, kernel, stride, padding, dilation, ceil_mode);
    }
    auto a = pool<gk::max_pool_attributes>(axes, kernel, stride, padding, dilation, ceil_mode);
    a.index_base = gk::index_base::plane;
    const Tensor x = batch<axes>(self);
    const auto shape = gk::infer_max_pool(gk::extents(x.sizes()), a);
    Tensor y = empty(shape, x, x.suggest_memory_format(), x.scalar_type());
    Tensor indices = empty(shape, x, x.suggest_memory_format(), at::kLong);
    with_type(x, [&]<class T>(T) {
        run(gk::plan_max_pool<T>(layout_of(x), a, layout_of(y), layout_of(indices)), x.const_data_ptr<T>(),
            y.mutable_data_ptr<T>(), indices.mutable_data_ptr<int64_t>());
    });
    return {unbatch<axes>(y, self), unbatch<axes>(indices, self)};
}
template <std::size_t axes>
Tensor max_pool_backward(const Tensor& grad_output, const Tensor& self, IntArrayRef kernel, IntArrayRef stride,
                         IntArrayRef padding, IntArrayRef dilation, bool ceil_mode, const Tensor& indices) {
    if (!takes_pool<axes>(self) || !takes(grad_output)) {
        constexpr auto theirs = [](const auto&... a) {
            if constexpr (axes == 2)
                return at::cpu::max_pool2d_with_indices_backward(a...);
            else
                return at::cpu::max_pool3d_with_indices_backward(a...);
        };
        return theirs(grad_output, self, kernel, stride, padding, dilation, ceil_mode, indices);
    }
    const Tensor x = batch<axes>(self), dy = batch<axes>(grad_output), at_index = batch<axes>(indices);
    Tensor dx = at::empty(x.sizes(), x.options().memory_format(x.suggest_memory_format()));
    with_type(x, [&]<class T>(T) {
        run(gk::plan_max_pool_backward_from_indices<T>(
                layout_of(dy), layout_of(at_index),
                {.data_format = gk::data_format::ncx, .index_base = gk::index_base::plane}, layout_of(dx),
                {.index_check = gk::index_check::each}),
            dy.const_data_ptr<T>(), at_index.const_data_ptr<int64_t>(), dx.mutable_data_ptr<T>());
    });
    return unbatch<axes>(dx, self);
}

// ------------------------------------------------------------------------------------------------------------ registration

std::mutex registration;
std::unique_ptr<torch::Library> overrides;

void enable() {
    const std::scoped_lock lock(registration);
    if (overrides) return;
    overrides =
        std::make_unique<torch::Library>(torch::Library::IMPL, "aten", c10::DispatchKey::CPU, __FILE__, __LINE__);
    overrides->impl("convolution", TORCH_FN(convolution));
    overrides->impl("convolution_backward", TORCH_FN(convolution_backward));
    overrides->impl("avg_pool2d", TORCH_FN(avg_pool<2>));
    overrides->impl("avg_pool2d_backward", TORCH_FN(avg_pool_backward<2>));
    overrides->impl("avg_pool3d", TORCH_FN(avg_pool<3>));
    overrides->impl("avg_pool3d_backward", TORCH_FN(avg_pool_backward<3>));
    overrides->impl("max_pool2d_with_indices", TORCH_FN(max_pool<2>));
    overrides->impl("max_pool2d_with_indices_backward", TORCH_FN(max_pool_backward<2>));
    overrides->impl("max_pool3d_with_indices", TORCH_FN(max_pool<3>));
    overrides->impl("max_pool3d_with_indices_backward", TORCH_FN(max_pool_backward<3>));
}
void disable() {
    const std::scoped_lock lock(registration);
    overrides.reset();
}

}  // namespace

TORCH_LIBRARY(gradkern, m) {
    m.def("enable", enable);
    m.def("disable", disable);
    m.def("calls", [] { return calls.load(std::memory_order_relaxed); });  // of gradkern, so far
}
