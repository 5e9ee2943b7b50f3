#include "problem.hpp"

#include <cstddef>
#include <cstdint>
#include <utility>

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

namespace gradkern_python {

const std::array<operator_facts, 14> operators{{
    {"convolution", {"src", "weights", "bias", "dst"}},
    {"convolution_backward_data", {"diff_dst", "weights", "diff_src"}},
    {"convolution_backward_weights", {"src", "diff_dst", "diff_weights", "diff_bias"}},
    {"conv_transpose", {"src", "weights", "bias", "dst"}},
    {"conv_transpose_backward_data", {"diff_dst", "weights", "diff_src"}},
    {"conv_transpose_backward_weights", {"src", "diff_dst", "diff_weights", "diff_bias"}},
    {"bias_backward", {"diff_dst", "diff_bias"}},
    {"avg_pool", {"src", "dst"}},
    {"avg_pool_backward", {"diff_dst", "diff_src"}},
    {"lp_pool", {"src", "dst"}},
    {"lp_pool_backward", {"src", "dst", "diff_dst", "diff_src"}},
    {"max_pool", {"src", "dst", "indices"}},
    {"max_pool_backward", {"src", "diff_dst", "diff_src"}},
    {"max_pool_backward_from_indices", {"diff_dst", "indices", "diff_src"}},
}};

namespace {

template <class Member>
using named = std::pair<std::string_view, Member gradkern_problem::*>;

constexpr named<gradkern_list> lists[]{
    {"kernel", &gradkern_problem::kernel},       {"strides", &gradkern_problem::strides},
    {"dilations", &gradkern_problem::dilations}, {"pads_begin", &gradkern_problem::pads_begin},
    {"pads_end", &gradkern_problem::pads_end},   {"output_padding", &gradkern_problem::output_padding}};
constexpr named<std::int64_t> counts[]{{"groups", &gradkern_problem::groups},
                                       {"divisor_override", &gradkern_problem::divisor_override}};
constexpr named<std::int32_t> numbers[]{
    {"data_format", &gradkern_problem::data_format}, {"weights_format", &gradkern_problem::weights_format},
    {"auto_pad", &gradkern_problem::auto_pad},       {"rounding_type", &gradkern_problem::rounding},
    {"exclude_pad", &gradkern_problem::exclude_pad}, {"ignore_nan", &gradkern_problem::ignore_nan},
    {"index_base", &gradkern_problem::index_base},   {"storage_order", &gradkern_problem::indices_are_column_major},
    {"output", &gradkern_problem::output},           {"precision", &gradkern_problem::precision},
    {"summation", &gradkern_problem::summation},     {"scratch", &gradkern_problem::least_scratch}};

template <class Table>
[[nodiscard]] auto* find(const Table& table, gradkern_problem& p, std::string_view name) {
    decltype(&(p.*(table[0].second))) found = nullptr;
    for (const auto& [word, member] : table)
        if (word == name) found = &(p.*member);
    return found;
}

[[nodiscard]] gradkern_list list_of(const std::vector<std::int64_t>& values) {
    gradkern_list l{};
    l.count = static_cast<std::int64_t>(values.size());
    for (std::size_t i = 0; i < 3 && i < values.size(); ++i) l.values[i] = values[i];
    return l;
}

}  // namespace

problem::problem(const std::string& op, const tensors& given, const nb::dict& attributes) {
    std::size_t number = 0;
    while (number < operators.size() && operators[number].name != op) ++number;
    if (number == operators.size()) throw mistake("there is no operator " + op);
    gradkern_problem_init(&p_, sizeof p_, static_cast<gradkern_operator>(number));
    if (given.size() > std::size(p_.tensors)) throw mistake(op + ": got too many tensors");
    for (std::size_t i = 0; i < given.size(); ++i)
        if (given[i]) p_.tensors[i] = given[i]->layout();
    for (const auto& [key, value] : attributes) {
        const auto name = nb::cast<std::string>(key);
        if (gradkern_list* const list = find(lists, p_, name); list != nullptr) {
            *list = list_of(nb::cast<std::vector<std::int64_t>>(value));
        } else if (std::int64_t* const count = find(counts, p_, name); count != nullptr) {
            *count = nb::cast<std::int64_t>(value);
            if (name == "divisor_override") p_.has_divisor_override = 1;
        } else if (std::int32_t* const n = find(numbers, p_, name); n != nullptr) {
            *n = nb::cast<std::int32_t>(value);
        } else if (name == "algorithm") {
            algorithm_ = nb::cast<std::string>(value);
            p_.algorithm = algorithm_.c_str();
        } else {
            throw mistake(op + ": there is no attribute " + name);
        }
    }
}

gradkern_tensor problem::infer() const {
    gradkern_tensor output{};
    gradkern_error error{};
    gradkern_infer(&p_, &output, &error, sizeof error);
    require(error);
    return output;
}

void bind_problem(nb::module_& m) {
    nb::class_<problem>(m, "Problem", "An operator with its tensors and attributes.")
        .def(nb::init<const std::string&, const tensors&, const nb::dict&>(), nb::arg("op"), nb::arg("tensors"),
             nb::arg("attributes"))
        .def(
            "infer",
            [](const problem& p) {
                const gradkern_tensor t = p.infer();
                nb::list sizes;
                for (std::int32_t i = 0; i < t.rank; ++i) sizes.append(t.shape[i]);
                return nb::tuple(sizes);
            },
            nb::sig("def infer(self) -> tuple[int, ...]"), "The shape of the first output.");
}

}  // namespace gradkern_python
