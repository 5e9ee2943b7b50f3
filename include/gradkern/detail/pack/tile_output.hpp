// Where the register tile's results go: straight into an f32 tensor, or through a buffer that adds a bias, adds the
// previous value, converts and scatters to strides.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <gradkern/detail/config.hpp>
#include <gradkern/detail/micro/register_tile.hpp>
#include <gradkern/detail/pack/panels.hpp>
#include <gradkern/detail/simd.hpp>
#include <gradkern/half.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail {

/// Element i of an f32, f16 or bf16 array as f32.
[[nodiscard]] inline float load_as_float(const void* p, data_type type, std::int64_t i) noexcept {
    switch (type) {
        case data_type::f16: return static_cast<float>(static_cast<const float16*>(p)[i]);
        case data_type::bf16: return static_cast<float>(static_cast<const bfloat16*>(p)[i]);
        default: return static_cast<const float*>(p)[i];
    }
}

/// The output of one panel of channels.
template <class T>
class tile_output {
public:
    /// `dst` is the tensor at the panel's first channel, `channel_step` the stride of channels.
    tile_output(T* dst, std::int64_t channel_step, std::int64_t lanes_used, std::int64_t width, bool accumulate,
                const void* bias, data_type bias_type, std::int64_t bias_step, std::int64_t first_channel) noexcept
        : dst_(dst),
          channel_step_(channel_step),
          lanes_(lanes_used),
          width_(width),
          accumulate_(accumulate),
          has_bias_(bias != nullptr),
          direct_(std::is_same_v<T, float> && channel_step == 1 && lanes_used == width && !accumulate && !has_bias_) {
        if (has_bias_)
            for (std::int64_t j = 0; j < lanes_used; ++j)
                bias_[static_cast<std::size_t>(j)] = load_as_float(bias, bias_type, (first_channel + j) * bias_step);
    }

    /// Row pointers for the next tile, whose rows belong at the offsets `to`.
    [[nodiscard]] float* const* rows(std::ptrdiff_t count, const std::int64_t* to) noexcept {
        if constexpr (std::is_same_v<T, float>) {
            if (direct_) {
                for (std::ptrdiff_t i = 0; i < count; ++i) pointers_[static_cast<std::size_t>(i)] = dst_ + to[i];
                return pointers_.data();
            }
        }
        if (filled_ + count > buffer_rows) flush();
        for (std::ptrdiff_t i = 0; i < count; ++i) {
            pointers_[static_cast<std::size_t>(i)] = buffer_.data() + (filled_ + i) * width_;
            to_[static_cast<std::size_t>(filled_ + i)] = to[i];
        }
        filled_ += count;
        return pointers_.data();
    }

    /// Sends the rows in the buffer to the tensor.
    void flush() noexcept {
        const float* row = buffer_.data();
        if (has_bias_) {
            for (float* r = buffer_.data(); r != row + filled_ * width_; r += width_)
                for (std::int64_t j = 0; j < lanes_; ++j) r[j] += bias_[static_cast<std::size_t>(j)];
        }
        // Rows that follow one another in the tensor leave together: with channels apart they are transposed.
        for (std::ptrdiff_t i = 0; i < filled_;) {
            const std::int64_t* to = to_.data() + i;
            std::ptrdiff_t run = 1;
            const std::int64_t step = i + 1 < filled_ ? to[1] - to[0] : 0;
            while (i + run < filled_ && to[run] - to[run - 1] == step) ++run;
            unpack_lanes(row + i * width_, width_, lanes_, run, dst_ + to[0], channel_step_, step, accumulate_);
            i += run;
        }
        filled_ = 0;
    }

private:
    T* dst_;
    std::int64_t channel_step_;
    std::int64_t lanes_;
    std::int64_t width_;
    bool accumulate_;
    bool has_bias_;
    bool direct_;
    static constexpr std::ptrdiff_t buffer_rows = 4 * static_cast<std::ptrdiff_t>(simd::lanes) + tile_rows;
    std::ptrdiff_t filled_ = 0;
    std::array<float*, tile_rows> pointers_{};
    std::array<std::int64_t, buffer_rows> to_;
    alignas(64) std::array<float, buffer_rows * tile_lanes> buffer_;
    alignas(64) std::array<float, tile_lanes> bias_;
};

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END
