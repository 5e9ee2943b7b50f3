// Checks of testing.hpp for GoogleTest, as assertions and as matchers. It needs GoogleTest; the other headers do not.
//
//     EXPECT_TRUE(test::is_right(dx, problem, inputs));       // prints the report if it fails
//     EXPECT_THAT(dx, test::is_result_of(problem, inputs));   // the same with GoogleMock
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <ostream>
#include <type_traits>

#include <gradkern/detail/config.hpp>
#include <gradkern/dynamic_view.hpp>
#include <gradkern/error_text.hpp>
#include <gradkern/half.hpp>
#include <gradkern/status.hpp>
#include <gradkern/tensor_view.hpp>
#include <gradkern/testing.hpp>
#include <gradkern/testing/numbers.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN

// How GoogleTest prints values, instead of their bytes: it finds these functions in the namespace of the types. Memory of tensors
// is not read.

/// `[1, 2, 3]`
inline void PrintTo(const extents& e, std::ostream* out) {
    *out << '[';
    for (std::size_t i = 0; i < e.rank(); ++i) {
        if (i != 0) *out << ", ";
        if (i < extents::capacity) {
            *out << e[i];
        } else {
            *out << '?';  // counted, not kept
        }
    }
    *out << ']';
}
/// `shape [1, 2, 3]`, and strides if there are any.
inline void PrintTo(const tensor_layout& layout, std::ostream* out) {
    *out << "shape ";
    PrintTo(layout.shape, out);
    if (layout.is_dense()) return;
    *out << ", strides ";
    PrintTo(layout.strides, out);
}
/// `bf16 tensor of shape [1, 2, 3]`
inline void PrintTo(const const_dynamic_view& view, std::ostream* out) {
    *out << detail::name_of(view.type) << " tensor of ";
    PrintTo(view.layout, out);
}
/// As above.
inline void PrintTo(const dynamic_view& view, std::ostream* out) { PrintTo(const_dynamic_view(view), out); }
/// As above, or `tensor of shape [1, 2, 3]` if the elements are no element type, such as indices.
template <class T>
void PrintTo(const tensor_view<T>& view, std::ostream* out) {
    if constexpr (element<std::remove_const_t<T>>) {
        PrintTo(const_dynamic_view(view), out);
    } else {
        *out << "tensor of ";
        PrintTo(view.layout, out);
    }
}
/// The message.
inline void PrintTo(const error& e, std::ostream* out) { *out << to_string(e); }
/// The message, or "ok".
inline void PrintTo(const status& s, std::ostream* out) { *out << to_string(s); }

namespace test {

/// The operator's name.
inline void PrintTo(operation op, std::ostream* out) { *out << name_of(op); }
/// The pattern's name.
inline void PrintTo(pattern p, std::ostream* out) { *out << name_of(p); }

/// A report as an assertion: a failure prints the report.
[[nodiscard]] inline ::testing::AssertionResult is_ok(const report& r) {
    return (r.ok() ? ::testing::AssertionSuccess() : ::testing::AssertionFailure()) << r;
}
/// A report as an assertion: a failure prints the report.
[[nodiscard]] inline ::testing::AssertionResult is_ok(const derivative_report& r) {
    return (r.ok() ? ::testing::AssertionSuccess() : ::testing::AssertionFailure()) << r;
}
/// compare() as an assertion, for EXPECT_TRUE and ASSERT_TRUE.
[[nodiscard]] inline ::testing::AssertionResult is_right(const const_dynamic_view& result, const problem& p,
                                                         const inputs& in, const compare_options& options = {}) {
    return is_ok(compare(result, p, in, options));
}
/// compare() of the indices of max_pool as an assertion.
[[nodiscard]] inline ::testing::AssertionResult is_right(const index_view& indices, const problem& p,
                                                         const inputs& in) {
    return is_ok(compare(indices, p, in));
}

/// A matcher of tensors (tensor_view, dynamic_view, const_dynamic_view) for EXPECT_THAT. It looks at the inputs when it
/// matches.
class result_matcher {
public:
    using is_gtest_matcher = void;  ///< GoogleTest takes it as a matcher
    /// Matches what compare() finds right.
    result_matcher(const problem& p, const inputs& in, const compare_options& options)
        : problem_(p), inputs_(in), options_(options) {}
    /// Whether compare() finds the tensor right; the report goes to the stream if there is one.
    bool MatchAndExplain(const const_dynamic_view& result, std::ostream* out) const {
        const report r = compare(result, problem_, inputs_, options_);
        if (out != nullptr) *out << r;
        return r.ok();
    }
    /// What is expected.
    void DescribeTo(std::ostream* out) const { *out << "is the result of " << name_of(problem_.op()); }
    /// What is not expected.
    void DescribeNegationTo(std::ostream* out) const { *out << "is not the result of " << name_of(problem_.op()); }

private:
    problem problem_;
    inputs inputs_;
    compare_options options_;
};
/// The matcher of a problem's result.
[[nodiscard]] inline result_matcher is_result_of(const problem& p, const inputs& in,
                                                 const compare_options& options = {}) {
    return {p, in, options};
}

}  // namespace test
GRADKERN_ISA_NAMESPACE_END
