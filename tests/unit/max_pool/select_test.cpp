// Which path a max pool and its gradient take: what each row of the tables fits, what forcing one says, and what plans are.

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>

#include <gradkern/max_pool.hpp>

namespace {

namespace gk = gradkern;
namespace detail = gradkern::detail;
namespace engine = gradkern::detail::max_pool;
using gk::algorithm;
using gk::data_format;
using gk::errc;
using gk::extents;
using gk::max_pool_attributes;
using gk::plan_options;

// A plan is copied as bytes.
static_assert(std::is_trivially_copyable_v<engine::plan>);
static_assert(std::is_trivially_copyable_v<engine::backward_plan>);

/// A pool of dense tensors.
struct pool {
    extents src;
    max_pool_attributes attributes;

    [[nodiscard]] extents dst() const { return *gk::infer_max_pool(src, attributes); }
    [[nodiscard]] auto forward(const plan_options& options = {}) const {
        return gk::plan_max_pool<float>(src, attributes, dst(), dst(), options);
    }
    [[nodiscard]] auto backward(const plan_options& options = {}) const {
        return gk::plan_max_pool_backward<float>(src, dst(), attributes, src, options);
    }
};

max_pool_attributes window(const extents& kernel, const extents& strides, data_format format,
                           const extents& dilations = {}) {
    return {.kernel = kernel, .strides = strides, .dilations = dilations, .data_format = format};
}
const pool nxc{{2, 9, 9, 20}, window({3, 3}, {2, 2}, data_format::nxc)};
const pool ncx{{2, 20, 9, 9}, window({3, 3}, {2, 2}, data_format::ncx)};
const pool long_lines{{2, 9, 128, 16}, window({3, 3}, {2, 2}, data_format::nxc)};
const pool line_ncx{{2, 20, 30}, window({3}, {2}, data_format::ncx)};
const pool dilated{{2, 9, 9, 20}, window({3, 3}, {2, 2}, data_format::nxc, {2, 2})};
const pool many_windows{{2, 20, 20, 20}, window({9, 9}, {1, 1}, data_format::nxc)};
// A kernel over a plane of more elements than scratch may hold.
const pool huge_window{{1, 20, 1024, 1024}, window({1024, 1024}, {1, 1}, data_format::ncx)};
// A plane of more than 2^30 pixels.
const pool huge_plane{{1, 1 << 16, 1 << 16, 16}, window({2, 2}, {2, 2}, data_format::nxc)};

/// The path that a line of describe() names.
template <class Plan>
std::string path_of(const Plan& plan) {
    std::array<char, 256> text{};
    plan.describe(text);
    const std::string_view line(text.data());
    const std::size_t begin = line.find(": ") + 2;
    return std::string(line.substr(begin, line.find(',') - begin));
}
std::string forward_path(const pool& p, const plan_options& options = {}) { return path_of(*p.forward(options)); }
std::string backward_path(const pool& p, const plan_options& options = {}) { return path_of(*p.backward(options)); }

/// "fits" where the row can be forced, and describe() then names it, else the reason of the refusal.
template <class Made>
std::string fit_of(algorithm row, const Made& made) {
    if (made) return path_of(*made) == gk::name_of(row) ? "fits" : "takes another path";
    if (made.error().code != errc::unsupported || made.error().argument != "algorithm") return "another error";
    return std::string(made.error().why);
}
std::string forward_fit(algorithm row, const pool& p) { return fit_of(row, p.forward({.algorithm = row})); }
std::string backward_fit(algorithm row, const pool& p) { return fit_of(row, p.backward({.algorithm = row})); }

constexpr std::string_view no_fit = "this algorithm does not fit the problem";
constexpr std::string_view no_row = "this operator has no such algorithm";

TEST(max_pool_select, automatic_takes_the_first_row_that_fits_and_is_profitable) {
    EXPECT_EQ(forward_path(nxc), "windows");
    EXPECT_EQ(forward_path(ncx), "windows_packed");
    EXPECT_EQ(forward_path(huge_window), "windows_strided");
    EXPECT_EQ(forward_path(huge_plane), "windows_strided");
    EXPECT_EQ(backward_path(long_lines), "gather_form");
    EXPECT_EQ(backward_path(nxc), "scatter_form");  // gather_form fits, but lines are short
    EXPECT_EQ(backward_path(many_windows), "scatter_form");
    EXPECT_EQ(backward_path(dilated), "scatter_form");
    EXPECT_EQ(backward_path(line_ncx), "scatter_form_packed");
    EXPECT_EQ(backward_path(ncx), "scatter_form_packed");
    EXPECT_EQ(backward_path(huge_window), "scatter_form_strided");
    EXPECT_EQ(backward_path(huge_plane), "scatter_form_strided");
}

TEST(max_pool_select, forward_rows_fit_or_are_unsupported) {
    EXPECT_EQ(forward_fit(algorithm::windows, nxc), "fits");
    EXPECT_EQ(forward_fit(algorithm::windows, ncx), no_fit);
    EXPECT_EQ(forward_fit(algorithm::windows, huge_plane), no_fit);
    EXPECT_EQ(forward_fit(algorithm::windows_packed, nxc), "fits");
    EXPECT_EQ(forward_fit(algorithm::windows_packed, ncx), "fits");
    EXPECT_EQ(forward_fit(algorithm::windows_packed, huge_window), no_fit);
    for (const pool& p : {nxc, ncx, dilated, huge_window, huge_plane})
        EXPECT_EQ(forward_fit(algorithm::windows_strided, p), "fits");
    EXPECT_EQ(forward_fit(algorithm::gather_form, nxc), no_row);
    EXPECT_EQ(forward_fit(algorithm::dense, nxc), no_row);
}

TEST(max_pool_select, backward_rows_fit_or_are_unsupported) {
    EXPECT_EQ(backward_fit(algorithm::gather_form, nxc), "fits");
    EXPECT_EQ(backward_fit(algorithm::gather_form, ncx), no_fit);
    EXPECT_EQ(backward_fit(algorithm::gather_form, dilated), no_fit);
    EXPECT_EQ(backward_fit(algorithm::gather_form, many_windows), no_fit);
    EXPECT_EQ(backward_fit(algorithm::scatter_form, nxc), "fits");
    EXPECT_EQ(backward_fit(algorithm::scatter_form, ncx), no_fit);
    EXPECT_EQ(backward_fit(algorithm::scatter_form_packed, nxc), "fits");
    EXPECT_EQ(backward_fit(algorithm::scatter_form_packed, line_ncx), "fits");
    EXPECT_EQ(backward_fit(algorithm::scatter_form_packed, huge_window), no_fit);
    for (const pool& p : {nxc, ncx, dilated, huge_window, huge_plane})
        EXPECT_EQ(backward_fit(algorithm::scatter_form_strided, p), "fits");
    EXPECT_EQ(backward_fit(algorithm::windows, nxc), no_row);
}

TEST(max_pool_select, last_rows_fit_every_problem) {
    EXPECT_EQ(engine::paths.back().fits, detail::always<engine::problem>);
    EXPECT_EQ(engine::backward_paths.back().fits, detail::always<engine::problem>);
    for (const auto& row : engine::paths) EXPECT_NE(gk::name_of(row.name), "unknown");
    for (const auto& row : engine::backward_paths) EXPECT_NE(gk::name_of(row.name), "unknown");
}

TEST(max_pool_select, least_scratch_takes_any_row_but_no_other_operators) {
    for (const pool& p : {nxc, ncx, line_ncx, dilated, many_windows}) {
        for (const auto& row : engine::paths) {
            const auto plan = p.forward({.algorithm = row.name, .scratch = gk::scratch_use::least});
            ASSERT_TRUE(plan);
            EXPECT_LE(plan->workspace_bytes(), detail::call_workspace);
        }
        for (const auto& row : engine::backward_paths) {
            const auto plan = p.backward({.algorithm = row.name, .scratch = gk::scratch_use::least});
            ASSERT_TRUE(plan);
            EXPECT_LE(plan->workspace_bytes(), detail::call_workspace);
        }
    }
    EXPECT_EQ(nxc.forward({.algorithm = algorithm::dense, .scratch = gk::scratch_use::least}).error().code,
              errc::unsupported);
}

// Errors of shapes and of memory come first.
TEST(max_pool_select, a_forced_row_is_looked_at_last) {
    const auto plan = gk::plan_max_pool<float>({2, 20, 9, 9}, window({3, 3}, {2, 2}, data_format::ncx),
                                               extents{2, 20, 4, 5}, {}, {.algorithm = algorithm::windows});
    ASSERT_FALSE(plan);
    EXPECT_EQ(plan.error().code, errc::invalid_shape);
}

// Nothing is computed from strides that no address can hold.
TEST(max_pool_select, strides_out_of_range_are_refused_before_a_row_is_chosen) {
    const gk::tensor_layout far({2, 9, 9, 20}, {INT64_MIN, 180, 20, 1});
    const plan_options options{.algorithm = algorithm::dense};
    const auto forward = gk::plan_max_pool<float>(far, nxc.attributes, {}, {}, options);
    ASSERT_FALSE(forward);
    EXPECT_EQ(forward.error().argument, "src");
    const auto backward = gk::plan_max_pool_backward<float>(nxc.src, nxc.dst(), nxc.attributes, far, options);
    ASSERT_FALSE(backward);
    EXPECT_EQ(backward.error().argument, "diff_src");
}

TEST(max_pool_select, nothing_to_write_has_no_task) {
    const pool no_channels{{2, 0, 9, 9}, window({3, 3}, {2, 2}, data_format::ncx)};
    const pool no_images{{0, 9, 9, 20}, window({3, 3}, {2, 2}, data_format::nxc)};
    for (const pool& p : {no_channels, no_images}) {
        EXPECT_EQ(p.forward()->workspace_bytes(), 0U);
        EXPECT_EQ(p.backward()->workspace_bytes(), 0U);
    }
}

/// The plan of the path `windows`.
engine::windows_plan windows_of(const pool& p) {
    const auto problem = gk::shape::max_pool_shapes(p.src, p.attributes, {}, {}, 4);
    return engine::make_windows({*problem, p.attributes, p.src, p.dst(), {}, {}, {}}, algorithm::windows);
}

// Overlapping 5x5 windows keep the maxima of rows; those of 3x3 have too few taps for it.
TEST(max_pool_select, large_overlapping_windows_are_separable) {
    const auto is_separable = [](const extents& kernel) {
        return windows_of({{1, 20, 20, 16}, window(kernel, {1, 1}, data_format::nxc)}).at_rows > 0;
    };
    EXPECT_TRUE(is_separable({5, 5}));
    EXPECT_FALSE(is_separable({3, 3}));
}

// A call without a workspace, on so many workers, gives up the maxima of rows before it takes the least scratch.
TEST(max_pool_select, calls_without_a_workspace_give_up_maxima_of_rows_first) {
    const auto call_bytes = [](const auto& make, std::ptrdiff_t workers) {
        auto plan = make(plan_options{});
        EXPECT_TRUE(detail::fit_stack<true>(plan, {}, make, workers));
        return plan->workspace_bytes();
    };
    const auto check = [&](const auto& make, std::ptrdiff_t workers) {
        auto smaller = *make(plan_options{});
        const std::size_t fast = smaller.workspace_bytes();
        smaller.drop_optional_scratch();
        const std::size_t least = make(plan_options{.scratch = gk::scratch_use::least})->workspace_bytes();
        ASSERT_LT(smaller.workspace_bytes(), fast);
        ASSERT_NE(smaller.workspace_bytes(), least);
        EXPECT_EQ(call_bytes(make, workers), smaller.workspace_bytes());
    };
    const pool large{{1, 40, 40, 64}, window({9, 9}, {1, 1}, data_format::nxc)};
    ASSERT_GT(large.forward()->workspace_bytes(), detail::call_workspace);
    check([&](const plan_options& how) { return large.forward(how); }, 1);
    const pool gradient{{16, 14, 14, 48}, window({7, 7}, {1, 1}, data_format::nxc)};
    ASSERT_GT(gradient.backward()->workspace_bytes(), detail::call_workspace);
    check([&](const plan_options& how) { return gradient.backward(how); }, 1);
    // One worker has room for them, sixteen have not.
    const pool small{{16, 7, 7, 64}, window({5, 5}, {1, 1}, data_format::nxc)};
    const auto make = [&](const plan_options& how) { return small.forward(how); };
    ASSERT_LE(small.forward()->workspace_bytes(), detail::call_workspace);
    EXPECT_EQ(call_bytes(make, 1), small.forward()->workspace_bytes());
    check(make, 16);
}

// In NXC panels of one box share lines of the cache: there are as many boxes as workers.
TEST(max_pool_select, workers_have_boxes_of_their_own_in_nxc) {
    const engine::windows_plan w = windows_of({{2, 28, 28, 4096}, window({2, 2}, {2, 2}, data_format::nxc)});
    EXPECT_GT(w.panels, 1);
    for (const std::int64_t workers : {2, 4, 8}) EXPECT_GE(w.boxes_of(workers).count(), workers);
}

// What is packed of a line: all of it where most is read and lines are contiguous.
TEST(max_pool_select, whole_lines_are_packed_where_they_are_contiguous) {
    engine::problem p;
    p.axes[2] = {.large = 16, .small = 8, .kernel = 2, .stride = 2};
    p.src = {0, 256, 256, 16, 1};
    EXPECT_EQ(engine::packed_columns(p, 8), 16);
    p.axes[2].small = 7;  // 14 of 16 columns are read
    EXPECT_EQ(engine::packed_columns(p, 7), 16);
    EXPECT_EQ(engine::packed_columns(p, 3), 6);
    p.src[3] = 20;  // lines do not follow one another
    EXPECT_EQ(engine::packed_columns(p, 7), 14);
}

TEST(max_pool_select, slices_lie_along_the_outermost_axis) {
    engine::problem p;
    EXPECT_EQ(engine::slice_axis(p), 2U);
    p.axes[1].large = 4;
    EXPECT_EQ(engine::slice_axis(p), 1U);
    p.axes[0].small = 2;
    EXPECT_EQ(engine::slice_axis(p), 0U);
}

}  // namespace
