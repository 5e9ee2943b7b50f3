// Whether a tensor of somebody's results is as near to the exact one as its bounds demand.
#pragma once

#include <cstddef>
#include <string>

#include "tensor.hpp"

namespace golden {

/// What was found out about one tensor.
struct verdict {
    std::size_t elements = 0;
    std::size_t refused = 0;  ///< elements beyond their bounds
    double worst = 0;         ///< the largest |result - exact| / bound; infinite for a wrong NaN, Inf or index
    std::size_t worst_at = 0;
    double result = 0, exact = 0, bound = 0;  ///< of that element

    [[nodiscard]] bool passes() const noexcept { return refused == 0; }
};

/// Judges `result` by `exact` and `bounds`, which have its shape.
///
/// - Where the exact value is NaN or infinite, the result is the same.
/// - Where the bound is Inf, nothing is promised: every result passes. Where it is -Inf, the result is infinite, with the sign
///   of the exact value.
/// - Elsewhere |result - exact| <= bound.
[[nodiscard]] verdict judge(const tensor& result, const tensor& exact, const tensor& bounds);

/// The element that is worst, as one line: "diff_src[0, 3, 1]: got 0.5, exact 0.25, bound 1e-06; 3 of 64 elements".
[[nodiscard]] std::string text_of(const verdict& v, const std::string& name, const sizes& shape);

}  // namespace golden
