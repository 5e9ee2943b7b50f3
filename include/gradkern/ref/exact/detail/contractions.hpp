// The three sums of the convolution family, exact: over what a small position reads, over what a large position is reached from, and over
// all positions. Each calls finish(n, channel, position, sum), or finish(small channel, large channel, tap, sum), for every output.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include <gradkern/detail/config.hpp>
#include <gradkern/half.hpp>
#include <gradkern/ref/exact/accumulator.hpp>
#include <gradkern/ref/exact/detail/products.hpp>
#include <gradkern/ref/loops.hpp>
#include <gradkern/shape.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace ref::exact::detail {

[[nodiscard]] constexpr std::int64_t count_of(const index3& extent) noexcept {
    return extent[0] * extent[1] * extent[2];
}
/// Number of index i, row-major.
[[nodiscard]] constexpr std::int64_t number_of(const index3& i, const index3& extent) noexcept {
    return (i[0] * extent[1] + i[1]) * extent[2] + i[2];
}

/// A problem without the taps that lie inside for no window: a kernel may have many more taps than weights are read.
struct read_taps {
    std::array<shape::axis, 3> axes;
    index3 first{};
    index3 extent{};

    explicit constexpr read_taps(const shape::convolution_problem& p) noexcept : axes(p.axes) {
        for (std::size_t i = 0; i < 3; ++i) {
            first[i] = axes[i].drop_outside_taps();
            extent[i] = axes[i].kernel;
        }
    }
    [[nodiscard]] constexpr index3 original(const index3& k) const noexcept {
        return {k[0] + first[0], k[1] + first[1], k[2] + first[2]};
    }
};

/// Two packed tensors, and how their products are added.
struct operands {
    scheme how;
    panel a;
    panel b;
};
template <element A, element B, class WalkA, class WalkB>
[[nodiscard]] operands pack_operands(std::int64_t a_size, const WalkA& walk_a, std::int64_t b_size, const WalkB& walk_b,
                                     std::int64_t terms) {
    const extent_of_bits a = extent_of_elements<A>(walk_a);
    const extent_of_bits b = extent_of_elements<B>(walk_b);
    const bool with_signs = a.has_special || b.has_special;
    operands o;
    o.how = scheme_for(a, b, terms);
    o.a = pack<A>(a_size, o.how.by_bins, with_signs, walk_a);
    o.b = pack<B>(b_size, o.how.by_bins, with_signs, walk_b);
    return o;
}

/// Visits the elements of an activation: (n, position, channel).
template <class T>
[[nodiscard]] auto walk_positions(const tensor5<const T>& t, std::int64_t batch, const index3& extent,
                                  std::int64_t channels) {
    return [=](const auto& visit) {
        std::int64_t place = 0;
        for (std::int64_t n = 0; n < batch; ++n)
            for_each_index(extent, [&](const index3& i) {
                for (std::int64_t c = 0; c < channels; ++c) visit(place++, t.at(n, c, i));
            });
    };
}
/// Visits the elements of an activation: (n, channel, position).
template <class T>
[[nodiscard]] auto walk_channels(const tensor5<const T>& t, std::int64_t batch, const index3& extent,
                                 std::int64_t channels) {
    return [=](const auto& visit) {
        std::int64_t place = 0;
        for (std::int64_t n = 0; n < batch; ++n)
            for (std::int64_t c = 0; c < channels; ++c)
                for_each_index(extent, [&](const index3& i) { visit(place++, t.at(n, c, i)); });
    };
}

/// Sums for each position and channel of the side `Outputs`, of what the other side has:
///
///     small   sum over inside taps k and channels l of read[n, g*L+l, p(o,k)] * weights(g*S+s, l, k)
///     large   sum over (o, k) with p(o,k) = q and channels s of read[n, g*S+s, o] * weights(g*S+s, l, k)
template <shape::side Outputs, class A, class B, class Finish>
void contract(const shape::convolution_problem& p, const tensor5<const A>& read, const tensor5<const B>& weights,
              const Finish& finish) {
    constexpr bool small_outputs = Outputs == shape::side::small;
    const read_taps taps(p);
    const std::int64_t outputs = small_outputs ? p.small_channels : p.large_channels;
    const std::int64_t channels = small_outputs ? p.large_channels : p.small_channels;
    const index3 read_extent = small_outputs ? large_extent(p) : small_extent(p);
    const std::int64_t blocks = whole_lanes(outputs) / lanes;
    const std::int64_t positions = count_of(read_extent);
    const std::int64_t kernel = count_of(taps.extent);
    // weights: (group, block of outputs, tap, channel, lane)
    const auto walk_weights = [&](const auto& visit) {
        for (std::int64_t s = 0; s < p.groups * p.small_channels; ++s) {
            for_each_index(taps.extent, [&](const index3& k) {
                for (std::int64_t l = 0; l < p.large_channels; ++l) {
                    const std::int64_t in_group = s % p.small_channels;
                    const std::int64_t output = small_outputs ? in_group : l;
                    const std::int64_t channel = small_outputs ? l : in_group;
                    const std::int64_t block = s / p.small_channels * blocks + output / lanes;
                    visit(((block * kernel + number_of(k, taps.extent)) * channels + channel) * lanes + output % lanes,
                          weights.at(s, l, taps.original(k)));
                }
            });
        }
    };
    const operands o = pack_operands<A, B>(
        p.batch * positions * p.groups * channels, walk_positions(read, p.batch, read_extent, p.groups * channels),
        p.groups * blocks * kernel * channels * lanes, walk_weights, kernel * channels);
    lane_sums sums(o.how, o.a, o.b);
    for (std::int64_t n = 0; n < p.batch; ++n) {
        for (std::int64_t g = 0; g < p.groups; ++g) {
            for (std::int64_t block = 0; block < blocks; ++block) {
                const std::int64_t first = block * lanes;
                const std::int64_t used = (std::min)(lanes, outputs - first);
                for_each_index(small_outputs ? small_extent(p) : large_extent(p), [&](const index3& at) {
                    const auto add = [&](const index3& k, const index3& i) {
                        sums.add(((n * positions + number_of(i, read_extent)) * p.groups + g) * channels, 1,
                                 ((g * blocks + block) * kernel + number_of(k, taps.extent)) * channels * lanes, lanes,
                                 channels);
                    };
                    sums.start(used);
                    if constexpr (small_outputs)
                        for_each_tap(taps.axes, at, add);
                    else
                        for_each_window(taps.axes, at, add);
                    auto& totals = sums.totals();
                    for (std::int64_t l = 0; l < used; ++l)
                        finish(n, g * outputs + first + l, at, totals[static_cast<std::size_t>(l)]);
                });
            }
        }
    }
}

/// sum over n and o of large[n, g*L+l, p(o,k)] * small[n, g*S+s, o].
template <class A, class B, class Finish>
void contract_positions(const shape::convolution_problem& p, const tensor5<const A>& large,
                        const tensor5<const B>& small, const Finish& finish) {
    const std::int64_t outputs = p.small_channels;
    const std::int64_t blocks = whole_lanes(outputs) / lanes;
    const index3 large_side = large_extent(p);
    const index3 small_side = small_extent(p);
    const std::int64_t reads = p.groups * p.large_channels;
    // small: (n, group, block, position, lane)
    const auto walk_small = [&](const auto& visit) {
        for (std::int64_t n = 0; n < p.batch; ++n) {
            for (std::int64_t s = 0; s < p.groups * outputs; ++s) {
                const std::int64_t block = (n * p.groups + s / outputs) * blocks + s % outputs / lanes;
                std::int64_t place = block * count_of(small_side) * lanes + s % outputs % lanes;
                for_each_index(small_side, [&](const index3& i) {
                    visit(place, small.at(n, s, i));
                    place += lanes;
                });
            }
        }
    };
    const operands o = pack_operands<A, B>(
        p.batch * reads * count_of(large_side), walk_channels(large, p.batch, large_side, reads),
        p.batch * p.groups * blocks * count_of(small_side) * lanes, walk_small, p.batch * count_of(small_side));
    lane_sums sums(o.how, o.a, o.b);
    for (std::int64_t g = 0; g < p.groups; ++g) {
        for (std::int64_t block = 0; block < blocks; ++block) {
            const std::int64_t first = block * lanes;
            const std::int64_t used = (std::min)(lanes, outputs - first);
            for (std::int64_t l = 0; l < p.large_channels; ++l) {
                for_each_index(kernel_extent(p), [&](const index3& k) {
                    const auto rows_d = p.axes[0].inside_positions(k[0]);
                    const auto rows_h = p.axes[1].inside_positions(k[1]);
                    const auto row = p.axes[2].inside_positions(k[2]);
                    sums.start(used);
                    for (std::int64_t n = 0; n < p.batch; ++n) {
                        for_each_index(
                            {rows_d.last - rows_d.first, rows_h.last - rows_h.first, 1}, [&](const index3& i) {
                                const index3 at{rows_d.first + i[0], rows_h.first + i[1], row.first};
                                if (row.first == row.last) return;
                                const index3 q{p.axes[0].position(at[0], k[0]), p.axes[1].position(at[1], k[1]),
                                               p.axes[2].position(at[2], k[2])};
                                sums.add((n * reads + g * p.large_channels + l) * count_of(large_side) +
                                             number_of(q, large_side),
                                         p.axes[2].stride,
                                         (((n * p.groups + g) * blocks + block) * count_of(small_side) +
                                          number_of(at, small_side)) *
                                             lanes,
                                         lanes, row.last - row.first);
                            });
                    }
                    auto& totals = sums.totals();
                    for (std::int64_t s = 0; s < used; ++s)
                        finish(g * outputs + first + s, l, k, totals[static_cast<std::size_t>(s)]);
                });
            }
        }
    }
}

/// Calls finish(s, l, k, offset of the result, sum) for each gradient of weights, or for those of each image.
template <class A, class B, class Finish>
void contract_results(const shape::convolution_problem& p, const plan_options& options, const tensor5<const A>& large,
                      const tensor5<const B>& small, const Finish& finish) {
    for_each_result(p.batch, shape::element_count(p.weights_shape), options, [&](auto first, auto last, auto offset) {
        shape::convolution_problem images = p;
        images.batch = last - first;
        contract_positions(images, large.from_image(first), small.from_image(first),
                           [&](std::int64_t s, std::int64_t l, const index3& k, const accumulator& sum) {
                               finish(s, l, k, offset, sum);
                           });
    });
}

}  // namespace ref::exact::detail
GRADKERN_ISA_NAMESPACE_END
