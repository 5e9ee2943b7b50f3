// The code of docs/pooling.md, docs/layouts.md and docs/shapes.md.
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iostream>
#include <numeric>
#include <string>
#include <vector>

#include <gradkern/error_text.hpp>
#include <gradkern/gradkern.hpp>

#include "checks.hpp"

using namespace gradkern;

using three = std::array<float, 3>;
using six = std::array<float, 6>;

// [avg_pool]
// Means of two neighbours of 1, 2, 3, 4, 5, 6: dst is 1.5, 3.5, 5.5.
status average(const six& src, three& dst) {
    return avg_pool<float>({src.data(), {1, 6, 1}}, {.kernel = {2}, .strides = {2}}, {dst.data(), {1, 3, 1}});
}
// [/avg_pool]

// [avg_pool_backward]
// diff_dst is 2, 4, 6: diff_src is 1, 1, 2, 2, 3, 3.
status average_gradient(const three& diff_dst, six& diff_src) {
    return avg_pool_backward<float>({diff_dst.data(), {1, 3, 1}}, {.kernel = {2}, .strides = {2}},
                                    {diff_src.data(), {1, 6, 1}});
}
// [/avg_pool_backward]

// [lp_pool]
// Norms of (3, 4), (6, 8) and (5, 12): dst is 5, 10, 13.
status norm(const six& src, three& dst) {
    return lp_pool<float>({src.data(), {1, 6, 1}}, {.kernel = {2}, .strides = {2}}, {dst.data(), {1, 3, 1}});
}
// [/lp_pool]

// [lp_pool_backward]
// diff_dst is 5, 10, 13: diff_src is 3, 4, 6, 8, 5, 12. `dst` is the result of lp_pool.
status norm_gradient(const six& src, const three& dst, const three& diff_dst, six& diff_src) {
    return lp_pool_backward<float>({src.data(), {1, 6, 1}}, {dst.data(), {1, 3, 1}}, {diff_dst.data(), {1, 3, 1}},
                                   {.kernel = {2}, .strides = {2}}, {diff_src.data(), {1, 6, 1}});
}
// [/lp_pool_backward]

// [max_pool]
// Maxima of two neighbours of 1, 3, 2, 5, 4, 0: dst is 3, 5, 4, and indices are 1, 3, 4. Without `indices` none are written.
status maximum(const six& src, three& dst, std::array<std::int64_t, 3>& indices) {
    return max_pool<float>({src.data(), {1, 6, 1}}, {.kernel = {2}, .strides = {2}}, {dst.data(), {1, 3, 1}},
                           {indices.data(), {1, 3, 1}});
}
// [/max_pool]

// [max_pool_backward]
// diff_dst is 1, 2, 3: diff_src is 0, 1, 0, 2, 3, 0. Nothing of the forward pass is needed but its input.
status maximum_gradient(const six& src, const three& diff_dst, six& diff_src) {
    return max_pool_backward<float>({src.data(), {1, 6, 1}}, {diff_dst.data(), {1, 3, 1}},
                                    {.kernel = {2}, .strides = {2}}, {diff_src.data(), {1, 6, 1}});
}
// [/max_pool_backward]

// [max_pool_backward_from_indices]
// The same from indices: no window, no stride, no input.
status scattered(const three& diff_dst, const std::array<std::int64_t, 3>& indices, six& diff_src) {
    return max_pool_backward_from_indices<float>({diff_dst.data(), {1, 3, 1}}, {indices.data(), {1, 3, 1}}, {},
                                                 {diff_src.data(), {1, 6, 1}});
}
// [/max_pool_backward_from_indices]

// [view]
// Channels 2 to 4 of an NCX tensor of 8 channels, every second row of them: a shape, and strides in elements.
tensor_view<const float> view_of(const float* data) {
    const std::int64_t height = 6, width = 5, plane = height * width;
    return {data + 2 * plane, {{4, 3, height / 2, width}, {8 * plane, plane, 2 * width, 1}}};
}
// [/view]

// [infer]
// 112 x 112 pixels: (1, 64, 56, 56) for 3 x 3 windows, stride 2, one element of padding on each side.
result<extents> pooled(const extents& src) {
    return infer_max_pool(src, {.kernel = {3, 3},
                                .strides = {2, 2},
                                .pads_begin = {1, 1},
                                .pads_end = {1, 1},
                                .data_format = data_format::ncx});
}
// [/infer]

// [same]
// Padding as TensorFlow's "SAME": ceil(112 / 2) windows.
constexpr max_pool_attributes same{
    .kernel = {3, 3}, .strides = {2, 2}, .auto_pad = auto_pad::same_upper, .data_format = data_format::ncx};
static_assert(infer_max_pool({1, 64, 112, 112}, same)->operator[](2) == 56);
// [/same]

// [error]
// A kernel of 7 does not fit into 4 + 1 + 1 pixels. `message` becomes the error's text.
bool too_large(std::string& message) {
    const auto shape =
        infer_max_pool({1, 4, 4, 1}, {.kernel = {7, 7}, .strides = {1, 1}, .pads_begin = {1, 1}, .pads_end = {1, 1}});
    if (!shape) message = to_string(shape.error());
    return !shape;
}
// [/error]

int main() {
    checks check;
    three y{};
    six dx{};
    std::array<std::int64_t, 3> indices{};

    check({"avg_pool", average({1, 2, 3, 4, 5, 6}, y), y == three{1.5, 3.5, 5.5}});
    check({"avg_pool_backward", average_gradient({2, 4, 6}, dx), dx == six{1, 1, 2, 2, 3, 3}});
    const six x{3, 4, 6, 8, 5, 12};
    check({"lp_pool", norm(x, y), y == three{5, 10, 13}});
    check({"lp_pool_backward", norm_gradient(x, y, {5, 10, 13}, dx), true});
    for (std::size_t i = 0; i < 6; ++i) check({"lp_pool_backward", {}, std::abs(dx[i] - x[i]) < 1e-5F});
    check({"max_pool", maximum({1, 3, 2, 5, 4, 0}, y, indices), y == three{3, 5, 4} && indices[1] == 3});
    check({"max_pool_backward", maximum_gradient({1, 3, 2, 5, 4, 0}, {1, 2, 3}, dx), dx == six{0, 1, 0, 2, 3, 0}});
    dx = {};
    check({"max_pool_backward_from_indices", scattered({1, 2, 3}, indices, dx), dx == six{0, 1, 0, 2, 3, 0}});

    std::vector<float> tensor(4 * 8 * 6 * 5);
    std::iota(tensor.begin(), tensor.end(), 0.0F);
    std::vector<float> out(4 * 3 * 3 * 5);
    check(
        {"view",
         avg_pool<float>(view_of(tensor.data()), {.kernel = {1, 1}, .strides = {1, 1}, .data_format = data_format::ncx},
                         {out.data(), {4, 3, 3, 5}}),
         out[0] == 60 && out[5] == 70 && out[15] == 90 && out[45] == 300});
    const auto shape = pooled({1, 64, 112, 112});
    check({"infer", {}, shape && *shape == extents{1, 64, 56, 56}});
    std::string message;
    check({"error", {}, too_large(message)});
    std::cout << message << '\n';
    return check.failures;
}
