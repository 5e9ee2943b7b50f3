// Plans behind one interface, and a problem of the C interface in the words of the C++ headers. For one instruction set:
// the build compiles it once for each, with hidden symbols.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>
#include <span>
#include <string_view>
#include <type_traits>

#include <gradkern/dynamic.hpp>

#include "kernels.hpp"

namespace gradkern_runtime {

namespace gk = gradkern;

/// A plan of any operator.
class any_plan {
public:
    virtual ~any_plan() = default;
    [[nodiscard]] virtual std::size_t workspace_bytes(std::ptrdiff_t workers) const noexcept = 0;
    [[nodiscard]] virtual gk::status run(void* const* tensors, std::span<std::byte> workspace,
                                         gk::executor_ref executor) const noexcept = 0;
    virtual std::size_t describe(std::span<char> text) const noexcept = 0;
};

/// A plan whose run(plan, tensors, workspace, executor) is `Run`.
template <class Plan, class Run>
class plan_of final : public any_plan {
public:
    plan_of(const Plan& plan, const Run& run) noexcept : plan_(plan), run_(run) {}
    [[nodiscard]] std::size_t workspace_bytes(std::ptrdiff_t workers) const noexcept override {
        return plan_.workspace_bytes(workers);
    }
    [[nodiscard]] gk::status run(void* const* tensors, std::span<std::byte> workspace,
                                 gk::executor_ref executor) const noexcept override {
        return run_(plan_, tensors, workspace, executor);
    }
    std::size_t describe(std::span<char> text) const noexcept override { return plan_.describe(text); }

private:
    Plan plan_;
    Run run_;
};

/// A new plan, or its error. A null plan without an error: there is no memory.
struct made_plan {
    any_plan* plan = nullptr;
    gk::error error{};
};
template <class Plan, class Run>
[[nodiscard]] made_plan keep(const gk::result<Plan>& planned, const Run& run) noexcept {
    if (!planned) return {nullptr, planned.error()};
    return {new (std::nothrow) plan_of<Plan, Run>(*planned, run), {}};
}

/// An enumerator from its number; what names none stays so, and is refused.
template <class Enum>
[[nodiscard]] constexpr Enum enumerator(std::int32_t number) noexcept {
    return static_cast<Enum>(number < 0 || number > 255 ? 255 : number);
}

/// The members of a problem in C++. Lists that are too long, or have fewer entries than none, keep their number of entries,
/// which operators refuse.
[[nodiscard]] inline gk::extents extents_of(const gradkern_list& list) noexcept {
    gk::extents e = gk::extents::filled(static_cast<std::size_t>(list.count), 0);
    for (std::size_t i = 0; i < 3 && i < e.rank(); ++i) e[i] = list.values[i];
    return e;
}
[[nodiscard]] inline gk::extents extents_of(const std::int64_t (&values)[5], std::int32_t rank) noexcept {
    gk::extents e = gk::extents::filled(static_cast<std::size_t>(rank < 0 ? 0 : rank), 0);
    for (std::size_t i = 0; i < 5 && i < e.rank(); ++i) e[i] = values[i];
    return e;
}
[[nodiscard]] inline gk::tensor_layout layout_of(const gradkern_tensor& t) noexcept {
    const gk::extents shape = extents_of(t.shape, t.rank);
    return t.has_strides != 0 ? gk::tensor_layout(shape, extents_of(t.strides, t.rank)) : gk::tensor_layout(shape);
}
/// Type and layout of a tensor. One that is absent has the type of the first.
[[nodiscard]] inline gk::dynamic_layout typed(const gradkern_problem& p, int i) noexcept {
    const gradkern_tensor& t = p.tensors[i];
    return {enumerator<gk::data_type>((t.rank == 0 ? p.tensors[0] : t).type), layout_of(t)};
}
template <class Attributes>
[[nodiscard]] Attributes attributes_of(const gradkern_problem& p) noexcept {
    Attributes a;
    a.data_format = enumerator<gk::data_format>(p.data_format);
    if constexpr (requires { a.strides; }) {
        a.strides = extents_of(p.strides);
        a.dilations = extents_of(p.dilations);
        a.pads_begin = extents_of(p.pads_begin);
        a.pads_end = extents_of(p.pads_end);
        a.auto_pad = enumerator<gk::auto_pad>(p.auto_pad);
    }
    if constexpr (requires { a.kernel; }) a.kernel = extents_of(p.kernel);
    if constexpr (requires { a.weights_format; }) {
        a.weights_format = enumerator<gk::weights_format>(p.weights_format);
        a.groups = p.groups;
        a.output_padding = extents_of(p.output_padding);
    }
    if constexpr (requires { a.rounding_type; }) a.rounding_type = enumerator<gk::rounding_type>(p.rounding);
    if constexpr (requires { a.exclude_pad; }) {
        a.exclude_pad = p.exclude_pad != 0;
        if (p.has_divisor_override != 0) a.divisor_override = p.divisor_override;
    }
    if constexpr (requires { a.ignore_nan; }) a.ignore_nan = p.ignore_nan != 0;
    if constexpr (requires { a.index_base; }) {
        a.index_base = enumerator<gk::index_base>(p.index_base);
        a.storage_order =
            p.indices_are_column_major != 0 ? gk::storage_order::column_major : gk::storage_order::row_major;
    }
    return a;
}
[[nodiscard]] inline gk::plan_options options_of(const gradkern_problem& p) noexcept {
    gk::plan_options o;
    o.output = enumerator<gk::output_mode>(p.output);
    o.precision = enumerator<gk::precision>(p.precision);
    o.summation = enumerator<gk::summation>(p.summation);
    o.scratch = p.least_scratch != 0 ? gk::scratch_use::least : gk::scratch_use::fast;
    if (p.algorithm != nullptr) {
        const std::string_view name = p.algorithm;
        int i = 0;
        while (i <= static_cast<int>(gk::last_algorithm) && gk::name_of(static_cast<gk::algorithm>(i)) != name) ++i;
        o.algorithm = static_cast<gk::algorithm>(i);  // one past the last: refused
    }
    return o;
}

/// Plans of the two families, each in a file of its own.
[[nodiscard]] made_plan make_convolution(const gradkern_problem& p) noexcept;
[[nodiscard]] made_plan make_conv_transpose(const gradkern_problem& p) noexcept;
[[nodiscard]] made_plan make_pool(const gradkern_problem& p) noexcept;

}  // namespace gradkern_runtime
