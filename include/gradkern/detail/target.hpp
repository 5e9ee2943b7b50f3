// The machine that kernels and plans are made for: register tiles, caches, prefetch distances, quirks of CPUs. Beside config.hpp
// and simd/ the only header that looks at instruction-set macros. Everything here is about speed: it changes no bit of a result.
#pragma once

#include <cstdint>

#include <gradkern/detail/config.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail {

/// A line of every cache, in bytes.
inline constexpr std::int64_t cache_line = 64;
/// A page of memory, in bytes.
inline constexpr std::int64_t page = 4096;

/// The shapes of register tiles, rows x vectors: what leaves registers for the operands.
struct tile_shapes {
    int rows = 6;             ///< of the widest tiles, whose rows are broadcast
    int vectors = 2;          ///< of them
    int narrow_rows = 6;      ///< of tiles for few lanes, and of those whose rows are vectors
    int narrow_vectors = 2;   ///< of them
    int spaced_rows = 12;     ///< of tiles of one vector whose rows lie equally far apart
    int sliding_rows = 8;     ///< of tiles that keep a vector for each row and the weights of a line of the window
    int unrolled_terms = 1;   ///< neighbouring terms that an iteration of the widest tiles adds
    int shuffled_floats = 4;  ///< floats that one shuffle of the compiler's vector extensions permutes
};

/// Sizes of caches that plans count on, in bytes. They are one core's share.
struct cache_sizes {
    std::int64_t tensor_in_l2 = std::int64_t{1} << 20;  ///< a tensor used last is likely to be there
    std::int64_t last_level = std::int64_t{16} << 20;   ///< larger tensors are read from memory
    std::int64_t tlb_pages = 72;  ///< pages that tiles may read side by side: the TLB of L1 holds them
    bool two_mb_l2 = false;       ///< whether L2 has 2 MB: more weights stay packed
    /// Packed weights of a panel that stay in L2 beside what they meet, and the same where their lanes lie apart in the tensor,
    /// which share L2 with the lines they come from.
    std::int64_t packed_panel = std::int64_t{768} << 10;
    std::int64_t packed_panel_apart = std::int64_t{384} << 10;
    std::int64_t fused_group_pixels =
        512;  ///< pixels of a block that the panels of several groups go over side by side
    std::int64_t fused_panel_pixels = 1024;       ///< the same of panels of one group whose windows share no pixel
    std::int64_t sums = std::int64_t{256} << 10;  ///< sums that stay in L2 beside the gradients that are added to them
    /// Sums of one worker. With fewer, panels of 16-bit tensors become so narrow that lines of memory are read in parts.
    std::int64_t sum_buffer = std::int64_t{4} << 20;
};

/// How far ahead of their use lines are prefetched. Rows a page or more apart are counted: no CPU prefetches from one to the next.
struct prefetch_distances {
    std::int64_t stream =
        64 * cache_line;  ///< bytes, of one stream of loads or stores: by itself a CPU runs ahead too little
    std::int64_t window_row = 32 * cache_line;  ///< bytes, of each of the rows of a window, all of which L1 holds
    std::int64_t packed_row = 6 * cache_line;   ///< bytes, of each of the rows that are packed or unpacked side by side
    std::int64_t packed_lanes = 16;             ///< pixels, whose lanes are neighbours in memory
    std::int64_t packed_channels = 2;           ///< channels, where the lines of each are packed one after the other
    std::int64_t packed_pixels = 4;             ///< channels, where runs of each are
    /// Output channels of 1x1 kernels in NCX, at most, where tiles prefetch the pixels that are packed next: more hide the time it takes.
    std::int64_t next_pixels = 0;
    std::int64_t packed_positions = 8;         ///< positions, where the groups of each are spread over lanes
    std::int64_t packed_terms = 8;             ///< terms of a filter, where the taps of each are packed
    std::int64_t zeroed_sums = 1024;           ///< sums that are zeroed
    std::int64_t rounded_pixels = 16;          ///< pixels of all channels of a panel, whose sums are rounded
    std::int64_t output_tiles = 2;             ///< tiles of as many rows as there are at most
    std::int64_t most_lines_ahead = 32 << 10;  ///< bytes of lines that are prefetched at once: L1 holds them
    std::int64_t gathered_pixels = 8;          ///< pixels of an output whose gradients are gathered one after the other
};

/// What weight gradients keep in caches, in floats.
struct weight_gradient_blocks {
    std::int64_t sums = 64 << 10;  ///< sums of a dense task, in L2
    std::int64_t sums_of_1x1 =
        256 << 10;                    ///< the same of 1x1 kernels, which read each number for few products: beyond L2
    std::int64_t lanes = 128;         ///< lanes of a dense task
    std::int64_t lanes_of_1x1 = 512;  ///< the same of 1x1 kernels
    std::int64_t packed_window = 96 << 10;  ///< a packed window of lines
    std::int64_t far_pixels = 512;          ///< from pixel to pixel where tiles read in place too slowly: half a page
    /// Numbers of a pixel of both sides together, below which tiles read them in place.
    std::int64_t close_pixels = 512;
    /// Chunks whose sums are kept in diff_weights, at most. More take up to 1.2 times as long: rows of diff_weights lie apart, and each
    /// chunk reads and writes them (87 layers, Emerald Rapids, AVX-512).
    std::int64_t chunks_in_results = 4;
    /// 1x1 in NXC, beyond L2: whether pixels are copied.
    bool copies_pixels = false;
    // Sums of a task whose rows are taps:
    std::int64_t sums_of_taps = 64 << 10;         ///< lanes of one group
    std::int64_t sums_of_group_taps = 4 << 10;    ///< lanes across groups: they stay in L1
    std::int64_t sums_of_shared_taps = 16 << 10;  ///< lanes that share the numbers of their group
    std::int64_t most_packed = 1024 << 10;        ///< packed lines of a chunk there, at most
};

/// Neighbouring channels that max pools walk together where they read them in place: the hardware does not prefetch parts of pixels.
struct pool_panels {
    std::int64_t channels = 128;           ///< of a panel; forms with a number of their own may take more:
    std::int64_t compared_channels = 128;  ///< forward, at most
    std::int64_t gathered_channels = 128;  ///< of the gather form, at most: it keeps the maxima of some lines
    /// Numbers of a line from which on the gather form is faster: it takes some 300 cycles for each line beside its numbers, which the
    /// scatter form adds one by one (223 pools drawn at random, Emerald Rapids: 1.02 to 1.04 times the time of the faster form in the mean).
    std::int64_t gathered_line = 1024;
};

/// What steps of convolutions cost. The first ones are cycles, measured on an Emerald Rapids: 650 layers of few channels that were drawn at
/// random, and those of the zoo, in both layouts with AVX-512 and AVX2.
struct step_costs {
    double segment = 0.5;                  ///< the K segment of a tap, beside its terms, in terms
    double tile = 120;                     ///< beginning and ending a tile
    double moved_number = 0.95;            ///< packing a number, or transposing a result
    double column_number = 6.4;            ///< moving a number of a single column
    double own_term = 1;                   ///< a term of a vector whose lanes have activations of their own
    double chunk_number = 0.45;            ///< packing a number of a chunk of weight gradients,
    double transposed_chunk_number = 0.8;  ///< the same where it is transposed
    double spread_number = 3.4;            ///< times chunk_number, for a number that goes to a lane by itself
    double chunk_line = 2;                 ///< a line of a chunk, in a tile
    double by_memory = 4;                  ///< times a transposed number, for one that is transposed by way of memory
    double shared_lines = 1.4;             ///< times weight gradients of groups whose lines of the cache hold several
    double phases = 1.4;  ///< times the terms of data gradients along an axis with a stride: phases have few taps
    // In multiply-adds of a lane, measured on a Sapphire Rapids with AVX-512 and AVX2:
    double line_term = 1.3;             ///< a term of a depthwise line
    double depthwise_term = 1.7;        ///< a term of a depthwise tile whose windows do not slide
    double transposed_output = 32;      ///< an output of depthwise tiles in NCX, both sides of which are transposed
    double packed_weights = 40;         ///< packing weights for a block, in pixels: 1 % of 4096
    double packed_number = 16;          ///< packing a number of a pixel, in products
    std::int64_t packed_window = 144;   ///< taps of depthwise windows from which on packing pays
    std::int64_t transposed_value = 1;  ///< transposing a value of a 1x1 kernel's side, in vectors of products
    double read_again = 8;       ///< a number of a chunk that another task reads, too, in products of weight gradients
    double shared_number = 16;   ///< moving a partial sum to memory that workers share, or adding it up, in the same
    double weights_task = 4096;  ///< beginning a task of weight gradients, in their products
    double uneven_task = 0.1;    ///< of a task: how much longer the last one of a worker takes than others
    double task = 1500;          ///< beginning a task, in terms of a pixel
    double fork = 10000;         ///< another pass of the executor, in the same: 5 us
    double contended_line = 40;  ///< writing to a line that another worker writes to, in the same
    double read_shared = 0.5;    ///< reading what others packed, in times of packing it
};

/// What single CPUs do otherwise than most.
struct cpu_quirks {
    /// Whether a stream all of whose lines are read is faster with prefetches. A Zen 4 follows it by itself, and takes 1.2 times
    /// as long with them; a Zen 5 takes 0.7 to 0.9 of the time beyond the last-level cache, but up to 1.3 times as long for sums of
    /// many lines within.
    bool prefetch_streams = false;
    /// Whether rows on many pages, some vectors of each, are read as fast as they are copied.
    bool fast_far_reads = false;
    /// Whether tiles of two vectors load half of the broadcast numbers once for each vector, as operands of multiply-adds: fewer
    /// instructions for CPUs that issue four a cycle; others wait for so many loads (4 to 7 %). Read with AVX-512 alone.
    bool reload_broadcasts = false;
    /// Whether tiles wait for lines of the last cache. It pays to copy what they read piece by piece (dense_path: 0.63 to 1.06 of the time on
    /// a Zen 3), and to prefetch short depthwise windows and short pixels of 1x1 kernels (0.54 to 1.0). A Sapphire Rapids with AVX2 does not wait
    /// (88 GF/s where a Zen 3 had 46).
    bool waits_for_last_level = false;
    // Where tiles wait then: taps of depthwise windows that are over before a line is there, and bytes of the pixels of 1x1 kernels.
    std::int64_t short_window = 25;
    std::int64_t short_pixel = 512;
    std::int64_t long_pixel = 1024;
};

struct machine {
    tile_shapes tile;
    cache_sizes cache;
    prefetch_distances prefetch;
    step_costs cost;
    weight_gradient_blocks weight_gradients;
    pool_panels pools;
    cpu_quirks quirk;
    /// Rows of pixels that are copied side by side, a line of the cache of each in turn; 1: one after the other, the next ones prefetched.
    std::int64_t side_by_side_rows = 1;
    /// f32 pixels of a block from which on 1x1 kernels in NCX are not transposed: fewer do not pay for packing weights again.
    std::int64_t least_packed_pixels = 256;
};

[[nodiscard]] constexpr machine make_target() noexcept {
    machine m{};
    // Where rows are broadcast, 16 registers hold 6x2 accumulators, two vectors of b and one broadcast without spills (7x2
    // spills); 32 take 6x4 (AVX-512) or 4x4 vectors of 4 (NEON; emulated lanes, for tests). With AVX-512 12x2 reads twice as
    // much for each product: it is 5 to 20 % slower where caches are small or another thread shares the core. Two or four
    // terms an iteration make g++ spill with 16 registers (94 became 61 and 79 GF/s).
#if defined(__aarch64__) || (defined(GRADKERN_SIMD_EMULATE_LANES) && GRADKERN_SIMD_EMULATE_LANES + 0 == 4)
    m.tile.rows = m.tile.vectors = m.tile.narrow_rows = m.tile.narrow_vectors = 4;
#endif
#if defined(__aarch64__)
    m.tile.sliding_rows = 14;
#endif
#if defined(__AVX2__)
    m.tile.shuffled_floats = 8;
#if !defined(__AVX512F__)
    m.weight_gradients.copies_pixels = true;
    // Zen 3, 30 layers: 0.7 to 1.0 of the time; 15 layers of 512 to 1024 channels: 0.81 to 1.05
    m.side_by_side_rows = 4;
    m.least_packed_pixels = 128;
    m.pools.compared_channels = 1024;  // elsewhere not measured
    m.pools.gathered_channels = 256;
    m.cost.transposed_value = 3;  // Zen 3, 1x1 in NCX, 30 layers: 0.88 to 1.0 of the time
#endif
#endif
#if defined(__AVX512F__)
    // Depthwise layers of 16 to 24 MB take 0.75 to 0.95 of the time without prefetches, and of 40 MB 1.2 to 2 times (Emerald Rapids);
    // other convolutions take the same time (40 operators).
    m.cache.last_level = std::int64_t{24} << 20;
    // Tiles read four lines of a pixel. Compared with 512: 1.03 to 1.1 times as fast; with AVX2 0.82 to 0.95 (8 layers, Emerald Rapids).
    m.weight_gradients.close_pixels = 1024;
#if !(defined(GRADKERN_SIMD_EMULATE_LANES) && GRADKERN_SIMD_EMULATE_LANES + 0 == 4)
    m.tile.vectors = 4;
#endif
    m.tile.narrow_rows = 8;
    // 1.03 to 1.18 times as fast (20 operators, Emerald Rapids; with AVX2 0.99 there)
    m.prefetch.next_pixels = 128;
    m.cost.moved_number = 0.65;
    m.cost.by_memory = 1;
    m.pools.gathered_line = 512;
    m.cost.line_term = 2.2;  // of lanes that cross lines of the cache
    m.tile.narrow_vectors = 2;
    m.tile.spaced_rows = 14;
    m.tile.sliding_rows = 14;
    m.tile.unrolled_terms = 2;
    m.tile.shuffled_floats = 16;
#endif

    constexpr int cpu = GRADKERN_DETAIL_TUNED_CPU;
    m.cache.two_mb_l2 = cpu == GRADKERN_DETAIL_CPU_sapphire_rapids || cpu == GRADKERN_DETAIL_CPU_granite_rapids;
    if (m.cache.two_mb_l2) {
        m.cache.packed_panel = m.cache.packed_panel_apart = std::int64_t{1536} << 10;
        m.weight_gradients.copies_pixels = false;
    }
    m.quirk.prefetch_streams = m.quirk.fast_far_reads = cpu == GRADKERN_DETAIL_CPU_zen5;
    m.quirk.waits_for_last_level = cpu == GRADKERN_DETAIL_CPU_zen3;
#if defined(__AVX512F__)
    m.quirk.reload_broadcasts = cpu == GRADKERN_DETAIL_CPU_cascade_lake;
#endif
    return m;
}

inline constexpr machine target = make_target();

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END
