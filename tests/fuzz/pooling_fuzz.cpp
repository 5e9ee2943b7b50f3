// Fuzzes avg_pool, avg_pool_backward, lp_pool, lp_pool_backward, max_pool with its indices and max_pool_backward.

#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <gradkern/avg_pool.hpp>
#include <gradkern/lp_pool.hpp>
#include <gradkern/max_pool.hpp>
#include <gradkern/ref/avg_pool.hpp>
#include <gradkern/ref/lp_pool.hpp>
#include <gradkern/ref/max_pool.hpp>

#include "fuzz/decoder.hpp"
#include "support/pool_problem.hpp"

namespace gradkern_fuzz {
namespace {

constexpr std::int64_t most_taps = 60'000;

using gradkern_test::pool_problem;

gk::result<gk::extents> infer(const gk::extents& src, const gk::avg_pool_attributes& a) {
    return gk::infer_avg_pool(src, a);
}
gk::result<gk::extents> infer(const gk::extents& src, const gk::lp_pool_attributes& a) {
    return gk::infer_lp_pool(src, a);
}
gk::result<gk::extents> infer(const gk::extents& src, const gk::max_pool_attributes& a) {
    return gk::infer_max_pool(src, a);
}

template <class Attributes>
pool_problem<Attributes> decode_case(decoder& d) {
    pool_problem<Attributes> c;
    const auto r = static_cast<std::size_t>(d.integer(1, 3));
    const std::int64_t n = d.once_in(32) ? 0 : d.integer(1, 3);
    const std::int64_t channels = d.pick<std::int64_t>({1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 65, 130});
    const std::int64_t longest = r == 1 ? 250 : r == 2 ? 20 : 8;
    gk::extents space;
    const bool dilated = d.once_in(3);
    for (std::size_t i = 0; i < r; ++i) {
        space.push_back(d.integer(1, longest));
        const auto kernel = d.integer(1, 8);
        c.attributes.kernel.push_back(kernel == 8 ? d.integer(1, 2 * longest > 255 ? 255 : 2 * longest) : kernel);
        c.attributes.strides.push_back(d.integer(1, 5));
        c.attributes.pads_begin.push_back(d.integer(0, 7) / 2);
        c.attributes.pads_end.push_back(d.integer(0, 7) / 2);
        if (dilated) c.attributes.dilations.push_back(d.integer(1, 4));
    }
    c.attributes.auto_pad = d.once_in(3) ? d.word_up_to(gk::auto_pad::valid) : gk::auto_pad::none;
    c.attributes.rounding_type = d.word_up_to(gk::rounding_type::ceil_torch);
    c.attributes.data_format = d.word_up_to(gk::data_format::ncx);
    d.stretch(space, c.attributes.kernel, c.attributes.strides, c.attributes.dilations, c.attributes.pads_begin,
              c.attributes.pads_end, 16);
    for (gk::extents* e : {&c.attributes.kernel, &c.attributes.strides, &c.attributes.pads_begin,
                           &c.attributes.pads_end, &c.attributes.dilations})
        d.spoil(*e, 48);
    c.src.push_back(n);
    if (c.attributes.data_format == gk::data_format::ncx) c.src.push_back(channels);
    for (const std::int64_t s : space.values()) c.src.push_back(s);
    if (c.attributes.data_format != gk::data_format::ncx) c.src.push_back(channels);
    c.dst = c.src;
    if (const auto e = infer(c.src, c.attributes)) c.dst = *e;
    d.spoil(c.src, 48);
    d.spoil(c.dst, 48);
    return c;
}

/// Taps of all windows, each axis clipped to what can be inside; 0 where sizes are not legal anyway.
template <class Attributes>
std::int64_t taps_of(const pool_problem<Attributes>& c) {
    gk::shape::checked taps(count_of(c.dst));
    for (std::size_t i = 0; i < c.attributes.kernel.values().size() && i + 2 < c.src.values().size(); ++i)
        taps *= std::min(c.attributes.kernel[i], c.src[gk::shape::spatial_index(c.attributes.data_format) + i]);
    return taps.ok() ? taps.value() : std::numeric_limits<std::int64_t>::max();
}

/// Runs `reference` into the outputs of a call and compares.
template <class Reference>
void compare(const call_memory& memory, const Reference& reference, const std::string& details) {
    const auto results = results_of(memory);
    prepare(memory);
    const gk::status s = reference();
    require(s.ok(), "the reference accepts what the operator accepts", details + gk::to_string(s));
    require(results_of(memory) == results, "bits are the reference's", details);
}

contents what_of(decoder& d) { return static_cast<contents>(d.integer(0, 2)); }

/// Sometimes the pointers of an input and an output are null, or the same.
template <class T>
void spoil_pointers(decoder& d, call_memory& memory, const fuzz_tensor<T>& in, const output_tensor<T>& out,
                    const T*& from, T*& to) {
    switch (d.integer(0, 31)) {
        case 29: from = nullptr, memory.bad_pointer = !in.empty(); break;
        case 30: to = nullptr, memory.bad_pointer = !out.empty(); break;
        case 31: from = to, memory.bad_pointer = !in.empty() && !out.empty(); break;
        default: break;
    }
}

template <class T>
void fuzz_avg_pool(decoder& d, bool backward) {
    auto c = decode_case<gk::avg_pool_attributes>(d);
    c.attributes.exclude_pad = d.once_in(2);
    if (d.once_in(4)) c.attributes.divisor_override = d.once_in(4) ? d.anything() : d.integer(-3, 9);
    const gk::output_mode mode = d.once_in(4) ? gk::output_mode::accumulate : gk::output_mode::overwrite;
    const std::uint64_t seed = d.byte();
    if (backward && d.once_in(4)) c.attributes.diff_src_shape = c.src;
    const fuzz_tensor<T> in(d.layout(backward ? c.dst : c.src, false), d.side());
    in.fill(seed, what_of(d));

    const gk::extents& result = backward ? c.src : c.dst;
    const auto inferred =
        backward ? gk::infer_avg_pool_backward(in.layout().shape, c.attributes) : infer(c.src, c.attributes);
    const bool is_omitted = inferred && d.once_in(6);
    const gk::tensor_layout out_layout = is_omitted ? gk::tensor_layout(*inferred) : d.layout(result, true);
    const gk::tensor_layout asked = is_omitted ? gk::tensor_layout{} : out_layout;
    output_tensor<T> out(out_layout, d.side(), mode == gk::output_mode::accumulate, seed);
    call_memory memory{.outputs = {&out}, .all_there = in.has_memory() && out.has_memory()};
    const T* from = in.data();
    T* to = out.data();
    spoil_pointers(d, memory, in, out, from, to);
    const auto run = [from, to](const auto& p, auto ws, auto e) { return p.run(from, to, ws, e); };
    // every path of the engine, where it fits
    constexpr auto& paths = gk::detail::avg_pool::paths;
    const auto row = static_cast<std::size_t>(d.integer(0, static_cast<std::int64_t>(paths.size())));
    const auto planned_by = [&](const auto& plan) {
        const auto forced =
            plan({.output = mode, .algorithm = row == 0 ? gk::algorithm::automatic : paths[row - 1].name});
        const bool fits = forced || forced.error().argument != "algorithm";
        return call_of(fits ? forced : plan({.output = mode}), run);
    };
    const planned_call call = backward ? planned_by([&](const gk::plan_options& o) {
        return gk::plan_avg_pool_backward<T>(in.layout(), c.attributes, asked, o);
    })
                                       : planned_by([&](const gk::plan_options& o) {
                                             return gk::plan_avg_pool<T>(in.layout(), c.attributes, asked, o);
                                         });
    const std::string details = (backward ? "avg_pool_backward " : "avg_pool ") + c.description() + "\n" +
                                text("in", in.layout()) + text("out", out_layout);
    if (!exercise(d, call, call, memory, call.status && taps_of(c) > most_taps, details)) return;
    compare(
        memory,
        [&] {
            const gk::tensor_view<T> result_view{out.data(), out_layout};
            return backward
                       ? gk::ref::avg_pool_backward<T>(in.const_view(), c.attributes, result_view,
                                                       {.plan = {.output = mode}})
                       : gk::ref::avg_pool<T>(in.const_view(), c.attributes, result_view, {.plan = {.output = mode}});
        },
        details);
}

gk::max_pool_attributes more_attributes(decoder& d, gk::max_pool_attributes a) {
    a.ignore_nan = d.once_in(2);
    a.index_base = d.word_up_to(gk::index_base::image);
    a.storage_order = d.word_up_to(gk::storage_order::column_major);
    return a;
}

/// A row of a table of paths, or the choice of the plan.
template <class Path, std::size_t Rows>
gk::algorithm path_of(decoder& d, const std::array<Path, Rows>& table) {
    const auto i = static_cast<std::size_t>(d.integer(0, Rows));
    return i == Rows ? gk::algorithm::automatic : table[i].name;
}
/// The plan of that path or, where it does not fit, of the one that is chosen.
template <class Make>
auto forced_if_it_fits(gk::algorithm path, const Make& make) {
    const auto plan = make(path);
    return plan || plan.error().argument != "algorithm" ? plan : make(gk::algorithm::automatic);
}

template <class T>
void fuzz_lp_pool(decoder& d) {
    const auto c = decode_case<gk::lp_pool_attributes>(d);
    const gk::output_mode mode = d.once_in(4) ? gk::output_mode::accumulate : gk::output_mode::overwrite;
    const std::uint64_t seed = d.byte();
    const fuzz_tensor<T> src(d.layout(c.src, false), d.side());
    src.fill(seed, what_of(d));
    const gk::tensor_layout out_layout = d.layout(c.dst, true);
    output_tensor<T> out(out_layout, d.side(), mode == gk::output_mode::accumulate, seed);
    call_memory memory{.outputs = {&out}, .all_there = src.has_memory() && out.has_memory()};
    const T* from = src.data();
    T* to = out.data();
    spoil_pointers(d, memory, src, out, from, to);
    const auto plan = forced_if_it_fits(path_of(d, gk::detail::lp_pool::paths), [&](gk::algorithm path) {
        return gk::plan_lp_pool<T>(src.layout(), c.attributes, out_layout, {.output = mode, .algorithm = path});
    });
    const planned_call call =
        call_of(plan, [from, to](const auto& p, auto ws, auto e) { return p.run(from, to, ws, e); });
    const std::string details =
        "lp_pool " + c.description() + "\n" + text("src", src.layout()) + text("dst", out_layout);
    if (!exercise(d, call, call, memory, call.status && taps_of(c) > most_taps, details)) return;
    compare(
        memory,
        [&] {
            return gk::ref::lp_pool<T>(src.const_view(), c.attributes, {out.data(), out_layout},
                                       {.plan = {.output = mode}});
        },
        details);
}

template <class T>
void fuzz_lp_pool_backward(decoder& d) {
    const auto c = decode_case<gk::lp_pool_attributes>(d);
    const gk::output_mode mode = d.once_in(4) ? gk::output_mode::accumulate : gk::output_mode::overwrite;
    const std::uint64_t seed = d.byte();
    gk::extents norms = c.dst;
    d.spoil(norms, 48);
    const fuzz_tensor<T> src(d.layout(c.src, false), d.side());
    const fuzz_tensor<T> dst(d.layout(norms, false), d.side());
    const fuzz_tensor<T> diff_dst(d.layout(c.dst, false), d.side());
    src.fill(seed, what_of(d));
    dst.fill(seed + 500, what_of(d));
    diff_dst.fill(seed + 1000, what_of(d));
    const bool is_omitted = d.once_in(6);
    gk::extents result = c.src;
    if (!is_omitted) d.spoil(result, 48);
    const gk::tensor_layout out_layout = is_omitted ? gk::tensor_layout(result) : d.layout(result, true);
    output_tensor<T> out(out_layout, d.side(), mode == gk::output_mode::accumulate, seed);
    call_memory memory{.outputs = {&out},
                       .all_there = src.has_memory() && dst.has_memory() && diff_dst.has_memory() && out.has_memory()};
    const T* x = src.data();
    const T* y = dst.data();
    const T* dy = diff_dst.data();
    T* dx = out.data();
    switch (d.integer(0, 31)) {
        case 27: x = nullptr, memory.bad_pointer = !src.empty(); break;
        case 28: y = nullptr, memory.bad_pointer = !dst.empty(); break;
        case 29: dy = nullptr, memory.bad_pointer = !diff_dst.empty(); break;
        case 30: dx = nullptr, memory.bad_pointer = !out.empty(); break;
        case 31: y = dx, memory.bad_pointer = !dst.empty() && !out.empty(); break;
        default: break;
    }
    const auto plan = forced_if_it_fits(path_of(d, gk::detail::lp_pool::paths), [&](gk::algorithm path) {
        return gk::plan_lp_pool_backward<T>(src.layout(), dst.layout(), diff_dst.layout(), c.attributes,
                                            is_omitted ? gk::tensor_layout{} : out_layout,
                                            {.output = mode, .algorithm = path});
    });
    const planned_call call =
        call_of(plan, [x, y, dy, dx](const auto& p, auto ws, auto e) { return p.run(x, y, dy, dx, ws, e); });
    const std::string details = "lp_pool_backward " + c.description() + "\n" + text("src", src.layout()) +
                                text("dst", dst.layout()) + text("diff_dst", diff_dst.layout()) +
                                text("diff_src", out_layout);
    if (!exercise(d, call, call, memory, call.status && taps_of(c) > most_taps, details)) return;
    compare(
        memory,
        [&] {
            return gk::ref::lp_pool_backward<T>(src.const_view(), dst.const_view(), diff_dst.const_view(), c.attributes,
                                                {out.data(), out_layout}, {.plan = {.output = mode}});
        },
        details);
}

template <class T>
void fuzz_max_pool(decoder& d) {
    auto c = decode_case<gk::max_pool_attributes>(d);
    c.attributes = more_attributes(d, c.attributes);
    const gk::output_mode mode = d.once_in(4) ? gk::output_mode::accumulate : gk::output_mode::overwrite;
    const std::uint64_t seed = d.byte();
    const fuzz_tensor<T> src(d.layout(c.src, false), d.side());
    src.fill(seed, what_of(d));
    const bool wants_indices = d.once_in(2);
    gk::extents places = c.dst;
    d.spoil(places, 48);
    output_tensor<T> dst(d.layout(c.dst, true), d.side(), mode == gk::output_mode::accumulate, seed);
    output_tensor<std::int64_t> indices(wants_indices ? d.layout(places, true) : gk::tensor_layout{0}, d.side());
    call_memory memory{.outputs = {&dst, &indices},
                       .all_there = src.has_memory() && dst.has_memory() && indices.has_memory()};
    const T* from = src.data();
    T* to = dst.data();
    std::int64_t* at = wants_indices ? indices.data() : nullptr;
    switch (d.integer(0, 31)) {
        case 28: from = nullptr, memory.bad_pointer = !src.empty(); break;
        case 29: to = nullptr, memory.bad_pointer = !dst.empty(); break;
        case 30: at = nullptr, memory.bad_pointer = wants_indices && !indices.empty(); break;
        case 31: from = to, memory.bad_pointer = !src.empty() && !dst.empty(); break;
        default: break;
    }
    const gk::tensor_layout dst_layout = dst.layout();
    const gk::tensor_layout indices_layout = wants_indices ? indices.layout() : gk::tensor_layout{};
    const auto plan = forced_if_it_fits(path_of(d, gk::detail::max_pool::paths), [&](gk::algorithm path) {
        return gk::plan_max_pool<T>(src.layout(), c.attributes, dst_layout, indices_layout,
                                    {.output = mode, .algorithm = path});
    });
    const planned_call call =
        call_of(plan, [from, to, at](const auto& p, auto ws, auto e) { return p.run(from, to, at, ws, e); });
    const std::string details = "max_pool " + c.description() + "\n" + text("src", src.layout()) +
                                text("dst", dst_layout) + text("indices", indices_layout);
    if (!exercise(d, call, call, memory, call.status && taps_of(c) > most_taps, details)) return;
    compare(
        memory,
        [&] {
            return gk::ref::max_pool<T>(src.const_view(), c.attributes, {dst.data(), dst_layout},
                                        {indices.data(), indices_layout}, {.plan = {.output = mode}});
        },
        details);
}

template <class T>
void fuzz_max_pool_backward(decoder& d) {
    auto c = decode_case<gk::max_pool_attributes>(d);
    c.attributes = more_attributes(d, c.attributes);
    const gk::output_mode mode = d.once_in(4) ? gk::output_mode::accumulate : gk::output_mode::overwrite;
    const std::uint64_t seed = d.byte();
    const fuzz_tensor<T> src(d.layout(c.src, false), d.side());
    const fuzz_tensor<T> diff_dst(d.layout(c.dst, false), d.side());
    src.fill(seed, what_of(d));
    diff_dst.fill(seed + 1000, what_of(d));
    const bool is_omitted = d.once_in(6);
    gk::extents result = c.src;
    if (!is_omitted) d.spoil(result, 48);
    const gk::tensor_layout out_layout = is_omitted ? gk::tensor_layout(result) : d.layout(result, true);
    output_tensor<T> out(out_layout, d.side(), mode == gk::output_mode::accumulate, seed);
    call_memory memory{.outputs = {&out}, .all_there = src.has_memory() && diff_dst.has_memory() && out.has_memory()};
    const T* x = src.data();
    const T* dy = diff_dst.data();
    T* dx = out.data();
    switch (d.integer(0, 31)) {
        case 27: x = nullptr, memory.bad_pointer = !src.empty(); break;
        case 28: dy = nullptr, memory.bad_pointer = !diff_dst.empty(); break;
        case 29: dx = nullptr, memory.bad_pointer = !out.empty(); break;
        case 30: x = dx, memory.bad_pointer = !src.empty() && !out.empty(); break;
        case 31: dy = dx, memory.bad_pointer = !diff_dst.empty() && !out.empty(); break;
        default: break;
    }
    const auto plan = forced_if_it_fits(path_of(d, gk::detail::max_pool::backward_paths), [&](gk::algorithm path) {
        return gk::plan_max_pool_backward<T>(src.layout(), diff_dst.layout(), c.attributes,
                                             is_omitted ? gk::tensor_layout{} : out_layout,
                                             {.output = mode, .algorithm = path});
    });
    const planned_call call =
        call_of(plan, [x, dy, dx](const auto& p, auto ws, auto e) { return p.run(x, dy, dx, ws, e); });
    const std::string details = "max_pool_backward " + c.description() + "\n" + text("src", src.layout()) +
                                text("diff_dst", diff_dst.layout()) + text("diff_src", out_layout);
    // The reference looks for the maximum of a window once for each of its taps.
    std::int64_t work = std::max<std::int64_t>(taps_of(c), 0);  // spoilt extents may be negative
    for (const std::int64_t k : c.attributes.kernel.values())
        work = work > most_taps ? work : work * std::clamp<std::int64_t>(k, 1, most_elements);
    if (!exercise(d, call, call, memory, call.status && work > 4 * most_taps, details)) return;
    compare(
        memory,
        [&] {
            return gk::ref::max_pool_backward<T>(src.const_view(), diff_dst.const_view(), c.attributes,
                                                 {out.data(), out_layout}, {.plan = {.output = mode}});
        },
        details);
}

template <class T>
void fuzz_pools(decoder& d) {
    switch (d.integer(0, 5)) {
        case 0: return fuzz_avg_pool<T>(d, true);
        case 1: return fuzz_avg_pool<T>(d, false);
        case 2: return fuzz_max_pool<T>(d);
        case 3: return fuzz_lp_pool<T>(d);
        case 4: return fuzz_lp_pool_backward<T>(d);
        default: return fuzz_max_pool_backward<T>(d);
    }
}

}  // namespace
}  // namespace gradkern_fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    gradkern_fuzz::decoder d(data, size);
    gradkern_fuzz::with_element_type(d, [&]<class T>(T) { gradkern_fuzz::fuzz_pools<T>(d); });
    return 0;
}
