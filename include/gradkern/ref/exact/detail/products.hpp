// Exact sums of products of two tensors, many at once.
//
// A product of two numbers of up to 26 bits is exact in f64. Its bits are distributed over bins: bin j collects multiples of a unit u_j, and
// what is left of the product goes on to the next bin. Bins are as narrow as they must be for sums of a block of terms to be exact, too,
// so no addition in the inner loop is ever rounded, whatever the rounding mode, and whether or not it is fused with the multiplication.
// After each block the bins go to accumulators. How many bins there are depends on the greatest and the least bit of both tensors: one
// where products span up to 43 bits, three for most f32 tensors.
//
// Elements of f64 are split in two of 26 bits. Where products of f64 may leave the range of f64, the accumulators add each product.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include <gradkern/detail/config.hpp>
#include <gradkern/detail/own.hpp>
#include <gradkern/half.hpp>
#include <gradkern/ref/exact/accumulator.hpp>
#include <gradkern/ref/exact/detail/buffer.hpp>
#include <gradkern/ref/exact/detail/format.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace ref::exact::detail {

/// Sums that are computed side by side: of neighbouring channels.
inline constexpr std::int64_t lanes = 16;

[[nodiscard]] constexpr std::int64_t whole_lanes(std::int64_t channels) noexcept {
    return (channels + lanes - 1) / lanes * lanes;
}

/// A number that f64 has.
[[nodiscard]] constexpr double f64_of(bool is_negative, std::uint64_t significand, int exponent) noexcept {
    if (significand == 0) return zero<double>(is_negative);
    const auto unused = 64 - static_cast<int>(own::bit_width(significand));
    return rounded<double>(is_negative, significand << unused, exponent - unused, true);
}
[[nodiscard]] constexpr double power_of_two(int exponent) noexcept { return f64_of(false, 1, exponent); }

/// What holds for all finite elements of a tensor.
struct extent_of_bits {
    int above = -10000;  ///< all are less than 2^above
    int unit = 10000;    ///< and multiples of 2^unit
    bool has_special = false;

    constexpr void include(const parts& p) noexcept {
        if (!p.is_finite()) has_special = true;
        if (!p.is_finite() || p.significand == 0) return;
        above = (std::max)(above, p.exponent + static_cast<int>(own::bit_width(p.significand)));
        unit = (std::min)(unit, p.exponent + own::trailing_zeros(p.significand));
    }
};

/// How products are added.
struct scheme {
    static constexpr int most_bins = 64;

    bool by_bins = true;
    int bins = 1;
    std::int64_t block = 1024;              ///< terms whose sums are exact
    std::array<double, most_bins> round{};  ///< x + round[j] - round[j] is x, rounded to a multiple of u_j
};

/// Sums of up to `terms` products of elements with these extents.
[[nodiscard]] constexpr scheme scheme_for(const extent_of_bits& a, const extent_of_bits& b,
                                          std::int64_t terms) noexcept {
    scheme best;
    if (a.above < a.unit || b.above < b.unit) return best;  // all products are 0
    const int above = a.above + b.above;
    const int unit = a.unit + b.unit;
    best.by_bins = above <= 960 && unit >= -960 && a.unit >= -960 && b.unit >= -960;
    best.bins = scheme::most_bins;
    if (!best.by_bins) return best;
    for (int bits = 10; bits >= 6 || (bits > 0 && std::int64_t{1} << bits >= terms); --bits) {
        scheme s;
        s.block = std::int64_t{1} << bits;
        // What reaches bin j is at most 2^e, and what is added to it at most 2^(e + 1): its unit is 2^(e + 1 + bits - 53). The last bin
        // takes whatever reaches it, with the unit of the products.
        int e = above;
        for (; e + bits - 53 > unit; e += bits - 52) {
            s.round[static_cast<std::size_t>(s.bins - 1)] = 3 * power_of_two(e + bits - 1);
            ++s.bins;
        }
        if (s.bins < best.bins) best = s;  // a shorter block where fewer bins do then
    }
    return best;
}

/// A tensor in the order in which sums read it. NaN and infinities are 0 in `values`; `signs` has them, and the signs of all others.
struct panel {
    buffer<double> values;  ///< one plane, or two: upper and lower halves
    buffer<double> signs;   ///< empty without NaN and infinities
    std::size_t plane = 0;
    int planes = 1;
};

/// `walk(visit)` calls visit(place in a plane, pointer) for every element.
template <element T, class Walk>
[[nodiscard]] extent_of_bits extent_of_elements(const Walk& walk) {
    extent_of_bits extent;
    walk([&](std::int64_t, const T* from) { extent.include(parts_of(*from)); });
    return extent;
}
template <element T, class Walk>
[[nodiscard]] panel pack(std::int64_t plane, bool by_bins, bool with_signs, const Walk& walk) {
    panel to;
    to.plane = static_cast<std::size_t>(plane);
    to.planes = by_bins && format_for<T>.precision > 26 ? 2 : 1;
    to.values = buffer<double>(to.plane * static_cast<std::size_t>(to.planes));
    if (with_signs) to.signs = buffer<double>(to.plane);
    walk([&](std::int64_t place, const T* from) {
        const auto at = static_cast<std::size_t>(place);
        const parts p = parts_of(*from);
        if (with_signs)
            to.signs[at] = p.is_nan        ? nan<double>()
                           : p.is_infinite ? infinity<double>(p.is_negative)
                                           : f64_of(p.is_negative, p.significand == 0 ? 0 : 1, 0);
        if (!p.is_finite()) return;
        if (to.planes == 1) {
            to.values[at] = f64_of(p.is_negative, p.significand, p.exponent);
        } else {
            const std::uint64_t upper = (p.significand + (std::uint64_t{1} << 26)) >> 27;
            const std::uint64_t whole = upper << 27;
            const bool below = whole > p.significand;
            to.values[at] = f64_of(p.is_negative, upper, p.exponent + 27);
            to.values[to.plane + at] =
                f64_of(p.is_negative != below, below ? whole - p.significand : p.significand - whole, p.exponent);
        }
    });
    return to;
}

// Neighbouring sums in registers. Not of the operators' own layer for vectors: a reference shares nothing with what it checks.
#if defined(__AVX512F__)
inline constexpr std::size_t vector_lanes = 8;
#elif defined(__AVX__)
inline constexpr std::size_t vector_lanes = 4;
#else
inline constexpr std::size_t vector_lanes = 2;
#endif
#if defined(__GNUC__)
using vector = double __attribute__((vector_size(vector_lanes * sizeof(double))));
#else
struct vector {
    double lane[vector_lanes];

    friend vector operator+(vector a, vector b) noexcept {
        for (std::size_t l = 0; l < vector_lanes; ++l) a.lane[l] += b.lane[l];
        return a;
    }
    friend vector operator-(vector a, vector b) noexcept {
        for (std::size_t l = 0; l < vector_lanes; ++l) a.lane[l] -= b.lane[l];
        return a;
    }
    friend vector operator*(vector a, double b) noexcept {
        for (std::size_t l = 0; l < vector_lanes; ++l) a.lane[l] *= b;
        return a;
    }
};
#endif
[[nodiscard]] GRADKERN_ALWAYS_INLINE vector load(const double* from) noexcept {
    vector v;
    std::memcpy(&v, from, sizeof v);
    return v;
}
GRADKERN_ALWAYS_INLINE void store(double* to, const vector& v) noexcept { std::memcpy(to, &v, sizeof v); }

/// sums[j][l] += bin j of a[i * a_step] * b[i * b_step + l], for i in [0, count). round[j][l] = scheme::round[j].
/// Bins: how many there are; 0: `bins`, known at run time.
template <int Bins>
void add_products(const double* a, std::int64_t a_step, const double* b, std::int64_t b_step, std::int64_t count,
                  int bins, const double* round, double* sums) noexcept {
    constexpr std::size_t strip = 2;  // vectors at a time
    for (std::size_t first = 0; first < lanes; first += strip * vector_lanes) {
        if constexpr (Bins == 0) {
            for (std::int64_t i = 0; i < count; ++i) {
                std::array<vector, strip> rest;
                for (std::size_t v = 0; v < strip; ++v)
                    rest[v] = load(b + i * b_step + first + v * vector_lanes) * a[i * a_step];
                for (int j = 0; j + 1 < bins; ++j) {
                    const vector r = load(round + j * lanes);
                    for (std::size_t v = 0; v < strip; ++v) {
                        double* const sum = sums + j * lanes + first + v * vector_lanes;
                        const vector part = (rest[v] + r) - r;
                        store(sum, load(sum) + part);
                        rest[v] = rest[v] - part;
                    }
                }
                for (std::size_t v = 0; v < strip; ++v) {
                    double* const sum = sums + (bins - 1) * lanes + first + v * vector_lanes;
                    store(sum, load(sum) + rest[v]);
                }
            }
        } else {
            std::array<std::array<vector, strip>, static_cast<std::size_t>(Bins)> sum;
            std::array<vector, static_cast<std::size_t>(Bins)> r;
            GRADKERN_UNROLL for (std::size_t j = 0; j < Bins; ++j) {
                r[j] = load(round + j * lanes);
                for (std::size_t v = 0; v < strip; ++v) sum[j][v] = load(sums + j * lanes + first + v * vector_lanes);
            }
            for (std::int64_t i = 0; i < count; ++i) {
                const double x = a[i * a_step];
                GRADKERN_UNROLL for (std::size_t v = 0; v < strip; ++v) {
                    vector rest = load(b + i * b_step + first + v * vector_lanes) * x;
                    GRADKERN_UNROLL for (std::size_t j = 0; j + 1 < Bins; ++j) {
                        const vector part = (rest + r[j]) - r[j];
                        sum[j][v] = sum[j][v] + part;
                        rest = rest - part;
                    }
                    sum[Bins - 1][v] = sum[Bins - 1][v] + rest;
                }
            }
            GRADKERN_UNROLL for (std::size_t j = 0; j < Bins; ++j) for (std::size_t v = 0; v < strip; ++v)
                store(sums + j * lanes + first + v * vector_lanes, sum[j][v]);
        }
    }
}

/// `lanes` sums of products of panels a and b.
class lane_sums {
public:
    lane_sums(const scheme& s, const panel& a, const panel& b)
        : scheme_(s),
          a_(a),
          b_(b),
          sums_(static_cast<std::size_t>(s.bins * lanes)),
          round_(sums_.size()),
          room_(s.block) {
        for (std::size_t i = 0; i < round_.size(); ++i) round_[i] = s.round[i / lanes];
    }

    /// Empty sums, of which the first `used` are asked for.
    void start(std::int64_t used) noexcept {
        used_ = static_cast<std::size_t>(used);
        for (std::size_t l = 0; l < used_; ++l) totals_[l].clear();
    }
    /// Adds a[a_at + i * a_step] * b[b_at + i * b_step + l] to sum l, for i in [0, count).
    void add(std::int64_t a_at, std::int64_t a_step, std::int64_t b_at, std::int64_t b_step,
             std::int64_t count) noexcept {
        if (a_.signs.size() != 0) add_special(a_at, a_step, b_at, b_step, count);
        if (!scheme_.by_bins) {
            for (std::int64_t i = 0; i < count; ++i)
                for (std::size_t l = 0; l < used_; ++l)
                    totals_[l].add_product(a_.values.data()[a_at + i * a_step],
                                           b_.values.data()[b_at + i * b_step + static_cast<std::int64_t>(l)]);
            return;
        }
        for (int p = 0; p < a_.planes; ++p) {
            for (int q = 0; q < b_.planes; ++q) {
                const double* const a = a_.values.data() + static_cast<std::size_t>(p) * a_.plane + a_at;
                const double* const b = b_.values.data() + static_cast<std::size_t>(q) * b_.plane + b_at;
                for (std::int64_t done = 0; done < count;) {
                    if (room_ == 0) flush();
                    const std::int64_t now = (std::min)(room_, count - done);
                    add_block(a + done * a_step, a_step, b + done * b_step, b_step, now);
                    room_ -= now;
                    done += now;
                }
            }
        }
    }
    /// The sums, finished.
    [[nodiscard]] std::array<accumulator, lanes>& totals() noexcept {
        if (scheme_.by_bins) flush();
        return totals_;
    }

private:
    void add_block(const double* a, std::int64_t a_step, const double* b, std::int64_t b_step,
                   std::int64_t count) noexcept {
        const double* const round = round_.data();
        double* const sums = sums_.data();
        switch (scheme_.bins) {
            case 1: add_products<1>(a, a_step, b, b_step, count, 1, round, sums); break;
            case 2: add_products<2>(a, a_step, b, b_step, count, 2, round, sums); break;
            case 3: add_products<3>(a, a_step, b, b_step, count, 3, round, sums); break;
            default: add_products<0>(a, a_step, b, b_step, count, scheme_.bins, round, sums);
        }
    }
    /// Sums of products of signs are infinite or NaN where those of the elements are, and never otherwise.
    void add_special(std::int64_t a_at, std::int64_t a_step, std::int64_t b_at, std::int64_t b_step,
                     std::int64_t count) noexcept {
        std::array<double, lanes> sums{};
        add_products<1>(a_.signs.data() + a_at, a_step, b_.signs.data() + b_at, b_step, count, 1, round_.data(),
                        sums.data());
        for (std::size_t l = 0; l < used_; ++l) {
            const parts p = parts_of(sums[l]);
            if (!p.is_finite()) totals_[l].add_parts(p);
        }
    }
    void flush() noexcept {
        for (int j = 0; j < scheme_.bins; ++j) {
            for (std::size_t l = 0; l < used_; ++l) totals_[l].add(sums_[static_cast<std::size_t>(j * lanes) + l]);
        }
        for (std::size_t i = 0; i < sums_.size(); ++i) sums_[i] = 0;
        room_ = scheme_.block;
    }

    const scheme& scheme_;
    const panel& a_;
    const panel& b_;
    buffer<double> sums_;   // of the block, by bins
    buffer<double> round_;  // constants of the bins, one for each lane
    std::int64_t room_;     // terms until the block is full
    std::size_t used_ = 0;
    std::array<accumulator, lanes> totals_{};
};

}  // namespace ref::exact::detail
GRADKERN_ISA_NAMESPACE_END
