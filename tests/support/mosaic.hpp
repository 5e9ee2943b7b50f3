// Several tensors in one buffer, each in the gaps of the others: slices of channels, images or rows of one another.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <vector>

#include <gradkern/tensor_view.hpp>

#include "support/guarded.hpp"
#include "support/random.hpp"

namespace gradkern_test {

/// A guarded buffer whose tensors, all of one rank, share no element. Along one axis they alternate, block by block or index
/// by index; along the others they start at the same index. Elements may have different sizes.
class mosaic {
public:
    /// Some axes may have negative strides.
    mosaic(random_source& random, std::initializer_list<gradkern::extents> shapes, std::size_t slot_bytes)
        : count_(shapes.size()), slot_(slot_bytes) {
        const std::size_t rank = shapes.begin()->rank();
        box_ = *shapes.begin();
        for (const gradkern::extents& s : shapes)
            for (std::size_t i = 0; i < rank; ++i) box_[i] = std::max(box_[i], s[i]);
        axis_ = static_cast<std::size_t>(random.integer(0, static_cast<std::int64_t>(rank) - 1));
        interleaved_ = random.chance(1, 2);
        strides_ = box_;
        std::int64_t step = 1;
        for (std::size_t i = rank; i-- > 0;) {
            strides_[i] = step;
            step *= box_[i] * (i == axis_ ? static_cast<std::int64_t>(count_) : 1);
        }
        backward_.resize(rank);
        for (std::size_t i = 0; i < rank; ++i) backward_[i] = random.chance(1, 5);
        bytes_.emplace_back(static_cast<std::size_t>(step) * slot_);
    }

    /// Tensor number i, with this element size in bytes.
    struct part {
        std::byte* data;
        gradkern::tensor_layout layout;
    };
    [[nodiscard]] part at(std::size_t i, const gradkern::extents& shape, std::size_t element_bytes) const {
        const auto per_slot = static_cast<std::int64_t>(slot_ / element_bytes);
        const auto number = static_cast<std::int64_t>(i);
        std::int64_t first = number * strides_[axis_] * (interleaved_ ? 1 : box_[axis_]);
        gradkern::extents strides = strides_;
        for (std::size_t k = 0; k < shape.rank(); ++k) {
            if (k == axis_ && interleaved_) strides[k] *= static_cast<std::int64_t>(count_);
            if (backward_[k]) {
                first += (shape[k] - 1) * strides[k];
                strides[k] = -strides[k];
            }
            strides[k] *= per_slot;
        }
        if (std::find(shape.values().begin(), shape.values().end(), 0) != shape.values().end()) first = 0;
        return {bytes_.front().data() + first * static_cast<std::int64_t>(slot_), {shape, strides}};
    }
    [[nodiscard]] const guarded_bytes& bytes() const { return bytes_.front(); }

    /// Copies a dense tensor into the buffer, or from the buffer into a dense tensor.
    void put(const part& p, const void* from, std::size_t element_bytes) const {
        walk(p, element_bytes, [&](std::byte* place, std::size_t flat) {
            std::memcpy(place, static_cast<const std::byte*>(from) + flat * element_bytes, element_bytes);
        });
    }
    void get(const part& p, void* to, std::size_t element_bytes) const {
        walk(p, element_bytes, [&](std::byte* place, std::size_t flat) {
            std::memcpy(static_cast<std::byte*>(to) + flat * element_bytes, place, element_bytes);
        });
    }
    [[nodiscard]] std::vector<unsigned char> snapshot() const {
        std::vector<unsigned char> copy(bytes().size());
        if (!copy.empty()) std::memcpy(copy.data(), bytes().data(), copy.size());
        return copy;
    }

private:
    template <class F>
    static void walk(const part& p, std::size_t element_bytes, const F& f) {
        std::int64_t elements = 1;
        for (const std::int64_t e : p.layout.shape.values()) elements *= e;
        for (std::int64_t flat = 0; flat < elements; ++flat) {
            std::int64_t rest = flat;
            std::int64_t at = 0;
            for (std::size_t k = p.layout.shape.rank(); k-- > 0;) {
                at += rest % p.layout.shape[k] * p.layout.strides[k];
                rest /= p.layout.shape[k];
            }
            f(p.data + at * static_cast<std::int64_t>(element_bytes), static_cast<std::size_t>(flat));
        }
    }

    std::size_t count_;
    std::size_t slot_;
    gradkern::extents box_{};
    std::size_t axis_ = 0;
    bool interleaved_ = false;
    gradkern::extents strides_{};  // in slots
    std::vector<bool> backward_{};
    std::vector<guarded_bytes> bytes_{};
};

}  // namespace gradkern_test
