// Tensors of a 16-bit type that another library defines, without a copy.
#include <array>
#include <cstdint>
#include <iostream>

#include <gradkern/error_text.hpp>
#include <gradkern/gradkern.hpp>

// [element_traits]
namespace theirs {
struct half {  // Eigen::half, c10::Half, Ort::Float16_t, ...: two bytes that hold an IEEE binary16
    std::uint16_t bits;
};
}  // namespace theirs

template <>
struct gradkern::element_traits<theirs::half> : gradkern::f16_storage {};  // bf16_storage for a bfloat16
// [/element_traits]

int main() {
    const std::array<theirs::half, 4> src{{{0x3c00}, {0x4000}, {0x4200}, {0x4400}}};  // 1, 2, 3, 4
    std::array<theirs::half, 2> dst{};
    const gradkern::status s = gradkern::avg_pool<theirs::half>(
        {src.data(), {1, 4, 1}}, {.kernel = {2}, .strides = {2}}, {dst.data(), {1, 2, 1}});
    if (!s) {
        std::cerr << s << '\n';
        return 1;
    }
    std::cout << std::hex << dst[0].bits << ' ' << dst[1].bits << '\n';  // 3e00 4300: 1.5 and 3.5
    return dst[0].bits == 0x3e00 && dst[1].bits == 0x4300 ? 0 : 1;
}
