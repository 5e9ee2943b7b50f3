// The run of a plan: tasks, the sums of each by the path of the plan, and where they go.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <utility>

#include <gradkern/detail/axes/collapse.hpp>
#include <gradkern/detail/config.hpp>
#include <gradkern/detail/conv_weights/dense.hpp>
#include <gradkern/detail/conv_weights/dense_bf16.hpp>
#include <gradkern/detail/conv_weights/depthwise.hpp>
#include <gradkern/detail/conv_weights/depthwise_sliding.hpp>
#include <gradkern/detail/conv_weights/few_channels.hpp>
#include <gradkern/detail/conv_weights/grouped.hpp>
#include <gradkern/detail/conv_weights/tap_lanes.hpp>
#include <gradkern/detail/own.hpp>
#include <gradkern/detail/run/shared_sums.hpp>
#include <gradkern/detail/run/tasks.hpp>
#include <gradkern/executor.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail::conv_weights {

/// Moves the sums of a task to the tensor, or previous results to the sums.
template <class Real>
GRADKERN_NOINLINE void move_task(const plan& p, const task& t, const transfer& how, Real* sum,
                                 const result_pointer<Real>& diff_weights) noexcept {
    if constexpr (std::is_same_v<Real, float>)
        if (p.path == algorithm::tap_lanes) return move_tap_lanes(p, t, how, sum, diff_weights);
    const std::int64_t kh = p.axes[1].kernel;
    const std::int64_t kw = p.axes[2].kernel;
    const std::int64_t channel_sums = p.channel_sums();
    const std::int64_t tap_sums = (p.rows_are_taps() ? t.channels : 1) * p.panel_width;
    const result_pointer<Real> to =
        diff_weights + ((t.group * p.small_channels + t.first_lane) * p.weights[0] + t.first_channel * p.weights[1]);
    // Calls f(sums of a panel, its lanes, where the first of them goes).
    const auto for_each_panel = [&](const auto& f) {
        for (std::int64_t panel = 0; panel < t.panels; ++panel)
            f(sum + panel * p.panel_sums() + t.shared_lanes_of(p, panel), t.lanes_of(p, panel),
              to + panel * p.panel_width * p.weights[0]);
    };
    const bool taps_contiguous = p.weights[4] == 1 && is_one_line(p.weights, {p.axes[0].kernel, kh, kw});
    if (taps_contiguous && p.weights[0] != 1 && !p.rows_are_taps()) {
        // OIX: one long row a lane; of a transposed convolution a row for each channel and lane
        const bool one_row = p.weights[1] == p.taps();
        for_each_panel([&](Real* from, std::int64_t lanes, const result_pointer<Real>& dw) {
            for (std::int64_t l = 0; l < (one_row ? 1 : t.channels); ++l)
                (dw + l * p.weights[1])
                    .move(how, from + l * channel_sums, p.panel_width, lanes, (one_row ? t.channels : 1) * p.taps(),
                          p.weights[0], 1);
        });
        return;
    }
    // Where lanes are neighbours, the rows of a few channels are written over all panels at a time. No CPU fetches the
    // next ones by itself: they lie far behind.
    const std::int64_t some = p.weights[0] == 1 ? 4 : t.channels;
    const std::int64_t line_elements = cache_line / diff_weights.output->bytes;
    for (std::int64_t d = 0; d < p.axes[0].kernel; ++d)
        for (std::int64_t h = t.first_row; h < t.last_row; ++h)
            for (std::int64_t x = 0; x < kw; ++x)
                for (std::int64_t l = 0; l < t.channels; l += some)
                    for_each_panel([&](Real* from, std::int64_t lanes, const result_pointer<Real>& dw) {
                        const std::int64_t tap = (d * kh + h) * kw + x;
                        const result_pointer<Real> row =
                            dw + (d * p.weights[2] + h * p.weights[3] + x * p.weights[4] + l * p.weights[1]);
                        for (std::int64_t next = some; next < std::min(2 * some, t.channels - l); ++next)
                            for (std::int64_t j = 0; j < lanes; j += line_elements)
                                row.prefetch(next * p.weights[1] + j * p.weights[0]);
                        row.move(how, from + l * channel_sums + tap * tap_sums, channel_sums, lanes,
                                 std::min(some, t.channels - l), p.weights[0], p.weights[1]);
                    });
}

/// The functions of paths that depend on the type of the activations.
template <class Real>
struct path_functions {
    add_lines_function<Real> add_lines_sliding = nullptr;
    pack_columns_function pack_columns = nullptr;
    void (*add_dense_bf16)(const plan& p, const task& t, const chunk_grid::range& range, const void* large,
                           const void* small, std::byte* slice) noexcept = nullptr;
};
template <class T>
[[nodiscard]] constexpr path_functions<accumulate_t<T>> make_path_functions() noexcept {
    path_functions<accumulate_t<T>> f{.add_lines_sliding = &add_lines_sliding<T>};
    if constexpr (std::is_same_v<accumulate_t<T>, float>) f.pack_columns = &pack_columns_of<T>;
    if constexpr (has_pairs<T>) f.add_dense_bf16 = &add_dense_bf16<T>;
    return f;
}
template <class T>
inline constexpr path_functions<accumulate_t<T>> path_functions_of = make_path_functions<T>();

/// The tensors of a run.
template <class Real>
struct operands {
    tensor_pointer<Real> large;
    tensor_pointer<Real> small;
    result_pointer<Real> diff_weights;
    const path_functions<Real>& functions;
};

/// Adds the chunks of one sum to the sums of a task, or sets these (plan::sets_sums()).
template <class Real>
GRADKERN_NOINLINE void add_chunks(const plan& p, const task& t, const chunk_grid::range& range, const operands<Real>& o,
                                  std::byte* slice) noexcept {
    if (range.first >= range.last) return;  // an empty batch has no memory: null takes no offset
    if (p.rows_are_taps()) {
        add_lines_function<Real> add_lines =
            p.path == algorithm::depthwise_sliding ? o.functions.add_lines_sliding : add_lines_by_channels<Real>;
        if constexpr (std::is_same_v<Real, float>)
            if (p.path == algorithm::grouped) add_lines = add_lines_of_groups;
        return add_tap_rows(p, t, range, add_lines, o.large, o.small, slice);
    }
    if constexpr (std::is_same_v<Real, float>) {
        if (p.path == algorithm::tap_lanes)
            return add_tap_lanes(p, t, range, o.functions.pack_columns, o.large.first, o.small.first, slice);
        if (p.path == algorithm::dense_bf16)
            return o.functions.add_dense_bf16(p, t, range, o.large.first, o.small.first, slice);
    }
    add_dense(p, t, range, o.large, o.small, slice);
}

/// Adds what lies at one level of the sums of a task to another one, if they are two.
template <class Real>
inline void fold_level(const plan& p, std::byte* slice, std::int64_t from, std::int64_t to) noexcept {
    if (from != to) fold(array_at<Real>(slice, from), array_at<Real>(slice, to), p.sum_floats());
}

/// Adds up the sums of result number `result` in order, from zero or from the previous results, and has the results of a task:
/// add(sum) adds one of them to the level of groups, or sets it.
template <class Real, class F>
void finish_task(const plan& p, const task& t, std::int64_t result, const operands<Real>& o, std::byte* slice,
                 const F& add) noexcept {
    auto* const total = array_at<Real>(slice, p.at_total);
    if (!p.sets_sums()) p.clear_sums(slice, p.at_group);
    if (p.at_total != p.at_group) p.clear_sums(slice, p.at_total);
    if (p.continues_results()) move_task(p, t, {direction::to_sums, false}, total, o.diff_weights);
    const std::int64_t groups = p.chunks.groups() / p.results();
    for (std::int64_t group = result * groups; group < (result + 1) * groups; ++group) {
        for (std::int64_t sum = 0; sum < p.chunks.group_sums(); ++sum) add(group * p.chunks.group_sums() + sum);
        fold_level<Real>(p, slice, p.at_group, p.at_total);
    }
    move_task(p, t, {direction::to_tensor, p.adds_results()}, total, o.diff_weights + result * p.result_pointer());
}

/// Computes one part of the weights, or of those of one image: the sums of all chunks, and then the results.
template <class Real>
GRADKERN_NOINLINE void run_part(const plan& p, std::int64_t number, const operands<Real>& o,
                                std::byte* slice) noexcept {
    task t(p, number % p.parts());
    if (p.sums_in_results()) {
        const std::int64_t result = number / p.parts();
        t.results = reinterpret_cast<Real*>(o.diff_weights.first) + result * p.result_pointer() +
                    t.group * p.small_channels + t.first_lane + t.first_channel * p.weights[1];
        return add_chunks(p, t, p.chunks.of_sum(result), o, slice);
    }
    if (p.at_sum != p.at_group) p.clear_sums(slice, p.at_sum);
    finish_task(p, t, number / p.parts(), o, slice, [&](std::int64_t sum) {
        add_chunks(p, t, p.chunks.of_sum(sum), o, slice);
        fold_level<Real>(p, slice, p.at_sum, p.at_group);
    });
}

/// What workers share where positions are cut, in memory of plan::shared_bytes().
template <class Real>
struct shared_levels {
    shared_sums<Real> sums;
    shared_sums<Real> chunks;

    shared_levels(const plan& p, std::byte* memory) noexcept
        : sums(p.shared(), memory), chunks(p.shared_chunks(), memory + p.shared().bytes()) {}
};

/// Adds a sum of a part, the chunks of `range`, to the sums of a task, which are zero. Where chunks are tasks, computes `chunk` alone;
/// whoever has the last one of the sum adds them in order. Returns whether the sum is there.
template <class Real>
bool add_sum(const plan& p, const task& t, const shared_sums<Real>& shared, std::int64_t part_sum,
             const chunk_grid::range& range, std::int64_t chunk, const operands<Real>& o, std::byte* slice) noexcept {
    if (p.cut == position_cut::sums) {
        add_chunks(p, t, range, o, slice);
        return true;
    }
    Real* const sum = array_at<Real>(slice, p.at_sum);
    add_chunks(p, t, {chunk, chunk + 1}, o, slice);
    own::copy_n(sum, p.sum_floats(), shared.at(part_sum, chunk - range.first));
    const std::int64_t count = range.last - range.first;
    if (!shared.finish(part_sum, count)) return false;
    p.clear_sums(slice, p.at_sum);
    for (std::int64_t i = 0; i < count; ++i) fold(shared.at(part_sum, i), sum, p.sum_floats());
    return true;
}

/// Computes one sum of a part, or a chunk of it; whoever has the last one adds them in order, and then has the results.
template <class Real>
GRADKERN_NOINLINE void run_piece(const plan& p, const shared_levels<Real>& shared, std::int64_t number,
                                 const operands<Real>& o, std::byte* slice) noexcept {
    const std::int64_t part = number % p.parts();
    const std::int64_t piece = number / p.parts();
    const std::int64_t sum = p.cut == position_cut::chunks ? p.chunks.sum_of(piece) : piece;
    const task t(p, part);
    p.clear_sums(slice, p.at_sum);
    if (!add_sum(p, t, shared.chunks, part * p.chunks.sums() + sum, p.chunks.of_sum(sum), piece, o, slice)) return;
    own::copy_n(array_at<Real>(slice, p.at_sum), p.sum_floats(), shared.sums.at(part, sum));
    if (!shared.sums.finish(part)) return;
    finish_task(p, t, 0, o, slice, [&](std::int64_t i) {
        fold(shared.sums.at(part, i), array_at<Real>(slice, p.at_group), p.sum_floats());
    });
}

/// The plan for these workers, or for as many as have memory.
[[nodiscard]] GRADKERN_NOINLINE constexpr plan split_for(const plan& planned, std::int64_t workers,
                                                         std::span<std::byte> workspace) noexcept {
    const plan p = planned.split_for(workers);
    const std::int64_t used = std::min(counted_workers(workers), p.tasks());
    if (workspace.size() >= workspace_for(p.shared_bytes(), p.slice_bytes, used)) return p;
    return planned.split_for(std::min<std::int64_t>(workers, slices(workspace, planned.slice_bytes).count()));
}

/// Runs a plan. All checks have passed.
template <class Real>
GRADKERN_NOINLINE void run(const plan& planned, operands<Real> o, std::span<std::byte> workspace,
                           executor_ref executor) noexcept {
    if (planned.sides != sides::as_given) std::swap(o.large, o.small);
    plan p = split_for(planned, executor.concurrency(), workspace);
    const std::int64_t bytes = p.shared_bytes();
    const std::size_t left = bytes > 0 ? workspace_beside(bytes, p.slice_bytes, workspace.size()) : 0;
    if (left > 0) {
        const shared_levels<Real> shared(p, slices(workspace.subspan(left), bytes)[0]);
        const auto run_one = [&](std::byte* slice, std::int64_t number) { run_piece(p, shared, number, o, slice); };
        return for_each_task(executor, p.tasks(), slices(workspace.first(left), p.slice_bytes), run_one, in_order);
    }
    if (p.cut != position_cut::none) {  // there is no memory for what workers would share
        p.cut = position_cut::none;
        p.lay_out();
    }
    const auto run_one = [&](std::byte* slice, std::int64_t number) { run_part(p, number, o, slice); };
    for_each_task(executor, p.tasks(), slices(workspace, p.slice_bytes), run_one, in_order);
}

/// Runs a plan over typed tensors. G is the type of the weight gradient: T or float.
template <class T, class G>
void run(const plan& p, const T* large, const T* small, G* diff_weights, std::span<std::byte> workspace,
         executor_ref executor) noexcept {
    run<accumulate_t<T>>(p,
                         {tensor_pointer_of(large),
                          tensor_pointer_of(small),
                          {reinterpret_cast<std::byte*>(diff_weights), &pack_functions_of<G>, &unpack_functions_of<G>},
                          path_functions_of<T>},
                         workspace, executor);
}

}  // namespace detail::conv_weights
GRADKERN_ISA_NAMESPACE_END
