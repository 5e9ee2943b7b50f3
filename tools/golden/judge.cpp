#include "judge.hpp"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <sstream>
#include <string>

namespace golden {
namespace {

/// |result - exact| / bound of an element that has a bound.
[[nodiscard]] double ratio_of(double result, double exact, double bound) {
    constexpr double infinity = std::numeric_limits<double>::infinity();
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
    bool is_first = true;
    for (std::size_t i = 0; i < exact.size(); ++i) {
        const double bound = bounds.at(i);
        if (std::isnan(bound) || (bound < 0 && std::isfinite(bound)))
            throw failure("a bound is " + std::to_string(bound) + ", expected 0, a positive number, inf or -inf");
        if (bound == std::numeric_limits<double>::infinity()) {
            ++v.without_bound;
            continue;
        }
        const double ratio = ratio_of(result.at(i), exact.at(i), bound);
        if (ratio > 1) ++v.refused;
        if (ratio > v.worst || is_first) {
            v.worst = ratio;
            v.worst_at = i;
            is_first = false;
        }
    }
    if (v.judged() != 0) {
        v.result = result.at(v.worst_at);
        v.exact = exact.at(v.worst_at);
        v.bound = bounds.at(v.worst_at);
    }
    return v;
}

sizes index_of(std::size_t i, const sizes& shape) {
    sizes index(shape.size());
    for (std::size_t axis = shape.size(); axis-- > 0;) {
        const auto n = static_cast<std::size_t>(shape[axis]);
        index[axis] = static_cast<std::int64_t>(i % n);
        i /= n;
    }
    return index;
}

std::string text_of(const verdict& v, const std::string& name, const sizes& shape) {
    std::string index = text_of(index_of(v.worst_at, shape));
    index = index.substr(1, index.size() - 2);
    std::ostringstream text;
    text.precision(9);
    const double result = std::isnan(v.result) ? std::numeric_limits<double>::quiet_NaN() : v.result;  // without a sign
    text << name << "[" << index << "]: got " << result << ", exact " << v.exact << ", bound " << v.bound << "; "
         << v.refused << " of " << v.elements << " elements are out of bounds";
    if (v.without_bound != 0) text << ", " << v.without_bound << " have no bound";
    return text.str();
}

}  // namespace golden
