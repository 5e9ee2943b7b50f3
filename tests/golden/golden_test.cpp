// Every operator against what PyTorch, TensorFlow and ONNX Runtime computed for the same small problems.
//
// The files of this folder are read as they are: neither building nor running this test needs those libraries.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include <gradkern/avg_pool.hpp>
#include <gradkern/bias.hpp>
#include <gradkern/error_text.hpp>
#include <gradkern/max_pool.hpp>
#include <gradkern/ref/avg_pool.hpp>
#include <gradkern/ref/bias.hpp>
#include <gradkern/ref/max_pool.hpp>

#include "support/conv_cases.hpp"
#include "support/guarded.hpp"
#include "support/tensor.hpp"

namespace {

namespace gk = gradkern;
using gk::extents;
using gradkern_test::conv_case;
using gradkern_test::conv_operator;
using gradkern_test::guarded_bytes;
using gradkern_test::test_tensor;
using ::testing::AssertionFailure;
using ::testing::AssertionResult;
using ::testing::AssertionSuccess;

// --------------------------------------------------------------------------------------------------------------- files

/// One line of a file.
struct golden_case {
    std::string problem;  ///< the line up to the values
    std::string op;
    std::string type;
    std::map<std::string, std::string> fields;
    std::vector<float> values;
    std::vector<std::int64_t> indices;  ///< of max_pool, where the peer gave some

    [[nodiscard]] bool has(const std::string& key) const { return fields.count(key) != 0; }
    [[nodiscard]] std::string word(const std::string& key, const std::string& otherwise) const {
        const auto it = fields.find(key);
        return it == fields.end() ? otherwise : it->second;
    }
    /// A number; throws where there is none.
    [[nodiscard]] std::int64_t number(const std::string& key) const { return std::stoll(fields.at(key)); }
    [[nodiscard]] extents list(const std::string& key, const extents& otherwise = {}) const {
        const auto it = fields.find(key);
        if (it == fields.end()) return otherwise;
        extents e;
        std::istringstream in(it->second);
        for (std::string entry; std::getline(in, entry, ',');) e.push_back(std::stoll(entry));
        return e;
    }
};

struct golden_file {
    std::vector<golden_case> cases;
    std::map<std::string, std::int64_t> announced;  ///< cases of each operator, by the header
    std::int64_t announced_cases = -1;
    std::vector<std::string> peers;
};

float to_float(const std::string& text) {
    char* end = nullptr;
    const float value = std::strtof(text.c_str(), &end);
    if (text.empty() || *end != '\0') throw std::runtime_error("not a number: " + text);
    return value;
}

golden_case parse_case(const std::string& line) {
    const std::size_t values_at = line.find(" : ");
    if (values_at == std::string::npos) throw std::runtime_error("a case without values: " + line);
    const std::size_t indices_at = line.find(" : ", values_at + 3);
    golden_case c;
    c.problem = line.substr(0, values_at);
    std::istringstream problem(c.problem);
    problem >> c.op >> c.type;
    for (std::string field; problem >> field;) {
        const std::size_t equals = field.find('=');
        c.fields[field.substr(0, equals)] = equals == std::string::npos ? "" : field.substr(equals + 1);
    }
    std::istringstream values(line.substr(values_at + 3, indices_at - values_at - 3));
    for (std::string text; values >> text;) c.values.push_back(to_float(text));
    if (indices_at != std::string::npos) {
        std::istringstream indices(line.substr(indices_at + 3));
        for (std::string text; indices >> text;) c.indices.push_back(std::stoll(text));
    }
    return c;
}

/// Reads a file. Throws where it is missing or damaged.
golden_file read_file(const std::string& peer) {
    const std::string path = std::string(GRADKERN_GOLDEN_DIRECTORY) + "/" + peer + ".txt";
    std::ifstream in(path);
    if (!in) throw std::runtime_error("cannot read " + path);
    golden_file file;
    for (std::string line; std::getline(in, line);) {
        std::istringstream words(line);
        std::string first;
        if (!(words >> first) || first[0] == '#') continue;
        if (first == "peer") {
            std::string name;
            std::string version;
            if (words >> name >> version) file.peers.push_back(name + " " + version);
        } else if (first == "count") {
            std::string op;
            std::int64_t count = 0;
            if (words >> op >> count) file.announced[op] = count;
        } else if (first == "cases") {
            words >> file.announced_cases;
        } else {
            file.cases.push_back(parse_case(line));
        }
    }
    return file;
}

// ------------------------------------------------------------------------------------------------------------ problems

enum class role : std::uint32_t { source, weights, bias, gradient };

/// Element i of a tensor: the generator of make_golden.py.
float generated(const std::string& kind, std::uint32_t seed, role r, std::uint32_t i) {
    std::uint32_t h = seed * 1000003U + static_cast<std::uint32_t>(r) * 7919U + i * 0x9E3779B1U;
    h ^= h >> 15;
    h *= 0x2545F491U;
    h ^= h >> 13;
    h *= 0x5851F42DU;
    h ^= h >> 16;
    if (kind == "eighths") return (static_cast<float>(h % 33U) - 16.0F) / 8.0F;
    if (r == role::source && kind == "distinct") return static_cast<float>((i * 389U + seed) % 1009U) - 504.0F;
    if (r == role::source && kind == "infinite") return -std::numeric_limits<float>::infinity();
    if (r == role::source && kind == "special") {
        const std::uint32_t draw = (h >> 8) % 12U;
        if (draw == 0) return std::numeric_limits<float>::quiet_NaN();
        if (draw == 1) return std::numeric_limits<float>::infinity();
        if (draw >= 8) return -std::numeric_limits<float>::infinity();
    }
    return static_cast<float>(h % 9U) - 4.0F;
}

template <class T>
test_tensor<T> input(const golden_case& c, const extents& shape, role r) {
    test_tensor<T> t(shape);
    const auto seed = static_cast<std::uint32_t>(c.number("seed"));
    t.fill([&](std::int64_t i) { return generated(c.fields.at("values"), seed, r, static_cast<std::uint32_t>(i)); });
    return t;
}

gk::data_format data_format_of(const golden_case& c) {
    return c.fields.at("data") == "ncx" ? gk::data_format::ncx : gk::data_format::nxc;
}

gk::auto_pad auto_pad_of(const golden_case& c) {
    const std::string word = c.word("auto", "none");
    if (word == "same_upper") return gk::auto_pad::same_upper;
    if (word == "same_lower") return gk::auto_pad::same_lower;
    if (word == "valid") return gk::auto_pad::valid;
    if (word != "none") throw std::runtime_error("unknown auto_pad " + word);
    return gk::auto_pad::none;
}

template <class Attributes>
void set_windows(Attributes& a, const golden_case& c, std::size_t spatial_rank) {
    a.strides = c.list("strides", extents::filled(spatial_rank, 1));
    a.dilations = c.list("dilations", extents::filled(spatial_rank, 1));
    a.pads_begin = c.list("begin");
    a.pads_end = c.list("end");
    a.auto_pad = auto_pad_of(c);
    a.data_format = data_format_of(c);
}

template <class Attributes>
void set_pool(Attributes& a, const golden_case& c) {
    a.kernel = c.list("kernel");
    set_windows(a, c, a.kernel.rank());
    const std::string rounding = c.word("rounding", "floor");
    if (rounding != "floor" && rounding != "ceil_torch") throw std::runtime_error("unknown rounding " + rounding);
    a.rounding_type = rounding == "floor" ? gk::rounding_type::floor : gk::rounding_type::ceil_torch;
}

// ---------------------------------------------------------------------------------------------------------- comparison

/// Whether `out` holds the values of the case, each within its tolerance; exactly, where there are none. -0 equals +0.
template <class T>
AssertionResult agrees(const test_tensor<T>& out, const golden_case& c, const std::vector<double>& tolerances = {}) {
    if (out.count() != static_cast<std::int64_t>(c.values.size()))
        return AssertionFailure() << out.count() << " elements, the peer has " << c.values.size();
    for (std::int64_t i = 0; i < out.count(); ++i) {
        const auto at = static_cast<std::size_t>(i);
        const auto got = static_cast<double>(out.value(i));
        const auto expected = static_cast<double>(c.values[at]);
        const bool same = got == expected || (std::isnan(got) && std::isnan(expected));
        if (!same && !(!tolerances.empty() && std::fabs(got - expected) <= tolerances[at]))
            return AssertionFailure() << "element " << i << ": got " << got << ", the peer has " << expected;
    }
    return out.surroundings_intact();
}

/// Indices in guarded memory; each is -2, which no operator writes, until written.
class index_tensor {
public:
    explicit index_tensor(const extents& shape) : layout_(shape), memory_(count_of(shape)) {
        std::fill_n(memory_.data(), memory_.size(), std::int64_t{-2});
    }

    [[nodiscard]] const gk::tensor_layout& layout() const noexcept { return layout_; }
    [[nodiscard]] std::int64_t* data() const noexcept { return memory_.data(); }
    [[nodiscard]] gk::tensor_view<std::int64_t> view() const noexcept { return {data(), layout_}; }

    [[nodiscard]] AssertionResult agrees(const golden_case& c) const {
        if (memory_.size() != c.indices.size())
            return AssertionFailure() << memory_.size() << " indices, the peer has " << c.indices.size();
        for (std::size_t i = 0; i < memory_.size(); ++i)
            if (data()[i] != c.indices[i])
                return AssertionFailure()
                       << "index " << i << ": got " << data()[i] << ", the peer has " << c.indices[i];
        return memory_.zones_intact();
    }

private:
    [[nodiscard]] static std::size_t count_of(const extents& shape) {
        std::int64_t n = 1;
        for (const std::int64_t e : shape.values()) n *= e;
        return static_cast<std::size_t>(n);
    }

    gk::tensor_layout layout_;
    gradkern_test::guarded_buffer<std::int64_t> memory_;
};

/// Runs a plan with just enough workspace in guarded memory.
template <class Plan, class Run>
gk::status run_plan(const gk::result<Plan>& plan, Run run) {
    if (!plan) return plan.error();
    const guarded_bytes workspace(plan->workspace_bytes(1));
    return run(*plan, std::span<std::byte>(workspace.data(), workspace.size()));
}

#define EXPECT_DONE(expression)                        \
    do {                                               \
        const gk::status done = (expression);          \
        EXPECT_TRUE(done.ok()) << gk::to_string(done); \
    } while (false)

// ---------------------------------------------------------------------------------------------------------- operators

std::optional<conv_operator> conv_operator_of(const std::string& name) {
    static const std::map<std::string, conv_operator> names{
        {"convolution", conv_operator::convolution},
        {"convolution_backward_data", conv_operator::convolution_backward_data},
        {"convolution_backward_weights", conv_operator::convolution_backward_weights},
        {"conv_transpose", conv_operator::conv_transpose},
        {"conv_transpose_backward_data", conv_operator::conv_transpose_backward_data},
        {"conv_transpose_backward_weights", conv_operator::conv_transpose_backward_weights}};
    const auto it = names.find(name);
    return it == names.end() ? std::nullopt : std::optional(it->second);
}

conv_case conv_case_of(const golden_case& c, conv_operator op) {
    conv_case k;
    k.op = op;
    k.weights = c.list("weights");
    const extents src = c.list("src");
    const extents dst = c.list("dst");
    const auto set = [&](auto& a) {
        set_windows(a, c, src.rank() - 2);
        a.groups = c.has("groups") ? c.number("groups") : 1;
        a.weights_format = c.fields.at("filter") == "oix" ? gk::weights_format::oix : gk::weights_format::xio;
    };
    if (k.transposed()) {
        k.small = src;
        k.large = dst;
        set(k.transpose);
        k.transpose.output_padding = c.list("outpad");
    } else {
        k.small = dst;
        k.large = src;
        set(k.conv);
    }
    return k;
}

template <class T>
void check_conv(const golden_case& c, conv_operator op) {
    const conv_case k = conv_case_of(c, op);
    const bool backward_data =
        op == conv_operator::convolution_backward_data || op == conv_operator::conv_transpose_backward_data;
    const test_tensor<T> first = input<T>(c, k.first(), backward_data ? role::gradient : role::source);
    const test_tensor<T> second = input<T>(c, k.second(), k.writes_weights() ? role::gradient : role::weights);
    const test_tensor<T> bias = input<T>(c, k.bias(), role::bias);
    const gk::tensor_view<const T> bias_view = c.has("bias") ? bias.const_view() : gk::tensor_view<const T>{};

    if (op == conv_operator::convolution) {
        const auto inferred = gk::infer_convolution(k.large, k.weights, k.conv);
        EXPECT_TRUE(inferred && *inferred == k.small) << "another size";
    }
    if (op == conv_operator::conv_transpose && !c.has("sized")) {
        const auto inferred = gk::infer_conv_transpose(k.small, k.weights, k.transpose);
        EXPECT_TRUE(inferred && *inferred == k.large) << "another size";
    }
    for (const gk::algorithm a : gradkern_test::all_algorithms) {
        SCOPED_TRACE("algorithm " + std::to_string(static_cast<int>(a)));
        test_tensor<T> out(k.result());
        const gradkern_test::planned plan = gradkern_test::make_plan<T, T, T>(
            k, first.const_view(), second.const_view(), bias_view, out.view(), {.algorithm = a});
        if (gradkern_test::refuses_algorithm(plan.status)) continue;
        EXPECT_TRUE(plan.status.ok()) << gk::to_string(plan.status);
        if (!plan.status) continue;
        const guarded_bytes workspace(plan.workspace_bytes(1));
        EXPECT_DONE(plan.run({workspace.data(), workspace.size()}, {}));
        EXPECT_TRUE(agrees(out, c));
    }
    SCOPED_TRACE("reference");
    test_tensor<T> out(k.result());
    EXPECT_DONE((gradkern_test::run_reference<T, T, T>(k, first.const_view(), second.const_view(), bias_view,
                                                       out.view(), gk::output_mode::overwrite)));
    EXPECT_TRUE(agrees(out, c));
}

template <class T>
void check_bias(const golden_case& c) {
    const gk::bias_attributes a{data_format_of(c)};
    const test_tensor<T> diff_dst = input<T>(c, c.list("dst"), role::gradient);
    const auto shape = gk::infer_bias_backward(diff_dst.shape(), a);
    ASSERT_TRUE(shape);
    test_tensor<T> out(*shape);
    EXPECT_DONE(run_plan(gk::plan_bias_backward<T>(diff_dst.layout(), a), [&](const auto& plan, auto workspace) {
        return plan.run(diff_dst.data(), out.data(), workspace);
    }));
    EXPECT_TRUE(agrees(out, c));
    SCOPED_TRACE("reference");
    test_tensor<T> plain(*shape);
    EXPECT_DONE(gk::ref::bias_backward(diff_dst.const_view(), a, plain.view()));
    EXPECT_TRUE(agrees(plain, c));
}

/// For divisors that are no powers of two: each element may differ by 1e-6 of the sum of the sizes of its terms, and by
/// a unit in the last place of a 16-bit type.
template <class T>
std::vector<double> average_tolerances(const golden_case& c, const gk::avg_pool_attributes& a, bool backward) {
    if (!c.has("near")) return {};
    const extents in_shape = c.list(backward ? "dst" : "src");
    test_tensor<double> in(in_shape);
    const test_tensor<float> terms = input<float>(c, in_shape, backward ? role::gradient : role::source);
    in.fill([&](std::int64_t i) { return std::fabs(static_cast<double>(terms[i])); });
    test_tensor<double> sums(c.list(backward ? "src" : "dst"));
    const gk::status s = backward ? gk::ref::avg_pool_backward(in.const_view(), a, sums.view())
                                  : gk::ref::avg_pool(in.const_view(), a, sums.view());
    if (!s) throw std::runtime_error(gk::to_string(s));
    std::vector<double> tolerances;
    for (std::int64_t i = 0; i < sums.count(); ++i) {
        const double last_place = sizeof(T) == 2
                                      ? 2.0 * (gk::element_traits<T>::type == gk::data_type::f16 ? 0x1p-11 : 0x1p-8) *
                                            std::fabs(static_cast<double>(c.values.at(static_cast<std::size_t>(i))))
                                      : 0.0;
        tolerances.push_back(1e-6 * std::fabs(sums[i]) + last_place);
    }
    return tolerances;
}

template <class T>
void check_avg_pool(const golden_case& c, bool backward) {
    gk::avg_pool_attributes a;
    set_pool(a, c);
    a.exclude_pad = c.has("exclude");
    if (c.has("divisor")) a.divisor_override = c.number("divisor");
    const extents src = c.list("src");
    const extents dst = c.list("dst");
    const auto inferred = gk::infer_avg_pool(src, a);
    ASSERT_TRUE(inferred && *inferred == dst) << "another size";
    const std::vector<double> tolerances = average_tolerances<T>(c, a, backward);

    const test_tensor<T> in = input<T>(c, backward ? dst : src, backward ? role::gradient : role::source);
    test_tensor<T> out(backward ? src : dst);
    test_tensor<T> plain(backward ? src : dst);
    const auto run = [&](const auto& plan, auto workspace) { return plan.run(in.data(), out.data(), workspace); };
    if (backward) {
        EXPECT_DONE(run_plan(gk::plan_avg_pool_backward<T>(in.layout(), a, out.layout()), run));
        EXPECT_DONE(gk::ref::avg_pool_backward(in.const_view(), a, plain.view()));
    } else {
        EXPECT_DONE(run_plan(gk::plan_avg_pool<T>(in.layout(), a, out.layout()), run));
        EXPECT_DONE(gk::ref::avg_pool(in.const_view(), a, plain.view()));
    }
    EXPECT_TRUE(agrees(out, c, tolerances));
    SCOPED_TRACE("reference");
    EXPECT_TRUE(agrees(plain, c, tolerances));
}

gk::max_pool_attributes max_pool_attributes_of(const golden_case& c) {
    gk::max_pool_attributes a;
    set_pool(a, c);
    const std::string base = c.word("base", "tensor");
    if (base != "tensor" && base != "plane" && base != "image") throw std::runtime_error("unknown base " + base);
    a.index_base = base == "plane"   ? gk::index_base::plane
                   : base == "image" ? gk::index_base::image
                                     : gk::index_base::tensor;
    if (c.word("order", "row_major") == "column_major") a.storage_order = gk::storage_order::column_major;
    return a;
}

template <class T>
void check_max_pool(const golden_case& c) {
    const gk::max_pool_attributes a = max_pool_attributes_of(c);
    const extents dst = c.list("dst");
    const test_tensor<T> src = input<T>(c, c.list("src"), role::source);
    const auto inferred = gk::infer_max_pool(src.shape(), a);
    ASSERT_TRUE(inferred && *inferred == dst) << "another size";

    const auto compare = [&](const test_tensor<T>& out, const index_tensor& indices) {
        EXPECT_TRUE(agrees(out, c));
        if (!c.indices.empty()) {
            EXPECT_TRUE(indices.agrees(c));
        }
    };
    {
        test_tensor<T> out(dst);
        index_tensor indices(dst);
        EXPECT_DONE(run_plan(gk::plan_max_pool<T>(src.layout(), a, out.layout(), indices.layout()),
                             [&](const auto& plan, auto workspace) {
                                 return plan.run(src.data(), out.data(), indices.data(), workspace);
                             }));
        compare(out, indices);
        EXPECT_DONE(run_plan(gk::plan_max_pool<T>(src.layout(), a), [&](const auto& plan, auto workspace) {
            return plan.run(src.data(), out.data(), nullptr, workspace);
        }));
        EXPECT_TRUE(agrees(out, c)) << "without indices";
    }
    SCOPED_TRACE("reference");
    test_tensor<T> out(dst);
    index_tensor indices(dst);
    EXPECT_DONE(gk::ref::max_pool(src.const_view(), a, out.view(), indices.view()));
    compare(out, indices);
}

template <class T>
void check_max_pool_backward(const golden_case& c) {
    const gk::max_pool_attributes a = max_pool_attributes_of(c);
    const test_tensor<T> src = input<T>(c, c.list("src"), role::source);
    const test_tensor<T> diff_dst = input<T>(c, c.list("dst"), role::gradient);
    {
        test_tensor<T> out(src.shape());
        EXPECT_DONE(run_plan(gk::plan_max_pool_backward<T>(src.layout(), diff_dst.layout(), a),
                             [&](const auto& plan, auto workspace) {
                                 return plan.run(src.data(), diff_dst.data(), out.data(), workspace);
                             }));
        EXPECT_TRUE(agrees(out, c));
    }
    index_tensor indices(diff_dst.shape());
    {
        SCOPED_TRACE("from indices");
        test_tensor<T> maxima(diff_dst.shape());
        EXPECT_DONE(run_plan(gk::plan_max_pool<T>(src.layout(), a, maxima.layout(), indices.layout()),
                             [&](const auto& plan, auto workspace) {
                                 return plan.run(src.data(), maxima.data(), indices.data(), workspace);
                             }));
        test_tensor<T> out(src.shape());
        const gk::max_pool_indices_attributes from{a.data_format, a.index_base, a.storage_order, {}};
        EXPECT_DONE(run_plan(
            gk::plan_max_pool_backward_from_indices<T>(diff_dst.layout(), indices.layout(), from, out.layout()),
            [&](const auto& plan, auto workspace) {
                return plan.run(diff_dst.data(), indices.data(), out.data(), workspace);
            }));
        EXPECT_TRUE(agrees(out, c));
    }
    SCOPED_TRACE("reference");
    test_tensor<T> out(src.shape());
    EXPECT_DONE(gk::ref::max_pool_backward(src.const_view(), diff_dst.const_view(), a, out.view()));
    EXPECT_TRUE(agrees(out, c));
}

template <class T>
void check(const golden_case& c) {
    if (const auto op = conv_operator_of(c.op))
        check_conv<T>(c, *op);
    else if (c.op == "bias_backward")
        check_bias<T>(c);
    else if (c.op == "avg_pool" || c.op == "avg_pool_backward")
        check_avg_pool<T>(c, c.op == "avg_pool_backward");
    else if (c.op == "max_pool")
        check_max_pool<T>(c);
    else if (c.op == "max_pool_backward")
        check_max_pool_backward<T>(c);
    else
        ADD_FAILURE() << "unknown operator " << c.op;
}

// --------------------------------------------------------------------------------------------------------------- tests

class golden : public ::testing::TestWithParam<const char*> {};

TEST_P(golden, file_is_complete) {
    const golden_file file = read_file(GetParam());
    EXPECT_FALSE(file.peers.empty()) << "no version";
    EXPECT_GE(file.announced_cases, 80);
    EXPECT_EQ(static_cast<std::int64_t>(file.cases.size()), file.announced_cases);
    std::map<std::string, std::int64_t> counts;
    for (const golden_case& c : file.cases) ++counts[c.op];
    EXPECT_EQ(counts, file.announced);
}

TEST_P(golden, every_value_agrees) {
    const golden_file file = read_file(GetParam());
    ASSERT_FALSE(file.cases.empty());
    for (const golden_case& c : file.cases) {
        SCOPED_TRACE(c.problem);
        if (c.type == "f32")
            check<float>(c);
        else if (c.type == "f16")
            check<gk::float16>(c);
        else if (c.type == "bf16")
            check<gk::bfloat16>(c);
        else
            ADD_FAILURE() << "unknown type";
    }
}

INSTANTIATE_TEST_SUITE_P(peers, golden, ::testing::Values("torch", "tensorflow", "onnxruntime", "onnxruntime_training"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
