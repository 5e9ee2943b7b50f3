// The exact references against rational numbers of GMP: random problems of every operator, types and adversarial numbers. Each output is
// compared with the midpoints between its neighbours, so nothing here rounds.
//
//     exact_rationals [OUTPUTS [SEED]]        by default 200,000 outputs; prints how many of each operator and kind of input there were
#include <gmp.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include <gradkern/ref/exact.hpp>
#include <gradkern/shape.hpp>

namespace {

namespace gk = gradkern;
namespace exact = gradkern::ref::exact;
using gk::bfloat16;
using gk::extents;
using gk::float16;

// ------------------------------------------------------------------------------------------------------------- numbers

/// An integer of any length.
class integer {
public:
    integer() { mpz_init(z); }
    explicit integer(long v) { mpz_init_set_si(z, v); }
    integer(const integer& o) { mpz_init_set(z, o.z); }
    integer& operator=(const integer& o) {
        mpz_set(z, o.z);
        return *this;
    }
    ~integer() { mpz_clear(z); }
    mpz_t z;
};

constexpr unsigned scale = 2300;  // integers count 2^-2300

/// The fields of an IEEE format.
struct fields {
    int exponent_bits;
    int fraction_bits;
};
template <class T>
constexpr fields fields_of = std::is_same_v<T, float>      ? fields{8, 23}
                             : std::is_same_v<T, double>   ? fields{11, 52}
                             : std::is_same_v<T, bfloat16> ? fields{8, 7}
                                                           : fields{5, 10};
template <class T>
using bits_t =
    std::conditional_t<sizeof(T) == 8, std::uint64_t, std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint16_t>>;
template <class T>
std::uint64_t bits_of(T v) {
    bits_t<T> b;
    std::memcpy(&b, &v, sizeof b);
    return b;
}
template <class T>
T from_bits(std::uint64_t bits) {
    const auto b = static_cast<bits_t<T>>(bits);
    T v;
    std::memcpy(static_cast<void*>(&v), &b, sizeof b);
    return v;
}
template <class T>
constexpr std::uint64_t sign_bit = std::uint64_t{1} << (8 * sizeof(T) - 1);
template <class T>
constexpr std::uint64_t infinite = ((std::uint64_t{1} << fields_of<T>.exponent_bits) - 1) << fields_of<T>.fraction_bits;

/// An input as a sign, an integer and a power of two, or what else it is.
struct term {
    bool negative = false;
    bool nan = false;
    bool inf = false;
    std::uint64_t integer = 0;
    long exponent = 0;
    [[nodiscard]] bool finite() const { return !nan && !inf; }
    [[nodiscard]] bool zero() const { return finite() && integer == 0; }
};
template <class T>
term term_of_pattern(std::uint64_t bits) {
    constexpr fields f = fields_of<T>;
    term t;
    t.negative = (bits & sign_bit<T>) != 0;
    const std::uint64_t magnitude = bits & ~sign_bit<T>;
    t.nan = magnitude > infinite<T>;
    t.inf = magnitude == infinite<T>;
    const long bias = (1L << (f.exponent_bits - 1)) - 1;
    const auto e = static_cast<long>(magnitude >> f.fraction_bits);
    t.integer = magnitude & ((std::uint64_t{1} << f.fraction_bits) - 1);
    if (e != 0) t.integer += std::uint64_t{1} << f.fraction_bits;
    t.exponent = std::max(e, 1L) - bias - f.fraction_bits;
    return t;
}
template <class T>
term term_of(T v) {
    return term_of_pattern<T>(bits_of(v));
}

/// numerator / denominator * 2^-scale, or infinite, or NaN; `rest` is added to numbers whose root was taken (see `has_root`).
struct value {
    integer numerator{0};
    integer denominator{1};
    bool nan = false;
    bool plus = false;
    bool minus = false;
    bool has_root = false;
    integer square{0};  // the root of square * 2^(-2 scale) is added
    bool negative_zero = false;

    void add_class(bool is_nan, bool is_inf, bool negative) {
        nan = nan || is_nan;
        plus = plus || (is_inf && !negative);
        minus = minus || (is_inf && negative);
    }
    /// += a * b / d
    void add(const term& a, const term& b, const std::optional<term>& d = {}) {
        // dy * (x / norm), where norm is not 0
        term q = b;
        if (d) {
            q.nan = b.nan || d->nan || (b.inf && d->inf);
            q.inf = b.inf && !q.nan;
            if (d->inf) q.integer = 0;
            q.negative = b.negative != d->negative;
        }
        const bool negative = a.negative != q.negative;
        if (!a.finite() || !q.finite()) {
            const bool is_nan = a.nan || q.nan || a.zero() || q.zero();
            add_class(is_nan, !is_nan, negative);
            return;
        }
        integer t;
        mpz_set_ui(t.z, a.integer);
        mpz_mul_ui(t.z, t.z, q.integer);
        if (mpz_sgn(t.z) == 0) return;
        long e = a.exponent + b.exponent + static_cast<long>(scale);
        if (d) e -= d->exponent;
        if (d && e < 0) {  // exact: into the denominator
            integer two;
            mpz_set_ui(two.z, 1);
            mpz_mul_2exp(two.z, two.z, static_cast<unsigned long>(-e));
            divide_all(two);
            mpz_mul(t.z, t.z, denominator.z);
            mpz_tdiv_q_2exp(t.z, t.z, static_cast<unsigned long>(-e));
        } else {
            mpz_mul_2exp(t.z, t.z, static_cast<unsigned long>(e));
            mpz_mul(t.z, t.z, denominator.z);
        }
        if (d) {
            integer y;
            mpz_set_ui(y.z, d->integer);
            // n/m + t/(m y): (n y + t) / (m y)
            mpz_mul(numerator.z, numerator.z, y.z);
            mpz_mul(denominator.z, denominator.z, y.z);
        }
        (negative ? mpz_sub : mpz_add)(numerator.z, numerator.z, t.z);
    }
    void divide_all(const integer& by) {  // the same number over a multiple of the denominator
        mpz_mul(numerator.z, numerator.z, by.z);
        mpz_mul(denominator.z, denominator.z, by.z);
    }
    /// += a / divisor
    void add_quotient(const term& a, long divisor) {
        term d;
        d.negative = divisor < 0;
        d.integer = divisor < 0 ? 0 - static_cast<std::uint64_t>(divisor) : static_cast<std::uint64_t>(divisor);
        term one;
        one.integer = 1;
        add(one, a, d);
    }

    /// The sign of this minus m * 2^-scale.
    [[nodiscard]] int compare(const integer& m) const {
        integer c;
        mpz_mul(c.z, m.z, denominator.z);
        mpz_sub(c.z, c.z, numerator.z);
        if (!has_root) return -mpz_sgn(c.z);
        // root - c, where the denominator is 1
        if (mpz_sgn(c.z) < 0) return 1;
        mpz_mul(c.z, c.z, c.z);
        return mpz_cmp(square.z, c.z);
    }
};

/// The sum of the magnitudes of two neighbouring patterns of T, halved. Infinity counts as the power of two after the largest number.
template <class T>
integer midpoint(std::uint64_t below) {
    const auto magnitude = [](std::uint64_t pattern) {
        term t;
        if (pattern == infinite<T>) {
            t = term_of_pattern<T>(pattern - (std::uint64_t{1} << fields_of<T>.fraction_bits));
            t.exponent += 1;
        } else {
            t = term_of_pattern<T>(pattern);
        }
        integer m;
        mpz_set_ui(m.z, t.integer);
        mpz_mul_2exp(m.z, m.z, static_cast<unsigned long>(t.exponent + static_cast<long>(scale) - 1));
        return m;
    };
    integer sum = magnitude(below);
    const integer upper = magnitude(below + 1);
    mpz_add(sum.z, sum.z, upper.z);
    return sum;
}

/// Whether `got` is the number nearest to `v`, ties to even.
template <class T>
bool is_nearest(T got, const value& v) {
    const std::uint64_t bits = bits_of(got);
    const bool negative = (bits & sign_bit<T>) != 0;
    const std::uint64_t pattern = bits & ~sign_bit<T>;
    if (v.nan || (v.plus && v.minus)) {  // the quiet NaN without payload
        return bits == (infinite<T> | std::uint64_t{1} << (fields_of<T>.fraction_bits - 1));
    }
    if (v.plus || v.minus) return pattern == infinite<T> && negative == v.minus;
    if (pattern > infinite<T>) return false;
    const int sign = v.compare(integer(0));
    if (sign == 0) return pattern == 0 && negative == v.negative_zero;
    if (negative != (sign < 0)) return false;
    const auto compare = [&](integer m) {
        if (negative) mpz_neg(m.z, m.z);
        return negative ? -v.compare(m) : v.compare(m);
    };
    const bool even = pattern % 2 == 0;
    if (pattern > 0) {
        const int c = compare(midpoint<T>(pattern - 1));
        if (c < 0 || (c == 0 && !even)) return false;
    }
    if (pattern < infinite<T>) {
        const int c = compare(midpoint<T>(pattern));
        if (c > 0 || (c == 0 && !even)) return false;
    }
    return true;
}

// -------------------------------------------------------------------------------------------------------------- inputs

std::uint64_t state = 0;
std::uint64_t random_bits() {
    std::uint64_t x = state += 0x9e3779b97f4a7c15U;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
    return x ^ (x >> 31);
}
std::int64_t random_integer(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(random_bits() % static_cast<std::uint64_t>(high - low + 1));
}

enum kind { usual, any_exponent, cancelling, ties, subnormal, overflowing, integers, non_finite, kinds };
constexpr std::array<const char*, kinds> kind_names{"usual",     "any exponent", "cancelling", "ties",
                                                    "subnormal", "overflowing",  "integers",   "non-finite"};

template <class T>
T power_of_two(long e, bool negative) {
    constexpr fields f = fields_of<T>;
    const long bias = (1L << (f.exponent_bits - 1)) - 1;
    const std::uint64_t sign = negative ? sign_bit<T> : 0;
    const long biased = std::min(e + bias, 2 * bias);
    if (biased > 0) return from_bits<T>(sign | static_cast<std::uint64_t>(biased) << f.fraction_bits);
    const long place = std::max(f.fraction_bits - 1 + biased, 0L);
    return from_bits<T>(sign | std::uint64_t{1} << place);
}

template <class T>
T draw(kind k, std::vector<T>& earlier) {
    constexpr fields f = fields_of<T>;
    const std::uint64_t r = random_bits();
    const std::uint64_t sign = r >> 63 != 0 ? sign_bit<T> : 0;
    const std::uint64_t fraction = (r >> 3) & ((std::uint64_t{1} << f.fraction_bits) - 1);
    const std::uint64_t bias = (std::uint64_t{1} << (f.exponent_bits - 1)) - 1;
    const auto around = [&](std::uint64_t e) { return from_bits<T>(sign | e << f.fraction_bits | fraction); };
    switch (k) {
        case any_exponent: return around(random_bits() % (2 * bias + 1));
        case cancelling:
            if (!earlier.empty() && r % 4 != 0)
                return from_bits<T>(bits_of(earlier[random_bits() % earlier.size()]) ^ (r & 4 ? sign_bit<T> : 0));
            return r % 8 == 0 ? power_of_two<T>(random_integer(-40, 0), sign != 0)
                              : around(bias - 4 + random_bits() % 8);
        case ties: {
            const std::array<long, 8> exponents{0, 0, 1, -8, -11, -12, -24, -30};
            return power_of_two<T>(exponents[random_bits() % 8] - (sizeof(T) == 8 && r % 3 == 0 ? 29 : 0), sign != 0);
        }
        case subnormal:
            if (r % 2 == 0)
                return from_bits<T>(sign | fraction >> (random_bits() % static_cast<unsigned>(f.fraction_bits)));
            return around(r % 3 == 0 ? bias / 2 + random_bits() % 4 : r % 3 == 1 ? 1 + random_bits() % 4 : bias);
        case overflowing: return around(r % 2 == 0 ? 2 * bias - random_bits() % 3 : bias + random_bits() % 2);
        case integers: return static_cast<T>(static_cast<float>(random_integer(-9, 9)));
        case non_finite:
            if (r % 16 == 0) return from_bits<T>(sign | infinite<T>);
            if (r % 64 == 1) return from_bits<T>(sign | infinite<T> | (fraction | 1));
            if (r % 4 == 1) return from_bits<T>(sign);
            return around(bias - 4 + random_bits() % 8);
        default: return around(bias - 6 + random_bits() % 8);
    }
}
template <class T>
std::vector<T> draw_all(kind k, std::int64_t count) {
    std::vector<T> earlier;
    for (std::int64_t i = 0; i < count; ++i) earlier.push_back(draw<T>(k, earlier));
    return earlier;
}

// ------------------------------------------------------------------------------------------------------------ problems

using index = std::array<std::int64_t, 3>;

/// One spatial axis, by the definition p(o, k) = o * stride - pad + k * dilation.
struct axis {
    std::int64_t large = 1, small = 1, kernel = 1, stride = 1, dilation = 1, pad = 0, pad_end = 0, extra = 0;
};
struct problem {
    std::size_t rank = 1;
    std::array<axis, 3> axes;
    std::int64_t batch = 1, groups = 1, large_channels = 1, small_channels = 1;
    bool ncx = false, oix = false;
};

problem draw_problem(bool transposed, bool pool) {
    problem p;
    p.rank = static_cast<std::size_t>(random_integer(1, 3));
    for (std::size_t i = 3 - p.rank; i < 3; ++i) {
        for (;;) {
            axis a;
            a.kernel = random_integer(1, 3);
            a.stride = random_integer(1, 3);
            a.dilation = random_integer(1, 2);
            a.pad = random_integer(0, 2);
            a.pad_end = random_integer(0, 2);
            const std::int64_t reach = (a.kernel - 1) * a.dilation;
            if (transposed) {
                a.small = random_integer(1, 4);
                a.extra = random_integer(0, std::max(a.stride, a.dilation) - 1);
                a.large = a.stride * (a.small - 1) + reach + 1 - a.pad - a.pad_end + a.extra;
                if (a.large < 1) continue;
            } else {
                a.large = random_integer(1, p.rank == 1 ? 12 : 5);
                const std::int64_t n = a.large + a.pad + a.pad_end - reach - 1;
                if (n < 0) continue;
                a.small = n / a.stride + 1;
            }
            p.axes[i] = a;
            break;
        }
    }
    p.batch = random_integer(1, 2);
    p.ncx = random_bits() % 2 == 0;
    p.oix = random_bits() % 2 == 0;
    if (pool) {
        p.large_channels = p.small_channels = random_integer(1, 3);
    } else {
        p.groups = random_integer(1, 4) == 1 ? 2 : 1;
        p.large_channels = random_integer(1, 5);
        p.small_channels = random_integer(1, 5);
        (random_bits() % 2 == 0 ? p.large_channels : p.small_channels) = random_integer(1, 20);
    }
    return p;
}

enum class extent_kind { large, small, kernel };
index extent_of(const problem& p, extent_kind k) {
    index e{};
    for (std::size_t i = 0; i < 3; ++i)
        e[i] = k == extent_kind::large ? p.axes[i].large : k == extent_kind::small ? p.axes[i].small : p.axes[i].kernel;
    return e;
}
std::int64_t volume(const index& e) { return e[0] * e[1] * e[2]; }
extents spatial(const problem& p, const auto& member) {
    extents e;
    for (std::size_t i = 3 - p.rank; i < 3; ++i) e.push_back(p.axes[i].*member);
    return e;
}
extents activation(const problem& p, std::int64_t channels, extent_kind k) {
    extents e{p.batch, channels};
    if (!p.ncx) e = extents::filled(1, p.batch);
    const index s = extent_of(p, k);
    for (std::size_t i = 3 - p.rank; i < 3; ++i) e.push_back(s[i]);
    if (!p.ncx) e.push_back(channels);
    return e;
}
/// Offset of (n, c, position) in a dense activation.
std::int64_t at(const problem& p, std::int64_t channels, extent_kind k, std::int64_t n, std::int64_t c,
                const index& i) {
    const index e = extent_of(p, k);
    const std::int64_t s = (i[0] * e[1] + i[1]) * e[2] + i[2];
    return p.ncx ? (n * channels + c) * volume(e) + s : (n * volume(e) + s) * channels + c;
}
/// Weights of channels s (of the small side, over all groups) and l (of the large side, in a group). The first axis called O is that of s
/// for a convolution, of l for a transposed one.
extents filter(const problem& p, bool transposed) {
    const std::int64_t o = transposed ? p.large_channels : p.groups * p.small_channels;
    const std::int64_t i = transposed ? p.groups * p.small_channels : p.large_channels;
    extents e;
    if (p.oix) {
        e.push_back(o);
        e.push_back(i);
    }
    for (std::size_t a = 3 - p.rank; a < 3; ++a) e.push_back(p.axes[a].kernel);
    if (!p.oix) {
        e.push_back(i);
        e.push_back(o);
    }
    return e;
}
std::int64_t filter_at(const problem& p, bool transposed, std::int64_t s, std::int64_t l, const index& k) {
    const index e = extent_of(p, extent_kind::kernel);
    const std::int64_t tap = (k[0] * e[1] + k[1]) * e[2] + k[2];
    const std::int64_t outer = p.groups * p.small_channels;
    const std::int64_t o = transposed ? l : s;
    const std::int64_t i = transposed ? s : l;
    const std::int64_t os = transposed ? p.large_channels : outer;
    const std::int64_t is = transposed ? outer : p.large_channels;
    return p.oix ? (o * is + i) * volume(e) + tap : (tap * is + i) * os + o;
}

template <class F>
void each(const index& e, const F& f) {
    for (std::int64_t a = 0; a < e[0]; ++a)
        for (std::int64_t b = 0; b < e[1]; ++b)
            for (std::int64_t c = 0; c < e[2]; ++c) f(index{a, b, c});
}
/// f(o, k, q) for all small positions and taps inside.
template <class F>
void each_tap(const problem& p, const F& f) {
    each(extent_of(p, extent_kind::small), [&](const index& o) {
        each(extent_of(p, extent_kind::kernel), [&](const index& k) {
            index q{};
            for (std::size_t i = 0; i < 3; ++i) {
                q[i] = o[i] * p.axes[i].stride - p.axes[i].pad + k[i] * p.axes[i].dilation;
                if (q[i] < 0 || q[i] >= p.axes[i].large) return;
            }
            f(o, k, q);
        });
    });
}

// -------------------------------------------------------------------------------------------------------------- checks

std::map<std::string, std::int64_t> counts;
std::int64_t outputs = 0;
std::int64_t wrong = 0;

template <class T>
void judge(const char* op, kind k, const std::vector<T>& got, const std::vector<value>& expected) {
    for (std::size_t i = 0; i < got.size(); ++i) {
        ++outputs;
        if (is_nearest(got[i], expected[i])) continue;
        if (++wrong <= 20)
            std::printf("WRONG: %s, %s, element %zu: %llx\n", op, kind_names[k], i,
                        static_cast<unsigned long long>(bits_of(got[i])));
    }
    counts[op] += static_cast<std::int64_t>(got.size());
    counts[std::string("inputs: ") + kind_names[k]] += static_cast<std::int64_t>(got.size());
}
void require(const gk::status& s, const char* op) {
    if (s) return;
    std::array<char, 400> text{};
    s.error().format(text);
    std::printf("%s was refused: %s\n", op, text.data());
    std::exit(1);
}

/// Previous values count if the call accumulates.
template <class T>
std::vector<value> start(const std::vector<T>& previous, bool accumulates) {
    std::vector<value> v(previous.size());
    term one;
    one.integer = 1;
    for (std::size_t i = 0; accumulates && i < v.size(); ++i) v[i].add(one, term_of(previous[i]));
    return v;
}

template <class Src, class Weights, class Dst>
void check_convolutions(kind k) {
    const bool transposed = random_bits() % 2 == 0;
    const problem p = draw_problem(transposed, false);
    const std::int64_t large_all = p.groups * p.large_channels;
    const std::int64_t small_all = p.groups * p.small_channels;
    const extents large = activation(p, large_all, extent_kind::large);
    const extents small = activation(p, small_all, extent_kind::small);
    const extents weights = filter(p, transposed);
    gk::convolution_attributes conv;
    gk::conv_transpose_attributes tran;
    conv.strides = tran.strides = spatial(p, &axis::stride);
    conv.dilations = tran.dilations = spatial(p, &axis::dilation);
    conv.pads_begin = tran.pads_begin = spatial(p, &axis::pad);
    conv.pads_end = tran.pads_end = spatial(p, &axis::pad_end);
    conv.groups = tran.groups = p.groups;
    conv.data_format = tran.data_format = p.ncx ? gk::data_format::ncx : gk::data_format::nxc;
    conv.weights_format = tran.weights_format = p.oix ? gk::weights_format::oix : gk::weights_format::xio;
    const bool accumulates = random_bits() % 3 == 0;
    const gk::call_options options{
        .plan = {.output = accumulates ? gk::output_mode::accumulate : gk::output_mode::overwrite}};
    const auto size_of = [](const extents& e) {
        std::int64_t n = 1;
        for (const std::int64_t x : e.values()) n *= x;
        return n;
    };
    const auto at_large = [&](std::int64_t n, std::int64_t c, const index& i) {
        return static_cast<std::size_t>(at(p, large_all, extent_kind::large, n, c, i));
    };
    const auto at_small = [&](std::int64_t n, std::int64_t c, const index& i) {
        return static_cast<std::size_t>(at(p, small_all, extent_kind::small, n, c, i));
    };
    // f(n, s over all groups, l in the group, l over all groups, o, k, q) for every product
    const auto each_product = [&](const auto& f) {
        for (std::int64_t n = 0; n < p.batch; ++n)
            for (std::int64_t s = 0; s < small_all; ++s)
                for (std::int64_t l = 0; l < p.large_channels; ++l)
                    each_tap(p, [&](const index& o, const index& t, const index& q) {
                        f(n, s, l, s / p.small_channels * p.large_channels + l, o, t, q);
                    });
    };
    const auto at_filter = [&](std::int64_t s, std::int64_t l, const index& t) {
        return static_cast<std::size_t>(filter_at(p, transposed, s, l, t));
    };

    {  // large -> small
        const auto x = draw_all<Src>(k, size_of(large));
        const auto w = draw_all<Weights>(k, size_of(weights));
        auto y = draw_all<Dst>(k, size_of(small));
        const bool has_bias = !transposed && random_bits() % 2 == 0;
        const auto b = draw_all<Dst>(k, small_all);
        auto v = start(y, accumulates);
        each_product([&](auto n, auto s, auto l, auto lg, const index& o, const index& t, const index& q) {
            v[at_small(n, s, o)].add(term_of(x[at_large(n, lg, q)]), term_of(w[at_filter(s, l, t)]));
        });
        term one;
        one.integer = 1;
        for (std::int64_t n = 0; has_bias && n < p.batch; ++n)
            for (std::int64_t s = 0; s < small_all; ++s)
                each(extent_of(p, extent_kind::small),
                     [&](const index& o) { v[at_small(n, s, o)].add(one, term_of(b[static_cast<std::size_t>(s)])); });
        gk::tensor_view<const Dst> bias;
        if (has_bias) bias = {b.data(), extents::filled(1, small_all)};
        if (transposed) {
            require(exact::conv_transpose_backward_data<Src, Weights, Dst>({x.data(), large}, {w.data(), weights}, tran,
                                                                           {y.data(), small}, options),
                    "conv_transpose_backward_data");
            judge("conv_transpose_backward_data", k, y, v);
        } else {
            require(exact::convolution<Src, Weights, Dst, Dst>({x.data(), large}, {w.data(), weights}, bias, conv,
                                                               {y.data(), small}, options),
                    "convolution");
            judge("convolution", k, y, v);
        }
    }
    {  // small -> large
        const auto y = draw_all<Src>(k, size_of(small));
        const auto w = draw_all<Weights>(k, size_of(weights));
        auto x = draw_all<Dst>(k, size_of(large));
        const bool has_bias = transposed && random_bits() % 2 == 0;
        const auto b = draw_all<Dst>(k, large_all);
        auto v = start(x, accumulates);
        each_product([&](auto n, auto s, auto l, auto lg, const index& o, const index& t, const index& q) {
            v[at_large(n, lg, q)].add(term_of(y[at_small(n, s, o)]), term_of(w[at_filter(s, l, t)]));
        });
        term one;
        one.integer = 1;
        for (std::int64_t n = 0; has_bias && n < p.batch; ++n)
            for (std::int64_t l = 0; l < large_all; ++l)
                each(extent_of(p, extent_kind::large),
                     [&](const index& q) { v[at_large(n, l, q)].add(one, term_of(b[static_cast<std::size_t>(l)])); });
        gk::tensor_view<const Dst> bias;
        if (has_bias) bias = {b.data(), extents::filled(1, large_all)};
        if (transposed) {
            require(exact::conv_transpose<Src, Weights, Dst, Dst>({y.data(), small}, {w.data(), weights}, bias, tran,
                                                                  {x.data(), large}, options),
                    "conv_transpose");
            judge("conv_transpose", k, x, v);
        } else {
            require(exact::convolution_backward_data<Src, Weights, Dst>({y.data(), small}, {w.data(), weights}, conv,
                                                                        {x.data(), large}, options),
                    "convolution_backward_data");
            judge("convolution_backward_data", k, x, v);
        }
    }
    {  // weights, and the bias
        const auto x = draw_all<Src>(k, size_of(large));
        const auto y = draw_all<Weights>(k, size_of(small));
        auto w = draw_all<Dst>(k, size_of(weights));
        auto b = draw_all<Dst>(k, transposed ? large_all : small_all);
        auto v = start(w, accumulates);
        auto vb = start(b, accumulates);
        each_product([&](auto n, auto s, auto l, auto lg, const index& o, const index& t, const index& q) {
            v[at_filter(s, l, t)].add(term_of(x[at_large(n, lg, q)]), term_of(y[at_small(n, s, o)]));
        });
        term one;
        one.integer = 1;
        const gk::tensor_view<Dst> bias(b.data(), extents::filled(1, static_cast<std::int64_t>(b.size())));
        const bool at_once = random_bits() % 2 == 0;
        const gk::tensor_view<Dst> with = at_once ? bias : gk::tensor_view<Dst>{};
        for (std::int64_t n = 0; n < p.batch; ++n) {
            for (std::int64_t c = 0; c < static_cast<std::int64_t>(b.size()); ++c) {
                auto& sum = vb[static_cast<std::size_t>(c)];
                if (transposed) {
                    each(extent_of(p, extent_kind::large),
                         [&](const index& i) { sum.add(one, term_of(x[at_large(n, c, i)])); });
                } else {
                    each(extent_of(p, extent_kind::small),
                         [&](const index& i) { sum.add(one, term_of(y[at_small(n, c, i)])); });
                }
            }
        }
        if (transposed) {
            require(exact::conv_transpose_backward_weights<Weights, Dst, Src>({y.data(), small}, {x.data(), large},
                                                                              tran, {w.data(), weights}, with, options),
                    "conv_transpose_backward_weights");
            judge("conv_transpose_backward_weights", k, w, v);
        } else {
            require(exact::convolution_backward_weights<Src, Dst, Weights>({x.data(), large}, {y.data(), small}, conv,
                                                                           {w.data(), weights}, with, options),
                    "convolution_backward_weights");
            judge("convolution_backward_weights", k, w, v);
        }
        if (!at_once) {
            const gk::bias_attributes of{.data_format = conv.data_format};
            require(transposed ? exact::bias_backward<Src, Dst>({x.data(), large}, of, bias, options)
                               : exact::bias_backward<Weights, Dst>({y.data(), small}, of, bias, options),
                    "bias_backward");
        }
        judge("bias_backward", k, b, vb);
    }
}

template <class T>
void check_pools(kind k) {
    const problem p = draw_problem(false, true);
    const std::int64_t channels = p.large_channels;
    const extents large = activation(p, channels, extent_kind::large);
    const extents small = activation(p, channels, extent_kind::small);
    const std::int64_t larges = p.batch * channels * volume(extent_of(p, extent_kind::large));
    const std::int64_t smalls = p.batch * channels * volume(extent_of(p, extent_kind::small));
    const gk::data_format format = p.ncx ? gk::data_format::ncx : gk::data_format::nxc;
    gk::avg_pool_attributes avg;
    gk::lp_pool_attributes lp;
    gk::max_pool_attributes max;
    avg.kernel = lp.kernel = max.kernel = spatial(p, &axis::kernel);
    avg.strides = lp.strides = max.strides = spatial(p, &axis::stride);
    avg.dilations = lp.dilations = max.dilations = spatial(p, &axis::dilation);
    avg.pads_begin = lp.pads_begin = max.pads_begin = spatial(p, &axis::pad);
    avg.pads_end = lp.pads_end = max.pads_end = spatial(p, &axis::pad_end);
    avg.data_format = lp.data_format = max.data_format = format;
    avg.exclude_pad = random_bits() % 4 != 0;
    if (random_bits() % 6 == 0)
        avg.divisor_override =
            random_bits() % 2 == 0 ? random_integer(1, 1000) : -random_integer(1, (std::int64_t{1} << 62));
    const bool accumulates = random_bits() % 3 == 0;
    const gk::call_options options{
        .plan = {.output = accumulates ? gk::output_mode::accumulate : gk::output_mode::overwrite}};
    term one;
    one.integer = 1;
    const auto at_large = [&](std::int64_t n, std::int64_t c, const index& i) {
        return static_cast<std::size_t>(at(p, channels, extent_kind::large, n, c, i));
    };
    const auto at_small = [&](std::int64_t n, std::int64_t c, const index& i) {
        return static_cast<std::size_t>(at(p, channels, extent_kind::small, n, c, i));
    };
    const auto each_pair = [&](const auto& f) {
        for (std::int64_t n = 0; n < p.batch; ++n)
            for (std::int64_t c = 0; c < channels; ++c)
                each_tap(
                    p, [&](const index& o, const index&, const index& q) { f(at_small(n, c, o), at_large(n, c, q)); });
    };
    // of every window
    std::vector<long> divisors(static_cast<std::size_t>(smalls));
    std::vector<long> inside(divisors.size());
    each_pair([&](std::size_t o, std::size_t) { ++inside[o]; });
    for (std::int64_t n = 0; n < p.batch; ++n)
        for (std::int64_t c = 0; c < channels; ++c)
            each(extent_of(p, extent_kind::small), [&](const index& o) {
                long padded = 1;
                for (std::size_t i = 0; i < 3; ++i) {
                    long count = 0;
                    for (std::int64_t t = 0; t < p.axes[i].kernel; ++t)
                        count += o[i] * p.axes[i].stride - p.axes[i].pad + t * p.axes[i].dilation <
                                 p.axes[i].large + p.axes[i].pad_end;
                    padded *= count;
                }
                const std::size_t w = at_small(n, c, o);
                divisors[w] = avg.divisor_override ? static_cast<long>(*avg.divisor_override)
                              : avg.exclude_pad    ? inside[w]
                                                   : padded;
            });
    {
        const auto x = draw_all<T>(k, larges);
        auto y = draw_all<T>(k, smalls);
        auto v = start(y, accumulates);
        std::vector<value> sums(v.size());
        each_pair([&](std::size_t o, std::size_t q) {
            v[o].add_quotient(term_of(x[q]), divisors[o]);
            sums[o].add(one, term_of(x[q]));
        });
        for (std::size_t o = 0; o < v.size(); ++o)
            v[o].negative_zero = inside[o] > 0 && divisors[o] < 0 && mpz_sgn(sums[o].numerator.z) == 0 &&
                                 (!accumulates || (term_of(y[o]).zero() && term_of(y[o]).negative));
        require(exact::avg_pool<T>({x.data(), large}, avg, {y.data(), small}, options), "avg_pool");
        judge("avg_pool", k, y, v);
    }
    {
        const auto y = draw_all<T>(k, smalls);
        auto x = draw_all<T>(k, larges);
        auto v = start(x, accumulates);
        each_pair([&](std::size_t o, std::size_t q) { v[q].add_quotient(term_of(y[o]), divisors[o]); });
        require(exact::avg_pool_backward<T>({y.data(), small}, avg, {x.data(), large}, options), "avg_pool_backward");
        judge("avg_pool_backward", k, x, v);
    }
    {
        const auto x = draw_all<T>(k, larges);
        auto y = draw_all<T>(k, smalls);
        auto v = start(y, accumulates);
        std::vector<value> squares(v.size());
        each_pair([&](std::size_t o, std::size_t q) { squares[o].add(term_of(x[q]), term_of(x[q])); });
        for (std::size_t o = 0; o < v.size(); ++o) {
            v[o].has_root = true;
            v[o].add_class(squares[o].nan, squares[o].plus, false);
            mpz_mul_2exp(v[o].square.z, squares[o].numerator.z, scale);
        }
        require(exact::lp_pool<T>({x.data(), large}, lp, {y.data(), small}, options), "lp_pool");
        judge("lp_pool", k, y, v);
    }
    {
        const auto x = draw_all<T>(k, larges);
        const auto y = draw_all<T>(k, smalls);
        const auto dy = draw_all<T>(k, smalls);
        auto dx = draw_all<T>(k, larges);
        auto v = start(dx, accumulates);
        each_pair([&](std::size_t o, std::size_t q) {
            if (!term_of(y[o]).zero()) v[q].add(term_of(dy[o]), term_of(x[q]), term_of(y[o]));
        });
        require(exact::lp_pool_backward<T>({x.data(), large}, {y.data(), small}, {dy.data(), small}, lp,
                                           {dx.data(), large}, options),
                "lp_pool_backward");
        judge("lp_pool_backward", k, dx, v);
    }
    {
        const auto x = draw_all<T>(k, larges);
        const auto dy = draw_all<T>(k, smalls);
        auto dx = draw_all<T>(k, larges);
        auto y = draw_all<T>(k, smalls);
        const auto before = y;
        auto v = start(dx, accumulates);
        auto vy = start(y, accumulates);
        // The first largest in row-major order of the window, or the last NaN: each_tap walks windows in that order.
        std::vector<std::int64_t> best(vy.size(), -1);
        const auto less = [&](const T& a, const T& b) {
            if constexpr (sizeof(T) == 2) {
                return static_cast<float>(a) < static_cast<float>(b);
            } else {
                return a < b;
            }
        };
        each_pair([&](std::size_t o, std::size_t q) {
            const auto old = static_cast<std::size_t>(best[o]);
            if (best[o] < 0 || term_of(x[q]).nan || less(x[old], x[q])) best[o] = static_cast<std::int64_t>(q);
        });
        std::vector<std::int64_t> indices(vy.size(), -2);
        for (std::size_t o = 0; o < best.size(); ++o) {
            if (best[o] < 0) {
                vy[o].add_class(false, true, true);
                continue;
            }
            const auto q = static_cast<std::size_t>(best[o]);
            v[q].add(one, term_of(dy[o]));
            vy[o].add(one, term_of(x[q]));
            vy[o].negative_zero = term_of(x[q]).zero() && term_of(x[q]).negative &&
                                  (!accumulates || (term_of(before[o]).zero() && term_of(before[o]).negative));
        }
        require(exact::max_pool<T>({x.data(), large}, max, {y.data(), small}, {indices.data(), small}, options),
                "max_pool");
        judge("max_pool", k, y, vy);
        if (indices != best && ++wrong <= 20) std::printf("WRONG: indices of max_pool, %s\n", kind_names[k]);
        auto again = dx;
        require(exact::max_pool_backward<T>({x.data(), large}, {dy.data(), small}, max, {dx.data(), large}, options),
                "max_pool_backward");
        judge("max_pool_backward", k, dx, v);
        require(exact::max_pool_backward_from_indices<T>({dy.data(), small}, {indices.data(), small},
                                                         {.data_format = format}, {again.data(), large}, options),
                "max_pool_backward_from_indices");
        judge("max_pool_backward_from_indices", k, again, v);
    }
}

}  // namespace

int main(int argc, char** argv) {
    const std::int64_t wanted = argc > 1 ? std::atoll(argv[1]) : 200000;
    state = argc > 2 ? std::strtoull(argv[2], nullptr, 0) : 1;
    using check = void (*)(kind);
    constexpr std::array<check, 14> checks{check_convolutions<float, float, float>,
                                           check_convolutions<float16, float16, float16>,
                                           check_convolutions<bfloat16, bfloat16, bfloat16>,
                                           check_convolutions<double, double, double>,
                                           check_convolutions<float16, float, float>,
                                           check_convolutions<bfloat16, bfloat16, float>,
                                           check_convolutions<float, bfloat16, double>,
                                           check_convolutions<double, float, float16>,
                                           check_convolutions<float16, bfloat16, double>,
                                           check_convolutions<double, double, float>,
                                           check_pools<float>,
                                           check_pools<float16>,
                                           check_pools<bfloat16>,
                                           check_pools<double>};
    for (std::size_t i = 0; outputs < wanted; ++i)
        checks[i % checks.size()](static_cast<kind>(i / checks.size() % kinds));
    for (const auto& [name, count] : counts) std::printf("%-36s %10lld\n", name.c_str(), static_cast<long long>(count));
    std::printf("%lld outputs, %lld wrong\n", static_cast<long long>(outputs), static_cast<long long>(wrong));
    return wrong == 0 ? 0 : 1;
}
