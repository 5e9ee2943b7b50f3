// Whether a tensor of somebody's results is as near to the exact one as its bounds demand.
#pragma once

#include <cstddef>
#include <string>

#include "tensor.hpp"

namespace golden {

/// What was found out about one tensor.
struct verdict {
    std::size_t elements = 0;
    std::size_t without_bound = 0;  ///< elements of which nothing is promised
    std::size_t refused = 0;        ///< elements beyond their bounds
    // of the judged elements; meaningless where there are none
    double worst = 0;  ///< the largest |result - exact| / bound; infinite for a wrong NaN, Inf or index
    std::size_t worst_at = 0;
    double result = 0, exact = 0, bound = 0;  ///< of that element

    [[nodiscard]] std::size_t judged() const noexcept { return elements - without_bound; }
    [[nodiscard]] bool passes() const noexcept { return refused == 0; }
    /// Whether nothing can be said of a tensor that has elements.
    [[nodiscard]] bool is_unjudged() const noexcept { return elements != 0 && judged() == 0; }
};

/// Judges `result` by `exact` and `bounds`, which have its shape.
///
/// - Where the exact value is NaN or infinite, the result is the same.
/// - Where the bound is Inf, nothing is promised: the element is not judged. Where it is -Inf, the result is infinite, with the sign
///   of the exact value.
/// - Elsewhere |result - exact| <= bound.
///
/// A bound that is NaN, or negative and finite, is a failure.
[[nodiscard]] verdict judge(const tensor& result, const tensor& exact, const tensor& bounds);

/// Where element i of a tensor is.
[[nodiscard]] sizes index_of(std::size_t i, const sizes& shape);

/// The element that is worst, as one line: "diff_src[0, 3, 1]: got 0.5, exact 0.25, bound 1e-06; 3 of 64 elements are out of
/// bounds, 2 have no bound".
[[nodiscard]] std::string text_of(const verdict& v, const std::string& name, const sizes& shape);

}  // namespace golden
