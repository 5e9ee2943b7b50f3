// Indices that point into planes of other elements: right and slow. No row of the table, since it is found out at run time.
//
//     for each block of pixels of all planes (a task)
//         for each element in row-major order of (n, c, o)
//             sums[index] += diff_dst, if the index is in the block
//         diff_src = sums, rounded once
//
// Sums are f32, or f64 where the tensor has very many elements (order/summation.hpp). f32 outputs that are overwritten hold
// their sums themselves, in one pass: f64 only while their pixels are among those named last, since there is no scratch for all
// of them.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include <gradkern/detail/config.hpp>
#include <gradkern/detail/max_pool_indices/plan.hpp>
#include <gradkern/detail/max_pool_indices/runs.hpp>
#include <gradkern/detail/own.hpp>
#include <gradkern/detail/run/tasks.hpp>
#include <gradkern/executor.hpp>
#include <gradkern/half.hpp>
#include <gradkern/options.hpp>
#include <gradkern/shape/check.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail::max_pool_indices {

/// Calls f(index, n, c, gradient's offset) for every element in row-major order of (n, c, o).
template <class F>
void for_each_index(const plan& g, const std::int64_t* indices, const F& f) noexcept {
    for (std::int64_t n = 0; n < g.batch; ++n)
        for (std::int64_t c = 0; c < g.channels; ++c)
            run_walk(g, n, c, c + 1, run_order::windows).for_each([&](const element_run& run) {
                for (std::int64_t e = 0; e < run.count; ++e)
                    f(indices[run.at + e * run.at_step], n, c, run.from + e * run.from_step);
            });
}

/// The first index out of range; there is one.
[[nodiscard]] inline std::int64_t first_bad_index(const plan& g, const std::int64_t* indices) noexcept {
    std::int64_t bad = -1;
    for_each_index(g, indices, [&](std::int64_t i, std::int64_t, std::int64_t, std::int64_t) {
        if (bad == -1 && (i < -1 || i >= g.index.end)) bad = i;
    });
    return bad;
}

/// Calls f(pixel among all planes, gradient's offset) for every element, but for those without a maximum.
template <class F>
void for_each_destination(const plan& g, const std::int64_t* indices, const F& f) noexcept {
    for_each_index(g, indices, [&](std::int64_t i, std::int64_t n, std::int64_t c, std::int64_t from) {
        if (i != -1) f(g.destination_of(i, n, c), from);
    });
}

/// The element of diff_src at a pixel among all planes.
template <class T>
[[nodiscard]] T* element_at(const plan& g, T* diff_src, std::int64_t pixel) noexcept {
    const std::int64_t plane = pixel / g.plane;
    return diff_src +
           (plane / g.channels * g.diff_src[0] + plane % g.channels * g.diff_src[1] + g.offset_of(pixel % g.plane));
}

/// The sums in diff_src itself, in one pass in the caller's thread: f64 ones by way of sums of the pixels named last. Where few
/// pixels are named by very many elements, those are not added one by one.
template <class Real>
inline void add_in_place(const plan& g, const Real* diff_dst, const std::int64_t* indices, Real* diff_src) noexcept {
    for (std::int64_t i = 0; i < g.batch * g.channels * g.plane; ++i) *element_at(g, diff_src, i) = Real{0};
    struct recent_sum {
        std::int64_t pixel = -1;
        double sum = 0.0;
    };
    std::array<recent_sum, 256> recent{};
    const auto leave = [&](const recent_sum& r) {
        if (r.pixel < 0) return;
        Real* const to = element_at(g, diff_src, r.pixel);
        *to = static_cast<Real>(static_cast<double>(*to) + r.sum);
    };
    for_each_destination(g, indices, [&](std::int64_t pixel, std::int64_t from) {
        if (size_of(g.stray_sums) == sizeof(Real)) {
            *element_at(g, diff_src, pixel) += diff_dst[from];
            return;
        }
        recent_sum& r = recent[static_cast<std::size_t>(pixel) % recent.size()];
        if (r.pixel != pixel) {
            leave(r);
            r = {pixel, 0.0};
        }
        r.sum += static_cast<double>(diff_dst[from]);
    });
    for (const recent_sum& r : recent) leave(r);
}

/// Runs a plan whose indices point anywhere in the tensor: every block of sums looks at all elements. Sums are where
/// sums_in_place has them if that fits, whatever the path: bits depend on the problem alone.
template <class T>
void run_anywhere(const plan& g, const T* diff_dst, const std::int64_t* indices, T* diff_src,
                  std::span<std::byte> workspace, executor_ref executor) noexcept {
    if constexpr (simd::is_wide<T>)
        if (g.output == output_mode::overwrite && size_of(g.sums) == sizeof(T))
            return add_in_place(g, diff_dst, indices, diff_src);
    const std::int64_t count = g.batch * g.channels * g.plane;
    const std::int64_t block = g.slice_bytes / size_of(g.stray_sums);
    const slices memory(workspace, g.slice_bytes);
    for_each_task(executor, shape::ceil_div(count, block), memory, [&](std::byte* slice, std::int64_t task) {
        with_sums<T>(g.stray_sums, slice, [&]<class Sum>(Sum* sums) {
            const std::int64_t first = task * block;
            const std::int64_t last = std::min(count, first + block);
            own::fill_n(sums, last - first, Sum{0});
            for_each_destination(g, indices, [&](std::int64_t pixel, std::int64_t from) {
                if (pixel >= first && pixel < last) sums[pixel - first] += load_element(diff_dst + from);
            });
            for (std::int64_t i = first; i < last; ++i)
                store_result(element_at(g, diff_src, i), static_cast<accumulate_t<T>>(sums[i - first]),
                             g.output == output_mode::accumulate);
        });
    });
}

}  // namespace detail::max_pool_indices
GRADKERN_ISA_NAMESPACE_END
