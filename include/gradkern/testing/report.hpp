// The verdict on a result: what compare() of testing/compare.hpp found.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <span>
#include <string_view>

#include <gradkern/detail/config.hpp>
#include <gradkern/half.hpp>
#include <gradkern/status.hpp>
#include <gradkern/tensor_view.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace test {

/// One element of a result.
struct judged_element {
    extents index{};      ///< in the order of the result's shape
    double result = 0;    ///< what was to be judged
    double expected = 0;  ///< the value of the equation, in f64; without roundings, rounded to the result's type
    double error = 0;     ///< |result - expected|; Inf where one of them is not finite and they differ
    double bound = 0;     ///< of the error; Inf if nothing is promised
    double ratio = 0;     ///< error / bound; 0 where the error is 0
    double ulps = 0;      ///< the error in units of the last place of `expected` in the result's type
    double terms = 0;     ///< the sum of the absolute values of the element's finite terms
};

/// The checks over a whole tensor of TOSA's conformance rules ("Dot product accuracy requirements"). They find errors that are
/// small, but in one direction. The error of an element is counted in units of 2^-(1 + fraction bits) times the sum of its absolute
/// terms, or of the smallest normal number if that is larger. Unlike there, elements of the same expected value count once, since
/// their errors are the same; and 0 does not count.
struct tensor_checks {
    static constexpr std::int64_t least_elements = 1000;  ///< TOSA's MIN_DOT_PRODUCT

    std::int64_t elements = 0;  ///< T: how many errors were summed
    std::int64_t ksb = 0;       ///< TOSA's ksb, the errors that it allows an element
    double sum = 0;             ///< of the errors, with their signs
    double largest_sum = 0;     ///< 2 sqrt(ksb T), and the |sum| of the errors of the correctly rounded values
    double squares = 0;         ///< sum of their squares
    double most_squares = 0;    ///< 0.4 ksb T, or the squares of the correctly rounded values if they are more
    /// Whether the squares count: T is at least 1000.
    bool judges_squares = false;
    /// Whether the sum counts: also, the expected values have no common sign. (TOSA's data sets 1 and 2 have one.)
    bool judges_sum = false;

    /// Whether the variance is as it should be, or does not count.
    [[nodiscard]] constexpr bool squares_hold() const noexcept { return !judges_squares || squares <= most_squares; }
    /// Whether the bias is as it should be, or does not count.
    [[nodiscard]] constexpr bool sum_holds() const noexcept {
        return !judges_sum || (sum < 0 ? -sum : sum) <= largest_sum;
    }
};

/// What compare() found. `ok()` is the verdict, `text()` explains it.
class report {
public:
    static constexpr std::size_t most_worst = 8;  ///< elements that are kept

    error mistake{};            ///< the problem, its inputs or the result do not fit together: nothing was judged
    std::string_view op{};      ///< the operator
    std::string_view result{};  ///< the type of the result, e.g. "bf16"
    std::int64_t elements = 0;  ///< of the result
    std::int64_t refused = 0;   ///< elements whose error exceeds its bound
    std::int64_t without_bound =
        0;                        ///< elements about which nothing is promised: a sum may exceed the range of its type
    double largest_ratio = 0;     ///< of all elements that have a bound
    double mean_ratio = 0;        ///< the same
    double largest_ulps = 0;      ///< the same
    double mean_ulps = 0;         ///< the same
    tensor_checks over_tensor{};  ///< bias and variance
    std::size_t worst_count = 0;  ///< how many of `worst` there are
    std::array<judged_element, most_worst>
        worst{};  ///< the elements of the largest ratios that are not 0, largest first

    /// Whether there are elements, but nothing is promised about any of them: neither right nor wrong.
    [[nodiscard]] constexpr bool judged_nothing() const noexcept {
        return mistake.code == errc::ok && elements != 0 && without_bound == elements;
    }
    /// Whether the result is right. It is not if nothing was judged.
    [[nodiscard]] constexpr bool ok() const noexcept {
        return mistake.code == errc::ok && !judged_nothing() && refused == 0 && over_tensor.squares_hold() &&
               over_tensor.sum_holds();
    }
    /// The same.
    [[nodiscard]] constexpr explicit operator bool() const noexcept { return ok(); }

    /// Writes the verdict in words, a few lines, truncated to the span and not zero-terminated. Returns the length of the whole
    /// text. The wording may change between versions.
    std::size_t format(std::span<char> text) const noexcept {
        text_writer out(text);
        if (mistake.code != errc::ok) {
            std::array<char, 400> line{};
            const std::size_t length = mistake.format(line);
            return (out << "cannot be judged: " << std::string_view(line.data(), length < 400 ? length : 400) << "\n")
                .size();
        }
        out << op << ", " << result << ": "
            << (ok()               ? "right"
                : judged_nothing() ? "nothing was judged: no element has a finite bound"
                                   : "wrong")
            << "\n";
        if (judged_nothing()) return out.size();
        out << "  " << refused << " of " << elements << " elements beyond their bounds";
        if (without_bound != 0) out << ", " << without_bound << " without a bound";
        out << "\n  |error| / bound: largest ";
        write(out, largest_ratio) << ", mean ";
        write(out, mean_ratio) << "; in ulp: largest ";
        write(out, largest_ulps) << ", mean ";
        write(out, mean_ulps) << "\n";
        write_check(out, "bias", "|sum of errors|", over_tensor.sum < 0 ? -over_tensor.sum : over_tensor.sum,
                    over_tensor.largest_sum, over_tensor.judges_sum);
        write_check(out, "variance", "sum of squared errors", over_tensor.squares, over_tensor.most_squares,
                    over_tensor.judges_squares);
        if (worst_count != 0) out << "  worst elements:\n";
        for (std::size_t i = 0; i < worst_count; ++i) write_element(out, worst[i]);
        return out.size();
    }

private:
    static text_writer& write(text_writer& out, double value) noexcept {
        std::array<char, 32> digits{};
        const int length = std::snprintf(digits.data(), digits.size(), "%.9g", value);
        const std::size_t written = length < 0 ? 0 : static_cast<std::size_t>(length);
        return out << std::string_view(digits.data(), written < digits.size() ? written : digits.size() - 1);
    }
    static void write_check(text_writer& out, std::string_view name, std::string_view what, double value, double limit,
                            bool counts) noexcept {
        out << "  " << name << ": " << what << " ";
        write(out, value) << ", limit ";
        write(out, limit) << (!counts ? ": not judged\n" : value <= limit ? ": holds\n" : ": exceeded\n");
    }
    static void write_element(text_writer& out, const judged_element& e) noexcept {
        out << "    [";
        for (std::size_t i = 0; i < e.index.rank(); ++i) out << (i == 0 ? "" : ", ") << e.index[i];
        out << "] result ";
        write(out, e.result) << ", expected ";
        write(out, e.expected) << ": error ";
        write(out, e.error) << " (";
        write(out, e.ulps) << " ulp), bound ";
        write(out, e.bound) << ", ratio ";
        write(out, e.ratio) << ", sum of |terms| ";
        write(out, e.terms) << "\n";
    }
};

/// Writes the verdict to a stream of characters.
template <class Stream>
requires requires(Stream& s, std::string_view text) { s << text; }
Stream& operator<<(Stream& out, const report& r) {
    std::array<char, 4096> text{};
    const std::size_t length = r.format(text);
    out << std::string_view(text.data(), length < text.size() ? length : text.size());
    return out;
}

}  // namespace test
GRADKERN_ISA_NAMESPACE_END
