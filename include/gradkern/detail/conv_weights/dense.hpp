// dense: lanes hold channels of one group; the large side is read in place.
//
//   loops      task (panels of lanes x channels l) > chunk of at most 256 pixels > plane tap > column taps > row tap >
//              panel > tile of rows (column tap, l) > pixel
//   lanes      channels s of one group; each row is one number of the large side, broadcast to all lanes
//   taken      f32, unless dense_packed gains more than packing costs
//   gains      over dense_packed, f32, one image, Sapphire Rapids, AVX-512, g++ 12 -O2, both forced by name: 1.07 in
//              the mean of 12 layers in NCX (1.01 to 1.25), 1.05 of 7 in NXC (0.94 to 1.27)
//   zoo        196 layers in NCX, 57 in NXC
//   delete     when packing costs nothing
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <gradkern/detail/config.hpp>
#include <gradkern/detail/conv_weights/dense_packed.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail::conv_weights {

struct dense_plan : dense_tasks {
    using dense_tasks::dense_tasks;
};

[[nodiscard]] constexpr dense_plan make_dense(const problem& p) noexcept {
    dense_plan plan(p);
    plan.lay_out(0);
    return plan;
}
[[nodiscard]] constexpr dense_plan make_least_dense(const problem& p) noexcept {
    dense_plan plan(p, source::in_place);
    plan.lay_out(0, scratch_use::least);
    return plan;
}

/// Bytes of a slice of the dense path that reads activations of this type.
[[nodiscard]] constexpr std::int64_t dense_slice_bytes(const problem& p) noexcept {
    return p.is_f32() ? make_dense(p).slice_bytes : make_dense_packed(p).slice_bytes;
}

[[nodiscard]] constexpr bool fits_dense(const problem& p) noexcept { return p.is_f32(); }
[[nodiscard]] constexpr bool is_dense_profitable(const problem& p) noexcept {
    return !has_far_pixels(p) && !is_transposing_profitable(p);
}

/// 1x1: from what a tile reads to what one reads for the next chunk, more than a CPU fetches by itself. Other kernels
/// read each pixel several times.
[[nodiscard]] inline std::int64_t next_chunk_ahead(const dense_plan& p, std::int64_t chunk) noexcept {
    if (p.taps() != 1 || p.large[1] != 1 || chunk + 1 == p.chunks.count) return 0;
    const line_position here(p.axes, p.chunks[chunk].first_line);
    const line_position next(p.axes, p.chunks[chunk + 1].first_line);
    return (next.n - here.n) * p.large[0] + (next.d - here.d) * p.axes[0].stride_in(p.large[2]) +
           (next.h - here.h) * p.axes[1].stride_in(p.large[3]);
}

template <class T>
void add_task(const dense_plan& p, const T* large, const T* small, std::int64_t number, std::byte* slice) noexcept {
    if constexpr (std::is_same_v<T, float>) {
        dense_tiles tiles(p, number, slice);
        const dense_task& task = tiles.task;
        const large_view view{task.large(p, large), p.large};
        for (std::int64_t i = 0; i < p.chunks.count; ++i) {
            tiles.take_small(task.small(p, small), p.chunks[i], slice);
            tiles.ahead = next_chunk_ahead(p, i);
            for (std::int64_t d = 0; d < p.axes[0].kernel; ++d) tiles.add_plane(p.chunks[i], d, 0, task.channels, view);
            p.close_chunk(i, slice);
        }
    }
}

}  // namespace detail::conv_weights
GRADKERN_ISA_NAMESPACE_END
