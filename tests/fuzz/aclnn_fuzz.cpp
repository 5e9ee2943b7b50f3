// Fuzzes aclnnAvgPool2dBackward: both phases, executors that are used up or made up, tensors and lists of any shape.

#include <memory>

#include <gradkern/frontend/aclnn.hpp>
#include <gradkern/ref/avg_pool.hpp>

#include "fuzz/decoder.hpp"

namespace gradkern_fuzz {
namespace {

namespace acl = gk::aclnn;

struct destroy {
    void operator()(const acl::aclTensor* t) const noexcept { acl::aclDestroyTensor(t); }
    void operator()(const acl::aclIntArray* a) const noexcept { acl::aclDestroyIntArray(a); }
};
using tensor_handle = std::unique_ptr<acl::aclTensor, destroy>;
using list_handle = std::unique_ptr<acl::aclIntArray, destroy>;

list_handle list_of(decoder& d, std::int64_t low, std::int64_t high, bool may_be_empty) {
    std::vector<std::int64_t> values;
    const auto length = d.once_in(32) ? d.integer(0, 6) : may_be_empty ? d.integer(0, 2) : d.integer(1, 2);
    for (std::int64_t i = 0; i < length; ++i) values.push_back(d.integer(low, high));
    if (!values.empty() && d.once_in(24)) values[d.byte() % values.size()] = d.anything();
    return list_handle(acl::aclCreateIntArray(values.data(), values.size()));
}

/// Describes memory whose element with all indices 0 is at `first`. Elements reach from `low` to `high` around it.
tensor_handle describe(decoder& d, const gk::tensor_layout& l, acl::aclDataType type, const void* first,
                       std::size_t element_bytes) {
    const auto rank = static_cast<std::uint64_t>(l.shape.values().size());
    gk::shape::checked low(0);
    gk::shape::checked high(0);
    for (std::size_t i = 0; i < rank && i < l.strides.values().size(); ++i)
        (l.strides[i] < 0 ? low : high) += (gk::shape::checked(l.shape[i]) - 1) * l.strides[i];
    if (l.is_dense())
        for (const std::int64_t e : l.shape.values()) high = (high + 1) * std::max<std::int64_t>(e, 1) + (-1);
    std::int64_t offset = low.ok() && low.value() > -most_elements ? -low.value() : 0;
    if (d.once_in(4)) offset += d.integer(0, 9);
    std::vector<std::int64_t> storage;
    if (d.once_in(2) && high.ok()) storage.push_back((high + offset + 1).value());
    if (d.once_in(32)) offset = d.anything();
    if (d.once_in(32)) storage.push_back(d.anything());
    auto format = rank == 3 && d.once_in(2) ? acl::ACL_FORMAT_NCL : acl::ACL_FORMAT_NCHW;
    if (d.once_in(48)) format = static_cast<acl::aclFormat>(d.integer(-1, 48));
    // The address wraps around for a nonsensical offset, and comes back with it.
    const std::uintptr_t base =
        reinterpret_cast<std::uintptr_t>(first) - static_cast<std::uintptr_t>(offset) * element_bytes;
    return tensor_handle(
        acl::aclCreateTensor(l.shape.values().data(), rank, type,
                             l.is_dense() || l.strides.rank() != rank ? nullptr : l.strides.values().data(), offset,
                             format, storage.data(), storage.size(), reinterpret_cast<void*>(base)));
}

template <class T>
void fuzz_aclnn(decoder& d, acl::aclDataType type) {
    const bool image = d.once_in(3);
    const std::int64_t n = image ? 1 : d.once_in(16) ? 0 : d.integer(1, 3);
    const std::int64_t channels = d.once_in(32) ? 0 : d.integer(1, 40);
    const list_handle kernel = list_of(d, 1, 6, false);
    list_handle stride = list_of(d, 1, 4, true);
    const list_handle padding = list_of(d, 0, d.once_in(2) ? 0 : 3, false);
    if (d.once_in(6)) stride.reset();
    const bool ceil_mode = d.once_in(2);
    const bool include = d.once_in(2);
    const std::int64_t divisor = d.once_in(4) ? d.once_in(3) ? d.anything() : d.integer(-3, 9) : 0;
    const auto math = static_cast<std::int8_t>(d.once_in(32)  ? d.integer(-128, 127)
                                               : d.once_in(2) ? d.integer(0, 3)
                                                              : 0);
    const auto profile = d.once_in(4) ? acl::product::legacy : acl::product::current;

    const auto shape_of = [&](std::int64_t h, std::int64_t w) {
        return image ? gk::extents{channels, h, w} : gk::extents{n, channels, h, w};
    };
    const std::int64_t h = d.integer(1, 20);
    const std::int64_t w = d.integer(1, 20);
    gk::extents large = shape_of(h, w);
    gk::extents small = large;
    // The sizes that fit, where the lists allow any.
    const auto usable = [](const acl::aclIntArray* a) { return a != nullptr && a->values.rank() <= 2; };
    gk::avg_pool_attributes attributes;
    if (usable(kernel.get()) && !kernel->values.empty() && usable(padding.get()) && !padding->values.empty() &&
        (stride == nullptr || usable(stride.get()))) {
        acl::translation::pool_call pool;
        pool.kernelSize = kernel.get();
        pool.stride = stride.get();
        pool.padding = padding.get();
        pool.ceilMode = ceil_mode;
        pool.countIncludePad = include;
        pool.divisorOverride = divisor;
        attributes = acl::translation::attributes_of(pool);
        if (const auto e = gk::infer_avg_pool({1, 1, h, w}, attributes)) small = shape_of((*e)[2], (*e)[3]);
    }
    for (gk::extents* e : {&large, &small}) d.spoil(*e, 32);
    gk::extents self_shape = large;
    d.spoil(self_shape, 64);

    const std::uint64_t seed = d.byte();
    const fuzz_tensor<T> grad_output(d.layout(small, false), d.side());
    grad_output.fill(seed, static_cast<contents>(d.integer(0, 2)));
    output_tensor<T> grad_input(d.layout(large, true), d.side());
    call_memory memory{.outputs = {&grad_input}, .all_there = grad_output.has_memory() && grad_input.has_memory()};
    const void* from = grad_output.data();
    const void* to = grad_input.data();
    acl::aclDataType out_type = type;
    if (d.once_in(48)) out_type = static_cast<acl::aclDataType>(d.integer(-1, 30));
    const tensor_handle out = describe(d, grad_output.layout(), out_type, from, sizeof(T));
    const tensor_handle in = describe(d, grad_input.layout(), type, to, sizeof(T));
    const tensor_handle self = describe(d, gk::tensor_layout(self_shape), type, nullptr, sizeof(T));
    if (d.once_in(64)) out->data = nullptr;
    if (d.once_in(64)) in->data = nullptr;
    const bool missing = (out->data == nullptr && !grad_output.empty()) || (in->data == nullptr && !grad_input.empty());

    memory.bad_pointer = missing;
    prepare(memory);
    const auto before = bytes_of(memory);
    std::uint64_t bytes = 1;
    auto* executor = reinterpret_cast<acl::aclOpExecutor*>(std::uintptr_t{1});
    const auto absent = d.integer(0, 127);  // which pointer is null, if any
    const acl::aclnnStatus first = acl::aclnnAvgPool2dBackwardGetWorkspaceSize(
        absent == 121 ? nullptr : out.get(), absent == 122 ? nullptr : self.get(),
        absent == 123 ? nullptr : kernel.get(), stride.get(), absent == 124 ? nullptr : padding.get(), ceil_mode,
        include, divisor, math, absent == 125 ? nullptr : in.get(), absent == 126 ? nullptr : &bytes,
        absent == 127 ? nullptr : &executor, profile);
    const std::string details = text("gradOutput", grad_output.layout()) + text("gradInput", grad_input.layout()) +
                                text("kernel", kernel->values) +
                                (stride ? text("stride", stride->values) : std::string(" no stride")) +
                                text("padding", padding->values) + " ceil " + std::to_string(ceil_mode) + " include " +
                                std::to_string(include) + " divisor " + std::to_string(divisor) + " math " +
                                std::to_string(math) + " status " + std::to_string(first) + "\n";
    require(bytes_of(memory) == before, "phase 1 writes nothing", details);
    if (absent > 120) require(first == acl::ACLNN_ERR_PARAM_NULLPTR, "a null pointer is 161001", details);
    if (first != acl::ACLNN_SUCCESS) {
        require(first == acl::ACLNN_ERR_PARAM_NULLPTR || first == acl::ACLNN_ERR_PARAM_INVALID, "codes are known",
                details);
        require((absent == 127 || executor == nullptr) && (absent == 126 || bytes == 0),
                "an error leaves no executor and no bytes", details);
        return;
    }
    require(executor != nullptr, "success has an executor", details);
    struct guard {
        acl::aclOpExecutor* e;
        ~guard() { acl::aclDestroyAclOpExecutor(e); }
    } const destroys{executor};
    const bool is_noop = large.rank() >= 3 && (large[0] == 0 || (large.rank() == 4 && large[1] == 0));
    if (!memory.all_there || bytes > most_workspace) return;
    if (is_noop) require(bytes == 0, "nothing needs no workspace", details);

    const bool repeatable = d.once_in(2);
    if (repeatable)
        require(acl::aclSetAclOpExecutorRepeatable(executor) == acl::ACLNN_SUCCESS, "an executor may be repeatable",
                details);
    gradkern_test::shuffling_executor workers(static_cast<std::ptrdiff_t>(d.integer(1, 9)));
    gk::executor_ref stream(workers);
    const auto run = [&](std::uint64_t size, bool parallel, acl::aclOpExecutor* e) {
        const guarded_bytes workspace(static_cast<std::size_t>(size), d.side(),
                                      static_cast<std::size_t>(d.integer(0, 70)));
        prepare(memory);
        const acl::aclnnStatus s =
            acl::aclnnAvgPool2dBackward(size == 0 ? nullptr : workspace.data(), size, e, parallel ? &stream : nullptr);
        require(static_cast<bool>(workspace.zones_intact()), "nothing is written next to a workspace", details);
        return s;
    };
    const auto refused = [&](acl::aclnnStatus s, acl::aclnnStatus code, const char* property) {
        require(s == code, property, details);
        require(bytes_of(memory) == before, "a refused call writes nothing", details);
    };
    if (d.once_in(4)) refused(run(bytes, false, nullptr), acl::ACLNN_ERR_PARAM_NULLPTR, "no executor is 161001");
    if (d.once_in(4)) {
        const auto made_up = static_cast<std::uintptr_t>(d.word());
        if (made_up != 0 && made_up != reinterpret_cast<std::uintptr_t>(executor))
            refused(run(bytes, false, reinterpret_cast<acl::aclOpExecutor*>(made_up)), acl::ACLNN_ERR_PARAM_INVALID,
                    "an executor that never was is 161002");
    }
    if (bytes != 0 && d.once_in(4))
        refused(run(bytes - 1, false, executor), acl::ACLNN_ERR_PARAM_INVALID, "a small workspace is 161002");
    if (bytes != 0 && d.once_in(4)) {
        prepare(memory);
        refused(acl::aclnnAvgPool2dBackward(nullptr, bytes, executor, nullptr), acl::ACLNN_ERR_PARAM_NULLPTR,
                "a null workspace is 161001");
    }
    const bool parallel = d.once_in(2);
    const std::uint64_t more = parallel ? acl::workspace_bytes(executor, workers.concurrency()) : bytes;
    const acl::aclnnStatus second = run(more, parallel, executor);
    if (memory.bad_pointer && !is_noop) {
        refused(second, acl::ACLNN_ERR_PARAM_NULLPTR, "tensors without memory are 161001");
        return;
    }
    require(second == acl::ACLNN_SUCCESS, "what was planned runs", details + std::to_string(second));
    require_intact(memory, details);
    const auto results = results_of(memory);
    const acl::aclnnStatus third = run(bytes, !parallel, executor);
    if (repeatable) {
        require(third == acl::ACLNN_SUCCESS, "a repeatable executor runs again", details);
        require_intact(memory, details);
        require(results_of(memory) == results, "workers do not change bits", details);
        require(acl::aclDestroyAclOpExecutor(executor) == acl::ACLNN_SUCCESS, "a repeatable executor is destroyed once",
                details);
        refused(run(bytes, false, executor), acl::ACLNN_ERR_PARAM_INVALID, "a destroyed executor is 161002");
    } else {
        refused(third, acl::ACLNN_ERR_PARAM_INVALID, "an executor is used up by a run");
    }
    if (is_noop) {
        require(results == results_of(memory), "nothing is written for nothing", details);
        return;
    }
    // The reference, on a copy of gradOutput that is rounded as cubeMathType says.
    const gk::tensor_layout four = acl::translation::nchw(gk::tensor_layout(grad_output.layout().shape));
    const test_tensor<T> rounded(four.shape);
    for (std::int64_t i = 0; i < rounded.count(); ++i) rounded[i] = grad_output.memory()[i];
    if constexpr (std::is_same_v<T, float>) {
        rounded.fill([&](std::int64_t i) {
            const float v = grad_output.memory().value(i);
            if (math == 0) return v;
            return math == 2 ? acl::translation::to_f16(v) : acl::translation::to_hf32(v);
        });
    }
    prepare(memory);
    const gk::status s = gk::ref::avg_pool_backward<T>(rounded.const_view(), attributes,
                                                       {grad_input.data(), acl::translation::nchw(in->view)});
    require(s.ok(), "the reference accepts what the operator accepts", details + gk::to_string(s));
    require(results_of(memory) == results, "bits are the reference's", details);
}

}  // namespace
}  // namespace gradkern_fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace gradkern_fuzz;
    decoder d(data, size);
    switch (d.integer(0, 3)) {
        case 0:
        case 1: fuzz_aclnn<float>(d, acl::ACL_FLOAT); break;
        case 2: fuzz_aclnn<gk::float16>(d, acl::ACL_FLOAT16); break;
        default: fuzz_aclnn<gk::bfloat16>(d, acl::ACL_BF16); break;
    }
    return 0;
}
