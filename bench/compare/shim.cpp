// A C interface over a few operators, loaded by compare.py beside PyTorch: both then run in one process, in turns.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <new>
#include <vector>

#include <gradkern/convolution.hpp>
#include <gradkern/ref/convolution.hpp>

namespace {

using namespace gradkern;

/// p: operator (0 backward data, 1 backward weights), format (0 NXC/XIO is 0, NCX is 1), filter (0 XIO, 1 OIX),
/// N, IC, OC, groups, rank, then size, kernel, stride, pad, dilation, each with three entries.
struct layer {
    bool weights_gradient;
    convolution_attributes attributes;
    extents src, filter, dst;

    explicit layer(const std::int64_t* p) : weights_gradient(p[0] != 0) {
        const auto r = static_cast<std::size_t>(p[7]);
        const auto list = [&](int i) { return extents(std::span<const std::int64_t>(p + 8 + 3 * i, r)); };
        attributes.data_format = p[1] != 0 ? data_format::ncx : data_format::nxc;
        attributes.weights_format = p[2] != 0 ? weights_format::oix : weights_format::xio;
        attributes.groups = p[6];
        attributes.strides = list(2);
        attributes.pads_begin = attributes.pads_end = list(3);
        attributes.dilations = list(4);
        src = {p[3]};
        if (p[1] != 0) src.push_back(p[4]);
        for (const std::int64_t e : list(0).values()) src.push_back(e);
        if (p[1] == 0) src.push_back(p[4]);
        if (p[2] != 0) filter = {p[5], p[4] / p[6]};
        for (const std::int64_t e : list(1).values()) filter.push_back(e);
        if (p[2] == 0) {
            filter.push_back(p[4] / p[6]);
            filter.push_back(p[5]);
        }
        dst = infer_convolution(src, filter, attributes).value_or({});
    }
};

struct planned {
    std::function<status(const float*, const float*, float*)> run;
    std::vector<std::byte> workspace;
};

}  // namespace

extern "C" {

/// Plans an operator; null where it is refused.
void* gradkern_plan(const std::int64_t* p) {
    const layer l(p);
    auto made = std::make_unique<planned>();
    planned* self = made.get();
    if (l.weights_gradient) {
        const auto plan = plan_convolution_backward_weights<float>(l.src, l.dst, l.attributes, l.filter);
        if (!plan) return nullptr;
        made->workspace.resize(plan->workspace_bytes());
        made->run = [plan, self](const float* a, const float* b, float* out) {
            return plan->run(a, b, out, self->workspace);
        };
    } else {
        const auto plan = plan_convolution_backward_data<float>(l.dst, l.filter, l.attributes, l.src);
        if (!plan) return nullptr;
        made->workspace.resize(plan->workspace_bytes());
        made->run = [plan, self](const float* a, const float* b, float* out) {
            return plan->run(a, b, out, self->workspace);
        };
    }
    return made.release();
}

/// Backward data: a = diff_dst, b = weights; backward weights: a = src, b = diff_dst. 0 on success.
int gradkern_run(void* p, const float* a, const float* b, float* out) {
    return static_cast<int>(static_cast<planned*>(p)->run(a, b, out).code());
}

/// The same by the plain-loop reference.
int gradkern_reference(const std::int64_t* p, const float* a, const float* b, float* out) {
    const layer l(p);
    if (l.weights_gradient) {
        return static_cast<int>(ref::convolution_backward_weights(tensor_view<const float>{a, l.src},
                                                                  tensor_view<const float>{b, l.dst}, l.attributes,
                                                                  tensor_view<float>{out, l.filter})
                                    .code());
    }
    return static_cast<int>(ref::convolution_backward_data(tensor_view<const float>{a, l.dst},
                                                           tensor_view<const float>{b, l.filter}, l.attributes,
                                                           tensor_view<float>{out, l.src})
                                .code());
}

const char* gradkern_isa() {
    static const std::string name(detail::isa_name);
    return name.c_str();
}

void gradkern_free(void* p) { delete static_cast<planned*>(p); }
}
