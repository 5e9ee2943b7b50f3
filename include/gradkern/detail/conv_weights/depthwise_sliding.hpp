// depthwise_sliding: one channel a group; each number is read once for all column taps.
//
//   loops      tap_rows.hpp down to lines; then line > plane tap > three row taps > vector of lanes, of all panels of a
//              task where they are read in place > output, whose terms go to the sums of all column taps
//              (micro/sliding_sums.hpp)
//   lanes      groups; a last panel shares lanes with the one before, so that its vectors are whole and stay in place
//   taken      windows of three columns, neither dilated nor of a stride above two
//   gains      over depthwise, f32, one image, Sapphire Rapids, AVX-512, g++ 12 -O2, both forced by name: x3d_dw_108
//              NXC 0.96 -> 0.70 ms, xception_sep_256 NCX 0.93 -> 0.78. Small planes of stride 2 lost until sums of
//              borders stayed in registers, too. Zen 5, bf16 (bench/LIMITS.md of 7159cb5): 3x3 144@56 2.1 -> 0.46,
//              stride 2 0.74 -> 0.19
//   zoo        21 layers: depthwise 3x3 and 3x3x3
//   delete     when depthwise reads each number once for all column taps
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include <gradkern/detail/config.hpp>
#include <gradkern/detail/conv_weights/depthwise.hpp>
#include <gradkern/detail/micro/sliding_sums.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail::conv_weights {

[[nodiscard]] GRADKERN_COLD constexpr plan make_depthwise_sliding(const problem& p, algorithm name) noexcept {
    const bool in_place = p.activations != activations::packed_16bit && p.has_neighbouring_channels();
    return plan_tap_rows(p, name, p.real.lanes, in_place, p.real.lanes, target.weight_gradients.sums_of_group_taps);
}

[[nodiscard]] GRADKERN_COLD constexpr bool fits_depthwise_sliding(const problem& p) noexcept {
    const shape::axis& columns = p.axes[2];
    return p.is_depthwise() && columns.kernel == sliding_sum_taps && columns.dilation == 1 &&
           columns.stride <= most_sliding_stride && is_bounded(make_depthwise_sliding(p, algorithm::depthwise_sliding));
}

/// Adds the lines of some rows. Whatever the types of the tensors: compiled once.
template <class Real>
GRADKERN_NOINLINE void add_sliding_lines(const plan& p, const plane_lines<Real>& l,
                                         const sliding_sums_kernels_of<Real>& kernels, Real* sum) noexcept {
    const shape::tap_sequence planes = p.axes[0].inside_taps(l.at.d);
    const shape::axis& columns = p.axes[2];
    const std::int64_t outputs = l.chunk.columns();
    const std::int64_t first = columns.position(l.chunk.first_column, 0);
    const std::int64_t look_back = (sliding_sum_taps - 1) / columns.stride;
    const std::int64_t whole =
        std::clamp((columns.stride - 1 - first) / columns.stride, look_back, outputs + look_back);
    sliding_sums_call_of<Real> call{
        .a = l.large,
        .b = l.small,
        .a_step = l.stride[4],
        .b_step = l.column_step,
        .a_ahead = p.axes[1].stride_in(l.stride[3]),
        .b_ahead = l.line_step,
        .columns = columns.large,
        .first = first,
        .outputs = outputs,
        .whole = whole,
        .whole_end = std::max(whole, std::min(outputs, (columns.large - first) / columns.stride))};
    const auto add_line = kernels[static_cast<std::size_t>(columns.stride - 1)];
    for (std::int64_t line = l.at.h; line < l.at.h + l.lines; ++line) {
        const shape::tap_sequence lines = p.axes[1].inside_taps(line);
        for (std::int64_t d = planes.first; d < planes.first + planes.count; ++d) {
            const std::int64_t plane = l.at.n * l.stride[0] - l.origin + p.axes[0].position(l.at.d, d) * l.stride[2];
            for (std::int64_t t = 0; t < lines.count; t += sliding_sum_lines) {
                call.b_row = (line - l.at.h) * l.line_step;
                GRADKERN_NO_UNROLL
                for (std::size_t i = 0; i < sliding_sum_lines; ++i) {
                    // in place of lines that there are not the last one again, to the same sums
                    const std::int64_t tap = lines.first + std::min(t + static_cast<std::int64_t>(i), lines.count - 1);
                    call.a_row[i] = plane + p.axes[1].position(line, tap) * l.stride[3];
                    call.sums[i] = sum + (d * p.axes[1].kernel + tap) * columns.kernel * p.panel_width;
                }
                for (std::int64_t lane = 0; lane < l.lanes; lane += simd::lanes_of<Real>) {
                    add_line(call);
                    // A last panel shares lanes with the one before.
                    const std::int64_t next =
                        std::min<std::int64_t>(simd::lanes_of<Real>, l.lanes - lane - simd::lanes_of<Real>);
                    call.b_row += next;
                    GRADKERN_NO_UNROLL
                    for (std::size_t i = 0; i < sliding_sum_lines; ++i) {
                        call.a_row[i] += next;
                        call.sums[i] += p.panel_sums();
                    }
                }
            }
        }
    }
}

/// add_lines_function of elements of type T, which kernels may read in place.
template <class T>
void add_lines_sliding(const plan& p, const plane_lines<accumulate_t<T>>& l, accumulate_t<T>* sum) noexcept {
    const bool packed = l.from == source_kind::packed;
    add_sliding_lines(
        p, l,
        packed ? sliding_sums_of<operand::vector, accumulate_t<T>> : sliding_sums_of<lane_operand<T>, accumulate_t<T>>,
        sum);
}

}  // namespace detail::conv_weights
GRADKERN_ISA_NAMESPACE_END
