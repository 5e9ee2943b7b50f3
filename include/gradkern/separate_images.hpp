// Batches whose images are buffers of their own: an array of pointers takes the place of a tensor's pointer.
//
//     std::vector<const float*> src = ...;                             // one buffer an image
//     std::vector<float*> dst = ...;
//     const auto plan = plan_convolution<float>({1, 56, 56, 64}, weights, bias, conv);     // one image: N = 1
//     gradkern::workspace scratch(separate_images_workspace_bytes(*plan, pool.concurrency()));
//     const gradkern::status s =
//         run_separate_images(*plan, scratch, pool, src, weights_data, bias_data, dst);    // shared: plain pointers
//
// The arguments behind the executor are those of the plan's run, in its order. A range of pointers has one for each image; a
// plain pointer is shared by all images. Results have the bits of a call over one tensor that holds the whole batch
// (docs/numerics.md). A gradient of weights, which sums over the batch, takes sum_separate_images.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <ranges>
#include <span>
#include <string_view>
#include <type_traits>

#include <gradkern/detail/config.hpp>
#include <gradkern/detail/run/tasks.hpp>
#include <gradkern/executor.hpp>
#include <gradkern/shape/checked.hpp>
#include <gradkern/status.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN

/// A contiguous range of pointers, one for each image: std::vector<float*>, std::array<const float*, 8>, std::span<float* const>.
template <class R>
concept image_list =
    std::ranges::contiguous_range<R> && std::ranges::sized_range<R> && std::is_pointer_v<std::ranges::range_value_t<R>>;

namespace detail {

/// The argument of one image.
template <class A>
[[nodiscard]] auto of_image(const A& argument, std::int64_t image) noexcept {
    if constexpr (image_list<const A>) {
        return std::ranges::data(argument)[image];
    } else {
        return argument;
    }
}
/// True for a pointer that all images share, through which nothing can be written.
template <class A>
inline constexpr bool is_read_only = std::is_null_pointer_v<A> ||
                                     (std::is_pointer_v<A> && std::is_const_v<std::remove_pointer_t<A>>);

/// The lists as one error sees them: equal lengths, no null pointers. `count` becomes their length.
template <class... Arguments>
[[nodiscard]] status check_lists(std::string_view op, std::int64_t& count, const Arguments&... arguments) noexcept {
    count = -1;
    int position = 0;
    error found;
    const auto check = [&](const auto& argument) {
        if constexpr (image_list<const std::remove_cvref_t<decltype(argument)>>) {
            const auto size = static_cast<std::int64_t>(std::ranges::size(argument));
            if (count < 0) count = size;
            if (size != count && found.code == errc::ok)
                found = error{.code = errc::invalid_argument,
                              .op = op,
                              .argument = "argument",
                              .axis = position,
                              .got = size,
                              .expected = count,
                              .what = quantity::entries,
                              .other = "the first list of images"};
            for (std::int64_t i = 0; i < size && found.code == errc::ok; ++i)
                if (of_image(argument, i) == nullptr)
                    found = error{.code = errc::null_pointer,
                                  .op = op,
                                  .argument = "argument",
                                  .axis = position,
                                  .got = i,
                                  .relation = expectation::none,
                                  .why = "has a null pointer among its images"};
        }
        ++position;
    };
    (check(arguments), ...);
    return found;
}

/// Bytes of a worker that runs whole images.
template <class Plan>
[[nodiscard]] std::int64_t image_slice(const Plan& plan) noexcept {
    const shape::checked bytes = shape::checked(static_cast<std::int64_t>(
                                     std::min(plan.workspace_bytes(1), static_cast<std::size_t>(INT64_MAX)))) +
                                 (cache_line - 1);
    return bytes.ok() ? bytes.value() / cache_line * cache_line : INT64_MAX;
}

}  // namespace detail

/// Bytes of workspace with which run_separate_images and sum_separate_images keep `workers` workers busy, whatever the number
/// of images. plan.workspace_bytes(1) bytes are enough to run. For sum_separate_images: of the plan that needs more.
template <class Plan>
[[nodiscard]] std::size_t separate_images_workspace_bytes(const Plan& plan, std::ptrdiff_t workers = 1) noexcept {
    return std::max(plan.workspace_bytes(workers),
                    detail::workspace_for(detail::image_slice(plan), detail::counted_workers(workers)));
}

/// Runs `plan` once for each image. The plan is made for what one buffer holds, usually N = 1. `arguments` are those of
/// plan.run up to the workspace: at least one is a list of images, and all lists have the same length. An input that is no
/// list is a pointer to const, or nullptr, and is shared. The executor distributes the images if there are at least as many as
/// workers; otherwise one image after the other is computed by all workers.
///
/// Buffers of outputs must not overlap any other buffer. Errors, before anything is written: lists of different lengths
/// (invalid_argument), null pointers in a list (null_pointer), and those of plan.run that do not depend on the image. Where an
/// error depends on the image (buffers of one image overlap, index_out_of_range), other images may have been written, and the
/// error is that of the first such image.
template <class Plan, class... Arguments>
requires(image_list<const Arguments> || ...) [[nodiscard]] status
    run_separate_images(const Plan& plan, std::span<std::byte> workspace, executor_ref executor,
                        const Arguments&... arguments) noexcept {
    static_assert(
        ((image_list<const Arguments> || detail::is_read_only<Arguments>)&&...),
        "gradkern: images share inputs alone. Pass a shared input as a pointer to const, and each output as a "
        "list with one buffer an image. For a sum over images take sum_separate_images.");
    std::int64_t images = 0;
    const status lists = detail::check_lists("run_separate_images", images, arguments...);
    if (!lists) return lists;

    const auto run = [&](std::int64_t image, std::span<std::byte> memory, executor_ref workers) {
        return plan.run(detail::of_image(arguments, image)..., memory, workers);
    };
    const std::int64_t slice_bytes = detail::image_slice(plan);
    const detail::slices memory(workspace, slice_bytes);
    const auto workers = static_cast<std::int64_t>(executor.concurrency());
    if (workers == 1 || images < workers || memory.count() < 2) {
        for (std::int64_t image = 0; image < images; ++image) {
            const status s = run(image, workspace, executor);
            if (!s) return s;
        }
        return {};
    }
    std::atomic<std::int64_t> failed{images};  // the first image that did
    detail::for_each_task(executor, images, memory, [&](std::byte* slice, std::int64_t image) {
        if (run(image, {slice, static_cast<std::size_t>(slice == nullptr ? 0 : slice_bytes)}, {}).ok()) return;
        std::int64_t first = failed.load(std::memory_order_relaxed);
        while (image < first && !failed.compare_exchange_weak(first, image, std::memory_order_relaxed)) {
        }
    });
    // A run that fails says the same again.
    return failed < images ? run(failed, workspace, {}) : status{};
}

/// Sums over images in order: runs `first` for the first image and `next` for each of the others, with all workers. Meant for
/// gradients of weights and bias: `first` overwrites, `next` has output_mode::accumulate, and both have
/// summation::image_by_image. Then f32 and f64 gradients have the bits of one call with image_by_image over the whole batch.
/// If `first` accumulates, too, the sum goes on where an earlier one ended.
///
/// `arguments` as for run_separate_images, but the gradients are plain pointers. Without images nothing is written. Errors: as
/// there.
template <class Plan, class... Arguments>
requires(image_list<const Arguments> || ...) [[nodiscard]] status
    sum_separate_images(const Plan& first, const Plan& next, std::span<std::byte> workspace, executor_ref executor,
                        const Arguments&... arguments) noexcept {
    std::int64_t images = 0;
    const status lists = detail::check_lists("sum_separate_images", images, arguments...);
    if (!lists) return lists;
    // What the second image would miss is said before the first one is written.
    if (images > 1 && workspace.size() < next.workspace_bytes(1))
        return next.run(detail::of_image(arguments, 1)..., workspace, executor);
    for (std::int64_t image = 0; image < images; ++image) {
        const Plan& plan = image == 0 ? first : next;
        const status s = plan.run(detail::of_image(arguments, image)..., workspace, executor);
        if (!s) return s;
    }
    return {};
}

GRADKERN_ISA_NAMESPACE_END
