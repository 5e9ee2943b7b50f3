// Indices that point into planes of other elements: right and slow. No row of the table, since it is found out at run time.
//
//     for each block of pixels of all planes (a task)
//         for each element in row-major order of (n, c, o)
//             sums[index] += diff_dst, if the index is in the block
//         diff_src = sums, rounded once
//
// Sums are f32, or f64 where the tensor has very many elements (order/summation.hpp). f32 outputs that are overwritten hold
// their sums themselves, in one pass: f32 between the visits of recent_sums, since there is no scratch for all of them in f64.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

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

/// Adds to sums in diff_src itself, by way of f64 sums of the pixels named last: where few pixels are named by very many elements,
/// those are not added one by one.
class recent_sums {
public:
    recent_sums(const plan& g, float* diff_src) noexcept : g_(g), diff_src_(diff_src) {}
    void add(std::int64_t pixel, float gradient) noexcept {
        entry& e = entries_[static_cast<std::size_t>(pixel) % entries_.size()];
        if (e.pixel != pixel) {
            leave(e);
            e = {pixel, 0.0};
        }
        e.sum += static_cast<double>(gradient);
    }
    void finish() noexcept {
        for (const entry& e : entries_) leave(e);
    }

private:
    struct entry {
        std::int64_t pixel = -1;
        double sum = 0.0;
    };
    void leave(const entry& e) noexcept {
        if (e.pixel < 0) return;
        float* const to = element_at(g_, diff_src_, e.pixel);
        *to = static_cast<float>(static_cast<double>(*to) + e.sum);
    }

    const plan& g_;
    float* diff_src_;
    std::array<entry, 256> entries_{};
};

/// Runs a plan whose indices point anywhere in the tensor: every block of sums looks at all elements.
template <class T>
void run_anywhere(const plan& g, const T* diff_dst, const std::int64_t* indices, T* diff_src,
                  std::span<std::byte> workspace, executor_ref executor) noexcept {
    const std::int64_t count = g.batch * g.channels * g.plane;
    if constexpr (std::is_same_v<T, float>) {
        if (g.strays == sum_place::in_place) {  // one pass, in the caller's thread
            for (std::int64_t i = 0; i < count; ++i) *element_at(g, diff_src, i) = 0.0F;
            if (g.stray_sums == sum_type::f64) {
                recent_sums sums(g, diff_src);
                for_each_destination(g, indices,
                                     [&](std::int64_t pixel, std::int64_t from) { sums.add(pixel, diff_dst[from]); });
                sums.finish();
            } else {
                for_each_destination(g, indices, [&](std::int64_t pixel, std::int64_t from) {
                    *element_at(g, diff_src, pixel) += diff_dst[from];
                });
            }
            return;
        }
    }
    const std::int64_t block = g.slice_bytes / size_of(g.stray_sums);
    run_tasks(executor, shape::ceil_div(count, block), slices(workspace, g.slice_bytes),
              [&](std::byte* slice, auto&& next) {
                  const auto scatter = [&]<class Sum>(Sum* sums, std::int64_t first, std::int64_t last) {
                      own::fill_n(sums, last - first, Sum{0});
                      for_each_destination(g, indices, [&](std::int64_t pixel, std::int64_t from) {
                          if (pixel >= first && pixel < last) sums[pixel - first] += load_element(diff_dst + from);
                      });
                      for (std::int64_t i = first; i < last; ++i)
                          store_result(element_at(g, diff_src, i), static_cast<float>(sums[i - first]),
                                       g.output == output_mode::accumulate);
                  };
                  for (std::int64_t task = next(); task >= 0; task = next()) {
                      const std::int64_t first = task * block;
                      const std::int64_t last = std::min(count, first + block);
                      if (g.stray_sums == sum_type::f64) {
                          scatter(reinterpret_cast<double*>(slice), first, last);
                      } else {
                          scatter(reinterpret_cast<float*>(slice), first, last);
                      }
                  }
              });
}

}  // namespace detail::max_pool_indices
GRADKERN_ISA_NAMESPACE_END
