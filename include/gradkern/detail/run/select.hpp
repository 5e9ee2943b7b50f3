// Paths as rows of a table: how an engine chooses the way it computes a problem.
//
// An engine has one `constexpr` array of paths, fastest first. The first row that fits a problem and is profitable for it is
// taken; plan_options::algorithm names one row instead. The last row fits every problem and is always profitable.
#pragma once

#include <array>
#include <cstddef>
#include <type_traits>
#include <variant>

#include <gradkern/detail/config.hpp>
#include <gradkern/options.hpp>
#include <gradkern/shape/check.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail {

/// One row of an engine's table.
template <class Problem, class Plan>
struct path {
    algorithm name;                                    ///< what forces it, and what describe() prints
    bool (*fits)(const Problem&) noexcept;             ///< whether it computes the problem: correctness alone
    bool (*is_profitable)(const Problem&) noexcept;    ///< whether it is faster than the rows below: speed alone
    Plan (*make)(const Problem&, algorithm) noexcept;  ///< its plan; the row's name, for paths that share a maker
};

/// The row that serves a problem; null where `wanted` is no row, or does not fit.
template <class Problem, class Plan, std::size_t Rows>
[[nodiscard]] constexpr const path<Problem, Plan>* select_path(const std::array<path<Problem, Plan>, Rows>& table,
                                                               const Problem& problem, algorithm wanted) noexcept {
    for (const path<Problem, Plan>& row : table) {
        if (wanted != algorithm::automatic && row.name != wanted) continue;
        if (row.fits(problem) && (row.name == wanted || row.is_profitable(problem))) return &row;
    }
    return nullptr;
}

/// Whether a table has a row of that name.
template <class Problem, class Plan, std::size_t Rows>
[[nodiscard]] constexpr bool has_row(const std::array<path<Problem, Plan>, Rows>& table, algorithm name) noexcept {
    for (const path<Problem, Plan>& row : table)
        if (row.name == name) return true;
    return false;
}

/// The row that options ask for. The least scratch ignores which of the table's rows they name.
template <class Problem, class Plan, std::size_t Rows>
[[nodiscard]] constexpr algorithm wanted_row(const std::array<path<Problem, Plan>, Rows>& table,
                                             const plan_options& options) noexcept {
    const bool is_ignored = options.scratch == scratch_use::least && has_row(table, options.algorithm);
    return is_ignored ? algorithm::automatic : options.algorithm;
}

/// Reports why a table has no row for `wanted`.
template <class Problem, class Plan, std::size_t Rows>
constexpr void check_path(shape::operator_checks& checks, const std::array<path<Problem, Plan>, Rows>& table,
                          const path<Problem, Plan>* found, algorithm wanted) noexcept {
    checks.require_that(
        found != nullptr, errc::unsupported, "algorithm",
        has_row(table, wanted) ? "this algorithm does not fit the problem" : "this operator has no such algorithm");
}

/// The plan of the row that serves a problem, or an error.
template <class Problem, class Plan, std::size_t Rows>
[[nodiscard]] GRADKERN_NOINLINE constexpr Plan plan_path(shape::operator_checks& checks,
                                                         const std::array<path<Problem, Plan>, Rows>& table,
                                                         const std::type_identity_t<Problem>& problem,
                                                         const plan_options& options) noexcept {
    const algorithm wanted = wanted_row(table, options);
    const path<Problem, Plan>* const row = select_path(table, problem, wanted);
    check_path(checks, table, row, wanted);
    return row == nullptr ? Plan{} : row->make(problem, row->name);
}

/// For rows that fit every problem, or are always profitable where they fit.
template <class Problem>
[[nodiscard]] constexpr bool always(const Problem&) noexcept {
    return true;
}

/// Calls f with the plan that a variant of paths' plans holds.
template <class... Plans, class F>
GRADKERN_ALWAYS_INLINE constexpr void with_plan(const std::variant<Plans...>& plan, const F& f) noexcept {
    const auto call = [&](const auto* held) GRADKERN_INLINE_LAMBDA {
        if (held != nullptr) f(*held);
        return held != nullptr;
    };
    static_cast<void>((call(std::get_if<Plans>(&plan)) || ...));
}

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END
