// A C interface over oneDNN's primitives, and over the operators of its Graph, for peers.py. Tensors are the caller's, in
// the caller's plain layout; what has to be reordered for a primitive is reordered in every run. Primitives and partitions
// are created beforehand.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <oneapi/dnnl/dnnl.hpp>
#include <oneapi/dnnl/dnnl_graph.hpp>

namespace {

using namespace dnnl;
using dims = memory::dims;

engine& cpu() {
    static engine e(engine::kind::cpu, 0);
    return e;
}
stream& queue() {
    static stream s(cpu());
    return s;
}

/// What peers.py passes; spatial arrays hold `rank` numbers.
struct problem {
    std::int64_t kind;  // 0 convolution, 1 conv_transpose, 2 avg_pool, 3 max_pool
    std::int64_t role;  // 0 forward, 1 backward data, 2 backward weights
    std::int64_t ncx, type, rank, batch, in_channels, out_channels, groups, exclude_pad;
    std::int64_t size[3], out[3], kernel[3], strides[3], pads_begin[3], pads_end[3], dilations[3];

    [[nodiscard]] dims spatial(const std::int64_t* v) const { return {v, v + rank}; }
    [[nodiscard]] memory::data_type element() const {
        return type == 0 ? memory::data_type::f32 : type == 1 ? memory::data_type::f16 : memory::data_type::bf16;
    }
    [[nodiscard]] memory::desc activation(std::int64_t channels, const std::int64_t* s) const {
        dims d{batch, channels};
        d.insert(d.end(), s, s + rank);
        dims steps(d.size());
        std::int64_t run = ncx != 0 ? 1 : channels;
        for (std::size_t i = d.size(); i-- > 2; run *= d[i]) steps[i] = run;
        steps[1] = ncx != 0 ? run : 1;
        steps[0] = ncx != 0 ? run * channels : run;
        return {d, element(), steps};
    }
    /// OIX beside NCX, XIO beside NXC: O counts all groups of a convolution, I all groups of a conv_transpose.
    [[nodiscard]] memory::desc weights() const {
        const std::int64_t o = out_channels / groups;
        const std::int64_t i = in_channels / groups;
        const std::int64_t all_o = kind == 1 ? o : out_channels;
        const std::int64_t all_i = kind == 1 ? in_channels : i;
        dims d{o, i};
        if (groups > 1) d.insert(d.begin(), groups);
        d.insert(d.end(), kernel, kernel + rank);
        const std::size_t at = groups > 1 ? 1 : 0;
        dims steps(d.size());
        std::int64_t taps = ncx != 0 ? 1 : all_o * all_i;
        for (std::size_t x = d.size(); x-- > at + 2; taps *= d[x]) steps[x] = taps;
        steps[at] = ncx != 0 ? taps * all_i : 1;
        steps[at + 1] = ncx != 0 ? taps : all_o;
        if (groups > 1) steps[0] = kind == 1 ? i * steps[at + 1] : o * steps[at];
        return {d, element(), steps};
    }
};

/// One way to compute a problem.
struct variant {
    struct step {
        primitive p;
        std::unordered_map<int, memory> arguments;
    };
    std::vector<step> steps;
    std::string name;
};

struct job {
    std::vector<variant> variants;
    std::string error;
};

/// Adds a primitive whose arguments are `wanted`, with reorders from and to the caller's tensors where they differ.
struct argument {
    int id;
    memory::desc wanted;
    memory user;  // empty: memory of the variant's own
    bool output = false;
};

void add(variant& v, const primitive& p, std::vector<argument> arguments) {
    variant::step main{p, {}};
    std::vector<variant::step> after;
    for (argument& a : arguments) {
        if (!a.user) {
            main.arguments[a.id] = memory(a.wanted, cpu());
        } else if (a.wanted == a.user.get_desc()) {
            main.arguments[a.id] = a.user;
        } else {
            memory own(a.wanted, cpu());
            main.arguments[a.id] = own;
            memory from = a.output ? own : a.user;
            memory to = a.output ? a.user : own;
            (a.output ? after : v.steps).push_back({reorder(from, to), {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}}});
        }
    }
    v.steps.push_back(std::move(main));
    for (variant::step& s : after) v.steps.push_back(std::move(s));
}

enum class freedom { none, weights, all };  // what the library may choose the layout of

memory::desc choose(const memory::desc& plain, bool free) {
    return free ? memory::desc(plain.get_dims(), plain.get_data_type(), memory::format_tag::any) : plain;
}

template <class Forward, class Data, class Weights>
void add_convolution(variant& v, const problem& p, freedom f, algorithm how, void* a, void* b, void* out) {
    const memory::desc src = p.activation(p.in_channels, p.size);
    const memory::desc dst = p.activation(p.out_channels, p.out);
    const memory::desc w = p.weights();
    const bool all = f == freedom::all;
    dims dilations = p.spatial(p.dilations);
    for (auto& d : dilations) --d;
    const dims strides = p.spatial(p.strides);
    const dims pads_begin = p.spatial(p.pads_begin);
    const dims pads_end = p.spatial(p.pads_end);
    const auto at = [](const memory::desc& d, void* data) { return memory(d, cpu(), data); };
    const typename Forward::primitive_desc forward(
        cpu(), prop_kind::forward_training, how, choose(src, all || p.role != 0),
        choose(w, f != freedom::none || p.role != 0), choose(dst, all || p.role != 0), strides, dilations, pads_begin,
        pads_end);
    if (p.role == 0) {
        v.name += forward.impl_info_str();
        add(v, Forward(forward),
            {{DNNL_ARG_SRC, forward.src_desc(), at(src, a)},
             {DNNL_ARG_WEIGHTS, forward.weights_desc(), at(w, b)},
             {DNNL_ARG_DST, forward.dst_desc(), at(dst, out), true}});
    } else if (p.role == 1) {
        const typename Data::primitive_desc d(cpu(), how, choose(src, all), choose(w, f != freedom::none),
                                              choose(dst, all), strides, dilations, pads_begin, pads_end, forward);
        v.name += d.impl_info_str();
        add(v, Data(d),
            {{DNNL_ARG_DIFF_DST, d.diff_dst_desc(), at(dst, a)},
             {DNNL_ARG_WEIGHTS, d.weights_desc(), at(w, b)},
             {DNNL_ARG_DIFF_SRC, d.diff_src_desc(), at(src, out), true}});
    } else {
        const typename Weights::primitive_desc d(cpu(), how, choose(src, all), choose(w, f != freedom::none),
                                                 choose(dst, all), strides, dilations, pads_begin, pads_end, forward);
        v.name += d.impl_info_str();
        add(v, Weights(d),
            {{DNNL_ARG_SRC, d.src_desc(), at(src, a)},
             {DNNL_ARG_DIFF_DST, d.diff_dst_desc(), at(dst, b)},
             {DNNL_ARG_DIFF_WEIGHTS, d.diff_weights_desc(), at(w, out), true}});
    }
}

/// Average: forward or backward. Max: forward with the library's own workspace; backward runs the forward pass first, since
/// the caller has no such workspace.
void add_pool(variant& v, const problem& p, freedom f, void* a, void* b, void* out) {
    const bool max = p.kind == 3;
    const algorithm how = max                  ? algorithm::pooling_max
                          : p.exclude_pad != 0 ? algorithm::pooling_avg_exclude_padding
                                               : algorithm::pooling_avg_include_padding;
    const memory::desc src = p.activation(p.in_channels, p.size);
    const memory::desc dst = p.activation(p.in_channels, p.out);
    // pools take any layout that they are given: the blocked one is their best
    using tag = memory::format_tag;
    const bool wide = get_effective_cpu_isa() >= cpu_isa::avx512_core;
    const tag blocked = p.rank == 1   ? (wide ? tag::nCw16c : tag::nCw8c)
                        : p.rank == 2 ? (wide ? tag::nChw16c : tag::nChw8c)
                                      : (wide ? tag::nCdhw16c : tag::nCdhw8c);
    const auto layout = [&](const memory::desc& d) {
        return f == freedom::none ? d : memory::desc(d.get_dims(), d.get_data_type(), blocked);
    };
    const dims strides = p.spatial(p.strides);
    const dims kernel = p.spatial(p.kernel);
    const dims pads_begin = p.spatial(p.pads_begin);
    const dims pads_end = p.spatial(p.pads_end);
    dims dilations = p.spatial(p.dilations);
    for (auto& d : dilations) --d;
    const auto at = [](const memory::desc& d, void* data) { return memory(d, cpu(), data); };
    const pooling_forward::primitive_desc forward(cpu(), prop_kind::forward_training, how, layout(src), layout(dst),
                                                  strides, kernel, dilations, pads_begin, pads_end);
    if (p.role == 0) {
        v.name += forward.impl_info_str();
        std::vector<argument> arguments{{DNNL_ARG_SRC, forward.src_desc(), at(src, a)},
                                        {DNNL_ARG_DST, forward.dst_desc(), at(dst, out), true}};
        if (max) arguments.push_back({DNNL_ARG_WORKSPACE, forward.workspace_desc(), {}});
        add(v, pooling_forward(forward), arguments);
        return;
    }
    const pooling_backward::primitive_desc d(cpu(), how, layout(src), layout(dst), strides, kernel, dilations,
                                             pads_begin, pads_end, forward);
    v.name += d.impl_info_str();
    std::vector<argument> arguments{{DNNL_ARG_DIFF_DST, d.diff_dst_desc(), at(dst, max ? b : a)},
                                    {DNNL_ARG_DIFF_SRC, d.diff_src_desc(), at(src, out), true}};
    if (max) {
        const memory workspace(forward.workspace_desc(), cpu());
        add(v, pooling_forward(forward),
            {{DNNL_ARG_SRC, forward.src_desc(), at(src, a)},
             {DNNL_ARG_DST, forward.dst_desc(), {}},
             {DNNL_ARG_WORKSPACE, forward.workspace_desc(), workspace}});
        arguments.push_back({DNNL_ARG_WORKSPACE, d.workspace_desc(), workspace});
    }
    add(v, pooling_backward(d), arguments);
}

/// A graph of one operator. The library decides on layouts inside, and reorders there.
struct graph_job {
    graph::compiled_partition compiled;
    std::vector<graph::tensor> inputs;
    std::vector<graph::tensor> outputs;
};

/// What a tensor of the operator looks like, with its axes in the order that the operator's formats name.
struct graph_tensor {
    dims shape;
    dims strides;
    void* data;
};

graph_tensor graph_activation(const problem& p, std::int64_t channels, const std::int64_t* size, void* data) {
    graph_tensor t{{p.batch}, {}, data};
    if (p.ncx != 0) t.shape.push_back(channels);
    t.shape.insert(t.shape.end(), size, size + p.rank);
    if (p.ncx == 0) t.shape.push_back(channels);
    t.strides.resize(t.shape.size());
    std::int64_t run = 1;
    for (std::size_t i = t.shape.size(); i-- > 0; run *= t.shape[i]) t.strides[i] = run;
    return t;
}

/// OIX and XIO; of a ConvTranspose, whose weights the caller keeps in the same order, IOX and XOI.
graph_tensor graph_weights(const problem& p, void* data) {
    const std::int64_t o = p.out_channels / (p.kind == 1 ? p.groups : 1);
    const std::int64_t i = p.in_channels / (p.kind == 1 ? 1 : p.groups);
    const dims kernel = p.spatial(p.kernel);
    std::int64_t taps = 1;
    for (const std::int64_t k : kernel) taps *= k;
    const std::int64_t o_step = p.ncx != 0 ? i * taps : 1;
    const std::int64_t i_step = p.ncx != 0 ? taps : o;
    // axes as the format names them
    const bool i_first = (p.ncx != 0) == (p.kind == 1);
    const std::int64_t channels[]{i_first ? i : o, i_first ? o : i};
    const std::int64_t steps[]{i_first ? i_step : o_step, i_first ? o_step : i_step};
    dims along(kernel.size());
    std::int64_t run = p.ncx != 0 ? 1 : i * o;
    for (std::size_t x = kernel.size(); x-- > 0; run *= kernel[x]) along[x] = run;
    dims shape = kernel;
    dims strides = along;
    shape.insert(p.ncx != 0 ? shape.begin() : shape.end(), channels, channels + 2);
    strides.insert(p.ncx != 0 ? strides.begin() : strides.end(), steps, steps + 2);
    return {shape, strides, data};
}

graph::op::kind graph_kind(const problem& p) {
    using kind = graph::op::kind;
    constexpr kind kinds[4][3]{
        {kind::Convolution, kind::ConvolutionBackwardData, kind::ConvolutionBackwardWeights},
        {kind::ConvTranspose, kind::ConvTransposeBackwardData, kind::ConvTransposeBackwardWeights},
        {kind::AvgPool, kind::AvgPoolBackward, kind::LastSymbol},
        {kind::MaxPool, kind::MaxPoolBackward, kind::LastSymbol}};
    return kinds[p.kind][p.role];
}

std::unique_ptr<graph_job> make_graph(const problem& p, void* a, void* b, void* out) {
    using attribute = graph::op::attr;
    const bool pool = p.kind >= 2;
    const bool max = p.kind == 3;  // its gradient takes src, too
    const graph_tensor src = graph_activation(p, p.in_channels, p.size, p.role == 1 && !max ? out : a);
    const graph_tensor dst = graph_activation(p, p.out_channels, p.out,
                                              p.role == 0           ? out
                                              : p.role == 1 && !max ? a
                                                                    : b);
    graph::op op(0, graph_kind(p), "job");
    op.set_attr<dims>(attribute::strides, p.spatial(p.strides));
    op.set_attr<dims>(attribute::pads_begin, p.spatial(p.pads_begin));
    op.set_attr<dims>(attribute::pads_end, p.spatial(p.pads_end));
    op.set_attr<std::string>(attribute::data_format, p.ncx != 0 ? "NCX" : "NXC");
    std::vector<graph_tensor> tensors;  // inputs, then the output
    if (pool) {
        op.set_attr<dims>(attribute::kernel, p.spatial(p.kernel));
        if (!max) {
            op.set_attr<bool>(attribute::exclude_pad, p.exclude_pad != 0);
            if (p.role == 1) op.set_attr<dims>(attribute::src_shape, src.shape);
            tensors = p.role == 0 ? std::vector{src, dst} : std::vector{dst, src};
        } else {
            op.set_attr<dims>(attribute::dilations, dims(static_cast<std::size_t>(p.rank), 1));
            tensors = {src, dst, graph_activation(p, p.in_channels, p.size, out)};
        }
    } else {
        op.set_attr<dims>(attribute::dilations, p.spatial(p.dilations));
        op.set_attr<std::int64_t>(attribute::groups, p.groups);
        const char* const formats[2][2]{{"XIO", "OIX"}, {"XOI", "IOX"}};
        op.set_attr<std::string>(attribute::weights_format, formats[p.kind][p.ncx]);
        const graph_tensor w = graph_weights(p, p.role == 2 ? out : b);
        if (p.role == 1 && p.kind == 0) op.set_attr<dims>(attribute::dst_shape, src.shape);
        if (p.role == 2) op.set_attr<dims>(attribute::weights_shape, w.shape);
        tensors = p.role == 0   ? std::vector{src, w, dst}
                  : p.role == 1 ? std::vector{dst, w, src}
                                : std::vector{src, dst, w};
    }
    using logical = graph::logical_tensor;
    const auto type = p.type == 0   ? logical::data_type::f32
                      : p.type == 1 ? logical::data_type::f16
                                    : logical::data_type::bf16;
    std::vector<logical> all;
    for (const graph_tensor& t : tensors) all.emplace_back(all.size(), type, t.shape, t.strides);
    const std::vector<logical> inputs(all.begin(), all.end() - 1);
    op.add_inputs(inputs);
    op.add_output(all.back());
    graph::graph g(engine::kind::cpu);
    g.add_op(op);
    g.finalize();
    const auto partitions = g.get_partitions();
    if (partitions.size() != 1 || !partitions[0].is_supported()) return nullptr;
    auto made = std::make_unique<graph_job>();
    made->compiled = partitions[0].compile(inputs, {all.back()}, cpu());
    for (std::size_t i = 0; i < all.size(); ++i)
        (i + 1 < all.size() ? made->inputs : made->outputs).emplace_back(all[i], cpu(), tensors[i].data);
    return made;
}

}  // namespace

extern "C" {

/// Prepares every way to compute a problem; gradkern_onednn_variants says how many there are.
void* onednn_make(const std::int64_t* numbers, void* a, void* b, void* out) {
    auto made = std::make_unique<job>();
    problem p{};
    static_assert(sizeof p == 31 * sizeof *numbers);
    __builtin_memcpy(&p, numbers, sizeof p);
    const bool pool = p.kind >= 2;
    for (const freedom f : {freedom::none, freedom::weights, freedom::all}) {
        if (pool && f == freedom::weights) continue;
        try {
            variant v;
            v.name = f == freedom::none ? "plain " : f == freedom::weights ? "weights " : "all ";
            if (pool) {
                add_pool(v, p, f, a, b, out);
            } else if (p.kind == 0) {
                add_convolution<convolution_forward, convolution_backward_data, convolution_backward_weights>(
                    v, p, f, algorithm::convolution_direct, a, b, out);
            } else {
                add_convolution<deconvolution_forward, deconvolution_backward_data, deconvolution_backward_weights>(
                    v, p, f, algorithm::deconvolution_direct, a, b, out);
            }
            made->variants.push_back(std::move(v));
        } catch (const error& e) {
            made->error = e.what();
        }
    }
    return made.release();
}

int onednn_variants(void* j) { return static_cast<int>(static_cast<job*>(j)->variants.size()); }
const char* onednn_name(void* j, int i) {
    return static_cast<job*>(j)->variants[static_cast<std::size_t>(i)].name.c_str();
}
void onednn_run(void* j, int i) {
    for (const auto& s : static_cast<job*>(j)->variants[static_cast<std::size_t>(i)].steps)
        s.p.execute(queue(), s.arguments);
    queue().wait();
}

void onednn_free(void* j) { delete static_cast<job*>(j); }

/// Compiles a problem as an operator of the Graph; null where that has none.
void* onednn_graph_make(const std::int64_t* numbers, void* a, void* b, void* out) {
    problem p{};
    __builtin_memcpy(&p, numbers, sizeof p);
    try {
        return make_graph(p, a, b, out).release();
    } catch (const error&) {
        return nullptr;
    }
}
void onednn_graph_run(void* j) {
    auto* const job = static_cast<graph_job*>(j);
    job->compiled.execute(queue(), job->inputs, job->outputs);
    queue().wait();
}
void onednn_graph_free(void* j) { delete static_cast<graph_job*>(j); }

const char* onednn_version() {
    static const std::string text = std::to_string(version()->major) + "." + std::to_string(version()->minor) + "." +
                                    std::to_string(version()->patch);
    return text.c_str();
}
}
