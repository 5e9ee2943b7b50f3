// Micro-kernels of depthwise layers whose planes lie as lines: lanes are neighbouring columns, rows of the tile are neighbouring
// outputs of a column. Windows slide along the rows, so that each vector is read once for all row taps,
//
//     c[i][j]  =  sum over segments e, k in [0, Taps), t in [0, Taps) of
//                     a[first + e.a + (i + k) * a_row + t + j] * b[e.b + (k * Taps + t) * lanes + j]
//
// without the terms of lines that are outside. Lanes meet weights of their own: what is outside along a line is a lane of -0 that
// meets a 1, since adding -0 changes no sum. Terms are added in the order of register_tile.hpp, so that the bits are the same.
#pragma once

#include <cstddef>
#include <cstdint>

#include <gradkern/detail/config.hpp>
#include <gradkern/detail/micro/bound.hpp>
#include <gradkern/detail/micro/tile_call.hpp>
#include <gradkern/detail/simd.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail {

/// Outputs of a column that a tile computes: they divide most planes evenly, and leave registers for a row tap's weights.
inline constexpr int lines_rows = 7;

/// Arguments of a kernel; offsets in floats.
template <class Real>
struct lines_call_of {
    const Real* a = nullptr;
    std::ptrdiff_t a_first = 0;       ///< to what the first tap of the first row reads, which may be outside
    std::ptrdiff_t a_row = 0;         ///< from line to line
    const k_segment* list = nullptr;  ///< plane taps; lengths are not read
    std::ptrdiff_t count = 0;
    const Real* b = nullptr;
    Real* c = nullptr;  ///< lines_rows lines of a vector, `c_row` apart
    std::ptrdiff_t c_row = 0;
    std::uint32_t inside = 0;  ///< a bit for each line from the first on
};
template <class Real>
using lines_function_of = void (*)(const lines_call_of<Real>&) noexcept;

using lines_function = lines_function_of<float>;

template <int Taps, class Real = float>
GRADKERN_NOINLINE void lines_tile(const lines_call_of<Real>& call) noexcept {
    using vec = simd::vec_of<Real>;
    constexpr bool keeps_weights = simd::lanes >= 16 && Taps == 3;  // in registers, of which AVX-512 has 32
    const std::ptrdiff_t a_row = call.a_row;
    const std::uint32_t inside = call.inside;
    vec acc[bound(lines_rows)];
    GRADKERN_UNROLL
    for (int i = 0; i < lines_rows; ++i) acc[i] = simd::zero<Real>();
    for (const k_segment* e = call.list; e != call.list + call.count; ++e) {
        const Real* const b = call.b + e->b;
        std::ptrdiff_t at = call.a_first + e->a;
        vec kept[bound(keeps_weights ? Taps * Taps : 1)];
        GRADKERN_UNROLL
        for (int i = 0; i < (keeps_weights ? Taps * Taps : 0); ++i)
            kept[i] = simd::keep(simd::load(b + i * simd::lanes_of<Real>));
        GRADKERN_UNROLL
        for (int line = 0; line < lines_rows + Taps - 1; ++line, at += a_row) {
            if ((inside >> line & 1) == 0) continue;
            const Real* const a = call.a + at;
            GRADKERN_UNROLL
            for (int t = 0; t < Taps; ++t) {
                const vec x = simd::keep(simd::load(a + t));  // g++ would load it again for each row tap
                GRADKERN_UNROLL
                for (int k = 0; k < Taps; ++k) {
                    if (line < k || line - k >= lines_rows) continue;
                    const int tap = k * Taps + t;
                    const vec w =
                        keeps_weights ? kept[keeps_weights ? tap : 0] : simd::load(b + tap * simd::lanes_of<Real>);
                    acc[line - k] = simd::fma(x, w, acc[line - k]);
                }
            }
        }
    }
    GRADKERN_UNROLL
    for (int i = 0; i < lines_rows; ++i) simd::store(call.c + i * call.c_row, acc[i]);
}

/// The kernel for windows of so many rows and columns; null: there is none. Vectors as long as a line of the cache cross the ends of two with
/// almost every load: windows of five and seven would take 0.62 to 0.9 of the time of channels in the lanes on planes up to 28x28 then, but
/// 1.1 to 1.4 on larger ones, and 7 KB of text in every operator.
template <class Real = float>
[[nodiscard]] constexpr lines_function_of<Real> lines_tile_for(std::int64_t taps) noexcept {
    if (taps == 3) return &lines_tile<3, Real>;
    if constexpr (simd::lanes < 16) {
        if (taps == 5) return &lines_tile<5, Real>;
        if (taps == 7) return &lines_tile<7, Real>;
    }
    return nullptr;
}

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END
