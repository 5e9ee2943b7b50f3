// Memory of a reference: an array on the heap. (Not std::vector, whose functions on numbers objects for other instruction sets share.)
#pragma once

#include <cstddef>
#include <utility>

#include <gradkern/detail/config.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace ref::exact::detail {

template <class T>
class buffer {
public:
    buffer() noexcept = default;
    /// Elements as `new T[n]()` makes them: zeros.
    explicit buffer(std::size_t size) : data_(size == 0 ? nullptr : new T[size]()), size_(size) {}
    buffer(buffer&& other) noexcept
        : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
    buffer(const buffer&) = delete;
    buffer& operator=(const buffer&) = delete;
    buffer& operator=(buffer&& other) noexcept {
        T* const data = std::exchange(other.data_, nullptr);
        delete[] data_;
        data_ = data;
        size_ = std::exchange(other.size_, 0);
        return *this;
    }
    ~buffer() { delete[] data_; }

    [[nodiscard]] std::size_t size() const noexcept { return size_; }
    [[nodiscard]] T* data() noexcept { return data_; }
    [[nodiscard]] const T* data() const noexcept { return data_; }
    [[nodiscard]] T& operator[](std::size_t i) noexcept { return data_[i]; }
    [[nodiscard]] const T& operator[](std::size_t i) const noexcept { return data_[i]; }

private:
    T* data_ = nullptr;
    std::size_t size_ = 0;
};

}  // namespace ref::exact::detail
GRADKERN_ISA_NAMESPACE_END
