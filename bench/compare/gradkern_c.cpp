// A C interface over the benchmark's layers, loaded by compare.py: gradkern and its peers then run in one process, in turns,
// on the same numbers.
#include <omp.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include <cases/zoo.hpp>

#include "../layers.hpp"

namespace {

using namespace gradkern_bench;
using gradkern::data_format;

/// The caller's OpenMP threads.
struct openmp_executor {
    int threads;
    template <class F>
    void parallel_for(std::ptrdiff_t n, const F& fn) const {
#pragma omp parallel for schedule(dynamic) num_threads(threads)
        for (std::ptrdiff_t i = 0; i < n; ++i) fn(i);
    }
    [[nodiscard]] std::ptrdiff_t concurrency() const noexcept { return threads; }
};

/// A layer whose element type is forgotten. compare.py reads the addresses by name.
struct job {
    job() = default;
    job(const job&) = delete;
    virtual ~job() = default;

    openmp_executor threads{1};
    void *a = nullptr, *b = nullptr, *out = nullptr, *indices = nullptr;
    std::int64_t a_bytes = 0, b_bytes = 0, out_bytes = 0, indices_bytes = 0;
    std::string plan;
    std::function<bool()> run, reference;
    std::function<void()> stream;
};

/// Reads and writes as many bytes as the operator, in step, and computes nothing: what memory allows.
template <class T>
void stream_of(layer<T>& l, bool writes_indices) {
    const auto bytes = [](auto& v) {
        using element = typename std::remove_reference_t<decltype(v)>::value_type;
        return std::pair(reinterpret_cast<char*>(v.data()), v.size() * sizeof(element));
    };
    const std::pair<char*, std::size_t> memory[]{bytes(l.a), bytes(l.b), bytes(l.indices), bytes(l.out)};
    const bool written[]{false, false, writes_indices, true};
    constexpr std::size_t pieces = 512;
    [[maybe_unused]] static volatile std::uint64_t sink;
    std::uint64_t sum = 0;
    for (std::size_t piece = 0; piece < pieces; ++piece) {
        for (int i = 0; i < 4; ++i) {
            const auto cut = [&](std::size_t n) { return memory[i].second / 64 * n / pieces * 64; };
            auto* first = reinterpret_cast<std::uint64_t*>(memory[i].first + cut(piece));
            auto* last = reinterpret_cast<std::uint64_t*>(memory[i].first + cut(piece + 1));
            if (written[i]) {
                for (auto* p = first; p != last; ++p) *p = piece;
            } else {
                for (auto* p = first; p != last; ++p) sum += *p;
            }
        }
    }
    sink = sum;
}

template <class T>
job* make_job(const auto& c, role what, data_format format, int threads,
              gradkern::precision precision = gradkern::precision::strict) {
    struct holder : job {
        layer<T> l;
    };
    auto h = std::make_unique<holder>();
    h->threads.threads = threads;
    layer<T>& l = h->l;
    if (threads > 1) l.executor = h->threads;
    l.options.precision = precision;
    make_layer(l, c, what, format);
    if (what == role::backward_data) l.indices = {};  // max pools find their maxima again
    const auto place = [](auto& v, void*& at, std::int64_t& bytes) {
        at = v.data();
        bytes = static_cast<std::int64_t>(v.size() * sizeof v[0]);
    };
    place(l.a, h->a, h->a_bytes);
    place(l.b, h->b, h->b_bytes);
    place(l.out, h->out, h->out_bytes);
    place(l.indices, h->indices, h->indices_bytes);
    h->plan = l.plan;
    h->run = [&l] { return static_cast<bool>(l.run()); };
    h->reference = [&l] { return static_cast<bool>(l.reference()); };
    h->stream = [&l, what] { stream_of(l, what == role::forward); };
    return h.release();
}

std::string list(const gradkern::extents& v) {
    std::string s = "[";
    for (const std::int64_t e : v.values()) s += (s.size() > 1 ? "," : "") + std::to_string(e);
    return s + "]";
}

std::string lists(std::initializer_list<std::pair<const char*, gradkern::extents>> fields) {
    std::string s;
    for (const auto& [key, value] : fields) s += std::string(", \"") + key + "\": " + list(value);
    return s;
}

std::string numbers(std::initializer_list<std::pair<const char*, std::int64_t>> fields) {
    std::string s;
    for (const auto& [key, value] : fields) s += std::string(", \"") + key + "\": " + std::to_string(value);
    return s;
}

std::string describe(const gradkern_cases::convolution_case& c) {
    return std::string("\"kind\": \"") + (c.transposed ? "conv_transpose" : "convolution") + '"' +
           numbers({{"batch", c.batch},
                    {"in_channels", c.in_channels},
                    {"out_channels", c.out_channels},
                    {"groups", c.groups}}) +
           lists({{"size", c.size},
                  {"out", c.dst_size()},
                  {"kernel", c.kernel},
                  {"strides", c.strides},
                  {"dilations", c.dilations},
                  {"pads_begin", c.pads_begin},
                  {"pads_end", c.pads_end},
                  {"output_padding", c.output_padding}});
}

std::string describe(const gradkern_cases::pool_case& c) {
    return std::string("\"kind\": \"") +
           (c.maximum ? "max_pool"
            : c.norm  ? "lp_pool"
                      : "avg_pool") +
           '"' +
           numbers({{"batch", c.batch},
                    {"in_channels", c.channels},
                    {"out_channels", c.channels},
                    {"exclude_pad", c.exclude_pad}}) +
           lists({{"size", c.size},
                  {"out", c.dst_size()},
                  {"kernel", c.kernel},
                  {"strides", c.strides},
                  {"pads_begin", c.pads_begin},
                  {"pads_end", c.pads_end}});
}

/// Calls f(list, case, role, format) for every layer: those of the project's lists, then those of the zoo.
void for_each_listed(const auto& f) {
    static const gradkern_cases::zoo zoo(GRADKERN_ZOO);
    for_each_layer([&](const auto&... layer) { f("project", layer...); });
    for_each_layer_of([&](const auto&... layer) { f("zoo", layer...); }, zoo.convolutions, zoo.pools);
}

}  // namespace

extern "C" {

/// The layers as a JSON array; the place in it is what gradkern_make takes.
const char* gradkern_layers() {
    static const std::string text = [] {
        std::string s;
        for_each_listed([&](const char* from, const auto& c, role what, data_format format) {
            double flops = 0;
            if constexpr (requires { c.useful_flops(); }) flops = c.useful_flops();
            s += std::string(s.empty() ? "[" : ",\n") + "{\"list\": \"" + from + "\", \"name\": \"" +
                 std::string(c.name) + "\", \"role\": \"" + role_names[static_cast<int>(what)] + "\", \"format\": \"" +
                 (format == data_format::ncx ? "NCX" : "NXC") + "\", \"flops\": " + std::to_string(flops) + ", " +
                 describe(c) + "}";
        });
        return s + "]";
    }();
    return text.c_str();
}

/// Plans layer `index` in f32 (0), f16 (1), bf16 (2) or bf16 with relaxed precision (3). A pool takes another batch and
/// other channels, where these are not 0.
void* gradkern_make(int index, int type, int threads, int batch, int channels) {
    job* made = nullptr;
    for_each_listed([&](const char*, auto c, role what, data_format format) {
        if (index-- != 0) return;
        if constexpr (requires { c.channels; }) {
            if (batch > 0) c.batch = batch;
            if (channels > 0) c.channels = channels;
        }
        const auto precision = type == 3 ? gradkern::precision::relaxed : gradkern::precision::strict;
        made = type == 0   ? make_job<float>(c, what, format, threads)
               : type == 1 ? make_job<gradkern::float16>(c, what, format, threads)
                           : make_job<gradkern::bfloat16>(c, what, format, threads, precision);
    });
    return made;
}

/// What the plan says of itself.
const char* gradkern_plan(void* p) { return static_cast<job*>(p)->plan.c_str(); }

/// Address and bytes of a tensor: 0 and 1 inputs, 2 output, 3 indices.
void* gradkern_tensor(void* p, int which, std::int64_t* bytes) {
    const job& j = *static_cast<job*>(p);
    void* const at[]{j.a, j.b, j.out, j.indices};
    const std::int64_t size[]{j.a_bytes, j.b_bytes, j.out_bytes, j.indices_bytes};
    *bytes = size[which];
    return at[which];
}

int gradkern_run(void* p) { return static_cast<job*>(p)->run() ? 0 : 1; }
int gradkern_reference(void* p) { return static_cast<job*>(p)->reference() ? 0 : 1; }
void gradkern_stream(void* p) { static_cast<job*>(p)->stream(); }
void gradkern_free(void* p) { delete static_cast<job*>(p); }

/// Multiply-adds in registers on each thread: as fast as a core can, and two threads that have a core each take as long as
/// one.
constexpr int spin_vectors = 12;  // more than any CPU needs to be busy
constexpr int spin_turns = 64'000'000 / (spin_vectors * gradkern::detail::simd::lanes);
void gradkern_spin(int threads) {
    namespace simd = gradkern::detail::simd;
    static volatile float start = 2.0F;  // unknown to the compiler, which would do all this beforehand
    [[maybe_unused]] static volatile float sink;
#pragma omp parallel num_threads(threads)
    {
        const simd::vec factor = simd::broadcast(0.999F);
        const simd::vec addend = simd::broadcast(0.001F);
        simd::vec x[spin_vectors];
        float number = start;
        for (simd::vec& v : x) v = simd::broadcast(number++);
        for (int i = 0; i < spin_turns; ++i) {
            GRADKERN_UNROLL
            for (int v = 0; v < spin_vectors; ++v) x[v] = simd::fma(x[v], factor, addend);
        }
        simd::vec sum = simd::zero();
        for (const simd::vec v : x) sum = simd::add(sum, v);
        float lanes[simd::lanes];
        simd::store(lanes, sum);
        sink = lanes[0];
    }
}

/// Floating-point operations of each thread of gradkern_spin.
double gradkern_spin_flops() { return 2.0 * spin_vectors * gradkern::detail::simd::lanes * spin_turns; }

const char* gradkern_isa() {
    static const std::string name(gradkern::detail::isa_name);
    return name.c_str();
}
}
