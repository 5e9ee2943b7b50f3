// Integers of any length that are not negative, for quotients and roots.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include <gradkern/detail/config.hpp>
#include <gradkern/detail/own.hpp>
#include <gradkern/ref/exact/detail/buffer.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace ref::exact::detail {

class natural {
public:
    natural() noexcept = default;
    explicit natural(std::uint64_t value) : digits_(4), size_(2) {
        digits_[0] = static_cast<std::uint32_t>(value);
        digits_[1] = static_cast<std::uint32_t>(value >> 32);
        trim();
    }
    /// Digits of 32 bits, the least one first.
    natural(const std::uint32_t* digits, std::uint32_t count) : digits_(std::size_t{count} + 2), size_(count) {
        for (std::size_t i = 0; i < count; ++i) digits_[i] = digits[i];
        trim();
    }

    [[nodiscard]] bool is_zero() const noexcept { return size_ == 0; }
    [[nodiscard]] std::size_t size() const noexcept { return size_; }
    [[nodiscard]] std::uint32_t digit(std::size_t i) const noexcept { return i < size_ ? digits_[i] : 0; }
    [[nodiscard]] std::int64_t bit_width() const noexcept {
        return size_ == 0 ? 0 : static_cast<std::int64_t>(32 * (size_ - 1) + own::bit_width(digits_[size_ - 1]));
    }
    [[nodiscard]] std::uint32_t bit(std::int64_t place) const noexcept {
        return digit(static_cast<std::size_t>(place / 32)) >> (place % 32) & 1;
    }

    /// Less than 0, 0 or greater, as this is to `other`.
    [[nodiscard]] int compare(const natural& other) const noexcept {
        if (size_ != other.size_) return size_ < other.size_ ? -1 : 1;
        for (std::size_t i = size_; i-- > 0;)
            if (digits_[i] != other.digits_[i]) return digits_[i] < other.digits_[i] ? -1 : 1;
        return 0;
    }
    void add(const natural& other) {
        const std::size_t size = size_ > other.size_ ? size_ : other.size_;
        reserve(size + 1);
        std::uint64_t carry = 0;
        for (std::size_t i = 0; i <= size; ++i) {
            carry += std::uint64_t{digits_[i]} + other.digit(i);
            digits_[i] = static_cast<std::uint32_t>(carry);
            carry >>= 32;
        }
        size_ = size + 1;
        trim();
    }
    /// `other` is not greater.
    void subtract(const natural& other) noexcept {
        std::int64_t borrow = 0;
        for (std::size_t i = 0; i < size_; ++i) {
            borrow += std::int64_t{digits_[i]} - other.digit(i);
            digits_[i] = static_cast<std::uint32_t>(borrow);
            borrow >>= 32;
        }
        trim();
    }
    void shift_left(std::int64_t places) {
        if (size_ == 0 || places == 0) return;
        const auto whole = static_cast<std::size_t>(places / 32);
        const auto part = static_cast<unsigned>(places % 32);
        reserve(size_ + whole + 1);
        for (std::size_t i = size_ + whole + 1; i-- > 0;) {  // from above: digits move up
            const std::uint64_t upper = i >= whole ? digit(i - whole) : 0;
            const std::uint64_t lower = i > whole ? digit(i - whole - 1) : 0;
            digits_[i] = static_cast<std::uint32_t>(((upper << 32 | lower) << part) >> 32);
        }
        size_ += whole + 1;
        trim();
    }
    /// Doubles it and adds a bit.
    void append(std::uint32_t bit) {
        shift_left(1);
        if (bit == 0) return;
        reserve(1);
        digits_[0] |= 1;
        if (size_ == 0) size_ = 1;
    }
    /// Inverts bits of the last digit, which is there.
    void invert_last(std::uint32_t bits) noexcept {
        digits_[0] ^= bits;
        trim();
    }
    [[nodiscard]] friend natural operator*(const natural& a, const natural& b) {
        natural product;
        product.reserve(a.size_ + b.size_ + 1);
        for (std::size_t i = 0; i < a.size_; ++i) {
            std::uint64_t carry = 0;
            for (std::size_t k = 0; k < b.size_; ++k) {
                carry += std::uint64_t{a.digits_[i]} * b.digits_[k] + product.digits_[i + k];
                product.digits_[i + k] = static_cast<std::uint32_t>(carry);
                carry >>= 32;
            }
            product.digits_[i + b.size_] = static_cast<std::uint32_t>(carry);
        }
        product.size_ = a.size_ + b.size_;
        product.trim();
        return product;
    }

private:
    void reserve(std::size_t size) {
        if (size <= digits_.size()) return;
        buffer<std::uint32_t> more(size + size / 2 + 2);
        for (std::size_t i = 0; i < size_; ++i) more[i] = digits_[i];
        digits_ = std::move(more);
    }
    void trim() noexcept {
        while (size_ > 0 && digits_[size_ - 1] == 0) --size_;
    }

    buffer<std::uint32_t> digits_;  // from size_ on: zeros
    std::size_t size_ = 0;
};

}  // namespace ref::exact::detail
GRADKERN_ISA_NAMESPACE_END
