// Partial sums of tasks that cut positions: the tasks of one part of a result leave theirs in memory that all workers share, and
// whoever finishes the last one adds them in order.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>
#include <type_traits>

#include <gradkern/detail/config.hpp>
#include <gradkern/detail/run/tasks.hpp>
#include <gradkern/shape/checked.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail {

/// How many partial sums of how many numbers each part has, at most.
struct shared_layout {
    std::int64_t parts = 0;
    std::int64_t sums = 1;
    std::int64_t numbers = 0;
    std::int64_t number_bytes = sizeof(float);

    /// Numbers from one to the next.
    [[nodiscard]] constexpr std::int64_t pitch() const noexcept {
        return shape::ceil_div(numbers, std::int64_t{16}) * 16;
    }
    /// Bytes of them all, and of a line of the cache for each part; INT64_MAX where they cannot be counted.
    [[nodiscard]] constexpr std::int64_t bytes() const noexcept {
        const shape::checked bytes = (shape::checked(pitch()) * sums * number_bytes + cache_line) * parts;
        return bytes.ok() ? bytes.value() : INT64_MAX;
    }
};

template <class Real>
class shared_sums {
public:
    /// In memory of layout.bytes(), which begins with a line of the cache.
    GRADKERN_NOINLINE shared_sums(const shared_layout& layout, std::byte* memory) noexcept
        : layout_(layout), done_(memory), sums_(array_at<Real>(memory, layout.parts * cache_line)) {
        for (std::int64_t part = 0; part < layout.parts; ++part) ::new (place(part)) counter(0);
    }
    [[nodiscard]] Real* at(std::int64_t part, std::int64_t sum) const noexcept {
        return sums_ + (part * layout_.sums + sum) * layout_.pitch();
    }
    /// Counts a sum of a part as done; returns whether all of them are, of which it has so many.
    [[nodiscard]] bool finish(std::int64_t part, std::int64_t sums) const noexcept {
        auto* const done = std::launder(reinterpret_cast<counter*>(place(part)));
        return done->fetch_add(1, std::memory_order_acq_rel) + 1 == sums;
    }
    /// The same of a part that has as many as the layout says.
    [[nodiscard]] bool finish(std::int64_t part) const noexcept { return finish(part, layout_.sums); }

private:
    using counter = std::atomic<std::int64_t>;
    static_assert(std::is_trivially_destructible_v<counter> && sizeof(counter) <= cache_line);
    [[nodiscard]] std::byte* place(std::int64_t part) const noexcept { return done_ + part * cache_line; }

    shared_layout layout_;
    std::byte* done_;
    Real* sums_;
};

/// Bytes of slices for `workers`, and of what they share; SIZE_MAX where they cannot be counted.
[[nodiscard]] constexpr std::size_t workspace_for(std::int64_t shared_bytes, std::int64_t slice_bytes,
                                                  std::int64_t workers) noexcept {
    const std::size_t slices = workspace_for(slice_bytes, workers);
    const std::size_t beside = workspace_for(shared_bytes, 1);
    return slices > SIZE_MAX - beside ? SIZE_MAX : slices + beside;
}
/// Bytes of a workspace that are left for slices beside what workers share; 0 where there is no room for two slices.
[[nodiscard]] constexpr std::size_t workspace_beside(std::int64_t shared_bytes, std::int64_t slice_bytes,
                                                     std::size_t workspace) noexcept {
    const std::size_t bytes = workspace_for(shared_bytes, 1);
    return workspace > bytes && workspace - bytes >= workspace_for(slice_bytes, 2) ? workspace - bytes : 0;
}

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END
