// Memory that detects reads and writes out of bounds: guard pages if the system has them, canary bytes otherwise. The
// contents are NaN in every element type until written.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <type_traits>
#include <vector>

#include "support/pages.hpp"

namespace gradkern_test {

inline constexpr unsigned char poison_byte = 0xff;  ///< all-ones is a NaN in f16, bf16, f32 and f64
inline constexpr unsigned char canary_byte = 0xa5;  ///< around the contents

/// Which end of the memory touches a guard page: the other end has a zone of canary bytes.
enum class touching { end, begin };

/// `size` bytes between guard pages, filled with poison_byte. Without guard pages, between canary zones.
class guarded_bytes {
public:
    /// `shift` bytes are left between the contents and the guard page they would touch (to choose an alignment).
    explicit guarded_bytes(std::size_t size, touching side = touching::end, std::size_t shift = 0) : size_(size) {
#if GRADKERN_TEST_GUARD_PAGES
        const std::size_t page = page_size();
        zone_size_ = (size + shift + 1 + page - 1) / page * page;
        zone_ = map_between_guards(zone_size_);
        if (zone_ == nullptr) throw std::bad_alloc();
#else
        constexpr std::size_t page = 4096;
        zone_size_ = size + shift + 2 * page;
        zone_ = static_cast<std::byte*>(::operator new(zone_size_));
#endif
        data_ = side == touching::end ? zone_ + (zone_size_ - size - shift) : zone_ + shift;
#if !GRADKERN_TEST_GUARD_PAGES
        data_ = side == touching::end ? zone_ + (zone_size_ - page - size - shift) : zone_ + page + shift;
#endif
        std::memset(zone_, canary_byte, zone_size_);
        poison();
    }
    guarded_bytes(const guarded_bytes&) = delete;
    guarded_bytes& operator=(const guarded_bytes&) = delete;
    guarded_bytes(guarded_bytes&& other) noexcept
        : zone_(other.zone_), data_(other.data_), zone_size_(other.zone_size_), size_(other.size_) {
        other.zone_ = nullptr;
    }
    guarded_bytes& operator=(guarded_bytes&&) = delete;
    ~guarded_bytes() {
        if (zone_ == nullptr) return;
#if GRADKERN_TEST_GUARD_PAGES
        unmap_between_guards(zone_, zone_size_);
#else
        ::operator delete(zone_);
#endif
    }

    [[nodiscard]] std::byte* data() const noexcept { return data_; }
    [[nodiscard]] std::size_t size() const noexcept { return size_; }
    /// Overwrites the contents with NaN.
    void poison() noexcept {
        if (size_ != 0) std::memset(data_, poison_byte, size_);
    }
    /// Whether the bytes next to the contents are unchanged. (A write into a guard page ends the program.)
    [[nodiscard]] ::testing::AssertionResult zones_intact() const {
        for (const std::byte* p = zone_; p != zone_ + zone_size_; ++p) {
            if (p == data_ && size_ != 0) {
                p += size_ - 1;
            } else if (*p != static_cast<std::byte>(canary_byte)) {
                return ::testing::AssertionFailure()
                       << "a stray write " << (p - data_) << " bytes from the start of " << size_ << " bytes";
            }
        }
        return ::testing::AssertionSuccess();
    }

private:
    std::byte* zone_ = nullptr;
    std::byte* data_ = nullptr;
    std::size_t zone_size_ = 0;
    std::size_t size_ = 0;
};

/// `count` elements of a trivial type in guarded memory. Element alignment is kept.
template <class T>
class guarded_buffer {
    static_assert(std::is_trivially_copyable_v<T>);

public:
    explicit guarded_buffer(std::size_t count, touching side = touching::end) : bytes_(count * sizeof(T), side) {}

    [[nodiscard]] T* data() const noexcept { return reinterpret_cast<T*>(bytes_.data()); }
    [[nodiscard]] std::size_t size() const noexcept { return bytes_.size() / sizeof(T); }
    [[nodiscard]] T& operator[](std::size_t i) const noexcept { return data()[i]; }
    /// Overwrites all elements with NaN.
    void poison() noexcept { bytes_.poison(); }
    /// Whether nothing was written next to the elements.
    [[nodiscard]] ::testing::AssertionResult zones_intact() const { return bytes_.zones_intact(); }
    /// A copy of the contents as bytes, to detect changes later.
    [[nodiscard]] std::vector<unsigned char> snapshot() const {
        std::vector<unsigned char> copy(bytes_.size());
        if (!copy.empty()) std::memcpy(copy.data(), bytes_.data(), copy.size());
        return copy;
    }

private:
    guarded_bytes bytes_;
};

/// Whether a buffer begins with the bytes of `expected`. (std::memcmp takes no null pointer, as empty vectors have.)
template <class Buffer, class T>
[[nodiscard]] bool begins_with(const Buffer& buffer, const std::vector<T>& expected) {
    return expected.empty() || std::memcmp(buffer.data(), expected.data(), expected.size() * sizeof(T)) == 0;
}

}  // namespace gradkern_test
