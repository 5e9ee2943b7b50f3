#include "judge.hpp"

#include <cmath>
#include <cstddef>
#include <limits>
#include <sstream>
#include <string>

namespace golden {
namespace {

/// |result - exact| / bound, 0 where nothing is promised.
[[nodiscard]] double ratio_of(double result, double exact, double bound) {
    constexpr double infinity = std::numeric_limits<double>::infinity();
    if (bound == infinity) return 0;
    if (std::isnan(exact)) return std::isnan(result) ? 0 : infinity;
    if (std::isinf(exact)) return result == exact ? 0 : infinity;
    if (bound < 0) return result == std::copysign(infinity, exact) ? 0 : infinity;
    const double error = std::abs(result - exact);
    if (error == 0) return 0;
    return std::isnan(error) || bound == 0 ? infinity : error / bound;
}

}  // namespace

verdict judge(const tensor& result, const tensor& exact, const tensor& bounds) {
    verdict v{.elements = exact.size()};
    for (std::size_t i = 0; i < exact.size(); ++i) {
        const double ratio = ratio_of(result.at(i), exact.at(i), bounds.at(i));
        if (ratio > 1) ++v.refused;
        if (ratio > v.worst || i == 0) {
            v.worst = ratio;
            v.worst_at = i;
        }
    }
    if (v.elements != 0) {
        v.result = result.at(v.worst_at);
        v.exact = exact.at(v.worst_at);
        v.bound = bounds.at(v.worst_at);
    }
    return v;
}

std::string text_of(const verdict& v, const std::string& name, const sizes& shape) {
    std::string index;
    std::size_t rest = v.worst_at;
    for (std::size_t axis = shape.size(); axis-- > 0;) {
        const auto n = static_cast<std::size_t>(shape[axis]);
        index = std::to_string(rest % n) + (index.empty() ? "" : ", ") + index;
        rest /= n;
    }
    std::ostringstream text;
    text.precision(9);
    const double result = std::isnan(v.result) ? std::numeric_limits<double>::quiet_NaN() : v.result;  // without a sign
    text << name << "[" << index << "]: got " << result << ", exact " << v.exact << ", bound " << v.bound << "; "
         << v.refused << " of " << v.elements << " elements are out of bounds";
    return text.str();
}

}  // namespace golden
