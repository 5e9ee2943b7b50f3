// Shared by the programs of this folder: tensors of small integers, and a loop over the taps of two-dimensional windows.
// Each program writes its plain loops with these, in the layout of its library.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iostream>
#include <string_view>
#include <vector>

#include <gradkern/error_text.hpp>
#include <gradkern/tensor_view.hpp>

namespace plain {

using size = std::int64_t;

/// A dense tensor of four axes.
struct tensor {
    std::array<size, 4> shape;
    std::vector<float> values;

    /// Zeros.
    explicit tensor(const std::array<size, 4>& s)
        : shape(s), values(static_cast<std::size_t>(s[0] * s[1] * s[2] * s[3]), 0.0F) {}
    /// Integers from -3 to 3, so that sums of their products are exact in any order.
    tensor(const std::array<size, 4>& s, unsigned seed) : tensor(s) {
        for (float& v : values) {
            seed = seed * 1664525U + 1013904223U;
            v = static_cast<float>(seed >> 16U & 0xffffU) * 7.0F / 65536.0F;
            v = std::floor(v) - 3.0F;
        }
    }

    float& operator()(size a, size b, size c, size d) {
        return values[static_cast<std::size_t>(((a * shape[1] + b) * shape[2] + c) * shape[3] + d)];
    }
    [[nodiscard]] float* data() { return values.data(); }
    [[nodiscard]] gradkern::extents extents() const { return {shape[0], shape[1], shape[2], shape[3]}; }
    [[nodiscard]] gradkern::tensor_view<float> view() { return {values.data(), extents()}; }
};

/// The windows of one axis: `count` of them over `length` elements, the first `pad` elements before the axis.
struct windows {
    size length, count, kernel, stride = 1, pad = 0, dilation = 1;

    [[nodiscard]] size at(size o, size k) const { return o * stride - pad + k * dilation; }
    [[nodiscard]] bool inside(size p) const { return 0 <= p && p < length; }
};

/// Calls visit(oh, ow, kh, kw, ih, iw) for every tap of every window that lies inside the image.
template <class Visit>
void for_each_tap(const windows& h, const windows& w, Visit visit) {
    for (size oh = 0; oh < h.count; ++oh)
        for (size ow = 0; ow < w.count; ++ow)
            for (size kh = 0; kh < h.kernel; ++kh)
                for (size kw = 0; kw < w.kernel; ++kw)
                    if (h.inside(h.at(oh, kh)) && w.inside(w.at(ow, kw)))
                        visit(oh, ow, kh, kw, h.at(oh, kh), w.at(ow, kw));
}

/// Collects failures.
class report {
public:
    /// Fails unless the call succeeded.
    void succeeded(std::string_view name, const gradkern::status& s) {
        if (!s) fail(name) << s << '\n';
    }
    /// Fails unless the condition holds.
    void holds(std::string_view name, bool condition) {
        if (!condition) fail(name) << "does not hold\n";
    }
    /// Fails unless `got` equals `wanted` up to a few roundings.
    void equal(std::string_view name, const std::vector<float>& got, const std::vector<float>& wanted) {
        if (got.size() != wanted.size()) fail(name) << got.size() << " numbers, not " << wanted.size() << '\n';
        for (std::size_t i = 0; i < got.size() && i < wanted.size(); ++i) {
            const bool same = got[i] == wanted[i] || std::abs(got[i] - wanted[i]) <= 1e-6F * std::abs(wanted[i]);
            if (same || (std::isnan(got[i]) && std::isnan(wanted[i]))) continue;
            fail(name) << "element " << i << " is " << got[i] << ", not " << wanted[i] << '\n';
            return;
        }
    }
    /// The exit status.
    [[nodiscard]] int result() const { return failed_ ? 1 : 0; }

private:
    std::ostream& fail(std::string_view name) {
        failed_ = true;
        return std::cerr << name << ": ";
    }
    bool failed_ = false;
};

}  // namespace plain
