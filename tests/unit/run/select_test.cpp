// Paths as rows of a table: which row is taken, and what a name that fits none says.
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <string>
#include <variant>

#include <gradkern/detail/run/select.hpp>
#include <gradkern/error_text.hpp>

namespace {

namespace detail = gradkern::detail;
using gradkern::algorithm;

struct problem {
    int size = 0;
    bool dense = true;
};
struct small_plan {
    int size = 0;
};
struct large_plan {
    int size = 0;
    algorithm name{};
};
using plan = std::variant<std::monostate, small_plan, large_plan>;

constexpr plan make_large(const problem& p, algorithm name) noexcept { return large_plan{p.size, name}; }
constexpr std::array<detail::path<problem, plan>, 3> table{{
    {algorithm::dense, [](const problem& p) noexcept { return p.dense; },
     [](const problem& p) noexcept { return p.size > 100; }, make_large},
    {algorithm::dense_packed, detail::always<problem>, [](const problem& p) noexcept { return p.size > 10; },
     make_large},
    {algorithm::automatic, detail::always<problem>, detail::always<problem>,
     [](const problem& p, algorithm) noexcept -> plan { return small_plan{p.size}; }},
}};

const detail::path<problem, plan>* row(std::size_t i) { return &table[i]; }

TEST(select, the_first_row_that_fits_and_is_profitable_is_taken) {
    constexpr algorithm any = algorithm::automatic;
    EXPECT_EQ(detail::select_path(table, {1000, true}, any), row(0));
    EXPECT_EQ(detail::select_path(table, {1000, false}, any), row(1));
    EXPECT_EQ(detail::select_path(table, {50, true}, any), row(1));
    EXPECT_EQ(detail::select_path(table, {5, true}, any), row(2));
}

TEST(select, a_forced_row_is_taken_where_it_fits_whether_profitable_or_not) {
    EXPECT_EQ(detail::select_path(table, {5, true}, algorithm::dense), row(0));
    EXPECT_EQ(detail::select_path(table, {1000, true}, algorithm::dense_packed), row(1));
    EXPECT_EQ(detail::select_path(table, {1000, false}, algorithm::dense), nullptr);
    EXPECT_EQ(detail::select_path(table, {1000, true}, static_cast<algorithm>(99)), nullptr);
}

TEST(select, a_maker_knows_the_name_of_its_row) {
    const auto* taken = detail::select_path(table, {50, true}, algorithm::automatic);
    const plan made = taken->make({50, true}, taken->name);
    EXPECT_EQ(std::get<large_plan>(made).name, algorithm::dense_packed);
}

TEST(select, an_error_says_why_there_is_no_row) {
    const auto error_of = [](const problem& p, algorithm wanted) {
        gradkern::shape::operator_checks checks("op");
        detail::check_path(checks, table, detail::select_path(table, p, wanted), wanted);
        return checks.ok() ? gradkern::error{} : checks.error();
    };
    EXPECT_EQ(error_of({5, true}, algorithm::dense).code, gradkern::errc::ok);
    const gradkern::error unfit = error_of({5, false}, algorithm::dense);
    const gradkern::error unknown = error_of({5, true}, static_cast<algorithm>(99));
    for (const gradkern::error& e : {unfit, unknown}) {
        EXPECT_EQ(e.code, gradkern::errc::unsupported);
        EXPECT_EQ(e.op, "op");
        EXPECT_EQ(e.argument, "algorithm");
    }
    EXPECT_NE(gradkern::to_string(unfit).find("does not fit the problem"), std::string::npos);
    EXPECT_NE(gradkern::to_string(unknown).find("no such algorithm"), std::string::npos);
}

TEST(select, a_visit_sees_the_plan_that_is_held_once) {
    int calls = 0;
    const auto visit = [&](const plan& p) {
        int size = -1;
        detail::with_plan(p, [&](const auto& held) {
            ++calls;
            if constexpr (requires { held.size; }) size = held.size;
        });
        return size;
    };
    EXPECT_EQ(visit(small_plan{7}), 7);
    EXPECT_EQ(visit(large_plan{9, {}}), 9);
    EXPECT_EQ(visit(plan{}), -1);
    EXPECT_EQ(calls, 3);
}

}  // namespace
