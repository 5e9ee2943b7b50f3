// Bias gradients: db[c] = sum over n and all pixels of diff_dst, in the chunks of order/summation.hpp. Two paths share
// one loop:
//
//   loops      task (a panel of channels) > chunk of at most 256 pixels, summed from +0 in row-major order; 32 chunks
//              are added up, and so are these sums > pixel: one vector load and add per vector of lanes
//   lanes      channels
//   dense          taken where channels are neighbours: pixels are read in place. Gain over dense_packed: not measured
//   dense_packed   else: channels innermost, piece by piece. A piece only feeds the chunk's running sums, so that its
//                  length is no part of the order of summation
//   zoo        dense all layers in NXC, dense_packed all in NCX
//   delete     never: the only path of each layout
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include <gradkern/detail/config.hpp>
#include <gradkern/detail/micro/register_tile.hpp>
#include <gradkern/detail/order/summation.hpp>
#include <gradkern/detail/pack/panels.hpp>
#include <gradkern/detail/pack/pixels.hpp>
#include <gradkern/detail/run/shared_sums.hpp>
#include <gradkern/detail/run/tasks.hpp>
#include <gradkern/detail/simd.hpp>
#include <gradkern/options.hpp>
#include <gradkern/shape/bias.hpp>
#include <gradkern/shape/checked.hpp>
#include <gradkern/shape/layout.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail {

/// Checked facts.
struct bias_problem : shape::bias_problem {
    shape::canonical_strides in{};
    std::int64_t out_step = 1;
    real_type real{};
    bool is_wide = true;  ///< elements are of that type
    output_mode output = output_mode::overwrite;
    gradkern::summation summation = gradkern::summation::joint;

    /// Results one behind the other.
    [[nodiscard]] constexpr std::int64_t results() const noexcept { return results_of(summation, batch); }
    /// Whether sums begin with the previous results, or those are added in the end.
    [[nodiscard]] constexpr bool continues_results() const noexcept {
        return output == output_mode::accumulate && begins_with_results(summation);
    }
    [[nodiscard]] constexpr bool adds_results() const noexcept {
        return output == output_mode::accumulate && !begins_with_results(summation);
    }
};

/// Pixels packed at a time: small enough for one-call workspaces on the stack, long enough for whole cache lines.
inline constexpr std::int64_t piece_pixels = simd::lanes > 16 ? 16 : 64;

struct bias_plan : bias_problem {
    chunk_grid chunks{};
    std::int64_t panels = 0;
    std::int64_t at_wide = 0;      // byte offset in a slice; the packed piece is at 0
    std::int64_t slice_bytes = 0;  // 0 where pixels are read in place
    bool cuts_positions = false;   // whether each task has one sum of chunks alone, which are added in order in the end

    [[nodiscard]] constexpr std::int64_t tasks() const noexcept {
        return panels * (cuts_positions ? chunks.sums() : results());
    }
    /// What workers share where positions are cut.
    [[nodiscard]] constexpr shared_layout shared() const noexcept {
        return cuts_positions ? shared_layout{panels, chunks.sums(), real.narrow_lanes(), real.bytes} : shared_layout{};
    }
    /// The same for several workers: positions are cut where panels are few.
    [[nodiscard]] constexpr bias_plan split_for(std::int64_t workers) const noexcept {
        bias_plan b = *this;
        workers = counted_workers(workers);
        const auto rounds = [&](std::int64_t tasks) { return shape::ceil_div(tasks, workers); };
        b.cuts_positions =
            workers > 1 && results() == 1 && rounds(panels * chunks.sums()) < rounds(panels) * chunks.sums();
        return b;
    }
};

[[nodiscard]] constexpr bias_plan make_bias(const bias_problem& p, algorithm name) noexcept {
    bias_plan b{p};
    b.chunks = chunk_grid(p.batch, p.positions[0] * p.positions[1], p.positions[2], p.summation);
    b.panels = shape::ceil_div(p.channels, p.real.narrow_lanes());
    if (name == algorithm::dense || b.panels == 0) return b;
    slice_layout slice;
    slice.reserve(piece_pixels * p.real.narrow_lanes(), p.real.bytes);
    b.at_wide = slice.reserve(p.is_wide ? 0 : piece_pixels * p.real.narrow_lanes(), p.real.bytes);
    b.slice_bytes = slice.bytes();
    return b;
}

/// Sums of a panel.
template <class Real>
struct panel_sums {
    std::array<simd::vec_of<Real>, narrow_vectors> vectors;

    panel_sums() noexcept { vectors.fill(simd::zero<Real>()); }
    explicit panel_sums(const Real* from) noexcept {
        for (std::size_t v = 0; v < vectors.size(); ++v)
            vectors[v] = simd::load(from + static_cast<std::ptrdiff_t>(v) * simd::lanes_of<Real>);
    }
    void store(Real* to) const noexcept {
        for (std::size_t v = 0; v < vectors.size(); ++v)
            simd::store(to + static_cast<std::ptrdiff_t>(v) * simd::lanes_of<Real>, vectors[v]);
    }
    void add(const panel_sums& other) noexcept {
        for (std::size_t v = 0; v < vectors.size(); ++v) vectors[v] = simd::add(vectors[v], other.vectors[v]);
    }
};

/// Adds the `count` rows of a panel that lie `step` elements apart, one after the other.
template <class T>
GRADKERN_NOINLINE void add_rows(const T* row, std::int64_t step, std::int64_t count, std::int64_t lanes,
                                panel_sums<accumulate_t<T>>& to) noexcept {
    panel_sums<accumulate_t<T>> sum = to;  // in registers
    for (std::int64_t i = 0; i < count; ++i, row += step) {
        unroll<narrow_vectors>([&](auto v) GRADKERN_INLINE_LAMBDA {
            constexpr std::ptrdiff_t first = v * simd::wide_lanes<T>;
            simd::wide_vec<T>& s = sum.vectors[v];
            if (lanes - first >= simd::wide_lanes<T>) {
                s = simd::add(s, simd::load_wide(row + first));
            } else if (lanes > first) {
                s = simd::add(s, simd::load_wide_partial(row + first, lanes - first));
            }
        });
    }
    to = sum;
}

/// Packs `count` pixels, `step` elements apart, of `lanes` channels as [pixel][narrow_lanes_of<accumulate_t<T>>]. Neighbouring 16-bit
/// pixels are widened first, which makes the transposition one of floats.
template <class T>
void pack_piece(const T* source, std::int64_t channel_step, std::int64_t lanes, std::int64_t step, std::int64_t count,
                accumulate_t<T>* packed, accumulate_t<T>* wide) noexcept {
    if constexpr (!simd::is_wide<T>) {
        if (step == 1) {
            for (std::int64_t j = 0; j < lanes; ++j)
                simd::widen(source + j * channel_step, wide + j * piece_pixels, count);
            pack_lanes(static_cast<const accumulate_t<T>*>(wide), piece_pixels, lanes, 1, count, packed,
                       narrow_lanes_of<accumulate_t<T>>);
            return;
        }
    }
    pack_lanes(source, channel_step, lanes, step, count, packed, narrow_lanes_of<accumulate_t<T>>);
}

/// Adds sum number `sum` of the chunks of a panel to `total`, chunk by chunk.
template <class T>
void add_chunks(const bias_plan& b, const void* diff_dst, std::int64_t panel, std::int64_t sum, std::byte* slice,
                panel_sums<accumulate_t<T>>& total) noexcept {
    const std::int64_t channel = panel * narrow_lanes_of<accumulate_t<T>>;
    const std::int64_t lanes = std::min<std::int64_t>(narrow_lanes_of<accumulate_t<T>>, b.channels - channel);
    const auto [first, last] = b.chunks.of_sum(sum);
    if (first >= last) return;  // an empty batch has no memory: null takes no offset
    auto* const packed = array_at<accumulate_t<T>>(slice, 0);
    const bool packs = b.slice_bytes != 0;
    pixel_walk walk(b.batch, b.positions, b.in,
                    b.chunks[first].first_line * b.positions[2] + b.chunks[first].first_column);
    for (std::int64_t i = first; i < last; ++i) {
        panel_sums<accumulate_t<T>> chunk;
        for (std::int64_t left = b.chunks[i].positions(); left > 0;) {
            const pixel_run run = walk.next(packs ? std::min(left, piece_pixels) : left);
            const T* const from = static_cast<const T*>(diff_dst) + channel * b.in[1] + run.offset;
            if (packs) {
                pack_piece(from, b.in[1], lanes, walk.step(), run.count, packed,
                           array_at<accumulate_t<T>>(slice, b.at_wide));
                add_rows<accumulate_t<T>>(packed, narrow_lanes_of<accumulate_t<T>>, run.count, lanes, chunk);
            } else {
                add_rows(from, walk.step(), run.count, lanes, chunk);
            }
            left -= run.count;
        }
        total.add(chunk);
    }
}

/// Sends the sums of a panel to result number `result`.
template <class G>
void store_bias(const bias_plan& b, const panel_sums<accumulate_t<G>>& total, std::int64_t panel, std::int64_t result,
                void* diff_bias) noexcept {
    const std::int64_t first = panel * narrow_lanes_of<accumulate_t<G>>;
    G* const to = static_cast<G*>(diff_bias) + result * b.channels + first * b.out_step;
    std::array<accumulate_t<G>, static_cast<std::size_t>(narrow_lanes_of<accumulate_t<G>>)> sums;
    total.store(sums.data());
    for (std::int64_t j = 0; j < std::min<std::int64_t>(narrow_lanes_of<accumulate_t<G>>, b.channels - first); ++j)
        store_result(to + j * b.out_step, sums[static_cast<std::size_t>(j)], b.adds_results());
}

/// Where the total of a panel begins: with zeros, or with the previous results.
template <class G>
[[nodiscard]] panel_sums<accumulate_t<G>> begin_bias(const bias_plan& b, std::int64_t panel,
                                                     const void* diff_bias) noexcept {
    const std::int64_t first = panel * narrow_lanes_of<accumulate_t<G>>;
    std::array<accumulate_t<G>, static_cast<std::size_t>(narrow_lanes_of<accumulate_t<G>>)> sums{};
    for (std::int64_t j = 0; j < std::min<std::int64_t>(narrow_lanes_of<accumulate_t<G>>, b.channels - first); ++j)
        sums[static_cast<std::size_t>(j)] = load_element(static_cast<const G*>(diff_bias) + (first + j) * b.out_step);
    return panel_sums<accumulate_t<G>>(sums.data());
}

/// The tensors of a run, and the functions of their types.
template <class Real>
struct bias_operands {
    const void* diff_dst;
    void* diff_bias;
    void (*add_chunks)(const bias_plan& b, const void* diff_dst, std::int64_t panel, std::int64_t sum, std::byte* slice,
                       panel_sums<Real>& total) noexcept;
    panel_sums<Real> (*begin)(const bias_plan& b, std::int64_t panel, const void* diff_bias) noexcept;
    void (*store)(const bias_plan& b, const panel_sums<Real>& total, std::int64_t panel, std::int64_t result,
                  void* diff_bias) noexcept;
};

/// The result of a panel from its sums: add(sum, to) adds one of them, chunk by chunk or as a whole.
template <class Real, class F>
void finish_bias(const bias_plan& b, const bias_operands<Real>& o, std::int64_t panel, std::int64_t result,
                 const F& add) noexcept {
    panel_sums<Real> total;
    if (b.continues_results()) total = o.begin(b, panel, o.diff_bias);
    const std::int64_t groups = b.chunks.groups() / b.results();
    for (std::int64_t group = result * groups; group < (result + 1) * groups; ++group) {
        panel_sums<Real> of_group;
        panel_sums<Real>& to = b.chunks.folds_groups ? of_group : total;
        for (std::int64_t sum = 0; sum < b.chunks.group_sums(); ++sum) add(group * b.chunks.group_sums() + sum, to);
        if (b.chunks.folds_groups) total.add(of_group);
    }
    o.store(b, total, panel, result, o.diff_bias);
}

/// Runs a plan. All checks have passed.
template <class Real>
GRADKERN_NOINLINE void run_bias(const bias_plan& planned, const bias_operands<Real>& o, std::span<std::byte> workspace,
                                executor_ref executor) noexcept {
    const slices all(workspace, planned.slice_bytes);
    const bias_plan b = planned.split_for(std::min<std::int64_t>(executor.concurrency(), all.count()));
    const std::size_t left =
        b.cuts_positions ? workspace_beside(b.shared().bytes(), b.slice_bytes, workspace.size()) : 0;
    if (left > 0) {
        const shared_sums<Real> shared(b.shared(), slices(workspace.subspan(left), b.shared().bytes())[0]);
        return for_each_task(executor, b.tasks(), slices(workspace.first(left), b.slice_bytes),
                             [&](std::byte* slice, std::int64_t task) {
                                 const std::int64_t panel = task % b.panels;
                                 const std::int64_t sum = task / b.panels;
                                 panel_sums<Real> own;
                                 o.add_chunks(b, o.diff_dst, panel, sum, slice, own);
                                 own.store(shared.at(panel, sum));
                                 if (!shared.finish(panel)) return;
                                 finish_bias(b, o, panel, 0, [&](std::int64_t i, panel_sums<Real>& to) {
                                     to.add(panel_sums<Real>(shared.at(panel, i)));
                                 });
                             });
    }
    bias_plan whole = b;
    whole.cuts_positions = false;
    for_each_task(executor, whole.tasks(), all, [&](std::byte* slice, std::int64_t number) {
        const std::int64_t panel = number % b.panels;
        finish_bias(b, o, panel, number / b.panels, [&](std::int64_t sum, panel_sums<Real>& to) {
            if (b.chunks.group_sums() == 1) return o.add_chunks(b, o.diff_dst, panel, sum, slice, to);
            panel_sums<Real> own;
            o.add_chunks(b, o.diff_dst, panel, sum, slice, own);
            to.add(own);
        });
    });
}

/// Runs a plan over typed tensors.
template <class T, class G>
void run_bias(const bias_plan& b, const T* diff_dst, G* diff_bias, std::span<std::byte> workspace,
              executor_ref executor) noexcept {
    run_bias<accumulate_t<T>>(b, {diff_dst, diff_bias, add_chunks<T>, begin_bias<G>, store_bias<G>}, workspace,
                              executor);
}

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END
