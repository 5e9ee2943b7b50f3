// The paths of the average engine: mean over windows (forward) and its gradient, as sums of lines.
//
//     forward    out[o]  =  (sum over columns kw of (sum over kd, kh of in[p(o, k)]))  /  div(o)
//     backward   out[q]  =   sum over columns ow of (sum over od, oh of in[o] / div(o))     windows o that reach q
//
// Every sum starts from +0 and runs in ascending order, the vertical ones (over depth and rows) over the lines that are inside,
// the horizontal ones over the columns, inside or not; long ones in parts (order/summation.hpp). This order is the definition of
// the result: all layouts, types and paths have it. Loops run over inside taps, but columns behind the borders may be read as
// zeros of a scratch line, or masked: adding +0 changes no sum.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <variant>

#include <gradkern/detail/avg_pool/collapsed_lines.hpp>
#include <gradkern/detail/avg_pool/lines.hpp>
#include <gradkern/detail/avg_pool/non_overlapping.hpp>
#include <gradkern/detail/avg_pool/problem.hpp>
#include <gradkern/detail/avg_pool/taps.hpp>
#include <gradkern/detail/avg_pool/windows.hpp>
#include <gradkern/detail/config.hpp>
#include <gradkern/detail/run/operator.hpp>
#include <gradkern/detail/run/select.hpp>
#include <gradkern/detail/run/tasks.hpp>
#include <gradkern/executor.hpp>
#include <gradkern/options.hpp>
#include <gradkern/shape/axis.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail::avg_pool {

/// A default constructed one has no tasks.
using plan = std::variant<collapsed_lines_plan, windows_plan, non_overlapping_plan, lines_plan, taps_plan>;

/// A row of the table.
template <auto Make>
[[nodiscard]] constexpr plan make_as(const problem& p, algorithm) noexcept {
    return Make(p);
}

inline constexpr std::array<path<problem, plan>, 5> paths{{
    {algorithm::collapsed_lines, collapsed_lines_fit, collapsed_lines_are_profitable, make_as<make_collapsed_lines>},
    {algorithm::windows, windows_fit, windows_are_profitable, make_as<make_windows>},
    {algorithm::non_overlapping, windows_do_not_overlap, non_overlapping_is_profitable, make_as<make_non_overlapping>},
    {algorithm::lines, lines_fit, lines_are_profitable, make_as<make_lines>},
    {algorithm::taps, always, always, make_as<make_taps>},
}};

/// What a plan says of itself behind the operator's name.
GRADKERN_NOINLINE inline void describe(const plan& chosen, text_writer& out) noexcept {
    with_plan(chosen, [&](const auto& p) {
        out << name_of(p.name);
        if constexpr (requires { p.block; })
            if (p.block == collapsed_block::planes) out << ", planes";
        if constexpr (requires { p.channels; }) {
            if (p.channels == channel_order::transposed) out << ", transposed";
            if (p.borders == border::zeros) out << ", zeros behind borders";
            out << ", segments of " << p.segment << " columns x " << p.inner_block << ", ring of "
                << p.ring_depths * p.ring_lines << " lines";
        }
        out << ", " << p.tasks() << " tasks, " << p.slice_bytes << " bytes a worker, " << isa_name;
    });
}

/// Tasks of a plan for some workers, and bytes that each of these takes.
struct plan_size {
    std::int64_t tasks = 0;
    std::int64_t slice_bytes = 0;
};
[[nodiscard]] constexpr plan_size size_of(const plan& chosen, std::int64_t workers) noexcept {
    plan_size size;
    with_plan(chosen, [&](const auto& p) {
        size = {workers > 1 ? plan_for(p, workers).tasks() : p.tasks(), p.slice_bytes};
    });
    return size;
}

/// Runs a plan.
template <class T, shape::side Outputs>
void run_plan(const plan& chosen, const T* in, T* out, std::span<std::byte> workspace, executor_ref executor) noexcept {
    with_plan(chosen, [&]<class Plan>(const Plan& planned) {
        if constexpr (requires { sizeof(worker<Plan::name, T, Outputs>); }) {
            const slices memory(workspace, planned.slice_bytes);
            const Plan p = plan_for(planned, std::min<std::int64_t>(executor.concurrency(), memory.count()));
            run_tasks(executor, p.tasks(), memory, [&](std::byte* slice, const next_task& next) {
                worker<Plan::name, T, Outputs> w(p, in, out, slice);
                for (std::int64_t t = next(); t >= 0; t = next()) w.run(t);
            });
        }
    });
}

}  // namespace detail::avg_pool
GRADKERN_ISA_NAMESPACE_END
