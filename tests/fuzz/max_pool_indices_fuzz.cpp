// Fuzzes max_pool_backward_from_indices: any indices, in any layout. Whether one is out of range is decided here anew.

#include <gradkern/max_pool.hpp>
#include <gradkern/ref/max_pool.hpp>

#include "fuzz/decoder.hpp"

namespace gradkern_fuzz {
namespace {

constexpr std::int64_t most_pairs = 100'000;  // the reference compares each place with each gradient

template <class T>
void fuzz_indices(decoder& d) {
    const auto r = static_cast<std::size_t>(d.integer(1, 3));
    gk::max_pool_indices_attributes a;
    a.data_format = d.word_up_to(gk::data_format::ncx);
    a.index_base = d.word_up_to(gk::index_base::image);
    a.storage_order = d.word_up_to(gk::storage_order::column_major);
    const std::int64_t n = d.once_in(32) ? 0 : d.integer(1, 3);
    const std::int64_t channels = d.pick<std::int64_t>({1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 65});
    const auto shape = [&](std::int64_t longest) {
        gk::extents e{n};
        if (a.data_format == gk::data_format::ncx) e.push_back(channels);
        for (std::size_t i = 0; i < r; ++i) e.push_back(d.integer(1, longest));
        if (a.data_format != gk::data_format::ncx) e.push_back(channels);
        return e;
    };
    gk::extents small = shape(r == 1 ? 60 : r == 2 ? 8 : 4);
    gk::extents large = shape(r == 1 ? 250 : r == 2 ? 16 : 6);
    gk::extents places = small;
    for (gk::extents* e : {&small, &large, &places}) d.spoil(*e, 48);
    bool is_omitted = d.once_in(6);
    if (d.once_in(4)) a.diff_src_shape = large;
    if (is_omitted) {
        a.diff_src_shape = large;
        is_omitted = static_cast<bool>(gk::infer_max_pool_backward_from_indices(small, places, a));
    }

    const gk::output_mode mode = d.once_in(4) ? gk::output_mode::accumulate : gk::output_mode::overwrite;
    const std::uint64_t seed = d.byte();
    const fuzz_tensor<T> diff_dst(d.layout(small, false), d.side());
    diff_dst.fill(seed, static_cast<contents>(d.integer(0, 2)));
    const gk::tensor_layout out_layout = is_omitted ? gk::tensor_layout(large) : d.layout(large, true);
    output_tensor<T> out(out_layout, d.side(), mode == gk::output_mode::accumulate, seed);

    // Indices over the range that is allowed or some of it; then one that may be anything.
    const output_tensor<std::int64_t> indices(d.layout(places, false), d.side());
    const std::int64_t end = [&] {
        const std::int64_t all = std::max<std::int64_t>(out.memory().count(), 1);
        const std::int64_t images = std::max<std::int64_t>(n, 1);
        if (a.index_base == gk::index_base::tensor) return all;
        return a.index_base == gk::index_base::image ? all / images : all / images / channels;
    }();
    const std::int64_t span = d.once_in(4) ? std::min<std::int64_t>(end, 3) : std::max<std::int64_t>(end, 1);
    const bool some_have_none = d.once_in(3);
    const std::int64_t count = indices.memory().count();
    for (std::int64_t i = 0; i < count; ++i) {
        const std::uint64_t bits = gradkern_test::scramble(seed * 977 + static_cast<std::uint64_t>(i));
        indices.memory()[i] = some_have_none && bits % 5 == 0
                                  ? -1
                                  : static_cast<std::int64_t>(bits >> 8) % std::max<std::int64_t>(span, 1);
    }
    if (count != 0 && d.once_in(2)) {
        const std::int64_t at = static_cast<std::int64_t>(d.word() >> 1) % count;
        const auto kind = d.integer(0, 4);
        indices.memory()[at] = kind == 0 ? end : kind == 1 ? end - 1 : kind == 2 ? -1 : kind == 3 ? -2 : d.anything();
    }
    bool out_of_range = false;
    for (std::int64_t i = 0; i < count; ++i)
        out_of_range = out_of_range || indices.memory()[i] < -1 || indices.memory()[i] >= end;
    const auto index_bytes = indices.bytes();

    call_memory memory{.outputs = {&out},
                       .all_there = diff_dst.has_memory() && indices.has_memory() && out.has_memory()};
    const T* dy = diff_dst.data();
    const std::int64_t* at = indices.data();
    T* dx = out.data();
    switch (d.integer(0, 31)) {
        case 29: dy = nullptr, memory.bad_pointer = !diff_dst.empty(); break;
        case 30: at = nullptr, memory.bad_pointer = !indices.empty(); break;
        case 31: dx = nullptr, memory.bad_pointer = !out.empty(); break;
        default: break;
    }
    const auto how = d.pick({gk::algorithm::automatic, gk::algorithm::sums_in_place, gk::algorithm::sums_sliding,
                             gk::algorithm::sums_buffered});
    const auto checking = [&](gk::index_check check) {
        const auto planned_by = [&](gk::algorithm path) {
            return gk::plan_max_pool_backward_from_indices<T>(
                diff_dst.layout(), indices.layout(), a, is_omitted ? gk::tensor_layout{} : out_layout,
                {.output = mode, .algorithm = path, .index_check = check});
        };
        const auto forced = planned_by(how);
        const bool fits = forced || forced.error().argument != "algorithm";
        return call_of(fits ? forced : planned_by(gk::algorithm::automatic),
                       [dy, at, dx](const auto& p, auto ws, auto e) { return p.run(dy, at, dx, ws, e); });
    };
    const planned_call call = checking(gk::index_check::first);
    const planned_call each = checking(gk::index_check::each);
    const std::string details = "max_pool_backward_from_indices" + text(" diff_dst", diff_dst.layout()) +
                                text("indices", indices.layout()) + text("diff_src", out_layout) + "data_format " +
                                std::to_string(static_cast<int>(a.data_format)) + " index_base " +
                                std::to_string(static_cast<int>(a.index_base)) + " storage_order " +
                                std::to_string(static_cast<int>(a.storage_order)) + "\n";
    const std::int64_t pairs = std::max<std::int64_t>(out.memory().count(), 0) * std::max<std::int64_t>(count, 0);
    const bool done = exercise(d, call, each, memory, false, details);
    require(indices.bytes() == index_bytes, "inputs are not written", details);
    if (call.status && memory.all_there && !memory.bad_pointer)
        require(done != out_of_range, "an index out of range is refused, any other taken", details);
    if (call.status && memory.all_there && !memory.bad_pointer && out_of_range) {
        prepare(memory);
        const guarded_bytes workspace(each.workspace_bytes(1), d.side());
        require(each.run({workspace.data(), workspace.size()}, {}).code() == gk::errc::index_out_of_range,
                "an index out of range is refused on the way, too", details);
        require_intact(memory, details);
    }
    if (!done || pairs > most_pairs) return;
    const auto results = out.result();
    out.prepare();
    const gk::status s =
        gk::ref::max_pool_backward_from_indices<T>(diff_dst.const_view(), {indices.data(), indices.layout()}, a,
                                                   {out.data(), out_layout}, {.plan = {.output = mode}});
    require(s.ok(), "the reference accepts what the operator accepts", details + gk::to_string(s));
    require(out.result() == results, "bits are the reference's", details);
}

}  // namespace
}  // namespace gradkern_fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    gradkern_fuzz::decoder d(data, size);
    gradkern_fuzz::with_element_type(d, [&]<class T>(T) { gradkern_fuzz::fuzz_indices<T>(d); });
    return 0;
}
