// Bounds and verdicts: testing.hpp, for problems of the C interface.
#include "judge.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <gradkern/error_text.hpp>
#include <gradkern/testing/compare.hpp>
#include <gradkern/testing/generate.hpp>

#include "plans.hpp"  // of the compiled library: attributes of a problem

namespace gradkern_python {
namespace {

namespace gk = gradkern;
using gk::test::operation;
using gradkern_runtime::attributes_of;
using gradkern_runtime::layout_of;

[[nodiscard]] gk::test::problem judged(const gradkern_problem& p) {
    const gk::plan_options options = gradkern_runtime::options_of(p);
    const std::string_view name = operators[static_cast<std::size_t>(p.op)].name;
    int number = 0;
    while (gk::test::name_of(static_cast<operation>(number)) != name) ++number;
    const auto op = static_cast<operation>(number);
    switch (p.op) {
        case GRADKERN_CONVOLUTION:
        case GRADKERN_CONVOLUTION_BACKWARD_DATA:
        case GRADKERN_CONVOLUTION_BACKWARD_WEIGHTS: return {op, attributes_of<gk::convolution_attributes>(p), options};
        case GRADKERN_CONV_TRANSPOSE:
        case GRADKERN_CONV_TRANSPOSE_BACKWARD_DATA:
        case GRADKERN_CONV_TRANSPOSE_BACKWARD_WEIGHTS:
            return {op, attributes_of<gk::conv_transpose_attributes>(p), options};
        case GRADKERN_BIAS_BACKWARD: return {op, attributes_of<gk::bias_attributes>(p), options};
        case GRADKERN_AVG_POOL:
        case GRADKERN_AVG_POOL_BACKWARD: return {op, attributes_of<gk::avg_pool_attributes>(p), options};
        case GRADKERN_LP_POOL:
        case GRADKERN_LP_POOL_BACKWARD: return {op, attributes_of<gk::lp_pool_attributes>(p), options};
        case GRADKERN_MAX_POOL:
        case GRADKERN_MAX_POOL_BACKWARD: return {op, attributes_of<gk::max_pool_attributes>(p), options};
        default: return {op, attributes_of<gk::max_pool_indices_attributes>(p), options};
    }
}

[[nodiscard]] gk::const_dynamic_view view_of(const tensor& t) {
    return {static_cast<gk::data_type>(t.layout().type), t.data(), layout_of(t.layout())};
}
[[nodiscard]] gk::tensor_view<const std::int64_t> indices_of(const tensor& t) {
    return {static_cast<const std::int64_t*>(t.data()), layout_of(t.layout())};
}

/// The tensors that the operator reads, by their names; outputs are absent.
[[nodiscard]] gk::test::inputs inputs_of(const problem& p, const tensors& t, const std::optional<tensor>& previous) {
    gk::test::inputs in;
    for (std::size_t i = 0; i < t.size(); ++i) {
        if (!t[i]) continue;
        const std::string_view name = p.facts().tensors[i];
        if (name == "indices")
            in.indices = indices_of(*t[i]);
        else if (name == "src")
            in.src = view_of(*t[i]);
        else if (name == "weights")
            in.weights = view_of(*t[i]);
        else if (name == "bias")
            in.bias = view_of(*t[i]);
        else if (name == "dst")
            in.dst = view_of(*t[i]);
        else if (name == "diff_dst")
            in.diff_dst = view_of(*t[i]);
    }
    if (previous) in.previous = view_of(*previous);
    return in;
}

[[nodiscard]] gk::test::report compare(const tensor& result, const problem& p, const tensors& t,
                                       const std::optional<tensor>& previous, std::optional<std::int64_t> roundings) {
    const gk::test::inputs in = inputs_of(p, t, previous);
    gk::test::report r;
    {
        const nb::gil_scoped_release released;
        r = result.is_index() ? gk::test::compare(indices_of(result), judged(p.get()), in)
                              : gk::test::compare(view_of(result), judged(p.get()), in, {.roundings = roundings});
    }
    if (r.mistake.code != gk::errc::ok) throw mistake(gk::to_string(r.mistake));
    return r;
}

/// Expected values and bounds of a result of type T, dense.
template <class T>
[[nodiscard]] gk::status write_bounds(const gk::test::problem& p, const gk::test::inputs& in,
                                      const gk::tensor_layout& layout, double* expected, double* bounds) {
    // As compare(): sums of bf16 inputs may be relaxed, and then have bounds of their own.
    const bool is_bf16 = in.src.type == gk::data_type::bf16 && !std::is_same_v<T, double>;
    const auto bound =
        is_bf16 ? gk::detail::bound_of<T, gk::bfloat16>(p, in, layout) : gk::detail::bound_of<T, T>(p, in, layout);
    if (!bound) return bound.error();
    gk::detail::judgement j(p, in, layout);
    if (const gk::status s = j.prepare(); !s) return s;
    for (std::int64_t i = 0; i < gk::shape::element_count(layout.shape); ++i) {
        expected[i] = j.expected(i);
        bounds[i] = gk::detail::judge_element<T>(j.expected(i), j.expected(i), j.terms(i), *bound).bound;
    }
    return {};
}

void bounds(const problem& p, const tensors& t, const tensor& result, const std::optional<tensor>& previous,
            const tensor& expected, const tensor& bound) {
    const gk::test::problem q = judged(p.get());
    const gk::test::inputs in = inputs_of(p, t, previous);
    const gk::tensor_layout layout(layout_of(result.layout()).shape);
    auto* const values = static_cast<double*>(expected.data());
    auto* const to = static_cast<double*>(bound.data());
    gk::status s;
    {
        const nb::gil_scoped_release released;
        switch (result.layout().type) {
            case GRADKERN_F16: s = write_bounds<gk::float16>(q, in, layout, values, to); break;
            case GRADKERN_BF16: s = write_bounds<gk::bfloat16>(q, in, layout, values, to); break;
            case GRADKERN_F64: s = write_bounds<double>(q, in, layout, values, to); break;
            default: s = write_bounds<float>(q, in, layout, values, to); break;
        }
    }
    if (!s) throw mistake(gk::to_string(s));
}

void fill(const tensor& to, const std::string& pattern, std::uint64_t seed, int operand) {
    for (const gk::test::pattern p : gk::test::all_patterns) {
        if (gk::test::name_of(p) != pattern) continue;
        if (to.is_index()) break;
        const gk::dynamic_view view(static_cast<gk::data_type>(to.layout().type), to.data(), layout_of(to.layout()));
        const gk::status s = gk::test::fill(view, p, seed, operand);
        if (!s) throw mistake(gk::to_string(s));
        return;
    }
    throw mistake(to.is_index() ? "fill: got indices, expected f32, f16, bf16 or f64"
                                : "fill: there is no pattern " + pattern);
}

[[nodiscard]] std::string text_of(const gk::test::report& r) {
    std::string text(r.format({}), '\0');
    r.format(text);
    return text;
}

}  // namespace

void bind_judge(nb::module_& m) {
    using gk::test::judged_element;
    using gk::test::report;
    nb::class_<judged_element>(m, "Element", "An element of a result that was judged.")
        .def_prop_ro(
            "index",
            [](const judged_element& e) {
                nb::list index;
                for (std::size_t i = 0; i < e.index.rank(); ++i) index.append(e.index[i]);
                return nb::tuple(index);
            },
            nb::sig("def index(self, /) -> tuple[int, ...]"), "Its index.")
        .def_ro("result", &judged_element::result, "What was judged.")
        .def_ro("expected", &judged_element::expected, "The value of the equation, rounded to float64 once.")
        .def_ro("error", &judged_element::error, "|result - expected|.")
        .def_ro("bound", &judged_element::bound, "The largest error that is right.")
        .def_ro("ratio", &judged_element::ratio, "error / bound: above 1 is wrong.")
        .def_ro("ulps", &judged_element::ulps, "The error in units of the last place of the result's type.")
        .def_ro("terms", &judged_element::terms, "The sum of the absolute values of the element's terms.")
        .def("__repr__", [](const judged_element& e) {
            std::string at;
            for (std::size_t i = 0; i < e.index.rank(); ++i) at += (i == 0 ? "" : ", ") + std::to_string(e.index[i]);
            return "Element([" + at + "], result " + std::to_string(e.result) + ", expected " +
                   std::to_string(e.expected) + ", ratio " + std::to_string(e.ratio) + ")";
        });
    nb::class_<report>(m, "Report", "The verdict on a result, and its worst elements. True if the result is right.")
        .def_prop_ro(
            "ok", [](const report& r) { return r.ok(); }, "Whether the result is right.")
        .def_prop_ro(
            "judged_nothing", [](const report& r) { return r.judged_nothing(); },
            "Whether nothing is promised about any element. The result is neither right nor wrong, and ok is False.")
        .def_ro("elements", &report::elements, "How many elements the result has.")
        .def_ro("refused", &report::refused, "How many errors exceed their bounds.")
        .def_ro("without_bound", &report::without_bound, "Elements about which nothing is promised.")
        .def_ro("largest_ratio", &report::largest_ratio, "The largest error / bound.")
        .def_ro("mean_ratio", &report::mean_ratio, "The mean error / bound.")
        .def_ro("largest_ulps", &report::largest_ulps, "The largest error in units of the last place.")
        .def_ro("mean_ulps", &report::mean_ulps, "The mean error in units of the last place.")
        .def_prop_ro(
            "bias_holds", [](const report& r) { return r.over_tensor.sum_holds(); },
            "Whether the sum of all errors is small, or not judged.")
        .def_prop_ro(
            "variance_holds", [](const report& r) { return r.over_tensor.squares_hold(); },
            "Whether the sum of the squares of all errors is small, or not judged.")
        .def_prop_ro(
            "worst",
            [](const report& r) {
                nb::list worst;
                for (std::size_t i = 0; i < r.worst_count; ++i) worst.append(nb::cast(r.worst[i]));
                return worst;
            },
            nb::sig("def worst(self, /) -> list[Element]"),
            "Up to eight elements of the largest ratios, largest first.")
        .def("__bool__", [](const report& r) { return r.ok(); })
        .def("__str__", &text_of)
        .def("__repr__", &text_of);
    m.def("exact", &compute_exact, nb::arg("problem"), nb::arg("tensors"), "Writes the correctly rounded result.");
    m.def("compare", &compare, nb::arg("result"), nb::arg("problem"), nb::arg("tensors"),
          nb::arg("previous") = nb::none(), nb::arg("roundings") = nb::none(), "Judges a result.");
    m.def("bounds", &bounds, nb::arg("problem"), nb::arg("tensors"), nb::arg("result"), nb::arg("previous").none(),
          nb::arg("expected"), nb::arg("bound"), "Writes expected values and bounds of a result, in f64.");
    m.def("fill", &fill, nb::arg("to"), nb::arg("pattern"), nb::arg("seed"), nb::arg("operand") = 0,
          "Writes the numbers of a pattern.");
}

}  // namespace gradkern_python
