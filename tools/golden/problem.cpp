#include "problem.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <set>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>

#include "npy.hpp"

namespace golden {

const std::vector<operator_facts>& operators() {
    const role src{.name = "src"}, dst{.name = "dst"}, diff_src{.name = "diff_src"}, diff_dst{.name = "diff_dst"};
    const role weights{.name = "weights"}, bias{.name = "bias", .optional = true, .may_be_f32 = true};
    const role diff_weights{.name = "diff_weights", .may_be_f32 = true};
    const role diff_bias{.name = "diff_bias", .may_be_f32 = true};
    const role also_diff_bias{.name = "diff_bias", .optional = true, .may_be_f32 = true};
    const role indices{.name = "indices", .is_index = true};
    const role also_indices{.name = "indices", .optional = true, .is_index = true};
    const gk::convolution_attributes conv{};
    const gk::conv_transpose_attributes transposed{};
    static const std::vector<operator_facts> table{
        {op::avg_pool, "avg_pool", gk::avg_pool_attributes{}, {src}, {dst}, false},
        {op::avg_pool_backward, "avg_pool_backward", gk::avg_pool_attributes{}, {diff_dst}, {diff_src}, true},
        {op::lp_pool, "lp_pool", gk::lp_pool_attributes{}, {src}, {dst}, false},
        {op::lp_pool_backward, "lp_pool_backward", gk::lp_pool_attributes{}, {src, dst, diff_dst}, {diff_src}, true},
        {op::max_pool, "max_pool", gk::max_pool_attributes{}, {src}, {dst, also_indices}, false},
        {op::max_pool_backward, "max_pool_backward", gk::max_pool_attributes{}, {src, diff_dst}, {diff_src}, true},
        {op::max_pool_backward_from_indices,
         "max_pool_backward_from_indices",
         gk::max_pool_indices_attributes{},
         {diff_dst, indices},
         {diff_src},
         true},
        {op::convolution, "convolution", conv, {src, weights, bias}, {dst}, false},
        {op::convolution_backward_data, "convolution_backward_data", conv, {diff_dst, weights}, {diff_src}, true},
        {op::convolution_backward_weights,
         "convolution_backward_weights",
         conv,
         {src, diff_dst},
         {diff_weights, also_diff_bias},
         true},
        {op::conv_transpose, "conv_transpose", transposed, {src, weights, bias}, {dst}, false},
        {op::conv_transpose_backward_data,
         "conv_transpose_backward_data",
         transposed,
         {diff_dst, weights},
         {diff_src},
         true},
        {op::conv_transpose_backward_weights,
         "conv_transpose_backward_weights",
         transposed,
         {src, diff_dst},
         {diff_weights, also_diff_bias},
         true},
        {op::bias_backward, "bias_backward", gk::bias_attributes{}, {diff_dst}, {diff_bias}, true}};
    return table;
}

const operator_facts* find_operator(std::string_view name) {
    for (const operator_facts& f : operators())
        if (f.name == name) return &f;
    return nullptr;
}

std::vector<role> problem::wanted_outputs() const {
    std::vector<role> wanted;
    for (const role& r : facts().outputs)
        if (!r.optional || shapes.contains(r.name) ||
            std::find(outputs.begin(), outputs.end(), r.name) != outputs.end())
            wanted.push_back(r);
    return wanted;
}

std::vector<role> problem::inputs() const {
    std::vector<role> all = facts().inputs;
    if (options.output != gk::output_mode::accumulate) return all;
    for (const role& r : wanted_outputs())
        if (!r.is_index) all.push_back({.name = previous_of(r.name)});
    return all;
}

namespace {

// Words of enumerations, in the order of their numbers.
constexpr std::string_view words(gk::data_format, std::size_t i) {
    return std::array<std::string_view, 3>{"nxc", "ncx"}[i];
}
constexpr std::string_view words(gk::weights_format, std::size_t i) {
    return std::array<std::string_view, 3>{"xio", "oix"}[i];
}
constexpr std::string_view words(gk::auto_pad, std::size_t i) {
    return std::array<std::string_view, 5>{"none", "same_upper", "same_lower", "valid"}[i];
}
constexpr std::string_view words(gk::rounding_type, std::size_t i) {
    return std::array<std::string_view, 4>{"floor", "ceil", "ceil_torch"}[i];
}
constexpr std::string_view words(gk::index_base, std::size_t i) {
    return std::array<std::string_view, 4>{"tensor", "plane", "image"}[i];
}
constexpr std::string_view words(gk::storage_order, std::size_t i) {
    return std::array<std::string_view, 3>{"row_major", "column_major"}[i];
}
constexpr std::string_view words(gk::output_mode, std::size_t i) {
    return std::array<std::string_view, 3>{"overwrite", "accumulate"}[i];
}
constexpr std::string_view words(gk::summation, std::size_t i) {
    return std::array<std::string_view, 4>{"joint", "image_by_image", "per_image"}[i];
}
constexpr std::string_view words(gk::precision, std::size_t i) {
    return std::array<std::string_view, 3>{"strict", "relaxed"}[i];
}
constexpr std::string_view words(gk::algorithm, std::size_t i) {
    return i <= static_cast<std::size_t>(gk::last_algorithm) ? name_of(static_cast<gk::algorithm>(i)) : "";
}

/// Calls fn(name, member) for every member of attributes, or of options. Shapes of results are not among them: those are
/// tensors' shapes.
template <class Attributes, class Fn>
void for_each_attribute(Attributes& a, const Fn& fn) {
    if constexpr (requires { a.kernel; }) fn("kernel", a.kernel);
    if constexpr (requires { a.strides; }) fn("strides", a.strides);
    if constexpr (requires { a.dilations; }) fn("dilations", a.dilations);
    if constexpr (requires { a.pads_begin; }) fn("pads_begin", a.pads_begin);
    if constexpr (requires { a.pads_end; }) fn("pads_end", a.pads_end);
    if constexpr (requires { a.auto_pad; }) fn("auto_pad", a.auto_pad);
    if constexpr (requires { a.output_padding; }) fn("output_padding", a.output_padding);
    if constexpr (requires { a.groups; }) fn("groups", a.groups);
    if constexpr (requires { a.rounding_type; }) fn("rounding_type", a.rounding_type);
    if constexpr (requires { a.exclude_pad; }) fn("exclude_pad", a.exclude_pad);
    if constexpr (requires { a.divisor_override; }) fn("divisor_override", a.divisor_override);
    if constexpr (requires { a.ignore_nan; }) fn("ignore_nan", a.ignore_nan);
    if constexpr (requires { a.data_format; }) fn("data_format", a.data_format);
    if constexpr (requires { a.weights_format; }) fn("weights_format", a.weights_format);
    if constexpr (requires { a.index_base; }) fn("index_base", a.index_base);
    if constexpr (requires { a.storage_order; }) fn("storage_order", a.storage_order);
    if constexpr (requires { a.output; }) fn("output", a.output);
    if constexpr (requires { a.summation; }) fn("summation", a.summation);
    if constexpr (requires { a.precision; }) fn("precision", a.precision);
    if constexpr (requires { a.algorithm; }) fn("algorithm", a.algorithm);
}

/// What a problem says wrongly. `where` is the path to the member.
[[nodiscard]] failure wrong(const std::string& where, const std::string& what) { return failure(where + ": " + what); }

[[nodiscard]] std::int64_t integer_from(const json& value, const std::string& where) {
    if (!value.is_number_integer()) throw wrong(where, "expected an integer");
    if (value.is_number_unsigned() && value.get<std::uint64_t>() > INT64_MAX) throw wrong(where, "is beyond 64 bits");
    return value.get<std::int64_t>();
}

[[nodiscard]] const std::string& text_from(const json& value, const std::string& where) {
    if (!value.is_string()) throw wrong(where, "expected a text");
    return value.get_ref<const std::string&>();
}

void read(const json& value, sizes& s, const std::string& where) {
    if (!value.is_array()) throw wrong(where, "expected a list of integers");
    s = {};
    for (const json& n : value) s.push_back(integer_from(n, where));
}
void read(const json& value, gk::extents& e, const std::string& where) {
    sizes s;
    read(value, s, where);
    if (s.size() > gk::extents::capacity) throw wrong(where, "has more than 5 entries");
    e = s;
}
void read(const json& value, std::int64_t& n, const std::string& where) { n = integer_from(value, where); }
void read(const json& value, std::optional<std::int64_t>& n, const std::string& where) {
    n = integer_from(value, where);
}
void read(const json& value, bool& b, const std::string& where) {
    if (!value.is_boolean()) throw wrong(where, "expected true or false");
    b = value.get<bool>();
}
template <class Enumeration>
requires(std::is_enum_v<Enumeration>) void read(const json& value, Enumeration& e, const std::string& where) {
    const std::string& text = text_from(value, where);
    for (std::size_t i = 0; !words(e, i).empty(); ++i) {
        if (words(e, i) == text) {
            e = static_cast<Enumeration>(i);
            return;
        }
    }
    throw wrong(where, "\"" + text + "\", expected " + std::string(words_of(e)));
}

void write(json& object, const char* name, const gk::extents& e) { object[name] = sizes_of(e); }
template <class Enumeration>
requires(std::is_enum_v<Enumeration>) void write(json& object, const char* name, Enumeration e) {
    object[name] = std::string(words(e, static_cast<std::size_t>(e)));
}
void write(json& object, const char* name, const std::optional<std::int64_t>& n) { object[name] = *n; }
void write(json& object, const char* name, std::int64_t n) { object[name] = n; }
void write(json& object, const char* name, bool b) { object[name] = b; }

void require_object(const json& value, const std::string& where) {
    if (!value.is_object()) throw wrong(where, "expected an object");
}

template <class Attributes>
void read_attributes(const json& object, Attributes& a, const std::string& where,
                     const char* unknown = "the operator has no such attribute") {
    require_object(object, where);
    std::set<std::string, std::less<>> known;
    for_each_attribute(a, [&](const char* name, auto& member) {
        known.insert(name);
        if (object.contains(name)) read(object[name], member, where + "." + name);
    });
    for (const auto& [name, value] : object.items())
        if (!known.contains(name)) throw wrong(where + "." + name, unknown);
}

template <class Attributes>
[[nodiscard]] json json_of_attributes(const Attributes& a) {
    json object = json::object();
    const Attributes defaults{};
    json unchanged = json::object();
    for_each_attribute(defaults, [&](const char* name, const auto& member) {
        if constexpr (!std::is_same_v<std::decay_t<decltype(member)>, std::optional<std::int64_t>>)
            write(unchanged, name, member);
    });
    for_each_attribute(a, [&](const char* name, const auto& member) {
        if constexpr (std::is_same_v<std::decay_t<decltype(member)>, std::optional<std::int64_t>>) {
            if (member) write(object, name, member);
        } else {
            json one = json::object();
            write(one, name, member);
            if (one[name] != unchanged[name]) object[name] = one[name];
        }
    });
    return object;
}

[[nodiscard]] element element_from(const json& value, const std::string& where) {
    const std::string& text = text_from(value, where);
    std::string expected;
    for (const element_facts& f : elements) {
        if (f.computes && f.name == text) return f.type;
        if (f.computes) expected += (expected.empty() ? "" : ", ") + std::string(f.name);
    }
    throw wrong(where, "\"" + text + "\", expected one of " + expected);
}

[[nodiscard]] gk::test::pattern pattern_from(const json& value, const std::string& where) {
    const std::string& text = text_from(value, where);
    std::string expected;
    for (const gk::test::pattern p : gk::test::all_patterns) {
        if (gk::test::name_of(p) == text) return p;
        expected += (expected.empty() ? "" : ", ") + std::string(gk::test::name_of(p));
    }
    throw wrong(where, "\"" + text + "\", expected one of " + expected);
}

[[nodiscard]] const role* find_role(const operator_facts& f, std::string_view name) {
    for (const auto* list : {&f.inputs, &f.outputs})
        for (const role& r : *list)
            if (r.name == name) return &r;
    return nullptr;
}

[[nodiscard]] bool is_file_name(std::string_view name) {
    const auto fits = [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
               c == '.';
    };
    return !name.empty() && name.size() <= 100 && name[0] != '.' && std::all_of(name.begin(), name.end(), fits);
}

void read_member(problem& p, const std::string& name, const json& value, const std::string& where) {
    const auto of_tensor = [&](const std::string& tensor, const std::string& at) -> const role& {
        const role* r = find_role(p.facts(), tensor);
        if (r == nullptr) throw wrong(at, "the operator has no such tensor");
        return *r;
    };
    if (name == "type") {
        p.type = element_from(value, where);
    } else if (name == "types") {
        require_object(value, where);
        for (const auto& [tensor, type] : value.items()) {
            const std::string at = where + "." + tensor;
            if (of_tensor(tensor, at).is_index) throw wrong(at, "indices are i64");
            p.types[tensor] = element_from(type, at);
        }
    } else if (name == "shapes") {
        require_object(value, where);
        for (const auto& [tensor, shape] : value.items()) {
            const std::string at = where + "." + tensor;
            static_cast<void>(of_tensor(tensor, at));
            read(shape, p.shapes[tensor], at);
        }
    } else if (name == "outputs") {
        if (!value.is_array()) throw wrong(where, "expected a list of names");
        for (const json& tensor : value) {
            p.outputs.push_back(text_from(tensor, where));
            static_cast<void>(of_tensor(p.outputs.back(), where));
        }
    } else if (name == "attributes") {
        std::visit([&](auto& a) { read_attributes(value, a, where); }, p.attribute);
    } else if (name == "options") {
        read_attributes(value, p.options, where, "there is no such option");
    } else if (name == "values") {
        require_object(value, where);
        if (!value.contains("pattern") || !value.contains("seed")) throw wrong(where, "expected pattern and seed");
        p.values = {pattern_from(value["pattern"], where + ".pattern"),
                    static_cast<std::uint64_t>(integer_from(value["seed"], where + ".seed"))};
    } else if (name == "made_by") {
        p.made_by.emplace();
        read_attributes(value, *p.made_by, where);
    } else if (name == "hashes") {
        require_object(value, where);
        if (value.contains("inputs")) p.input_hash = text_from(value["inputs"], where + ".inputs");
        if (value.contains("expected")) p.expected_hash = text_from(value["expected"], where + ".expected");
    } else if (name != "name" && name != "operator") {
        throw wrong(where, "a problem has no such member");
    }
}

}  // namespace

problem problem_from(const json& object, const std::string& default_name) {
    problem p;
    require_object(object, default_name);
    p.name = object.contains("name") ? text_from(object["name"], default_name + ".name") : default_name;
    if (!is_file_name(p.name))
        throw wrong(default_name + ".name", "\"" + p.name + "\" cannot be a part of the names of files");
    if (!object.contains("operator")) throw wrong(p.name, "has no member \"operator\"");
    const std::string& text = text_from(object["operator"], p.name + ".operator");
    const operator_facts* facts = find_operator(text);
    if (facts == nullptr) throw wrong(p.name + ".operator", "there is no operator \"" + text + "\"");
    p.operation = facts->id;
    p.attribute = facts->defaults;
    for (const auto& [name, value] : object.items()) read_member(p, name, value, p.name + "." + name);
    return p;
}

json json_of(const problem& p) {
    json object{{"name", p.name}, {"operator", p.facts().name}, {"type", facts_of(p.type).name}};
    for (const auto& [tensor, type] : p.types) object["types"][tensor] = facts_of(type).name;
    for (const auto* list : {&p.facts().inputs, &p.facts().outputs})
        for (const role& r : *list)
            if (p.shapes.contains(r.name)) object["shapes"][r.name] = p.shape_of(r.name);
    if (!p.outputs.empty()) object["outputs"] = p.outputs;
    const json a = std::visit([](const auto& v) { return json_of_attributes(v); }, p.attribute);
    if (!a.empty()) object["attributes"] = a;
    const json o = json_of_attributes(p.options);
    if (!o.empty()) object["options"] = o;
    if (p.made_by) object["made_by"] = json_of_attributes(*p.made_by);
    if (p.values) object["values"] = {{"pattern", gk::test::name_of(p.values->pattern)}, {"seed", p.values->seed}};
    if (!p.input_hash.empty()) object["hashes"] = {{"inputs", p.input_hash}, {"expected", p.expected_hash}};
    return object;
}

std::vector<problem> read_problems(const std::filesystem::path& file) {
    const std::string text = read_file(file);
    std::vector<problem> problems;
    try {
        const json all = json::parse(text);
        const std::string stem = file.stem().string();
        const bool is_suite = all.is_object() && all.contains("problems");
        const json& list = is_suite ? all["problems"] : all;
        if (is_suite && !list.is_array()) throw wrong("problems", "expected a list");
        if (!list.is_array()) {
            problems.push_back(problem_from(list, stem));
        } else {
            for (std::size_t i = 0; i < list.size(); ++i)
                problems.push_back(problem_from(list[i], stem + "-" + std::to_string(i)));
        }
    } catch (const json::exception& e) {
        throw failure(file.string() + ": " + e.what());
    } catch (const failure& f) {
        throw failure(file.string() + ": " + f.what());
    }
    std::set<std::string> names;
    for (const problem& p : problems)
        if (!names.insert(p.name).second) throw failure(file.string() + ": two problems are named " + p.name);
    return problems;
}

void write_problems(const std::filesystem::path& file, const std::vector<problem>& problems, const json& about) {
    std::error_code ignored;
    std::filesystem::create_directories(file.parent_path(), ignored);
    std::ofstream out(file, std::ios::binary);
    out << "{\"about\": " << about.dump() << ",\n\"problems\": [\n";
    for (std::size_t i = 0; i < problems.size(); ++i)
        out << json_of(problems[i]).dump() << (i + 1 < problems.size() ? ",\n" : "\n");
    out << "]}\n";
    out.close();
    if (!out) throw failure(file.string() + ": cannot be written");
}

}  // namespace golden
