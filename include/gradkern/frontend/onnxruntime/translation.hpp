// Translates attributes of ONNX for the core, and errors of the core back.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include <gradkern/attributes.hpp>
#include <gradkern/detail/config.hpp>
#include <gradkern/frontend/onnxruntime/attributes.hpp>
#include <gradkern/shape/check.hpp>
#include <gradkern/status.hpp>
#include <gradkern/tensor_view.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace onnxruntime {

namespace translation {

/// One name in both vocabularies.
struct rename {
    std::string_view core{};
    std::string_view onnx{};
};

/// The core's names of tensors and attributes that have other names in ONNX. No operator uses a core name for two things.
inline constexpr std::array<rename, 8> renames{{{"diff_dst", "dY"},
                                                {"diff_src", "dX"},
                                                {"src", "X"},
                                                {"weights", "W"},
                                                {"diff_weights", "dW"},
                                                {"diff_bias", "dB"},
                                                {"kernel", "kernel_shape"},
                                                {"groups", "group"}}};

/// The name in ONNX of a tensor or attribute of the core.
[[nodiscard]] constexpr std::string_view onnx_name(std::string_view core) noexcept {
    for (const rename& r : renames)
        if (core == r.core) return r.onnx;
    return core;
}

/// A core error with ONNX's names. `swaps_filter`: the core has the first two axes of W and dW in the other order.
[[nodiscard]] constexpr error translate(error e, std::string_view op, bool swaps_filter = false) noexcept {
    if (e.code == errc::ok) return e;
    e.op = op;
    e.argument = onnx_name(e.argument);
    e.other = onnx_name(e.other);
    if (swaps_filter && (e.argument == "W" || e.argument == "dW") && (e.axis == 0 || e.axis == 1)) e.axis = 1 - e.axis;
    return e;
}

/// An ONNX attribute vector of `count` entries, or none where it has a default.
constexpr void length(shape::operator_checks& checks, std::string_view name, const ints& v, std::size_t count,
                      bool required = false) noexcept {
    if (v.empty() && !required) return;
    checks.require_equal(errc::invalid_argument, name, -1, static_cast<std::int64_t>(v.size()),
                         static_cast<std::int64_t>(count), {.what = quantity::entries});
}

/// Every entry is at least `minimum`.
constexpr void entries(shape::operator_checks& checks, std::string_view name, const ints& v, std::int64_t minimum,
                       errc code = errc::invalid_argument) noexcept {
    for (std::size_t i = 0; i < v.values().size(); ++i)
        checks.require_at_least(code, name, static_cast<int>(i), v.values()[i], minimum);
}

/// An ONNX flag: 0 or 1.
constexpr void flag(shape::operator_checks& checks, std::string_view name, std::int64_t value) noexcept {
    constexpr remark words{.what = quantity::word, .why = "0 or 1"};
    checks.require_at_least(errc::invalid_argument, name, -1, value, 0, words);
    checks.require(value <= 1, errc::invalid_argument, name, -1, value, expectation::at_most, 1, words);
}

/// The attributes that all windows have, with their defaults, in the core's form.
struct window {
    extents kernel{};
    extents strides{};
    extents dilations{};
    extents pads_begin{};
    extents pads_end{};
    gradkern::auto_pad auto_pad = gradkern::auto_pad::none;
};

/// Check 1, words and lengths: auto_pad, kernel_shape, strides, pads, dilations.
template <class Attributes>
constexpr window read_window(shape::operator_checks& checks, const Attributes& a, std::size_t r,
                             bool kernel_required) noexcept {
    window w;
    constexpr std::string_view words = "NOTSET, VALID, SAME_UPPER or SAME_LOWER";
    checks.known_word(a.auto_pad.read(w.auto_pad), "auto_pad", words);
    checks.word("auto_pad", w.auto_pad, gradkern::auto_pad::valid, words);
    length(checks, "kernel_shape", a.kernel_shape, r, kernel_required);
    length(checks, "strides", a.strides, r);
    if (w.auto_pad == gradkern::auto_pad::none) length(checks, "pads", a.pads, 2 * r);
    length(checks, "dilations", a.dilations, r);
    if (!checks.ok()) return w;
    w.kernel = a.kernel_shape.part(0, r, 1);
    w.strides = a.strides.part(0, r, 1);
    w.dilations = a.dilations.part(0, r, 1);
    if (w.auto_pad == gradkern::auto_pad::none) {
        w.pads_begin = a.pads.part(0, r, 0);
        w.pads_end = a.pads.part(r, r, 0);
    }
    return w;
}

/// Check 2, values: kernel_shape, strides, dilations, pads.
template <class Attributes>
constexpr void window_values(shape::operator_checks& checks, const Attributes& a) noexcept {
    entries(checks, "kernel_shape", a.kernel_shape, 1);
    entries(checks, "strides", a.strides, 1);
    entries(checks, "dilations", a.dilations, 1);
    entries(checks, "pads", a.pads, 0);
}

/// The name of an operator, as a template argument.
struct operator_name {
    std::string_view text{};
};
inline constexpr operator_name average_pool_grad{"AveragePoolGrad"};

/// A plan of the core whose errors use ONNX's names.
template <class Core, const operator_name& Op>
class plan {
public:
    plan() noexcept = default;
    /// From a plan of the core.
    explicit plan(const Core& core) noexcept : core_(core) {}

    /// Bytes of workspace that let `workers` tasks run at once; any workspace of at least workspace_bytes(1) is accepted.
    [[nodiscard]] std::size_t workspace_bytes(std::ptrdiff_t workers = 1) const noexcept {
        return core_.workspace_bytes(workers);
    }
    /// The core's line about path, blocks and instruction set, cut to the span; returns the length of the whole line.
    std::size_t describe(std::span<char> text) const noexcept { return core_.describe(text); }

protected:
    template <class... Arguments>
    [[nodiscard]] status execute(const Arguments&... arguments) const noexcept {
        return translate(core_.run(arguments...).error(), Op.text);
    }

private:
    Core core_{};
};

}  // namespace translation

}  // namespace onnxruntime
GRADKERN_ISA_NAMESPACE_END
