#include "compute.hpp"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include <gradkern/dynamic.hpp>
#include <gradkern/error_text.hpp>
#include <gradkern/gradkern.hpp>
#include <gradkern/ref/max_pool.hpp>
#include <gradkern/testing/compare.hpp>
#include <gradkern/testing/problem.hpp>
#include <gradkern/workspace.hpp>

namespace golden {
namespace {

void require(const gk::status& s, const problem& p) {
    if (!s) throw failure(p.name + ": " + gk::to_string(s));
}

/// The tensors of a call by name: those that are absent are {}.
struct arguments {
    const problem& p;
    const tensors& inputs;
    tensors& outputs;

    [[nodiscard]] gk::const_dynamic_view in(std::string_view name) const {
        const auto found = inputs.find(name);
        if (found == inputs.end()) return {};
        return {data_type_of(found->second.type), found->second.bytes.data(), p.call_shape_of(name)};
    }
    [[nodiscard]] gk::dynamic_view out(std::string_view name) const {
        const auto found = outputs.find(name);
        if (found == outputs.end()) return {};
        auto& bytes = found->second.bytes;
        return {data_type_of(found->second.type), bytes.empty() ? nullptr : bytes.data(), p.call_shape_of(name)};
    }
    template <class T>
    [[nodiscard]] gk::tensor_view<const T> typed_in(std::string_view name) const {
        const auto found = inputs.find(name);
        if (found == inputs.end()) return {};
        return {found->second.data<T>(), p.call_shape_of(name)};
    }
    template <class T>
    [[nodiscard]] gk::tensor_view<T> typed_out(std::string_view name) const {
        const auto found = outputs.find(name);
        if (found == outputs.end()) return {};
        return {found->second.data<T>(), p.call_shape_of(name)};
    }
};

/// One call of the operator, whose types are those of the tensors.
[[nodiscard]] gk::status run(const arguments& t, std::span<std::byte> workspace = {}) {
    const problem& p = t.p;
    const gk::call_options how{.plan = p.options, .workspace = workspace};
    const auto* const conv = std::get_if<gk::convolution_attributes>(&p.attribute);
    const auto* const transposed = std::get_if<gk::conv_transpose_attributes>(&p.attribute);
    const auto* const avg = std::get_if<gk::avg_pool_attributes>(&p.attribute);
    const auto* const lp = std::get_if<gk::lp_pool_attributes>(&p.attribute);
    const auto* const max = std::get_if<gk::max_pool_attributes>(&p.attribute);
    const auto in = [&](std::string_view name) { return t.in(name); };
    const auto out = [&](std::string_view name) { return t.out(name); };
    switch (p.operation) {
        case op::avg_pool: return gk::avg_pool(in("src"), *avg, out("dst"), how);
        case op::avg_pool_backward: return gk::avg_pool_backward(in("diff_dst"), *avg, out("diff_src"), how);
        case op::lp_pool: return gk::lp_pool(in("src"), *lp, out("dst"), how);
        case op::lp_pool_backward:
            return gk::lp_pool_backward(in("src"), in("dst"), in("diff_dst"), *lp, out("diff_src"), how);
        case op::max_pool: return gk::max_pool(in("src"), *max, out("dst"), t.typed_out<std::int64_t>("indices"), how);
        case op::max_pool_backward: return gk::max_pool_backward(in("src"), in("diff_dst"), *max, out("diff_src"), how);
        case op::max_pool_backward_from_indices:
            return gk::max_pool_backward_from_indices(in("diff_dst"), t.typed_in<std::int64_t>("indices"),
                                                      std::get<gk::max_pool_indices_attributes>(p.attribute),
                                                      out("diff_src"), how);
        case op::convolution: return gk::convolution(in("src"), in("weights"), in("bias"), *conv, out("dst"), how);
        case op::convolution_backward_data:
            return gk::convolution_backward_data(in("diff_dst"), in("weights"), *conv, out("diff_src"), how);
        case op::convolution_backward_weights:
            return gk::convolution_backward_weights(in("src"), in("diff_dst"), *conv, out("diff_weights"),
                                                    out("diff_bias"), how);
        case op::conv_transpose:
            return gk::conv_transpose(in("src"), in("weights"), in("bias"), *transposed, out("dst"), how);
        case op::conv_transpose_backward_data:
            return gk::conv_transpose_backward_data(in("diff_dst"), in("weights"), *transposed, out("diff_src"), how);
        case op::conv_transpose_backward_weights:
            return gk::conv_transpose_backward_weights(in("src"), in("diff_dst"), *transposed, out("diff_weights"),
                                                       out("diff_bias"), how);
        default:
            return gk::bias_backward(in("diff_dst"), std::get<gk::bias_attributes>(p.attribute), out("diff_bias"), how);
    }
}

/// The shape of the first output. Empty where the problem's own shapes say it, as those of results that cannot be inferred.
[[nodiscard]] gk::result<gk::extents> infer(const problem& p) {
    const auto in = [&](std::string_view name) { return p.call_shape_of(name); };
    const auto* const conv = std::get_if<gk::convolution_attributes>(&p.attribute);
    const auto* const transposed = std::get_if<gk::conv_transpose_attributes>(&p.attribute);
    const auto* const avg = std::get_if<gk::avg_pool_attributes>(&p.attribute);
    const auto* const lp = std::get_if<gk::lp_pool_attributes>(&p.attribute);
    const auto* const max = std::get_if<gk::max_pool_attributes>(&p.attribute);
    switch (p.operation) {
        case op::avg_pool: return gk::infer_avg_pool(in("src"), *avg);
        case op::avg_pool_backward: return gk::infer_avg_pool_backward(in("diff_dst"), *avg, in("diff_src"));
        case op::lp_pool: return gk::infer_lp_pool(in("src"), *lp);
        case op::lp_pool_backward: return gk::infer_lp_pool_backward(in("src"), in("dst"), in("diff_dst"), *lp);
        case op::max_pool: return gk::infer_max_pool(in("src"), *max);
        case op::max_pool_backward: return gk::infer_max_pool_backward(in("src"), in("diff_dst"), *max);
        case op::max_pool_backward_from_indices:
            return gk::infer_max_pool_backward_from_indices(
                in("diff_dst"), in("indices"), std::get<gk::max_pool_indices_attributes>(p.attribute), in("diff_src"));
        case op::convolution: return gk::infer_convolution(in("src"), in("weights"), *conv);
        case op::convolution_backward_data:
            return gk::infer_convolution_backward_data(in("diff_dst"), in("weights"), *conv, in("diff_src"));
        case op::convolution_backward_weights:
            return gk::infer_convolution_backward_weights(in("src"), in("diff_dst"), *conv, in("diff_weights"));
        case op::conv_transpose: return gk::infer_conv_transpose(in("src"), in("weights"), *transposed, in("dst"));
        case op::conv_transpose_backward_data:
            return gk::infer_conv_transpose_backward_data(in("diff_dst"), in("weights"), *transposed, in("diff_src"));
        case op::conv_transpose_backward_weights:
            return gk::infer_conv_transpose_backward_weights(in("src"), in("diff_dst"), *transposed,
                                                             in("diff_weights"));
        default: return gk::infer_bias_backward(in("diff_dst"), std::get<gk::bias_attributes>(p.attribute));
    }
}

/// A problem as testing.hpp has it. `output`: diff_bias beside diff_weights is a problem of its own.
[[nodiscard]] gk::test::problem judged_problem(const problem& p, std::string_view output) {
    return std::visit(
        [&](const auto& a) -> gk::test::problem {
            if (output == "diff_bias")
                return {op::bias_backward, gk::bias_attributes{.data_format = a.data_format}, p.options};
            return {p.operation, a, p.options};
        },
        p.attribute);
}

/// The inputs of an output; of one that is per image those of image n, which is a batch of its own.
[[nodiscard]] gk::test::inputs judged_inputs(const arguments& t, const std::string& output, std::size_t n) {
    const auto in = [&](std::string_view name) {
        gk::const_dynamic_view view = t.in(name);
        if (!t.p.is_per_image(output) || view.layout.empty()) return view;
        if (!t.p.is_per_image(name)) view.layout.shape[0] = 1;
        const auto elements = static_cast<std::size_t>(gk::shape::element_count(view.layout.shape));
        view.data = static_cast<const std::byte*>(view.data) + n * elements * gk::size_of(view.type);
        return view;
    };
    return {.src = in("src"),
            .weights = in("weights"),
            .bias = in("bias"),
            .dst = in("dst"),
            .diff_dst = in("diff_dst"),
            .indices = t.typed_in<std::int64_t>("indices"),
            .previous = in(previous_of(output))};
}

/// The bounds of an output of type T.
template <class T, class In>
void write_bounds(std::span<double> bounds, const problem& p, const gk::test::problem& judged,
                  const gk::test::inputs& in, const gk::tensor_layout& layout, const gk::detail::judgement& j) {
    const auto bound = gk::detail::bound_of<T, In>(judged, in, layout);
    if (!bound) throw failure(p.name + ": " + gk::to_string(bound.error()));
    for (std::size_t i = 0; i < bounds.size(); ++i) {
        const double exact = j.expected(static_cast<std::int64_t>(i));
        const double terms = j.terms(static_cast<std::int64_t>(i));
        constexpr double infinity = std::numeric_limits<double>::infinity();
        // A sum of f64 may leave the range of f64 on its way: terms that have no sum have no bound.
        bounds[i] = !std::isfinite(exact)            ? (std::isinf(terms) ? infinity : 0)
                    : bound->overflows(terms, exact) ? -infinity
                                                     : gk::detail::largest_error(*bound, terms, exact);
    }
}

}  // namespace

void complete_shapes(problem& p, const tensors& inputs) {
    for (const auto& [name, t] : inputs) {
        const sizes given = p.shapes.try_emplace(std::string(tensor_of(name)), t.shape).first->second;
        if (given != t.shape)
            throw failure(p.name + ": " + name + " has the shape " + text_of(t.shape) + ", the problem says " +
                          text_of(given));
    }
    for (const role& r : p.facts().inputs)
        if (!r.optional && !p.shapes.contains(r.name)) throw failure(p.name + ": has no " + r.name);
    const auto inferred = infer(p);
    if (!inferred) throw failure(p.name + ": " + gk::to_string(inferred.error()));
    const std::vector<role> outputs = p.wanted_outputs();
    const auto complete = [&](const std::string& name, const gk::extents& shape) {
        sizes all = sizes_of(shape);
        if (p.is_per_image(name)) all.insert(all.begin(), p.shape_of("diff_dst").front());
        const sizes given = p.shapes.try_emplace(name, all).first->second;
        if (given != all)
            throw failure(p.name + ": " + name + " has the shape " + text_of(given) + ", expected " + text_of(all));
    };
    complete(outputs[0].name, *inferred);
    if (outputs.size() == 1) return;
    gk::extents second = *inferred;  // indices
    if (outputs[1].name == "diff_bias") {
        gk::bias_attributes a;
        std::visit([&](const auto& v) { a.data_format = v.data_format; }, p.attribute);
        const auto bias = gk::infer_bias_backward(p.shape_of("diff_dst"), a);
        if (!bias) throw failure(p.name + ": " + gk::to_string(bias.error()));
        second = *bias;
    }
    complete(outputs[1].name, second);
}

tensors results(const problem& p, const tensors& inputs) {
    tensors outputs;
    for (const role& r : p.wanted_outputs()) {
        const auto before = inputs.find(previous_of(r.name));
        outputs.emplace(r.name, before != inputs.end() ? before->second : tensor(p.type_of(r), p.shape_of(r.name)));
    }
    const arguments t{p, inputs, outputs};
    gk::status s = run(t);
    if (s.error().code == gk::errc::workspace_too_small) {
        const gk::workspace scratch(static_cast<std::size_t>(s.error().expected));
        if (!scratch) throw failure(p.name + ": not enough memory");
        s = run(t, scratch);
    }
    require(s, p);
    return outputs;
}

expectation expected(const problem& p, const tensors& inputs) {
    expectation e;
    tensors nowhere;
    const arguments t{p, inputs, nowhere};
    // What the library refuses has no expected values. Outputs without memory, and calls without a workspace, are the last
    // mistakes that it reports.
    for (const role& r : p.wanted_outputs()) nowhere.emplace(r.name, tensor(p.type_of(r), {0}));
    const gk::status s = run(t);
    if (s.error().code != gk::errc::null_pointer && s.error().code != gk::errc::workspace_too_small) require(s, p);
    for (const role& r : p.wanted_outputs()) {
        const sizes shape = p.shape_of(r.name);
        tensor& bounds = e.bounds[r.name] = tensor(element::f64, shape);
        tensor& exact = e.exact[r.name] = tensor(r.is_index ? element::i64 : element::f64, shape);
        if (r.is_index) {
            tensors outputs{{"dst", tensor(element::f64, shape)}, {"indices", tensor(element::i64, shape)}};
            tensor src(element::f64, p.shape_of("src"));
            for (std::size_t i = 0; i < src.size(); ++i) src.set(i, inputs.at("src").at(i));
            require(gk::ref::max_pool<double>(gk::tensor_view<const double>(src.data<double>(), src.shape),
                                              std::get<gk::max_pool_attributes>(p.attribute),
                                              {outputs.at("dst").data<double>(), shape},
                                              {exact.data<std::int64_t>(), shape}),
                    p);
            continue;
        }
        const gk::test::problem judged = judged_problem(p, r.name);
        const gk::tensor_layout layout(p.call_shape_of(r.name));
        const auto elements = static_cast<std::size_t>(gk::shape::element_count(layout.shape));
        const std::size_t images = p.is_per_image(r.name) ? static_cast<std::size_t>(shape.front()) : 1;
        for (std::size_t n = 0; n < images; ++n) {
            const gk::test::inputs in = judged_inputs(t, r.name, n);
            gk::detail::judgement j(judged, in, layout);
            require(j.prepare(), p);
            for (std::size_t i = 0; i < elements; ++i)
                exact.data<double>()[n * elements + i] = j.expected(static_cast<std::int64_t>(i));
            const std::span<double> to(bounds.data<double>() + n * elements, elements);
            with_element(p.type_of(r), [&]<class T>(std::type_identity<T>) {
                with_element(p.type, [&]<class In>(std::type_identity<In>) {
                    write_bounds<T, In>(to, p, judged, in, layout, j);
                });
            });
        }
    }
    return e;
}

}  // namespace golden
