// Golden rows of the convolution gradients, computed by hand on one axis. They must not depend on the layout: one to three
// spatial axes (leading ones of size 1), NCX and NXC, OIX and XIO.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <gradkern/attributes.hpp>
#include <gradkern/half.hpp>
#include <gradkern/status.hpp>
#include <gradkern/tensor_view.hpp>

namespace gradkern_test {

/// The rank and layouts of a problem of one spatial axis.
struct variant {
    std::size_t rank = 1;
    gradkern::data_format data_format = gradkern::data_format::ncx;
    gradkern::weights_format weights_format = gradkern::weights_format::oix;

    [[nodiscard]] bool is_ncx() const { return data_format == gradkern::data_format::ncx; }
    [[nodiscard]] bool is_oix() const { return weights_format == gradkern::weights_format::oix; }

    /// An attribute vector: `leading` on the axes of size 1.
    [[nodiscard]] gradkern::extents axes(std::int64_t value, std::int64_t leading) const {
        gradkern::extents e = gradkern::extents::filled(rank, leading);
        e[rank - 1] = value;
        return e;
    }
    /// Shape of an activation.
    [[nodiscard]] gradkern::extents activation(std::int64_t n, std::int64_t c, std::int64_t x) const {
        gradkern::extents e{n};
        if (is_ncx()) e.push_back(c);
        for (std::size_t i = 1; i < rank; ++i) e.push_back(1);
        e.push_back(x);
        if (!is_ncx()) e.push_back(c);
        return e;
    }
    /// Shape of a filter.
    [[nodiscard]] gradkern::extents filter(std::int64_t o, std::int64_t i, std::int64_t k) const {
        gradkern::extents e;
        if (is_oix()) e = {o, i};
        for (std::size_t a = 1; a < rank; ++a) e.push_back(1);
        e.push_back(k);
        if (!is_oix()) {
            e.push_back(i);
            e.push_back(o);
        }
        return e;
    }
    /// Index of the spatial axis in use in the shape of an activation.
    [[nodiscard]] int spatial_axis() const { return static_cast<int>(is_ncx() ? rank + 1 : rank); }

    /// Values given in the order (n, c, x), in the order of the format.
    [[nodiscard]] std::vector<float> arrange_activation(const std::vector<float>& ncx, std::int64_t n, std::int64_t c,
                                                        std::int64_t x) const {
        std::vector<float> out = ncx;
        if (is_ncx()) return out;
        for (std::int64_t b = 0; b < n; ++b)
            for (std::int64_t ch = 0; ch < c; ++ch)
                for (std::int64_t p = 0; p < x; ++p) out[at((b * x + p) * c + ch)] = ncx[at((b * c + ch) * x + p)];
        return out;
    }
    /// Values given in the order (o, i, k), in the order of the format.
    [[nodiscard]] std::vector<float> arrange_filter(const std::vector<float>& oix, std::int64_t o, std::int64_t i,
                                                    std::int64_t k) const {
        std::vector<float> out = oix;
        if (is_oix()) return out;
        for (std::int64_t a = 0; a < o; ++a)
            for (std::int64_t b = 0; b < i; ++b)
                for (std::int64_t t = 0; t < k; ++t) out[at((t * i + b) * o + a)] = oix[at((a * i + b) * k + t)];
        return out;
    }
    [[nodiscard]] std::string name() const {
        return std::to_string(rank) + "-D " + (is_ncx() ? "NCX " : "NXC ") + (is_oix() ? "OIX" : "XIO");
    }

private:
    [[nodiscard]] static std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }
};

/// Calls fn(variant) for all twelve.
template <class F>
void for_each_variant(const F& fn) {
    for (std::size_t rank = 1; rank <= 3; ++rank)
        for (const auto d : {gradkern::data_format::ncx, gradkern::data_format::nxc})
            for (const auto w : {gradkern::weights_format::oix, gradkern::weights_format::xio}) fn(variant{rank, d, w});
}

/// Whether T represents all of these numbers.
template <class T>
[[nodiscard]] bool exact_in(const std::vector<float>& numbers) {
    for (const float v : numbers) {
        T element{};
        gradkern::detail::store_element(&element, v);
        const float back = gradkern::detail::load_element(&element);
        if (!(back == v || (std::isnan(back) && std::isnan(v)))) return false;
    }
    return true;
}

/// One call of convolution_backward_data with N = 1. Numbers are in the order (n, c, x) and (oc, ic/g, k).
struct backward_data_row {
    std::string_view name;
    std::int64_t groups, oc, icg, o, k, stride, pad_begin, pad_end;
    gradkern::auto_pad auto_pad;
    std::optional<std::int64_t> size;  ///< of the result, as dst_shape
    std::optional<std::int64_t> output_padding;
    std::vector<float> diff_dst, weights;
    gradkern::errc code;
    std::vector<float> diff_src;
};

/// Rows 21 to 29.
[[nodiscard]] inline std::vector<backward_data_row> backward_data_rows() {
    using gradkern::auto_pad;
    using gradkern::errc;
    constexpr float inf = std::numeric_limits<float>::infinity();
    constexpr float nan = std::numeric_limits<float>::quiet_NaN();
    const std::vector<float> y{1, 2, 3};
    const std::vector<float> w{1, 10, 100};
    const std::vector<float> seven{1, 10, 102, 20, 203, 30, 300};
    const std::vector<float> eight{1, 10, 102, 20, 203, 30, 300, 0};
    const std::vector<float> twelve{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
    const std::vector<float> kernel4{1, 10, 100, 1000};
    return {
        {"21", 1, 1, 1, 3, 4, 1, 0, 0, auto_pad::same_upper, 3, {}, y, kernel4, errc::ok, {12, 123, 1230}},
        {"22", 1, 1, 1, 3, 4, 1, 0, 0, auto_pad::same_lower, 3, {}, y, kernel4, errc::ok, {123, 1230, 2300}},
        {"23, size 7", 1, 1, 1, 3, 3, 2, 0, 0, auto_pad::none, 7, {}, y, w, errc::ok, seven},
        {"23, size 8", 1, 1, 1, 3, 3, 2, 0, 0, auto_pad::none, 8, {}, y, w, errc::ok, eight},
        {"23, size 6", 1, 1, 1, 3, 3, 2, 0, 0, auto_pad::none, 6, {}, y, w, errc::invalid_shape, {}},
        {"23, size 9", 1, 1, 1, 3, 3, 2, 0, 0, auto_pad::none, 9, {}, y, w, errc::invalid_shape, {}},
        {"24", 1, 1, 1, 3, 3, 2, 5, 5, auto_pad::valid, 8, {}, y, w, errc::ok, eight},
        {"25, op absent", 1, 1, 1, 3, 3, 2, 0, 0, auto_pad::none, {}, {}, y, w, errc::ok, seven},
        {"25, op 0", 1, 1, 1, 3, 3, 2, 0, 0, auto_pad::none, {}, 0, y, w, errc::ok, seven},
        {"25, op 1", 1, 1, 1, 3, 3, 2, 0, 0, auto_pad::none, {}, 1, y, w, errc::ok, eight},
        {"25, op 2", 1, 1, 1, 3, 3, 2, 0, 0, auto_pad::none, {}, 2, y, w, errc::invalid_argument, {}},
        {"26", 2, 4, 3, 1, 1, 1, 0, 0, auto_pad::none, 1, {}, {1, 2, 3, 4}, twelve, errc::ok, {9, 12, 15, 61, 68, 75}},
        {"27, OC 3",
         2,
         3,
         3,
         1,
         1,
         1,
         0,
         0,
         auto_pad::none,
         1,
         {},
         y,
         {1, 2, 3, 4, 5, 6, 7, 8, 9},
         errc::invalid_shape,
         {}},
        {"28", 1, 1, 1, 2, 2, 1, 0, 0, auto_pad::none, 3, {}, {0, 1}, {0, inf}, errc::ok, {0, nan, inf}},
        {"29",
         1,
         1,
         1,
         2,
         2,
         4,
         0,
         0,
         auto_pad::same_upper,
         8,
         {},
         {1, 2},
         {1, 10},
         errc::ok,
         {1, 10, 0, 0, 2, 20, 0, 0}},
    };
}

/// One call of conv_transpose_backward_weights. Numbers are in the order (n, c, x) and (oc/g, ic, k).
struct backward_filter_row {
    std::string_view name;
    std::int64_t n, groups, ic, oc, o, size, k, stride, pad_begin, pad_end;
    std::vector<float> src, diff_dst, diff_weights;
};

/// Rows 30 to 32 and 34.
[[nodiscard]] inline std::vector<backward_filter_row> backward_filter_rows() {
    const std::vector<float> x{1, 2, 3};
    return {
        {"30, size 7",
         1,
         1,
         1,
         1,
         3,
         7,
         3,
         2,
         0,
         0,
         x,
         {1, 1e1F, 1e2F, 1e3F, 1e4F, 1e5F, 1e6F},
         {30201, 302010, 3020100}},
        {"30, size 8",
         1,
         1,
         1,
         1,
         3,
         8,
         3,
         2,
         0,
         0,
         x,
         {1, 1e1F, 1e2F, 1e3F, 1e4F, 1e5F, 1e6F, 1e7F},
         {30201, 302010, 3020100}},
        {"31", 1, 1, 1, 1, 3, 5, 3, 2, 1, 1, x, {1, 1e1F, 1e2F, 1e3F, 1e4F}, {3020, 30201, 2010}},
        {"32",
         1,
         2,
         4,
         6,
         1,
         1,
         1,
         1,
         0,
         0,
         {1, 2, 3, 4},
         {1, 1e1F, 1e2F, 1e3F, 1e4F, 1e5F},
         {1, 2, 3000, 4000, 10, 20, 30000, 40000, 100, 200, 3e5F, 4e5F}},
        {"34", 0, 2, 4, 6, 3, 7, 3, 2, 0, 0, {}, {}, std::vector<float>(3 * 4 * 3, 0.0F)},
    };
}

}  // namespace gradkern_test
