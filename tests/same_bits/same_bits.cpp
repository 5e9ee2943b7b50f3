// The same-bits law: a fixed list of problems, a hash of each result, and a file that holds them for good.
//
//     same_bits --check hashes.txt [--quick | --all]    computes every problem and compares with the file
//     same_bits --write hashes.txt                      writes the file (only when the definition of results changes)
//
// Every problem is computed in several layouts, filter formats, algorithms, numbers of lanes and task orders (one of
// each with --quick, usually five or 20, always 20 with --all), and all must give one hash, the same for every compiler,
// optimisation level and instruction set with fused multiply-add. No test framework: the program also runs where there is none.
#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <span>
#include <sstream>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

#include <gradkern/gradkern.hpp>

namespace {

using namespace gradkern;

/// Small counter-based generator: the same numbers everywhere, in any order.
std::uint64_t mix(std::uint64_t x) {
    x += 0x9e3779b97f4a7c15U;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
    return x ^ (x >> 31);
}

class numbers {
public:
    explicit numbers(std::uint64_t seed) : seed_(mix(seed)) {}
    std::int64_t next(std::int64_t low, std::int64_t high) {
        return low + static_cast<std::int64_t>(mix(seed_ + ++count_) % static_cast<std::uint64_t>(high - low + 1));
    }
    template <class T, std::size_t N>
    T pick(const std::array<T, N>& from) {
        return from[static_cast<std::size_t>(next(0, N - 1))];
    }

private:
    std::uint64_t seed_;
    std::uint64_t count_ = 0;
};

/// Element `index` of tensor `seed`: 24 random bits in [-1, 1), which f32 holds exactly.
float value(std::uint64_t seed, std::int64_t index) {
    const auto bits =
        static_cast<std::int32_t>(mix(seed ^ (static_cast<std::uint64_t>(index) * 0x2545f4914f6cdd1dU)) >> 40);
    return static_cast<float>(bits - (1 << 23)) * 0x1p-23F;
}
/// The same as a number of type T: of f64 53 random bits, so that products and sums are rounded.
template <class T>
T number(std::uint64_t seed, std::int64_t index) {
    if constexpr (std::is_same_v<T, double>) {
        const auto bits =
            static_cast<std::int64_t>(mix(seed ^ (static_cast<std::uint64_t>(index) * 0x2545f4914f6cdd1dU)) >> 10);
        return static_cast<double>(bits - (std::int64_t{1} << 53)) * 0x1p-53;
    } else {
        return T(value(seed, index));
    }
}

/// Claims `lanes` threads and runs the lanes on real ones, last lane first, so that tasks mix.
struct mixing_executor {
    std::ptrdiff_t lanes;
    template <class F>
    void parallel_for(std::ptrdiff_t n, const F& fn) const {
        std::vector<std::thread> threads;
        for (std::ptrdiff_t i = n; i-- > 0;) threads.emplace_back([&fn, i] { fn(i); });
        for (std::thread& t : threads) t.join();
    }
    [[nodiscard]] std::ptrdiff_t concurrency() const { return lanes; }
};

enum class op {
    convolution,
    convolution_backward_data,
    convolution_backward_weights,
    conv_transpose,
    conv_transpose_backward_data,
    conv_transpose_backward_weights,
    bias_backward,
    avg_pool,
    avg_pool_backward,
    max_pool,
    max_pool_backward,
    max_pool_backward_from_indices,
    lp_pool,
    lp_pool_backward
};
constexpr std::array<const char*, 14> op_names{"convolution",
                                               "convolution_backward_data",
                                               "convolution_backward_weights",
                                               "conv_transpose",
                                               "conv_transpose_backward_data",
                                               "conv_transpose_backward_weights",
                                               "bias_backward",
                                               "avg_pool",
                                               "avg_pool_backward",
                                               "max_pool",
                                               "max_pool_backward",
                                               "max_pool_backward_from_indices",
                                               "lp_pool",
                                               "lp_pool_backward"};

/// One problem, as a forward problem: src (large side of a convolution, small side of a conv_transpose) and its filter.
struct problem {
    std::uint64_t seed = 0;
    op kind{};
    data_type type{};
    std::size_t rank = 2;
    std::int64_t batch = 1, groups = 1, in_channels = 1, out_channels = 1;  // channels in one group
    std::array<std::int64_t, 3> size{1, 1, 1}, kernel{1, 1, 1}, stride{1, 1, 1}, dilation{1, 1, 1}, begin{}, end{};
    auto_pad pad = auto_pad::none;
    rounding_type rounding = rounding_type::floor;
    bool exclude_pad = false, with_bias = false, accumulate = false, ignore_nan = false;
    bool wide_gradient = false;  // weight and bias gradients of 16-bit types in f32
    index_base base = index_base::plane;
    std::optional<std::int64_t> divisor{};
};

constexpr std::uint64_t first_list = 702;    // problems from before there was max pooling
constexpr std::uint64_t second_list = 3006;  // problems from before long windows were summed in parts
constexpr std::uint64_t third_list = 3046;   // problems from before there was Lp pooling
constexpr std::uint64_t lp_list = 3106;      // its problems with short windows
constexpr std::uint64_t f64_list = 3126;     // problems from before there was f64
constexpr std::uint64_t f64_rounds = 24;     // of all operators; of the last two long windows
constexpr std::uint64_t problem_count = f64_list + f64_rounds * op_names.size();
constexpr std::uint64_t first_operators = 12;  // of the first three lists

/// Makes a pool of long windows of a problem: sums of more than 512 terms, or planes of more than 2^18 windows.
void lengthen(problem& p, numbers& r) {
    p.in_channels = p.out_channels = r.pick(std::array<std::int64_t, 4>{1, 3, 8, 17});
    p.batch = r.next(1, 2);
    p.pad = auto_pad::none;
    p.dilation = {1, 1, 1};
    if (p.kind == op::max_pool_backward_from_indices) {
        p.rank = 1;
        p.batch = p.in_channels = p.out_channels = 1;
        p.size = {1, 1, r.next(263'000, 266'000)};
        p.kernel = {1, 1, 3};
        p.stride = {1, 1, 1};
        return;
    }
    for (std::size_t i = 0; i < 3; ++i) {
        const bool used = i + p.rank >= 3;
        const std::int64_t kernel = p.rank == 1 ? r.next(513, 1500) : p.rank == 2 ? r.next(23, 30) : r.next(9, 11);
        p.kernel[i] = used ? kernel : 1;
        p.stride[i] = used ? r.next(1, 2) : 1;
        p.begin[i] = used ? r.next(0, kernel / 2) : 0;
        p.end[i] = used ? r.next(0, kernel / 2) : 0;
        p.size[i] = used ? kernel + r.next(0, kernel / 2) : 1;
    }
}

problem make_problem(std::uint64_t index) {
    numbers r(index + 1);
    problem p;
    p.seed = index;
    p.kind = static_cast<op>(index < first_list    ? index % 9
                             : index < second_list ? index % first_operators
                             : index < third_list  ? static_cast<std::uint64_t>(op::avg_pool) + index % 5
                             : index < f64_list    ? static_cast<std::uint64_t>(op::lp_pool) + index % 2
                                                   : (index - f64_list) % op_names.size());
    constexpr std::array<data_type, 6> types{data_type::f32, data_type::f32, data_type::f32,
                                             data_type::f32, data_type::f16, data_type::bf16};
    p.type = r.pick(types);
    if (index >= f64_list) p.type = data_type::f64;
    p.rank = static_cast<std::size_t>(r.next(1, 3));
    const bool pool = p.kind >= op::avg_pool;
    p.batch = r.next(1, 3);
    const std::int64_t style = r.next(0, 5);
    if (pool || p.kind == op::bias_backward) {
        p.in_channels = r.pick(std::array<std::int64_t, 9>{1, 3, 7, 8, 9, 16, 17, 33, 64});
        p.out_channels = p.in_channels;
    } else if (style <= 2) {  // dense
        p.in_channels = r.pick(std::array<std::int64_t, 9>{1, 3, 8, 15, 32, 64, 65, 100, 130});
        p.out_channels = r.pick(std::array<std::int64_t, 9>{1, 3, 8, 16, 17, 31, 33, 48, 64});
    } else if (style == 3) {  // depthwise
        p.groups = r.pick(std::array<std::int64_t, 6>{2, 7, 8, 16, 33, 48});
    } else {  // groups, few channels or many
        p.groups = r.next(2, 5);
        p.in_channels = r.next(1, 12);
        p.out_channels = r.next(1, 20);
    }
    const std::int64_t limit = p.rank == 1 ? 600 : p.rank == 2 ? 24 : 8;
    for (std::size_t i = 3 - p.rank; i < 3; ++i) {
        p.kernel[i] = r.next(1, p.rank == 1 ? 9 : 3);
        p.stride[i] = r.next(1, 3);
        p.dilation[i] = r.next(1, 2);
        p.begin[i] = r.next(0, 3);
        p.end[i] = r.next(0, 3);
        p.size[i] = r.next(1, limit);
        if (p.in_channels * p.out_channels > 2000 && p.rank > 1) p.size[i] = std::min<std::int64_t>(p.size[i], 10);
        // large enough for one window, also transposed
        p.size[i] = std::max(p.size[i], (p.kernel[i] - 1) * p.dilation[i] + 1);
    }
    constexpr std::array<auto_pad, 6> pads{auto_pad::none,       auto_pad::none,       auto_pad::none,
                                           auto_pad::same_upper, auto_pad::same_lower, auto_pad::valid};
    p.pad = r.pick(pads);
    constexpr std::array<rounding_type, 3> roundings{rounding_type::floor, rounding_type::ceil,
                                                     rounding_type::ceil_torch};
    p.rounding = r.pick(roundings);
    p.exclude_pad = r.next(0, 1) == 1;
    p.with_bias = r.next(0, 1) == 1;
    p.accumulate = r.next(0, 3) == 0;
    if (pool && r.next(0, 3) == 0) p.divisor = r.next(-7, -1);
    if (index % 97 == 5) p.batch = 40;  // many chunks of positions: the second level of sums
    p.ignore_nan = r.next(0, 1) == 1;
    p.wide_gradient = index >= first_list && r.next(0, 1) == 1;
    p.base = r.pick(std::array<index_base, 2>{index_base::plane, index_base::image});  // alike in both layouts
    const bool is_long = index >= f64_list ? pool && index >= f64_list + (f64_rounds - 2) * op_names.size()
                                           : index >= lp_list || (index >= second_list && index < third_list);
    if (is_long) lengthen(p, r);
    return p;
}

/// How a problem is computed; the result must not depend on it.
struct variant {
    data_format format;
    weights_format weights;
    gradkern::algorithm algorithm;
    std::ptrdiff_t lanes;
};

template <class T>
struct tensor {
    std::vector<T> data;
    tensor_layout layout;
    std::vector<std::int64_t> logical;  // place of element i of the canonical order (N, C, spatial) or (O, I, K)
    [[nodiscard]] tensor_view<const T> in() const { return {data.data(), layout}; }
    [[nodiscard]] tensor_view<T> out() { return {data.data(), layout}; }
};

/// A dense tensor whose canonical order is a permutation of its own: `axes` lists its axes in canonical order.
template <class T>
tensor<T> make_tensor(const extents& shape, const std::vector<std::size_t>& axes, std::uint64_t seed) {
    tensor<T> t;
    t.layout = tensor_layout(shape);
    std::vector<std::int64_t> stride(shape.rank(), 1);
    for (std::size_t i = shape.rank(); i-- > 1;) stride[i - 1] = stride[i] * shape[i];
    std::int64_t count = 1;
    for (const std::int64_t e : shape.values()) count *= e;
    t.data.resize(static_cast<std::size_t>(count));
    t.logical.resize(t.data.size());
    for (std::int64_t i = 0; i < count; ++i) {
        std::int64_t rest = i;
        std::int64_t at = 0;
        for (std::size_t a = axes.size(); a-- > 0;) {
            at += rest % shape[axes[a]] * stride[axes[a]];
            rest /= shape[axes[a]];
        }
        t.logical[static_cast<std::size_t>(i)] = at;
        t.data[static_cast<std::size_t>(at)] = number<T>(seed, i);
    }
    return t;
}

std::vector<std::size_t> activation_axes(data_format f, std::size_t r) {
    std::vector<std::size_t> a{0, f == data_format::ncx ? 1 : r + 1};
    for (std::size_t i = 0; i < r; ++i) a.push_back((f == data_format::ncx ? 2 : 1) + i);
    return a;
}
std::vector<std::size_t> filter_axes(weights_format f, std::size_t r) {
    std::vector<std::size_t> a{f == weights_format::oix ? 0 : r + 1, f == weights_format::oix ? 1 : r};
    for (std::size_t i = 0; i < r; ++i) a.push_back((f == weights_format::oix ? 2 : 0) + i);
    return a;
}
extents activation_shape(data_format f, std::int64_t n, std::int64_t c, const std::array<std::int64_t, 3>& s,
                         std::size_t r) {
    extents e{n};
    if (f == data_format::ncx) e.push_back(c);
    for (std::size_t i = 3 - r; i < 3; ++i) e.push_back(s[i]);
    if (f == data_format::nxc) e.push_back(c);
    return e;
}
extents filter_shape(weights_format f, std::int64_t o, std::int64_t i, const std::array<std::int64_t, 3>& k,
                     std::size_t r) {
    extents e;
    if (f == weights_format::oix) e = {o, i};
    for (std::size_t a = 3 - r; a < 3; ++a) e.push_back(k[a]);
    if (f == weights_format::xio) {
        e.push_back(i);
        e.push_back(o);
    }
    return e;
}
extents tail(const std::array<std::int64_t, 3>& v, std::size_t r) {
    extents e;
    for (std::size_t i = 3 - r; i < 3; ++i) e.push_back(v[i]);
    return e;
}

template <class T>
std::uint64_t hash_of(const tensor<T>& t, std::uint64_t h = 0xcbf29ce484222325U) {
    for (const std::int64_t at : t.logical) {
        const T& element = t.data[static_cast<std::size_t>(at)];
        if constexpr (std::is_integral_v<T>) {
            h = (h ^ static_cast<std::uint64_t>(element)) * 0x100000001b3U;
        } else if constexpr (std::is_same_v<T, double>) {
            const double f = element == element ? element : __builtin_nan("");
            h = (h ^ std::bit_cast<std::uint64_t>(f)) * 0x100000001b3U;
        } else {
            float f = static_cast<float>(element);
            if (f != f) f = __builtin_nanf("");
            h = (h ^ std::bit_cast<std::uint32_t>(f)) * 0x100000001b3U;
        }
    }
    return h;
}

[[noreturn]] void fail(const problem& p, const status& s) {
    std::array<char, 256> text{};
    const std::size_t n = std::min(s.error().format(text), text.size());
    std::fprintf(stderr, "problem %llu: %.*s\n", static_cast<unsigned long long>(p.seed), static_cast<int>(n),
                 text.data());
    std::exit(2);
}

/// What a call returns with the path that is forced or, where that does not fit the problem, without.
template <class Call>
status forced_if_it_fits(call_options& options, const Call& call) {
    const status s = call();
    if (s.code() != errc::unsupported || s.error().argument != "algorithm") return s;
    options.plan.algorithm = algorithm::automatic;
    return call();
}

template <class T>
std::uint64_t run(const problem& p, const variant& v) {
    static std::vector<std::byte> workspace(std::size_t{64} << 20);
    const mixing_executor executor{v.lanes};
    call_options options;
    options.plan.output = p.accumulate ? output_mode::accumulate : output_mode::overwrite;
    options.plan.algorithm = v.algorithm;
    options.workspace = workspace;
    options.executor = executor;
    const std::size_t r = p.rank;
    const auto axes = activation_axes(v.format, r);
    const auto w_axes = filter_axes(v.weights, r);
    const std::int64_t ic = p.groups * p.in_channels;
    const std::int64_t oc = p.groups * p.out_channels;
    const std::uint64_t base = p.seed * 16;
    const auto must = [&](const status& s) {
        if (!s) fail(p, s);
    };
    const auto must_run = [&](const auto& call) { must(forced_if_it_fits(options, call)); };
    const auto shape_of = [&](const result<extents>& e) {
        if (!e) fail(p, e.error());
        return *e;
    };

    auto src = make_tensor<T>(activation_shape(v.format, p.batch, ic, p.size, r), axes, base);
    const auto bias_gradient = [&]<class G>(G) {
        auto db = make_tensor<G>({ic}, {0}, base + 1);
        must(forced_if_it_fits(
            options, [&] { return bias_backward<T, G>(src.in(), {.data_format = v.format}, db.out(), options); }));
        return hash_of(db);
    };
    const auto of_gradient = [&](const auto& gradient) {
        if constexpr (sizeof(T) == 2)
            if (p.wide_gradient) return gradient(float{});
        return gradient(T{});
    };
    if (p.kind == op::bias_backward) return of_gradient(bias_gradient);
    const auto fill_pool = [&](auto& a) {
        a.kernel = tail(p.kernel, r);
        a.strides = tail(p.stride, r);
        a.dilations = tail(p.dilation, r);
        a.pads_begin = tail(p.begin, r);
        a.pads_end = tail(p.end, r);
        a.auto_pad = p.pad;
        a.rounding_type = p.rounding;
        a.data_format = v.format;
    };
    if (p.kind >= op::lp_pool) {
        lp_pool_attributes a;
        fill_pool(a);
        auto dst = make_tensor<T>(shape_of(infer_lp_pool(src.layout.shape, a)), axes, base + 1);
        must(forced_if_it_fits(options, [&] { return lp_pool<T>(src.in(), a, dst.out(), options); }));
        if (p.kind == op::lp_pool) return hash_of(dst);
        const auto diff_dst = make_tensor<T>(dst.layout.shape, axes, base + 4);
        auto diff_src = make_tensor<T>(src.layout.shape, axes, base + 5);
        must(forced_if_it_fits(options, [&] {
            return lp_pool_backward<T>(src.in(), dst.in(), diff_dst.in(), a, diff_src.out(), options);
        }));
        return hash_of(diff_src);
    }
    if (p.kind >= op::max_pool) {
        max_pool_attributes a;
        fill_pool(a);
        a.ignore_nan = p.ignore_nan;
        a.index_base = p.base;
        // few different numbers, so that maxima tie, and some NaN
        for (std::size_t i = 0; i < src.logical.size(); ++i) {
            const std::uint64_t bits = mix(base ^ (i * 0x2545f4914f6cdd1dU));
            src.data[static_cast<std::size_t>(src.logical[i])] =
                bits % 64 == 0 ? T(__builtin_nanf("")) : T(static_cast<float>(bits / 64 % 7) - 3.0F);
        }
        auto dst = make_tensor<T>(shape_of(infer_max_pool(src.layout.shape, a)), axes, base + 1);
        if (p.kind == op::max_pool_backward) {
            auto diff_src = make_tensor<T>(src.layout.shape, axes, base + 4);
            must(forced_if_it_fits(
                options, [&] { return max_pool_backward<T>(src.in(), dst.in(), a, diff_src.out(), options); }));
            return hash_of(diff_src);
        }
        auto indices = make_tensor<std::int64_t>(dst.layout.shape, axes, base + 5);
        if (p.kind == op::max_pool) {
            must(forced_if_it_fits(options,
                                   [&] { return max_pool<T>(src.in(), a, dst.out(), indices.out(), options); }));
            return hash_of(indices, hash_of(dst));
        }
        // anywhere in the plane or the image, or nowhere
        const std::int64_t plane = p.size[0] * p.size[1] * p.size[2];
        const auto end = static_cast<std::uint64_t>(p.base == index_base::plane ? plane : plane * ic);
        for (std::size_t i = 0; i < indices.logical.size(); ++i)
            indices.data[static_cast<std::size_t>(indices.logical[i])] =
                static_cast<std::int64_t>(mix(base + 7 * i) % (end + 1)) - 1;
        const auto scatter = [&] {
            return max_pool_backward_from_indices<T>(
                dst.in(), indices.in(), {.data_format = v.format, .index_base = p.base}, src.out(), options);
        };
        must(forced_if_it_fits(options, scatter));
        return hash_of(src);
    }
    if (p.kind >= op::avg_pool) {
        avg_pool_attributes a;
        fill_pool(a);
        a.exclude_pad = p.exclude_pad;
        a.divisor_override = p.divisor;
        auto dst = make_tensor<T>(shape_of(infer_avg_pool(src.layout.shape, a)), axes, base + 1);
        if (p.kind == op::avg_pool) {
            must(forced_if_it_fits(options, [&] { return avg_pool<T>(src.in(), a, dst.out(), options); }));
            return hash_of(dst);
        }
        must(forced_if_it_fits(options, [&] { return avg_pool_backward<T>(dst.in(), a, src.out(), options); }));
        return hash_of(src);
    }
    const auto fill = [&](auto& a) {
        a.strides = tail(p.stride, r);
        a.dilations = tail(p.dilation, r);
        a.pads_begin = tail(p.begin, r);
        a.pads_end = tail(p.end, r);
        a.auto_pad = p.pad;
        a.groups = p.groups;
        a.data_format = v.format;
        a.weights_format = v.weights;
    };
    auto bias = make_tensor<T>({oc}, {0}, base + 3);
    const tensor_view<const T> bias_view = p.with_bias ? bias.in() : tensor_view<const T>{};
    if (p.kind <= op::convolution_backward_weights) {
        convolution_attributes a;
        fill(a);
        auto w = make_tensor<T>(filter_shape(v.weights, oc, p.in_channels, p.kernel, r), w_axes, base + 2);
        auto dst = make_tensor<T>(shape_of(infer_convolution(src.layout.shape, w.layout.shape, a)), axes, base + 1);
        if (p.kind == op::convolution) {
            must_run([&] { return convolution<T>(src.in(), w.in(), bias_view, a, dst.out(), options); });
            return hash_of(dst);
        }
        if (p.kind == op::convolution_backward_data) {
            must_run([&] { return convolution_backward_data<T>(dst.in(), w.in(), a, src.out(), options); });
            return hash_of(src);
        }
        const auto gradient = [&]<class G>(G) {
            auto dw = make_tensor<G>(w.layout.shape, w_axes, base + 2);
            must(forced_if_it_fits(options, [&] {
                return convolution_backward_weights<T, G>(src.in(), dst.in(), a, dw.out(), {}, options);
            }));
            return hash_of(dw);
        };
        return of_gradient(gradient);
    }
    conv_transpose_attributes a;
    fill(a);
    auto w = make_tensor<T>(filter_shape(v.weights, p.out_channels, ic, p.kernel, r), w_axes, base + 2);
    auto dst_shape = infer_conv_transpose(src.layout.shape, w.layout.shape, a);
    if (!dst_shape) {  // the pads leave nothing: without them something is left
        a.auto_pad = auto_pad::valid;
        dst_shape = infer_conv_transpose(src.layout.shape, w.layout.shape, a);
    }
    auto dst = make_tensor<T>(shape_of(dst_shape), axes, base + 1);
    if (p.kind == op::conv_transpose) {
        must_run([&] { return conv_transpose<T>(src.in(), w.in(), bias_view, a, dst.out(), options); });
        return hash_of(dst);
    }
    if (p.kind == op::conv_transpose_backward_data) {
        must_run([&] { return conv_transpose_backward_data<T>(dst.in(), w.in(), a, src.out(), options); });
        return hash_of(src);
    }
    const auto gradient = [&]<class G>(G) {
        auto dw = make_tensor<G>(w.layout.shape, w_axes, base + 2);
        must(forced_if_it_fits(options, [&] {
            return conv_transpose_backward_weights<T, G>(src.in(), dst.in(), a, dw.out(), {}, options);
        }));
        return hash_of(dw);
    };
    return of_gradient(gradient);
}

std::uint64_t run(const problem& p, const variant& v) {
    switch (p.type) {
        case data_type::f16: return run<float16>(p, v);
        case data_type::bf16: return run<bfloat16>(p, v);
        case data_type::f64: return run<double>(p, v);
        default: return run<float>(p, v);
    }
}

enum class extent { quick, usual, all };

/// The rows of a table of paths behind `automatic`.
template <class Path, std::size_t Rows>
constexpr std::array<algorithm, Rows + 1> with_automatic(const std::array<Path, Rows>& table) {
    std::array<algorithm, Rows + 1> names{};
    for (std::size_t i = 0; i < Rows; ++i) names[i + 1] = table[i].name;
    return names;
}

/// The paths that an operator is run through. Where one does not fit, the problem takes the way it does by default.
std::span<const algorithm> paths_of(op kind) {
    static constexpr std::array any{algorithm::automatic};
    static constexpr std::array from_indices = with_automatic(detail::max_pool_indices::paths);
    if (kind == op::max_pool_backward_from_indices) return from_indices;
    static constexpr std::array max_forward = with_automatic(detail::max_pool::paths);
    static constexpr std::array max_backward = with_automatic(detail::max_pool::backward_paths);
    if (kind == op::max_pool) return max_forward;
    if (kind == op::max_pool_backward) return max_backward;
    static constexpr std::array weights = with_automatic(detail::conv_weights::paths);
    static constexpr std::array bias = with_automatic(detail::bias_paths);
    if (kind == op::convolution_backward_weights || kind == op::conv_transpose_backward_weights) return weights;
    if (kind == op::bias_backward) return bias;
    static constexpr std::array forward_and_data = with_automatic(detail::conv_paths);
    if (kind < op::bias_backward) return forward_and_data;
    static constexpr std::array average = with_automatic(detail::avg_pool::paths);
    if (kind == op::avg_pool || kind == op::avg_pool_backward) return average;
    static constexpr std::array lp = with_automatic(detail::lp_pool::paths);
    if (kind == op::lp_pool || kind == op::lp_pool_backward) return lp;
    return any;
}

std::vector<variant> variants(const problem& p, std::uint64_t index, extent how_many) {
    constexpr std::array<data_format, 2> formats{data_format::nxc, data_format::ncx};
    constexpr std::array<weights_format, 2> filters{weights_format::xio, weights_format::oix};
    const std::span<const algorithm> algorithms = paths_of(p.kind);
    constexpr std::array<std::ptrdiff_t, 6> lanes{1, 2, 3, 7, 16, 64};
    const auto variant_at = [&](std::size_t layout, std::size_t path) {
        return variant{formats[layout % 2], filters[layout / 2 % 2], algorithms[path % algorithms.size()],
                       lanes[(layout + path) % lanes.size()]};
    };
    if (how_many == extent::quick)
        return {{formats[index / 2 % 2], filters[index / 4 % 2], algorithms[index % algorithms.size()],
                 lanes[index / 8 % lanes.size()]}};
    std::vector<variant> all;
    if (how_many == extent::all || index < first_list) {
        for (std::size_t path = 0; path < algorithms.size(); ++path)
            for (std::size_t layout = 0; layout < 4; ++layout) all.push_back(variant_at(layout, path));
        return all;
    }
    // as many as there are algorithms, which hold every format, filter, algorithm and number of lanes among them
    for (std::size_t k = 0; k < algorithms.size(); ++k) all.push_back(variant_at(index + k, index / 4 + k));
    return all;
}

std::string line_of(std::uint64_t index, const problem& p, std::uint64_t hash) {
    constexpr std::array<const char*, 4> types{"f32", "f16", "bf16", "f64"};
    std::array<char, 128> text{};
    const int n = std::snprintf(text.data(), text.size(), "%03llu %s %zu-D %s %016llx",
                                static_cast<unsigned long long>(index), op_names[static_cast<std::size_t>(p.kind)],
                                p.rank, types[static_cast<std::size_t>(p.type)], static_cast<unsigned long long>(hash));
    return {text.data(), static_cast<std::size_t>(n)};
}

}  // namespace

int main(int argc, char** argv) {
    const std::string mode = argc > 1 ? argv[1] : "";
    if ((mode != "--check" && mode != "--write") || argc < 3) {
        std::fprintf(stderr, "usage: same_bits --check FILE [--quick | --all] | --write FILE\n");
        return 2;
    }
    if (!detail::simd::is_fused) {
        std::printf("skipped: this target has no fused multiply-add; its results have bits of their own\n");
        return 77;
    }
    const std::string word = argc > 3 ? argv[3] : "";
    const extent how_many = mode == "--write" || word == "--all" ? extent::all
                            : word == "--quick"                  ? extent::quick
                                                                 : extent::usual;
    std::vector<std::string> expected;
    if (mode == "--check") {
        std::ifstream in(argv[2]);
        for (std::string line; std::getline(in, line);)
            if (!line.empty() && line[0] != '#') expected.push_back(line);
        if (expected.size() != problem_count) {
            std::fprintf(stderr, "%s holds %zu hashes, not %llu\n", argv[2], expected.size(),
                         static_cast<unsigned long long>(problem_count));
            return 2;
        }
    }
    std::ostringstream written;
    written << "# Hashes of results: number, operator, rank, type, hash. Made and checked by same_bits.cpp.\n";
    int wrong = 0;
    for (std::uint64_t i = 0; i < problem_count; ++i) {
        const problem p = make_problem(i);
        std::string first;
        for (const variant& v : variants(p, i, how_many)) {
            const std::string line = line_of(i, p, run(p, v));
            if (first.empty()) first = line;
            const std::string& want = mode == "--check" ? expected[static_cast<std::size_t>(i)] : first;
            if (line != want) {
                std::printf("%s, expected %s (format %d, filter %d, algorithm %d, %td lanes)\n", line.c_str(),
                            want.c_str(), static_cast<int>(v.format), static_cast<int>(v.weights),
                            static_cast<int>(v.algorithm), v.lanes);
                ++wrong;
            }
        }
        written << first << "\n";
    }
    if (mode == "--write" && wrong == 0) std::ofstream(argv[2]) << written.str();
    std::printf("%llu problems, %d differences, %s\n", static_cast<unsigned long long>(problem_count), wrong,
                std::string(detail::isa_name).c_str());
    return wrong == 0 ? 0 : 1;
}
