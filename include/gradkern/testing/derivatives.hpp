// Checks of gradients that need no reference: the adjoint law of linear operators, and finite differences.
//
//     const auto forward = [&](std::span<const float> x, std::span<float> y) { ... };          // y = A x
//     const auto backward = [&](std::span<const float> y, std::span<float> x) { ... };         // x = A^T y
//     const test::derivative_report r = test::check_adjoint<float>(forward, backward, x_size, y_size);
//
// Callables may be anything that takes two (or three) spans of float or double. One that returns a gradkern::status stops the
// check if it fails. Outputs are to be overwritten: they hold NaN before. Random numbers are the same on every machine.
// What is here throws nothing itself, and allocates a few arrays of the sizes of x and y.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <new>
#include <span>
#include <string_view>
#include <type_traits>

#include <gradkern/detail/config.hpp>
#include <gradkern/detail/own.hpp>
#include <gradkern/status.hpp>
#include <gradkern/testing/numbers.hpp>
#include <gradkern/workspace.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace test {

/// How derivatives are checked. The defaults are for sums of up to some 1000 terms.
struct derivative_options {
    std::uint64_t seed = 1;  ///< of the random vectors
    int directions = 4;      ///< random vectors, each of which is a check by itself
    /// Coordinates that finite differences try one by one besides: all of them, or so many at random. A direction tells that a
    /// gradient is wrong, a coordinate tells where.
    std::int64_t coordinates = 64;
    /// The step of a finite difference. Absent (0): 2^-6 in float, 2^-16 in double. The function must be smooth on this scale; for
    /// a function that is linear in x any step will do, and 1 is the most accurate.
    double step = 0;
    /// The largest difference of the two sides, relative to `scale` of the report. Absent (0): of the adjoint law 2^-14 in float
    /// and 2^-43 in double, of finite differences 2^-9 and 2^-24.
    double tolerance = 0;
};

/// What a check of derivatives found: the two numbers that should be equal, where they differ most.
struct derivative_report {
    error mistake{};               ///< a callable failed, or there was no memory
    double left = 0;               ///< <y, A x>, or the difference quotient
    double right = 0;              ///< <A^T y, x>, or the product of the gradient and the direction
    double scale = 0;              ///< the size of results that errors are relative to
    double ratio = 0;              ///< |left - right| / (tolerance * scale): at most 1 if the gradient is right
    std::int64_t coordinate = -1;  ///< of x, if the worst direction is one; else -1
    int direction = -1;            ///< the number of the worst random direction; else -1
    std::int64_t checks = 0;       ///< how many directions and coordinates were judged

    /// Whether there was no direction and no coordinate, or none whose step shows in T and whose numbers stay in the range of f64.
    [[nodiscard]] constexpr bool judged_nothing() const noexcept { return mistake.code == errc::ok && checks == 0; }
    /// Whether the gradient is right. It is not if nothing was judged.
    [[nodiscard]] constexpr bool ok() const noexcept {
        return mistake.code == errc::ok && !judged_nothing() && ratio <= 1;
    }
    /// The same.
    [[nodiscard]] constexpr explicit operator bool() const noexcept { return ok(); }

    /// Writes one line, truncated to the span and not zero-terminated; returns the length of the whole line.
    std::size_t format(std::span<char> text) const noexcept {
        text_writer out(text);
        if (mistake.code != errc::ok) {
            char line[400];
            const std::size_t length = mistake.format(line);
            return (out << "cannot be judged: " << std::string_view(line, length < sizeof line ? length : sizeof line)
                        << "\n")
                .size();
        }
        if (judged_nothing()) return (out << "nothing was judged\n").size();
        char line[200];
        const int length =
            std::snprintf(line, sizeof line, "%.12g against %.12g, |difference| / limit %.6g", left, right, ratio);
        // no more than there is room for, which compilers do not know
        const std::size_t written = length < 0 ? 0 : static_cast<std::size_t>(length);
        out << (ok() ? "right: " : "wrong: ")
            << std::string_view(line, written < sizeof line ? written : sizeof line - 1);
        if (coordinate >= 0) out << ", coordinate " << coordinate << " of x";
        if (direction >= 0) out << ", random direction " << static_cast<std::int64_t>(direction);
        return (out << "\n").size();
    }
};

/// Writes the line to a stream of characters.
template <class Stream>
requires requires(Stream& s, std::string_view text) { s << text; }
Stream& operator<<(Stream& out, const derivative_report& r) {
    char text[640];
    const std::size_t length = r.format(text);
    out << std::string_view(text, length < sizeof text ? length : sizeof text);
    return out;
}

}  // namespace test

namespace detail {

/// `count` values of type T, zeros.
template <class T>
class values {
public:
    explicit values(std::size_t count) noexcept : memory_(count * sizeof(T)), count_(count) {
        if (memory_)
            for (std::size_t i = 0; i < count; ++i) ::new (static_cast<void*>(memory_.data() + i * sizeof(T))) T(0);
    }
    [[nodiscard]] explicit operator bool() const noexcept { return static_cast<bool>(memory_); }
    [[nodiscard]] std::span<T> span() const noexcept { return {reinterpret_cast<T*>(memory_.data()), count_}; }
    [[nodiscard]] T& operator[](std::size_t i) const noexcept { return reinterpret_cast<T*>(memory_.data())[i]; }
    /// NaN everywhere: what a callable does not write is seen. Returns what it may write to.
    [[nodiscard]] std::span<T> unwritten() const noexcept {
        for (std::size_t i = 0; i < count_; ++i) (*this)[i] = own::quiet_nan<T>;
        return span();
    }
    /// Numbers in (-1, 1).
    void fill_random(std::uint64_t stream) const noexcept {
        for (std::size_t i = 0; i < count_; ++i) {
            const std::uint64_t bits = test::scramble(stream + i);
            const auto unit = static_cast<double>(bits >> 41) * 0x1p-23;
            (*this)[i] = static_cast<T>((bits & 1U) != 0 ? -unit : unit);
        }
    }

private:
    workspace memory_;
    std::size_t count_;
};

[[nodiscard]] inline error no_memory_for_check(std::size_t count) noexcept {
    return {.code = errc::workspace_too_small,
            .op = "testing",
            .argument = "memory",
            .expected = static_cast<std::int64_t>(count),
            .relation = expectation::at_least,
            .what = quantity::bytes};
}

template <class T>
[[nodiscard]] double dot(std::span<const T> a, std::span<const T> b) noexcept {
    double sum = 0;
    for (std::size_t i = 0; i < a.size(); ++i) sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
    return sum;
}
template <class T>
[[nodiscard]] double norm(std::span<const T> a) noexcept {
    return own::sqrt(dot(a, a));
}

/// A bound of |<r, e>| / |e|, for numbers r of fill_random of this norm and any e that does not depend on them: the norm itself,
/// and no more than 8 since the signs are random. A larger sum comes once in 4 * 10^13 draws (Hoeffding: 2 exp(-8^2 / 2)). So
/// rounding errors of n elements add up like the root of n, and a mistake in a few of many elements shows.
[[nodiscard]] inline double reach_of(double norm) noexcept { return norm < 8 ? norm : 8; }

/// Calls f; its status, or ok if it returns something else.
template <class F, class... Arguments>
[[nodiscard]] status call(F& f, Arguments... arguments) {
    if constexpr (std::is_convertible_v<std::invoke_result_t<F&, Arguments...>, status>) {
        return f(arguments...);
    } else {
        static_cast<void>(f(arguments...));
        return {};
    }
}

/// Takes over two numbers if they are the worst so far.
inline void keep_worst(test::derivative_report& r, double left, double right, double scale, double tolerance,
                       int direction, std::int64_t coordinate) noexcept {
    const double difference = left < right ? right - left : left - right;
    if (tolerance * scale == own::infinity<double> && difference < own::infinity<double>)
        return;  // it cannot be judged
    double ratio = difference == 0 ? 0 : difference / (tolerance * scale);
    if (!(ratio >= 0)) ratio = own::infinity<double>;  // NaN
    if (r.checks++ != 0 && ratio <= r.ratio) return;
    r.left = left;
    r.right = right;
    r.scale = scale;
    r.ratio = ratio;
    r.direction = direction;
    r.coordinate = coordinate;
}

}  // namespace detail

namespace test {

/// Checks that two linear operators are each other's adjoint: <y, A x> = <A^T y, x> for random x and y.
///
/// \param forward  y = A x: called with (std::span<const T> x, std::span<T> y)
/// \param backward x = A^T y: called with (std::span<const T> y, std::span<T> x)
/// \param x_size,y_size  elements of x and y
/// \param options  seed, number of random vectors, tolerance
///
/// Both sides are computed in f64 from results of type T. They may differ by `tolerance` times |A x| min(|y|, 8) + |A^T y| min(|x|, 8):
/// the signs of x and y are random, so products with rounding errors add up like the root of their number.
template <std::floating_point T, class Forward, class Backward>
[[nodiscard]] derivative_report check_adjoint(Forward&& forward, Backward&& backward, std::size_t x_size,
                                              std::size_t y_size, const derivative_options& options = {}) {
    derivative_report r;
    const detail::values<T> x(x_size);
    const detail::values<T> y(y_size);
    const detail::values<T> ax(y_size);
    const detail::values<T> ay(x_size);
    if (!x || !y || !ax || !ay) {
        r.mistake = detail::no_memory_for_check((x_size + y_size) * 2 * sizeof(T));
        return r;
    }
    const double tolerance = options.tolerance != 0 ? options.tolerance : sizeof(T) == 8 ? 0x1p-43 : 0x1p-14;
    for (int i = 0; i < options.directions; ++i) {
        const std::uint64_t stream = scramble(options.seed + static_cast<std::uint64_t>(i));
        x.fill_random(scramble(stream));
        y.fill_random(scramble(stream + 1));
        status s = detail::call(forward, std::span<const T>(x.span()), ax.unwritten());
        if (s) s = detail::call(backward, std::span<const T>(y.span()), ay.unwritten());
        if (!s) {
            r.mistake = s.error();
            return r;
        }
        const double scale = detail::reach_of(detail::norm<T>(y.span())) * detail::norm<T>(ax.span()) +
                             detail::reach_of(detail::norm<T>(x.span())) * detail::norm<T>(ay.span());
        if (x_size > 0 && y_size > 0)
            detail::keep_worst(r, detail::dot<T>(y.span(), ax.span()), detail::dot<T>(ay.span(), x.span()), scale,
                               tolerance, i, -1);
    }
    return r;
}

}  // namespace test

namespace detail {

/// Coordinate number i of those that are checked: all of them, or a sample.
[[nodiscard]] inline std::size_t checked_coordinate(std::int64_t i, std::int64_t count,
                                                    const test::derivative_options& options) noexcept {
    if (count <= options.coordinates) return static_cast<std::size_t>(i);
    const std::uint64_t drawn = test::scramble(test::scramble(options.seed) + 3 + static_cast<std::uint64_t>(i));
    return static_cast<std::size_t>(drawn % static_cast<std::uint64_t>(count));
}

/// A step that was taken: rounding may change it.
struct taken_step {
    double product = 0;  ///< <g, x - point>
    bool moves = false;  ///< whether x is another point
};
/// Sets x to point + h d.
template <class T>
[[nodiscard]] taken_step step_from(std::span<const T> point, double h, const values<T>& d, const values<T>& g,
                                   const values<T>& x) noexcept {
    taken_step s;
    for (std::size_t i = 0; i < point.size(); ++i) {
        x[i] = static_cast<T>(point[i] + static_cast<T>(h) * d[i]);
        s.product += static_cast<double>(g[i]) * (static_cast<double>(x[i]) - static_cast<double>(point[i]));
        s.moves = s.moves || x[i] != point[i];
    }
    return s;
}

}  // namespace detail

namespace test {

/// Checks a gradient against central differences: <v, f(x + h d) - f(x - h d)> / 2h = <gradient(x, v), d>, for random v, and for
/// random directions and single coordinates d.
///
/// \param f         y = f(x): called with (std::span<const T> x, std::span<T> y)
/// \param gradient  g = (df/dx)^T v: called with (std::span<const T> x, std::span<const T> v, std::span<T> g)
/// \param point     where the gradient is checked
/// \param y_size    elements of y
/// \param options   seed, directions, coordinates, step, tolerance
///
/// Both sides may differ by `tolerance` times |v| (|df| / 2h + |f(x)|) + |g| |d|, where df is the difference of the two results.
/// The norms are those of all elements: a mistake in a few of many does not show (check_adjoint sees it where f is linear). A step that
/// rounding takes away judges nothing.
template <std::floating_point T, class Function, class Gradient>
[[nodiscard]] derivative_report check_gradient(Function&& f, Gradient&& gradient,
                                               std::type_identity_t<std::span<const T>> point, std::size_t y_size,
                                               const derivative_options& options = {}) {
    derivative_report r;
    const std::size_t x_size = point.size();
    const detail::values<T> d(x_size);
    const detail::values<T> x(x_size);
    const detail::values<T> g(x_size);
    const detail::values<T> v(y_size);
    const detail::values<T> above(y_size);
    const detail::values<T> below(y_size);
    if (!d || !x || !g || !v || !above || !below) {
        r.mistake = detail::no_memory_for_check((x_size + y_size) * 3 * sizeof(T));
        return r;
    }
    const double tolerance = options.tolerance != 0 ? options.tolerance : sizeof(T) == 8 ? 0x1p-24 : 0x1p-9;
    const double step = options.step != 0 ? options.step : sizeof(T) == 8 ? 0x1p-16 : 0x1p-6;

    v.fill_random(scramble(scramble(options.seed) + 1));
    status s = detail::call(gradient, point, std::span<const T>(v.span()), g.unwritten());
    if (s) s = detail::call(f, point, above.unwritten());
    if (!s) {
        r.mistake = s.error();
        return r;
    }
    const double value = detail::norm<T>(above.span());
    const auto try_direction = [&](int direction, std::int64_t coordinate) {
        const detail::taken_step forward = detail::step_from<T>(point, step, d, g, x);
        status done = detail::call(f, std::span<const T>(x.span()), above.unwritten());
        const detail::taken_step back = detail::step_from<T>(point, -step, d, g, x);
        if (done) done = detail::call(f, std::span<const T>(x.span()), below.unwritten());
        if (!done) return done;
        double difference = 0;
        double squares = 0;
        for (std::size_t i = 0; i < y_size; ++i) {
            const double change = (static_cast<double>(above[i]) - static_cast<double>(below[i])) / (2 * step);
            difference += static_cast<double>(v[i]) * change;
            squares += change * change;
        }
        const double scale = detail::norm<T>(v.span()) * (own::sqrt(squares) + value) +
                             detail::norm<T>(g.span()) * detail::norm<T>(d.span());
        const double slope = (forward.product - back.product) / (2 * step);
        if (forward.moves) detail::keep_worst(r, difference, slope, scale, tolerance, direction, coordinate);
        return done;
    };
    for (int i = 0; s && i < options.directions; ++i) {
        d.fill_random(scramble(scramble(options.seed + static_cast<std::uint64_t>(i)) + 2));
        s = try_direction(i, -1);
    }
    for (std::size_t i = 0; i < x_size; ++i) d[i] = 0;
    const auto count = static_cast<std::int64_t>(x_size);
    for (std::int64_t i = 0; s && i < (std::min)(count, std::int64_t{options.coordinates}); ++i) {
        const std::size_t at = detail::checked_coordinate(i, count, options);
        d[at] = 1;
        s = try_direction(-1, static_cast<std::int64_t>(at));
        d[at] = 0;
    }
    r.mistake = s.error();
    return r;
}

}  // namespace test
GRADKERN_ISA_NAMESPACE_END
