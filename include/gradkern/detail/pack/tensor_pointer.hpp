// A type-erased pointer into a tensor: an address, and the packing functions of its element type. Code that packs by it is compiled once
// for each type of sums.
#pragma once

#include <cstddef>
#include <cstdint>

#include <gradkern/detail/config.hpp>
#include <gradkern/detail/pack/boxes.hpp>
#include <gradkern/detail/pack/lines.hpp>
#include <gradkern/detail/pack/pairs.hpp>
#include <gradkern/detail/pack/panels.hpp>
#include <gradkern/detail/pack/pixels.hpp>
#include <gradkern/detail/simd.hpp>
#include <gradkern/detail/target.hpp>
#include <gradkern/half.hpp>
#include <gradkern/shape/layout.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail {

/// How elements of a type become numbers of type Real: functions of pack/, whose source is a pointer to the type.
template <class Real>
struct pack_functions {
    using pack_function = void (*)(const void* source, std::ptrdiff_t lane_step, std::ptrdiff_t lanes,
                                   std::ptrdiff_t source_step, std::ptrdiff_t count, Real* out,
                                   std::ptrdiff_t out_step) noexcept;
    std::int64_t bytes = 0;
    bool is_wide = false;  ///< whether they are of type Real: tiles may read them in place
    pack_function pack_lanes = nullptr;
    /// pack_columns of rows that go on behind `count` elements.
    void (*pack_columns)(const void* source, std::ptrdiff_t lane_step, std::ptrdiff_t lanes, std::ptrdiff_t count,
                         Real* out, std::ptrdiff_t out_step) noexcept = nullptr;
    void (*pack_pixels)(const void* source, const pixel_walk& walk, std::int64_t count, std::int64_t channel_step,
                        std::int64_t channels, bool pairs, Real* packed, const pixel_rows& rows) noexcept = nullptr;
    void (*pack_lines)(const void* source, std::ptrdiff_t row_step, std::ptrdiff_t rows, std::ptrdiff_t n, Real* to,
                       std::ptrdiff_t pitch) noexcept = nullptr;
    void (*spread_across_groups)(const void* source, const shape::canonical_strides& in, const packed_box& box,
                                 const lanes_of_groups& lanes, Real* packed) noexcept = nullptr;
    // Null where elements are not taken by pairs:
    void (*pack_pairs)(const void* source, std::ptrdiff_t other, bool both, std::ptrdiff_t lane_step,
                       std::ptrdiff_t lanes, std::ptrdiff_t source_step, std::ptrdiff_t count, float* out,
                       std::ptrdiff_t out_step) noexcept = nullptr;
    pack_function pack_row_pairs = nullptr;
    pack_function pack_lane_pairs = nullptr;
};

/// Type-erased wrappers of the functions in pack/.
template <class T>
struct packing_of {
    using real = accumulate_t<T>;
    static void lanes(const void* source, std::ptrdiff_t lane_step, std::ptrdiff_t count_of_lanes,
                      std::ptrdiff_t source_step, std::ptrdiff_t count, real* out, std::ptrdiff_t out_step) noexcept {
        pack_lanes(static_cast<const T*>(source), lane_step, count_of_lanes, source_step, count, out, out_step);
    }
    static void columns(const void* source, std::ptrdiff_t lane_step, std::ptrdiff_t count_of_lanes,
                        std::ptrdiff_t count, real* out, std::ptrdiff_t out_step) noexcept {
        const auto* const first = static_cast<const T*>(source);
        pack_columns<T>(strided_rows<T>{.first = first, .step = lane_step, .goes_on = true}, count_of_lanes, count, out,
                        out_step);
    }
    static void pixels(const void* source, const pixel_walk& walk, std::int64_t count, std::int64_t channel_step,
                       std::int64_t channels, bool pairs, real* packed, const pixel_rows& rows) noexcept {
        pack_pixels(static_cast<const T*>(source), walk, count, channel_step, channels, pairs, packed, rows);
    }
    static void lines(const void* source, std::ptrdiff_t row_step, std::ptrdiff_t rows, std::ptrdiff_t n, real* to,
                      std::ptrdiff_t pitch) noexcept {
        pack_lines(static_cast<const T*>(source), row_step, rows, n, to, pitch);
    }
    static void across_groups(const void* source, const shape::canonical_strides& in, const packed_box& box,
                              const lanes_of_groups& lanes_of, real* packed) noexcept {
        spread_across_groups(static_cast<const T*>(source), in, box, lanes_of, packed);
    }
    static void pairs(const void* source, std::ptrdiff_t other, bool both, std::ptrdiff_t lane_step,
                      std::ptrdiff_t count_of_lanes, std::ptrdiff_t source_step, std::ptrdiff_t count, float* out,
                      std::ptrdiff_t out_step) noexcept {
        pack_pairs<T>({static_cast<const T*>(source), other, both}, lane_step, count_of_lanes, source_step, count, out,
                      out_step);
    }
    static void row_pairs(const void* source, std::ptrdiff_t lane_step, std::ptrdiff_t count_of_lanes,
                          std::ptrdiff_t step, std::ptrdiff_t count, float* out, std::ptrdiff_t out_step) noexcept {
        pack_row_pairs(static_cast<const T*>(source), lane_step, count_of_lanes, step, count, out, out_step);
    }
    static void lane_pairs(const void* source, std::ptrdiff_t step, std::ptrdiff_t count, std::ptrdiff_t source_step,
                           std::ptrdiff_t positions, float* out, std::ptrdiff_t out_step) noexcept {
        pack_lane_pairs(static_cast<const T*>(source), step, count, source_step, positions, out, out_step);
    }
};
template <class T>
[[nodiscard]] constexpr pack_functions<accumulate_t<T>> make_pack_functions() noexcept {
    using of = packing_of<T>;
    pack_functions<accumulate_t<T>> e{.bytes = sizeof(T),
                                      .is_wide = simd::is_wide<T>,
                                      .pack_lanes = &of::lanes,
                                      .pack_columns = &of::columns,
                                      .pack_pixels = &of::pixels,
                                      .pack_lines = &of::lines,
                                      .spread_across_groups = &of::across_groups};
    if constexpr (has_pairs<T>) {
        e.pack_pairs = &of::pairs;
        e.pack_row_pairs = &of::row_pairs;
        e.pack_lane_pairs = &of::lane_pairs;
    }
    return e;
}
template <class T>
inline constexpr pack_functions<accumulate_t<T>> pack_functions_of = make_pack_functions<T>();

/// A pointer to an element of a tensor. Offsets count elements.
template <class Real>
struct tensor_pointer {
    const std::byte* first = nullptr;
    const pack_functions<Real>* type = nullptr;

    [[nodiscard]] tensor_pointer operator+(std::int64_t offset) const noexcept {
        return {first + offset * type->bytes, type};
    }
    /// What tiles read in place: numbers of type Real, or 16-bit elements, for kernels that widen in registers.
    [[nodiscard]] const Real* in_place() const noexcept { return reinterpret_cast<const Real*>(first); }
    [[nodiscard]] std::int64_t per_cache_line() const noexcept { return cache_line / type->bytes; }
    void prefetch(std::int64_t offset) const noexcept { simd::prefetch(first, offset * type->bytes); }
};
template <class T>
[[nodiscard]] inline tensor_pointer<accumulate_t<T>> tensor_pointer_of(const T* first) noexcept {
    return {reinterpret_cast<const std::byte*>(first), &pack_functions_of<T>};
}

template <class Real>
inline void pack_lanes(const tensor_pointer<Real>& source, std::ptrdiff_t lane_step, std::ptrdiff_t lanes,
                       std::ptrdiff_t source_step, std::ptrdiff_t count, Real* out, std::ptrdiff_t out_step) noexcept {
    source.type->pack_lanes(source.first, lane_step, lanes, source_step, count, out, out_step);
}
template <class Real>
inline void pack_pixels(const tensor_pointer<Real>& source, const pixel_walk& walk, std::int64_t count,
                        std::int64_t channel_step, std::int64_t channels, bool pairs, Real* packed,
                        const pixel_rows& rows) noexcept {
    source.type->pack_pixels(source.first, walk, count, channel_step, channels, pairs, packed, rows);
}
template <class Real>
inline void pack_lines(const tensor_pointer<Real>& source, std::ptrdiff_t row_step, std::ptrdiff_t rows,
                       std::ptrdiff_t n, Real* to, std::ptrdiff_t pitch) noexcept {
    source.type->pack_lines(source.first, row_step, rows, n, to, pitch);
}
template <class Real>
inline void spread_across_groups(const tensor_pointer<Real>& source, const shape::canonical_strides& in,
                                 const packed_box& box, const lanes_of_groups& lanes, Real* packed) noexcept {
    source.type->spread_across_groups(source.first, in, box, lanes, packed);
}
template <class Real>
inline void pack_row_pairs(const tensor_pointer<Real>& source, std::ptrdiff_t lane_step, std::ptrdiff_t lanes,
                           std::ptrdiff_t step, std::ptrdiff_t count, Real* out, std::ptrdiff_t out_step) noexcept {
    source.type->pack_row_pairs(source.first, lane_step, lanes, step, count, out, out_step);
}
template <class Real>
inline void pack_lane_pairs(const tensor_pointer<Real>& source, std::ptrdiff_t step, std::ptrdiff_t count,
                            std::ptrdiff_t source_step, std::ptrdiff_t positions, Real* out,
                            std::ptrdiff_t out_step) noexcept {
    source.type->pack_lane_pairs(source.first, step, count, source_step, positions, out, out_step);
}

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END
