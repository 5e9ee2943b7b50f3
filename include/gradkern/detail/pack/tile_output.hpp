// Where the register tile's results go: straight into an f32 tensor, or into one of 16 bits by tiles that round themselves,
// or through a buffer that adds a bias, adds the previous value, converts and scatters to strides. The buffer holds the rows of
// a few tiles, or all of a block. The type of the tensor is a number and a function here: compiled once.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include <gradkern/detail/config.hpp>
#include <gradkern/detail/micro/register_tile.hpp>
#include <gradkern/detail/pack/boxes.hpp>
#include <gradkern/detail/pack/panels.hpp>
#include <gradkern/detail/run/boxes.hpp>
#include <gradkern/detail/simd.hpp>
#include <gradkern/detail/target.hpp>
#include <gradkern/shape/layout.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail {

/// What tiles write.
enum class tile_results : std::uint8_t {
    sums,         ///< f32: into an f32 tensor as they are, where nothing is added
    rounded,      ///< elements of a 16-bit tensor, where nothing is added
    native_16bit  ///< elements of a 16-bit tensor, with bias and previous value
};

/// The output of a panel of channels at a time.
template <class Real>
class tile_output {
public:
    /// Tiles are `width` lanes wide; `out` are the tensor's strides.
    tile_output(const unpack_functions<Real>& element, const shape::canonical_strides& out, std::int64_t width,
                bool accumulate, tile_results results) noexcept
        : element_(element), out_(out), panel_(width), width_(width), accumulate_(accumulate), results_(results) {}

    /// From now on rows wait in `buffer`, which has room for the outputs of `box`; returns the strides of their offsets. `clear`:
    /// rows that no tile computes are zero.
    shape::canonical_strides buffer_box(const box_grid::item& box, Real* buffer, bool clear) noexcept {
        box_ = {box.first_image, box.last_image - box.first_image, box.first, {}, width_};
        for (std::size_t i = 0; i < 3; ++i) box_.extent[i] = box.last[i] - box.first[i];
        box_buffer_ = buffer;
        const shape::canonical_strides strides = box_.strides();
        if (clear) std::memset(buffer, 0, static_cast<std::size_t>(box_.images * strides[0]) * sizeof(Real));
        return strides;
    }

    /// Begins the panel whose first channel is at `dst`. Rows of the one before must have been flushed. `whole` says that
    /// tiles write no lanes but these. `bias` may be null; else it has a number for each lane.
    void begin_panel(std::byte* dst, std::int64_t lanes_used, bool whole, const Real* bias) noexcept {
        dst_ = dst;
        lanes_ = lanes_used;
        bias_ = bias;
        const bool elements = element_.is_sum || results_ == tile_results::rounded;
        direct_ = results_ == tile_results::native_16bit ||
                  (elements && out_[1] == 1 && whole && !accumulate_ && bias == nullptr);
    }

    /// From now on rows of the buffer hold `panels` panels side by side, `lanes_used` lanes, whose biases lie `bias_step`
    /// apart; returns false where there would be no room for the rows of a tile, `rows` at most, or these take another way.
    [[nodiscard]] bool fuse(std::int64_t panels, std::int64_t lanes_used, std::int64_t bias_step,
                            std::ptrdiff_t rows) noexcept {
        if (direct_ || box_buffer_ != nullptr || panels * panel_ > buffer_floats / rows) return false;
        width_ = panels * panel_;
        lanes_ = lanes_used;
        bias_step_ = bias_step;
        return true;
    }

    /// Whether row pointers are those of the tensor.
    [[nodiscard]] bool is_direct() const noexcept { return direct_; }

    /// How many rows can wait in the buffer: those of a tile at least.
    [[nodiscard]] std::ptrdiff_t room() const noexcept { return std::min(buffer_rows, buffer_floats / width_); }

    /// One for each row of a tile, and from them to those of the next tile of a line.
    struct row_pointers {
        Real* const* first;
        std::ptrdiff_t next_tile;
    };
    /// Where the next `tiles` tiles of `count` rows write. The first tile's rows belong at the offsets `to`; several tiles lie
    /// in one line, `step` from row to row. Those of the tiles before once more where these begin with a later lane of
    /// fused panels.
    [[nodiscard]] row_pointers rows(std::ptrdiff_t count, std::ptrdiff_t tiles, const std::int64_t* to,
                                    std::int64_t step, std::int64_t first_lane = 0) noexcept {
        const auto pointer = [&](std::ptrdiff_t i) -> Real*& { return pointers_[static_cast<std::size_t>(i)]; };
        if (direct_) {
            for (std::ptrdiff_t i = 0; i < count; ++i) pointer(i) = reinterpret_cast<Real*>(at(to[i]));
            return {pointers_.data(), count * step};
        }
        if (box_buffer_ != nullptr) {
            for (std::ptrdiff_t i = 0; i < count; ++i) pointer(i) = box_buffer_ + (to[i] - box_.origin());
            return {pointers_.data(), count * step};
        }
        const std::ptrdiff_t all = count * tiles;
        if (first_lane == 0) {
            if (filled_ + all > room()) flush();
            for (std::ptrdiff_t i = 0; i < all; ++i) {
                const std::int64_t place = tiles == 1 ? to[i] : to[0] + i * step;
                to_[static_cast<std::size_t>(filled_ + i)] = place;
                if (out_[1] == 1) {  // prefetched now, written when the buffer is full
                    for (std::int64_t byte = 0; byte < lanes_ * element_.bytes; byte += cache_line)
                        simd::prefetch_to_write(at(place), byte);
                }
            }
            filled_ += all;
        }
        for (std::ptrdiff_t i = 0; i < count; ++i)
            pointer(i) = buffer_.data() + ((filled_ - all + i) * width_ + first_lane);
        return {pointers_.data(), count * width_};
    }

    /// Sends the rows in the buffer to the tensor.
    void flush() noexcept {
        if (box_buffer_ != nullptr) {
            for_each_contiguous_run(box_, out_, box_buffer_, [&](std::int64_t offset, std::int64_t count, Real* from) {
                add_bias(from, count);
                element_.unpack(from, width_, lanes_, count, at(offset), out_[1], out_[4], accumulate_);
            });
            return;
        }
        add_bias(buffer_.data(), filled_);
        const Real* row = buffer_.data();
        // Rows that follow one another in the tensor leave together: with channels apart they are transposed.
        for (std::ptrdiff_t i = 0; i < filled_;) {
            const std::int64_t* to = to_.data() + i;
            std::ptrdiff_t run = 1;
            const std::int64_t step = i + 1 < filled_ ? to[1] - to[0] : 0;
            while (i + run < filled_ && to[run] - to[run - 1] == step) ++run;
            element_.unpack(row + i * width_, width_, lanes_, run, at(to[0]), out_[1], step, accumulate_);
            i += run;
        }
        filled_ = 0;
    }

private:
    [[nodiscard]] std::byte* at(std::int64_t offset) const noexcept { return dst_ + offset * element_.bytes; }

    GRADKERN_NOINLINE void add_bias(Real* row, std::ptrdiff_t count) noexcept {
        if (bias_ == nullptr) return;
        for (Real* r = row; r != row + count * width_; r += width_) {
            const Real* bias = bias_;
            for (std::int64_t panel = 0; panel < lanes_; panel += panel_, bias += bias_step_)
                for (std::int64_t j = 0; j < std::min(panel_, lanes_ - panel); ++j) r[panel + j] += bias[j];
        }
    }

    unpack_functions<Real> element_;
    std::byte* dst_ = nullptr;
    shape::canonical_strides out_;
    packed_box box_{};
    Real* box_buffer_ = nullptr;
    std::int64_t lanes_ = 0;
    std::int64_t panel_;
    std::int64_t width_;  // of a row of the buffer: a panel, or those that are fused
    const Real* bias_ = nullptr;
    std::int64_t bias_step_ = 0;
    bool accumulate_;
    tile_results results_;
    bool direct_ = false;
    static constexpr std::ptrdiff_t buffer_rows =
        4 * static_cast<std::ptrdiff_t>(simd::lanes_of<Real>) + most_rows_of_any;
    static constexpr std::ptrdiff_t buffer_floats =
        std::max<std::ptrdiff_t>(buffer_rows * tile_lanes_of<Real>, 16384 / sizeof(Real));
    std::ptrdiff_t filled_ = 0;
    std::array<Real*, most_rows_of_any> pointers_{};
    std::array<std::int64_t, bound(buffer_rows)> to_;
    alignas(64) std::array<Real, bound(buffer_floats)> buffer_;
};

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END
