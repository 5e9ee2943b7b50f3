#include "generate.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include <gradkern/dynamic_view.hpp>
#include <gradkern/error_text.hpp>
#include <gradkern/gradkern.hpp>
#include <gradkern/testing/generate.hpp>
#include <gradkern/testing/numbers.hpp>

#include "compute.hpp"

namespace golden {
namespace {

using gk::test::scramble;

constexpr std::uint64_t hash_start = 0xcbf29ce484222325U;
[[nodiscard]] constexpr std::uint64_t hash_byte(std::uint64_t hash, unsigned char byte) noexcept {
    return (hash ^ byte) * 0x100000001b3U;
}
[[nodiscard]] constexpr std::uint64_t hash_text(std::string_view text) noexcept {
    std::uint64_t hash = hash_start;
    for (const char c : text) hash = hash_byte(hash, static_cast<unsigned char>(c));
    return hash;
}

/// A stream of random numbers. Statements draw once: compilers choose the order of arguments, and a seed has the same problems with all.
class random_source {
public:
    explicit random_source(std::uint64_t seed) : state_(scramble(seed)) {}
    [[nodiscard]] std::uint64_t bits() { return scramble(state_++); }
    /// In [low, high].
    [[nodiscard]] std::int64_t integer(std::int64_t low, std::int64_t high) {
        return low + static_cast<std::int64_t>(bits() % static_cast<std::uint64_t>(high - low + 1));
    }
    [[nodiscard]] bool percent(std::int64_t n) { return integer(1, 100) <= n; }
    template <class T>
    [[nodiscard]] T pick(const std::vector<T>& from) {
        return from[static_cast<std::size_t>(integer(0, static_cast<std::int64_t>(from.size()) - 1))];
    }

private:
    std::uint64_t state_;
};

// -------------------------------------------------------------------------------------------------------------- shapes

/// Bounds of what is drawn.
struct limits {
    std::int64_t batch, spatial, channels, kernel;
    std::int64_t elements;  ///< of any tensor
    std::int64_t work;      ///< terms of all outputs together
};

[[nodiscard]] limits limits_of(size_class size, std::size_t rank) {
    constexpr std::array<std::array<std::int64_t, 3>, 3> spatial{{{24, 10, 6}, {200, 24, 10}, {3000, 56, 20}}};
    const auto s = static_cast<std::size_t>(size);
    const std::int64_t at_most = spatial[s][rank - 1];
    constexpr std::array<limits, 3> all{
        {{2, 0, 8, 3, 3000, 200'000}, {3, 0, 32, 5, 20'000, 2'000'000}, {4, 0, 64, 7, 400'000, 60'000'000}}};
    limits l = all[s];
    l.spatial = at_most;
    if (rank == 3) l.kernel = std::min<std::int64_t>(l.kernel, 4);
    return l;
}

/// What all windows have: per axis.
struct window_draw {
    gk::extents kernel, strides, dilations, pads_begin, pads_end;
    gk::auto_pad pad = gk::auto_pad::none;
};

[[nodiscard]] window_draw draw_window(random_source& r, std::size_t rank, const limits& l, bool pool) {
    window_draw w;
    const bool dilated = r.percent(pool ? 10 : 20);
    const bool even_pads = r.percent(70);
    const bool padded = r.percent(65);
    for (std::size_t i = 0; i < rank; ++i) {
        const std::int64_t k = r.integer(1, l.kernel);
        const std::int64_t d = dilated ? r.integer(1, 3) : 1;
        // what every library accepts, mostly: up to half of the window
        const std::int64_t most = r.percent(85) ? k / 2 : (k - 1) * d + 1;
        const std::int64_t begin = padded ? r.integer(0, most) : 0;
        w.kernel.push_back(k);
        w.strides.push_back(r.pick<std::int64_t>({1, 1, 1, 2, 2, 3}));
        w.dilations.push_back(d);
        w.pads_begin.push_back(begin);
        w.pads_end.push_back(!padded ? 0 : even_pads ? begin : r.integer(0, most));
    }
    if (r.percent(12))
        w.pad = r.pick<gk::auto_pad>({gk::auto_pad::same_upper, gk::auto_pad::same_lower, gk::auto_pad::valid});
    if (w.pad != gk::auto_pad::none || !padded) w.pads_begin = w.pads_end = {};
    if (pool && !dilated) w.dilations = {};
    return w;
}

template <class Attributes>
void put_window(Attributes& a, const window_draw& w) {
    if constexpr (requires { a.kernel; }) a.kernel = w.kernel;
    a.strides = w.strides;
    a.dilations = w.dilations;
    a.pads_begin = w.pads_begin;
    a.pads_end = w.pads_end;
    a.auto_pad = w.pad;
}

/// Batch, channels and spatial sizes in the order of a format.
[[nodiscard]] gk::extents activation(gk::data_format f, std::int64_t n, std::int64_t c, const gk::extents& spatial) {
    gk::extents e{};
    e.push_back(n);
    if (f == gk::data_format::ncx) e.push_back(c);
    for (const std::int64_t s : spatial.values()) e.push_back(s);
    if (f == gk::data_format::nxc) e.push_back(c);
    return e;
}
[[nodiscard]] gk::extents filter(gk::weights_format f, std::int64_t o, std::int64_t i, const gk::extents& kernel) {
    gk::extents e{};
    if (f == gk::weights_format::oix) e = {o, i};
    for (const std::int64_t k : kernel.values()) e.push_back(k);
    if (f == gk::weights_format::xio) {
        e.push_back(i);
        e.push_back(o);
    }
    return e;
}

[[nodiscard]] std::int64_t volume(const gk::extents& e) {
    std::int64_t v = 1;
    for (const std::int64_t n : e.values()) v *= n;
    return v;
}
[[nodiscard]] bool fits(const gk::extents& shape, const limits& l) { return volume(shape) <= l.elements; }

/// Shapes of the tensors that a forward pass and its gradients share, by the names of the forward pass.
struct forward_shapes {
    gk::extents src, dst, weights;
};

/// Puts the shapes of a forward pass under the names that the operator has for them.
void put_shapes(problem& p, const forward_shapes& f) {
    for (const auto* list : {&p.facts().inputs, &p.facts().outputs}) {
        for (const role& r : *list) {
            if (r.optional) continue;
            const bool large = r.name == "src" || r.name == "diff_src";
            const bool filter = r.name == "weights" || r.name == "diff_weights";
            if (r.name != "diff_bias") p.shapes[r.name] = sizes_of(large ? f.src : filter ? f.weights : f.dst);
        }
    }
}

template <class Attributes>
[[nodiscard]] gk::result<gk::extents> forward(const gk::extents& src, const gk::extents& weights, const Attributes& a) {
    if constexpr (std::is_same_v<Attributes, gk::convolution_attributes>) return gk::infer_convolution(src, weights, a);
    if constexpr (std::is_same_v<Attributes, gk::conv_transpose_attributes>)
        return gk::infer_conv_transpose(src, weights, a);
    if constexpr (std::is_same_v<Attributes, gk::avg_pool_attributes>) return gk::infer_avg_pool(src, a);
    if constexpr (std::is_same_v<Attributes, gk::lp_pool_attributes>) return gk::infer_lp_pool(src, a);
    if constexpr (std::is_same_v<Attributes, gk::max_pool_attributes>) return gk::infer_max_pool(src, a);
}

[[nodiscard]] gk::extents draw_spatial(random_source& r, std::size_t rank, std::int64_t most) {
    gk::extents e{};
    for (std::size_t i = 0; i < rank; ++i) e.push_back(r.integer(1, most));
    return e;
}

template <class Attributes>
requires(std::is_same_v<Attributes, gk::convolution_attributes> ||
         std::is_same_v<Attributes, gk::conv_transpose_attributes>)
    [[nodiscard]] bool draw_shapes(problem& p, Attributes& a, random_source& r, std::size_t rank, const limits& l) {
    const window_draw w = draw_window(r, rank, l, false);
    put_window(a, w);
    a.weights_format = r.percent(50) ? gk::weights_format::oix : gk::weights_format::xio;
    std::int64_t in = r.integer(1, l.channels);
    std::int64_t out = r.integer(1, l.channels);
    const std::int64_t grouping = r.integer(1, 4);
    if (grouping == 1) {  // depthwise
        a.groups = r.integer(1, l.channels);
        in = 1;
        out = r.integer(1, 2);
    } else if (grouping == 2) {
        a.groups = r.integer(2, 4);
        in = std::max<std::int64_t>(in / a.groups, 1);
        out = std::max<std::int64_t>(out / a.groups, 1);
    }
    constexpr bool transposed = std::is_same_v<Attributes, gk::conv_transpose_attributes>;
    if (transposed && w.pad == gk::auto_pad::none && r.percent(30))
        for (std::size_t i = 0; i < rank; ++i)
            a.output_padding.push_back(r.integer(0, std::max(w.strides[i], w.dilations[i]) - 1));
    forward_shapes f;
    const gk::extents spatial = draw_spatial(r, rank, l.spatial);
    f.src = activation(a.data_format, r.integer(1, l.batch), in * a.groups, spatial);
    f.weights = transposed ? filter(a.weights_format, out, in * a.groups, w.kernel)
                           : filter(a.weights_format, out * a.groups, in, w.kernel);
    const auto dst = forward(f.src, f.weights, a);
    if (!dst) return false;
    f.dst = *dst;
    put_shapes(p, f);
    const std::int64_t small_channels = (transposed ? in : out) * a.groups;
    const std::int64_t work = volume(transposed ? f.src : f.dst) / small_channels * volume(f.weights);
    return fits(f.src, l) && fits(f.dst, l) && fits(f.weights, l) && work <= l.work;
}

template <class Attributes>
requires(std::is_same_v<Attributes, gk::avg_pool_attributes> || std::is_same_v<Attributes, gk::lp_pool_attributes> ||
         std::is_same_v<Attributes, gk::max_pool_attributes>)
    [[nodiscard]] bool draw_shapes(problem& p, Attributes& a, random_source& r, std::size_t rank, const limits& l) {
    const window_draw w = draw_window(r, rank, l, true);
    put_window(a, w);
    if (w.pad == gk::auto_pad::none && r.percent(30))
        a.rounding_type = r.percent(70) ? gk::rounding_type::ceil_torch : gk::rounding_type::ceil;
    if constexpr (std::is_same_v<Attributes, gk::avg_pool_attributes>) {
        a.exclude_pad = r.percent(50);
        if (r.percent(10)) a.divisor_override = r.pick<std::int64_t>({1, 3, 7, -2});
    }
    if constexpr (requires { a.ignore_nan; }) a.ignore_nan = r.percent(10);
    forward_shapes f;
    const gk::extents spatial = draw_spatial(r, rank, l.spatial);
    const std::int64_t channels = r.integer(1, l.channels);
    f.src = activation(a.data_format, r.integer(1, l.batch), channels, spatial);
    const auto dst = forward(f.src, {}, a);
    if (!dst) return false;
    f.dst = *dst;
    put_shapes(p, f);
    return fits(f.src, l) && fits(f.dst, l) && volume(f.dst) * volume(w.kernel) <= l.work;
}

/// Indices are those of a max pool.
[[nodiscard]] bool draw_shapes(problem& p, gk::max_pool_indices_attributes& a, random_source& r, std::size_t rank,
                               const limits& l) {
    gk::max_pool_attributes pool{.data_format = a.data_format};
    const bool fit = draw_shapes(p, pool, r, rank, l);
    pool.ignore_nan = false;
    pool.index_base = a.index_base = r.pick<gk::index_base>(
        {gk::index_base::tensor, gk::index_base::tensor, gk::index_base::plane, gk::index_base::image});
    p.made_by = pool;
    // the reference looks for each element of one side at all of the other
    return fit && volume(p.shapes["diff_src"]) * volume(p.shapes["diff_dst"]) <= 10 * l.work;
}

[[nodiscard]] bool draw_shapes(problem& p, gk::bias_attributes& a, random_source& r, std::size_t rank,
                               const limits& l) {
    const std::int64_t channels = r.integer(1, l.channels);
    // sums longer than those of other operators' elements: up to all elements of a tensor
    gk::extents spatial = draw_spatial(r, rank, 3 * l.spatial);
    p.shapes["diff_dst"] = sizes_of(activation(a.data_format, r.integer(1, l.batch), channels, spatial));
    p.shapes["diff_bias"] = {channels};
    return fits(p.shapes["diff_dst"], l);
}

/// A problem without name and type; nothing if what was drawn does not fit together.
[[nodiscard]] std::optional<problem> draw(const generate_request& request, op operation, random_source& r) {
    problem p;
    p.operation = operation;
    p.attribute = p.facts().defaults;
    const auto rank = static_cast<std::size_t>(r.pick<std::int64_t>({1, 2, 2, 2, 3}));
    const limits l = limits_of(r.pick(request.sizes), rank);
    const gk::data_format layout = r.pick(request.layouts);
    const bool fit = std::visit(
        [&](auto& a) {
            a.data_format = layout;
            return draw_shapes(p, a, r, rank, l);
        },
        p.attribute);
    if (!fit) return std::nullopt;
    const auto channels = [&](const gk::extents& e) { return layout == gk::data_format::ncx ? e[1] : e[rank + 1]; };
    for (const role& role : p.facts().inputs)
        if (role.name == "bias" && r.percent(50)) p.shapes["bias"] = {channels(p.shape_of("dst"))};
    for (const role& role : p.facts().outputs) {
        if (role.name == "diff_bias" && role.optional && r.percent(50))
            p.shapes["diff_bias"] = {channels(p.shape_of("diff_dst"))};
        if (role.name == "indices") p.shapes["indices"] = p.shape_of("dst");
    }
    static_cast<void>(r.bits());  // once the pattern: the numbers behind it stay those of the same seed
    p.values = {gk::test::pattern::uniform, r.bits() >> 32};
    return p;
}

/// The pattern of problem i of an operator and a type. All of them come in turn, so that as many problems as there are patterns
/// have each. Operators and types begin at different ones: the same geometry has other patterns in other types.
[[nodiscard]] gk::test::pattern pattern_of(op operation, element type, std::size_t i) {
    const std::size_t first = static_cast<std::size_t>(operation) * elements.size() + static_cast<std::size_t>(type);
    return gk::test::all_patterns[(first + i) % gk::test::all_patterns.size()];
}

/// The tensors of a problem that may be f32 become it.
void widen(problem& p) {
    for (const auto* list : {&p.facts().inputs, &p.facts().outputs})
        for (const role& r : *list)
            if (r.may_be_f32 && p.shapes.contains(r.name)) p.types[r.name] = element::f32;
}

/// Operators whose terms are products of two inputs.
[[nodiscard]] bool multiplies(op o) {
    return o == op::convolution || o == op::convolution_backward_data || o == op::convolution_backward_weights ||
           o == op::conv_transpose || o == op::conv_transpose_backward_data || o == op::conv_transpose_backward_weights;
}

/// Writes the numbers of input `number`. `operand` is what it is to test::fill.
void fill(tensor& t, const recipe& values, int number, int operand) {
    const std::uint64_t seed = scramble(values.seed + static_cast<std::uint64_t>(number));
    // Gradients per image may have an axis more than a view; what is no factor needs none.
    const sizes shape = operand < 2 ? t.shape : sizes{static_cast<std::int64_t>(t.size())};
    const gk::dynamic_view view(data_type_of(t.type), t.bytes.data(), shape);
    const gk::status s = gk::test::fill(view, values.pattern, seed, operand);
    if (!s) throw failure(gk::to_string(s));
}

}  // namespace

std::vector<problem> generate(const generate_request& request) {
    std::vector<problem> all;
    for (const op operation : request.operators) {
        const std::string name(facts_of(operation).name);
        std::vector<std::pair<problem, bool>> drawn;
        for (std::size_t i = 0; i < request.count; ++i) {
            random_source r(scramble(request.seed ^ hash_text(name)) + i);
            std::optional<problem> p;
            while (!p) p = draw(request, operation, r);
            drawn.emplace_back(*p, r.percent(25));
        }
        for (const element type : request.types) {
            for (std::size_t i = 0; i < drawn.size(); ++i) {
                problem p = drawn[i].first;
                p.type = type;
                p.values->pattern = pattern_of(operation, type, i);
                if (drawn[i].second && facts_of(type).bytes == 2) widen(p);
                const std::string number = std::to_string(i);
                p.name = name + "." + std::string(facts_of(type).name) + "." +
                         std::string(4 - std::min<std::size_t>(number.size(), 4), '0') + number;
                all.push_back(p);
            }
        }
    }
    return all;
}

tensors make_inputs(const problem& p) {
    tensors inputs;
    int number = 0;
    for (const role& r : p.inputs()) {
        if (!p.shapes.contains(tensor_of(r.name))) continue;
        tensor& t = inputs[r.name] = tensor(p.type_of(r), p.shape_of(r.name));
        // A value before the call is added, as a bias is.
        const int operand = tensor_of(r.name) != r.name ? 2 : multiplies(p.operation) ? number : 0;
        if (!r.is_index) fill(t, *p.values, number, operand);
        ++number;
    }
    if (p.operation == op::lp_pool_backward) {  // the norms, as the forward pass rounds them
        problem pool = p;
        pool.operation = op::lp_pool;
        pool.options = {};
        const tensors norms = expected(pool, {{"src", inputs.at("src")}}).exact;
        tensor& dst = inputs.at("dst");
        for (std::size_t i = 0; i < dst.size(); ++i) dst.set(i, norms.at("dst").at(i));
    }
    if (p.operation == op::max_pool_backward_from_indices) {
        if (!p.made_by) throw failure(p.name + ": has no made_by");
        problem pool = p;
        pool.operation = op::max_pool;
        pool.options = {};
        pool.attribute = *p.made_by;
        pool.shapes = {
            {"src", p.shape_of("diff_src")}, {"dst", p.shape_of("diff_dst")}, {"indices", p.shape_of("indices")}};
        tensor src(p.type, p.shape_of("diff_src"));
        fill(src, *p.values, number, 0);
        inputs["indices"] = expected(pool, {{"src", src}}).exact.at("indices");
    }
    return inputs;
}

std::string hash_of(const tensors& all, const std::vector<role>& roles) {
    std::uint64_t hash = hash_start;
    for (const role& r : roles) {
        const auto found = all.find(r.name);
        if (found == all.end()) continue;
        tensor t = found->second;
        for (std::size_t i = 0; t.type != element::i64 && i < t.size(); ++i)
            if (std::isnan(t.at(i))) t.set(i, std::numeric_limits<double>::quiet_NaN());
        for (const std::byte b : t.bytes) hash = hash_byte(hash, static_cast<unsigned char>(b));
    }
    std::string text;
    for (int shift = 60; shift >= 0; shift -= 4) text += "0123456789abcdef"[hash >> shift & 15];
    return text;
}

}  // namespace golden
