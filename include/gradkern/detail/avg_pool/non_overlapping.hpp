// Path `non_overlapping` of the average engine: gradients where each column belongs to one window at most. Nothing is added
// horizontally: the vertical sum of a window is the result of all its columns.
//
//     loops         task > item > row, or rows that read the same: (vertical) row read > block; window > its columns
//     lanes         channels where those are neighbours or transposed, else columns
//     taken when    windows of a gradient do not overlap along the columns
//     gain          over lines: global pools of 32 x 1280 x 7x7 NXC 2800 -> 297 us, NCX 8240 -> 318 us, 2x2 s2 of 3 x 256 x
//                   56x56 NXC 525 -> 419 us; tile_store::direct 596 -> 468 us of the latter and 576 -> 303 us of global pools (Sapphire
//                   Rapids, one core, g++ 12 -O2, f32, both forced by `algorithm`). Slower than lines where channels fill no
//                   vector in NXC: 4x4 s4 of 8 x 3 x 256x256 takes 1.9 times as long
//     zoo           13 of 20 layers: NXC avg2s2_*, global_*, avg7s7_64, pspnet_bin3, avg1d_k2_256, avg3d_global,
//                   avg3d_2x1x1, lpips_like_avg4; NCX those that collapsed_lines leaves
//     delete when   the gain over lines is below 3 %
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include <gradkern/detail/avg_pool/reads.hpp>
#include <gradkern/detail/avg_pool/segment.hpp>
#include <gradkern/detail/avg_pool/segment_plan.hpp>
#include <gradkern/detail/avg_pool/segment_worker.hpp>
#include <gradkern/detail/axes/span.hpp>
#include <gradkern/detail/config.hpp>
#include <gradkern/detail/micro/line_phases.hpp>
#include <gradkern/detail/own.hpp>
#include <gradkern/detail/run/tasks.hpp>
#include <gradkern/detail/simd.hpp>
#include <gradkern/options.hpp>
#include <gradkern/shape/axis.hpp>
#include <gradkern/shape/checked.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail::avg_pool {

/// How the channels of a window get to its columns: by way of a line of results, or straight to the output, to all rows that
/// read the same at once.
enum class tile_store : std::uint8_t { by_line, direct };

template <class T>
class non_overlapping_worker;

struct non_overlapping_plan : segment_plan {
    static constexpr algorithm name = algorithm::non_overlapping;
    template <class T, shape::side Outputs>
    using worker = non_overlapping_worker<T>;
    [[nodiscard]] static constexpr bool serves(shape::side outputs) noexcept { return outputs == shape::side::large; }

    tile_store store = tile_store::by_line;
};

[[nodiscard]] constexpr bool windows_do_not_overlap(const problem& p) noexcept {
    const shape::axis& w = p.axes[2];
    return p.is_backward() && w.dilation == 1 && (w.small == 1 || w.kernel <= w.stride);
}

[[nodiscard]] constexpr non_overlapping_plan make_non_overlapping(const problem& p) noexcept {
    auto g = with_channels<non_overlapping_plan>(p);
    const std::int64_t stride = g.axes[2].stride;
    if (g.inner > 1 && g.out_inner == 1) {
        g.store = tile_store::direct;
        choose_segment(g, line_floats(g.scratch), average_task / average_line, shared_reads::none);
    } else {
        choose_segment(g, 1024, 1, shared_reads::none);
    }
    if (g.segment < g.out_extent(2) && g.segment > stride) g.segment -= g.segment % stride;
    g.reads = reads_at_most(g.axes[2], g.outputs, g.segment);
    choose_tasks(g);
    choose_ring(g);
    slice_layout slice;
    reserve_lines(slice, g, g.store == tile_store::direct ? g.inner_block : g.segment * g.inner_block);
    reserve_rest(slice, g);
    return g;
}

template <class T>
class non_overlapping_worker : public segment_worker<T, shape::side::large> {
    using base = segment_worker<T, shape::side::large>;

public:
    non_overlapping_worker(const non_overlapping_plan& plan, const T* in, T* out, std::byte* slice) noexcept
        : base(plan, in, out, slice), is_direct_(plan.store == tile_store::direct) {}

    void run(std::int64_t task) noexcept { this->compute_task(*this, task); }

private:
    friend base;
    using base::divisors_;
    using base::output_;
    using base::p_;
    using base::result_;
    using base::s_;
    using base::sums_;
    using base::vertical_;

    void set_columns() noexcept {
        if (is_direct_) own::fill(result_, result_ + s_.inner, 0.0F);  // for columns without a window
        divisors_.count(s_.all_reads());
    }
    void store_zeros(T* out) const noexcept {
        if (!is_direct_) return base::store_zeros(out);
        output_.store_columns(result_, 1, 0, s_.columns, 1, out);
    }

    std::int64_t compute_lines(std::int64_t h, const axis_reads& rows, T* out) noexcept {
        const bool is_same = this->are_last_rows(rows);
        if (!is_same && s_.reads > 0) vertical_.sum(h, rows, s_.all_reads(), sums_);
        if (is_direct_) {
            std::int64_t lines = 1;
            while (h + lines < s_.last_line && s_.rows_of(h + lines) == rows) ++lines;
            store_tiles(lines, out);
            return lines;
        }
        if (s_.inner == 1 && !p_.accumulates() && s_.is_dense(p_.out, p_.out_inner, s_.columns)) {
            // rounded, if the sums in result_ are not yet the same
            repeat_values(as_elements<T>(sums_, is_same ? 0 : s_.reads, result_), out);
            return 1;
        }
        if (!is_same) s_.inner == 1 ? repeat_values(sums_, result_) : repeat_channels();
        output_.store_line(result_, out);
        return 1;
    }

    /// Calls repeat(values, column, count) for the segment's columns in ascending order, where `values` are those of a column of
    /// the line `sums`, or null for columns without a window. Windows that lie side by side go to repeat_all(values, windows,
    /// column) at once, if that returns true.
    template <class V, class Repeat, class RepeatAll>
    void for_each_tile(const V* sums, const Repeat& repeat, const RepeatAll& repeat_all) const noexcept {
        const shape::axis& a = p_.axes[2];
        std::int64_t q = s_.first_column;  // next position
        const std::int64_t end = s_.first_column + s_.columns;
        const auto up_to = [&](const V* values, std::int64_t to) {
            if (q >= to) return;
            repeat(values, q - s_.first_column, to - q);
            q = to;
        };
        for (std::int64_t o = s_.first_read; o < s_.first_read + s_.reads; ++o) {
            const V* const values = sums + (o - s_.first_read) * s_.inner;
            const std::int64_t from = a.position(o, 0);
            const bool whole = from >= q && a.kernel <= end - from;
            up_to(nullptr, std::min(end, from));
            if (whole && a.kernel == a.stride) {
                const std::int64_t windows = std::min(s_.first_read + s_.reads - o, (end - from) / a.stride);
                if (repeat_all(values, windows, from - s_.first_column)) {
                    q = from + windows * a.stride;
                    o += windows - 1;
                    continue;
                }
            }
            up_to(values, from + std::min(a.kernel, end - from));
        }
        up_to(nullptr, end);
    }

    /// Repeats the channels of each window over its columns, straight to the output, in each of `lines` rows.
    void store_tiles(std::int64_t lines, T* out) const noexcept {
        const auto store = [&](const float* values, std::int64_t column, std::int64_t count) {
            output_.store_columns(values == nullptr ? result_ : values, 1, column, count, lines, out);
        };
        for_each_tile(sums_, store, [&](const float* values, std::int64_t windows, std::int64_t column) {
            output_.store_columns(values, windows, column, p_.axes[2].stride, lines, out);
            return true;
        });
    }

    /// The same into the line of results.
    void repeat_channels() const noexcept {
        const auto repeat = [&](const float* values, std::int64_t column, std::int64_t count) {
            float* const out = result_ + column * s_.inner;
            for (std::int64_t i = 0; i < count; ++i) {
                if (values == nullptr) {
                    own::fill_n(out + i * s_.inner, s_.inner, 0.0F);
                } else {
                    own::copy_n(values, s_.inner, out + i * s_.inner);
                }
            }
        };
        for_each_tile(sums_, repeat, [](const float*, std::int64_t, std::int64_t) { return false; });
    }

    /// Repeats the value of each window over its columns, as elements of the line's type: into the output, or a line of results.
    template <class V>
    void repeat_values(const V* values, V* out) const noexcept {
        const auto repeat = [&](const V* value, std::int64_t column, std::int64_t count) {
            own::fill_n(out + column, count, value == nullptr ? V{} : *value);
        };
        for_each_tile(values, repeat, [&](const V* first, std::int64_t windows, std::int64_t column) {
            const std::int64_t stride = p_.axes[2].stride;
            const std::int64_t block = std::max<std::int64_t>(1, 256 / stride);  // windows
            for (std::int64_t w = 0; w < windows; w += block) {
                const std::int64_t count = std::min(block, windows - w);
                V* const to = out + column + w * stride;
                simd::prefetch_stream_to_write(to, count * stride);
                repeat_each(first + w, count, stride, to);
            }
            return true;
        });
    }

    bool is_direct_;
};

}  // namespace detail::avg_pool
GRADKERN_ISA_NAMESPACE_END
