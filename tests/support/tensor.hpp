// Tensors for tests: guarded memory with any strides, element access by index, bitwise comparison.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <vector>

#include <gradkern/half.hpp>
#include <gradkern/tensor_view.hpp>

#include "support/guarded.hpp"
#include "support/random.hpp"

namespace gradkern_test {

/// Same bits, or both a NaN.
template <class T>
[[nodiscard]] bool same_value(const T& a, const T& b) {
    if (std::memcmp(&a, &b, sizeof(T)) == 0) return true;
    const auto x = gradkern::detail::load_element(&a);
    const auto y = gradkern::detail::load_element(&b);
    return x != x && y != y;
}

/// Dense row-major strides.
[[nodiscard]] inline gradkern::extents dense_strides(const gradkern::extents& shape) {
    gradkern::extents s = shape;
    std::int64_t step = 1;
    for (std::size_t i = shape.rank(); i-- > 0;) {
        s[i] = step;
        step *= std::max<std::int64_t>(shape[i], 1);
    }
    return s;
}

/// Random strides for which no two elements overlap: axes in random order, gaps, negative directions.
[[nodiscard]] inline gradkern::extents random_output_strides(random_source& random, const gradkern::extents& shape) {
    std::array<std::size_t, gradkern::extents::capacity> order{};
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::vector<std::size_t> axes(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(shape.rank()));
    if (random.chance(1, 2)) random.shuffle(axes);
    std::reverse(axes.begin(), axes.end());
    gradkern::extents s = shape;
    std::int64_t step = random.chance(1, 2) ? 1 : random.integer(1, 3);
    for (const std::size_t a : axes) {
        s[a] = random.chance(1, 6) ? -step : step;
        step = step * std::max<std::int64_t>(shape[a], 1) + (random.chance(1, 4) ? random.integer(0, 5) : 0);
    }
    return s;
}

/// As random_output_strides; some axes have stride 0.
[[nodiscard]] inline gradkern::extents random_input_strides(random_source& random, const gradkern::extents& shape) {
    gradkern::extents s = random_output_strides(random, shape);
    for (std::size_t i = 0; i < s.rank(); ++i)
        if (random.chance(1, 8)) s[i] = 0;
    return s;
}

/// A tensor in guarded memory. Its elements are NaN until written.
template <class T>
class test_tensor {
public:
    explicit test_tensor(const gradkern::extents& shape, const gradkern::extents& strides = {},
                         touching side = touching::end)
        : layout_(shape, strides),
          strides_(strides.empty() ? dense_strides(shape) : strides),
          is_dense_(strides_ == dense_strides(shape)),
          low_(reach(shape, strides_, true)),
          memory_(count_of(shape) == 0 ? 0 : static_cast<std::size_t>(reach(shape, strides_, false) - low_ + 1), side) {
    }

    [[nodiscard]] const gradkern::tensor_layout& layout() const noexcept { return layout_; }
    [[nodiscard]] const gradkern::extents& shape() const noexcept { return layout_.shape; }
    [[nodiscard]] T* data() const noexcept { return memory_.data() - low_; }
    [[nodiscard]] gradkern::tensor_view<T> view() const noexcept { return {data(), layout_}; }
    [[nodiscard]] gradkern::tensor_view<const T> const_view() const noexcept { return {data(), layout_}; }
    [[nodiscard]] std::int64_t count() const noexcept { return count_of(layout_.shape); }

    /// Element number `flat` in row-major order of the shape, whatever the strides.
    [[nodiscard]] T& operator[](std::int64_t flat) const noexcept { return data()[offset(flat)]; }
    /// The same as a number.
    [[nodiscard]] auto value(std::int64_t flat) const noexcept {
        return gradkern::detail::load_element(data() + offset(flat));
    }
    /// Stores a number, rounded to T.
    template <class U = T>
    void set(std::int64_t flat, gradkern::accumulate_t<U> number) const noexcept {
        gradkern::detail::store_element(data() + offset(flat), number);
    }
    /// Sets every element to generate(flat index).
    template <class G>
    void fill(const G& generate) const {
        for (std::int64_t i = 0; i < count(); ++i) set(i, static_cast<gradkern::accumulate_t<T>>(generate(i)));
    }
    /// Random values in [-2, 2).
    void fill_random(random_source& random) const {
        fill([&](std::int64_t) { return random.real(-2.0F, 2.0F); });
    }
    void poison() noexcept { memory_.poison(); }
    [[nodiscard]] std::vector<unsigned char> snapshot() const { return memory_.snapshot(); }

    /// Whether nothing was written outside the elements, around the memory or in the gaps of the strides.
    [[nodiscard]] ::testing::AssertionResult surroundings_intact() const {
        if (auto zones = memory_.zones_intact(); !zones || is_dense_) return zones;
        std::vector<bool> used(memory_.size());
        for (std::int64_t i = 0; i < count(); ++i) used[static_cast<std::size_t>(offset(i) - low_)] = true;
        const auto* bytes = reinterpret_cast<const unsigned char*>(memory_.data());
        for (std::size_t i = 0; i < memory_.size(); ++i) {
            if (used[i]) continue;
            for (std::size_t b = 0; b < sizeof(T); ++b)
                if (bytes[i * sizeof(T) + b] != poison_byte)
                    return ::testing::AssertionFailure() << "a write into the gap at element " << i;
        }
        return ::testing::AssertionSuccess();
    }

    /// Whether all elements have the same bits as `other`'s (a NaN equals a NaN).
    template <class Other>
    [[nodiscard]] ::testing::AssertionResult equals(const Other& other) const {
        if (!(shape() == other.shape())) return ::testing::AssertionFailure() << "shapes differ";
        for (std::int64_t i = 0; i < count(); ++i) {
            if (!same_value((*this)[i], other[i]))
                return ::testing::AssertionFailure()
                       << "element " << i << " of " << count() << ": got " << static_cast<double>(value(i))
                       << ", expected " << static_cast<double>(other.value(i));
        }
        return ::testing::AssertionSuccess();
    }

private:
    [[nodiscard]] static std::int64_t count_of(const gradkern::extents& shape) {
        std::int64_t n = 1;
        for (const std::int64_t e : shape.values()) n *= e;
        return n;
    }
    [[nodiscard]] static std::int64_t reach(const gradkern::extents& shape, const gradkern::extents& strides,
                                            bool low) {
        std::int64_t sum = 0;
        if (count_of(shape) == 0) return 0;
        for (std::size_t i = 0; i < shape.rank(); ++i)
            if ((strides[i] < 0) == low) sum += (shape[i] - 1) * strides[i];
        return sum;
    }
    [[nodiscard]] std::int64_t offset(std::int64_t flat) const noexcept {
        if (is_dense_) return flat;  // without divisions, which were a third of the time of tests
        std::int64_t at = 0;
        for (std::size_t i = layout_.shape.rank(); i-- > 0;) {
            at += flat % layout_.shape[i] * strides_[i];
            flat /= layout_.shape[i];
        }
        return at;
    }

    gradkern::tensor_layout layout_;
    gradkern::extents strides_;
    bool is_dense_;  // in row-major order, without gaps
    std::int64_t low_;
    guarded_buffer<T> memory_;
};

}  // namespace gradkern_test
