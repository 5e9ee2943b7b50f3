// The table of paths of forward passes and data gradients, fastest first.
#pragma once

#include <array>
#include <variant>

#include <gradkern/detail/config.hpp>
#include <gradkern/detail/conv/dense.hpp>
#include <gradkern/detail/conv/depthwise.hpp>
#include <gradkern/detail/conv/depthwise_lines.hpp>
#include <gradkern/detail/conv/grouped.hpp>
#include <gradkern/detail/conv/narrow_output.hpp>
#include <gradkern/detail/conv/pointwise.hpp>
#include <gradkern/detail/conv/problem.hpp>
#include <gradkern/detail/conv/tile_plan.hpp>
#include <gradkern/detail/run/select.hpp>
#include <gradkern/options.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail {

/// The plan of the path that was chosen.
using conv_plan = std::variant<tile_plan, pointwise_plan, narrow_output_plan, depthwise_lines_plan>;
using conv_path = path<conv_problem, conv_plan>;

/// The plan of a path, which makes it, or makes a choice for tiles.
template <class Path>
[[nodiscard]] GRADKERN_COLD constexpr conv_plan make_conv_plan(const conv_problem& p, algorithm) noexcept {
    if constexpr (requires { Path::choice(p); }) {
        return make_tile_plan(p, Path::choice(p));
    } else {
        return Path::make(p);
    }
}

template <class Path>
[[nodiscard]] constexpr conv_path conv_row(algorithm name) noexcept {
    return {name, &Path::fits, &Path::is_profitable, &make_conv_plan<Path>};
}

inline constexpr std::array conv_paths{
    conv_row<depthwise_lines_path>(algorithm::depthwise_lines),
    conv_row<depthwise_sliding_path>(algorithm::depthwise_sliding),
    conv_row<grouped_path>(algorithm::grouped),
    conv_row<depthwise_path>(algorithm::depthwise),
    conv_row<pointwise_path>(algorithm::pointwise),
    conv_row<narrow_output_path>(algorithm::narrow_output),
    conv_row<dense_path>(algorithm::dense),
    conv_row<dense_packed_path>(algorithm::dense_packed),
};

/// The row that serves a problem; null where `wanted` is no row, or does not fit. Least scratch takes a dense row, whichever row
/// is named.
[[nodiscard]] constexpr const conv_path* select_conv_path(const conv_problem& p, algorithm wanted) noexcept {
    if (p.takes_least_scratch() && (wanted == algorithm::automatic || has_row(conv_paths, wanted)))
        wanted = p.is_wide ? algorithm::dense : algorithm::dense_packed;
    return select_path(conv_paths, p, wanted);
}

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END
