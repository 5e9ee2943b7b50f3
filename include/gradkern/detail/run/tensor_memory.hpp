// Which bytes a tensor occupies around its pointer, and whether two tensors share any of them.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include <gradkern/detail/config.hpp>
#include <gradkern/detail/own.hpp>
#include <gradkern/shape/check.hpp>
#include <gradkern/shape/checked.hpp>
#include <gradkern/tensor_view.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail {

/// The bytes a tensor occupies: `element_bytes` at the pointer and at every sum of steps, all of them in [low, high).
struct tensor_memory {
    /// One axis: its indices run from 0 to `last`.
    struct axis {
        std::int64_t step = 0;  // bytes, not 0
        std::int64_t last = 0;  // more than 0
    };

    std::string_view name{};
    std::int64_t low = 0;
    std::int64_t high = 0;
    std::int64_t element_bytes = 0;
    std::array<axis, extents::capacity> axes{};
    std::size_t rank = 0;  // axes that move the address

    constexpr tensor_memory() noexcept = default;
    GRADKERN_COLD constexpr tensor_memory(std::string_view tensor_name, const tensor_layout& t,
                                          std::int64_t bytes) noexcept
        : name(tensor_name) {
        if (t.empty()) return;
        const extents s = shape::strides_of(t);
        for (const std::int64_t extent : t.shape.values())
            if (extent == 0) return;
        for (std::size_t i = 0; i < t.shape.rank(); ++i) {
            if (t.shape[i] == 1 || s[i] == 0) continue;
            const axis a{s[i] * bytes, t.shape[i] - 1};
            (a.step < 0 ? low : high) += a.last * a.step;
            axes[rank++] = a;
        }
        high += bytes;
        element_bytes = bytes;
    }
    [[nodiscard]] constexpr bool empty() const noexcept { return low == high; }
};

/// A tensor's memory at an address.
struct placed_tensor {
    const tensor_memory* memory;
    const void* data;

    [[nodiscard]] std::uintptr_t first() const noexcept {
        return reinterpret_cast<std::uintptr_t>(data) + static_cast<std::uintptr_t>(memory->low);
    }
    [[nodiscard]] std::uintptr_t last() const noexcept {
        return reinterpret_cast<std::uintptr_t>(data) + static_cast<std::uintptr_t>(memory->high);
    }
    /// Whether its range of addresses meets [begin, end).
    [[nodiscard]] GRADKERN_NOINLINE bool meets(std::uintptr_t begin, std::uintptr_t end) const noexcept {
        return std::max(begin, first()) < std::min(end, last());
    }
};

/// Decides whether two strided tensors share a byte.
///
/// An element of a lies at distance + sum of t[k] * step[k] from one of b, where an index of a counts up along its axis, and
/// one of b counts the other way. They share bytes where that is in [-(bytes of a - 1), bytes of b - 1]. Axes of equal
/// steps are one. The search goes through the steps, longest first, and takes each t from which the shorter ones can still
/// get there: few, where steps nest. It is exact unless it gives up.
class shared_bytes {
public:
    constexpr shared_bytes(const tensor_memory& a, const tensor_memory& b) noexcept
        : least_(1 - a.element_bytes), most_(b.element_bytes - 1) {
        for (std::size_t i = 0; i < a.rank; ++i) add(a.axes[i].step, a.axes[i].last);
        for (std::size_t i = 0; i < b.rank; ++i) add(b.axes[i].step, -b.axes[i].last);
        for (std::size_t k = count_; k-- > 0;) {
            const level& l = levels_[k];
            rest_[k].low = rest_[k + 1].low + l.low * l.step;
            rest_[k].high = rest_[k + 1].high + l.high * l.step;
            rest_[k].divisor = own::gcd(rest_[k + 1].divisor, l.step);
        }
    }

    /// Whether they do, where a's pointer is so many bytes behind b's; true where the search gives up.
    [[nodiscard]] constexpr bool at(std::int64_t distance) noexcept {
        visits_ = 0;
        return reachable(0, distance);
    }

private:
    static constexpr int most_visits = 1024;

    /// Steps of one length: the sum of all indices along them is in [low, high].
    struct level {
        std::int64_t step = 0;
        std::int64_t low = 0;
        std::int64_t high = 0;
    };
    /// What the levels from one on can add: multiples of `divisor` in [low, high].
    struct range {
        std::int64_t low = 0;
        std::int64_t high = 0;
        std::int64_t divisor = 0;
    };

    constexpr void add(std::int64_t step, std::int64_t last) noexcept {
        if (step < 0) {
            step = -step;
            last = -last;
        }
        std::size_t k = 0;
        while (k < count_ && levels_[k].step > step) ++k;
        if (k == count_ || levels_[k].step != step) {
            for (std::size_t i = count_++; i > k; --i) levels_[i] = levels_[i - 1];
            levels_[k] = {step, 0, 0};
        }
        (last < 0 ? levels_[k].low : levels_[k].high) += last;
    }

    [[nodiscard]] constexpr bool reachable(std::size_t k, std::int64_t from) noexcept {
        const range& rest = rest_[k];
        const std::int64_t least = std::max(least_ - from, rest.low);
        const std::int64_t most = std::min(most_ - from, rest.high);
        if (least > most) return false;
        if (k == count_) return true;
        if (shape::ceil_div(least, rest.divisor) > shape::floor_div(most, rest.divisor)) return false;
        if (++visits_ > most_visits) return true;
        const level& l = levels_[k];
        const range& shorter = rest_[k + 1];
        const std::int64_t first = std::max(l.low, shape::ceil_div(least_ - from - shorter.high, l.step));
        const std::int64_t last = std::min(l.high, shape::floor_div(most_ - from - shorter.low, l.step));
        for (std::int64_t t = first; t <= last; ++t)
            if (reachable(k + 1, from + t * l.step)) return true;
        return false;
    }

    std::int64_t least_;
    std::int64_t most_;
    std::array<level, 2 * extents::capacity> levels_{};  // longest step first
    std::array<range, 2 * extents::capacity + 1> rest_{};
    std::size_t count_ = 0;
    int visits_ = 0;
};

/// share_bytes of tensors whose ranges of addresses meet.
[[nodiscard]] GRADKERN_COLD inline bool meeting_tensors_share_bytes(const placed_tensor& a,
                                                                    const placed_tensor& b) noexcept {
    // Sums of the search stay below the fourfold of what both reach.
    constexpr std::int64_t countable = std::int64_t{1} << 59;
    for (const tensor_memory* m : {a.memory, b.memory})
        if (m->high > countable || m->low < -countable) return true;
    const std::uintptr_t distance = reinterpret_cast<std::uintptr_t>(a.data) - reinterpret_cast<std::uintptr_t>(b.data);
    return shared_bytes(*a.memory, *b.memory).at(static_cast<std::int64_t>(distance));
}
/// Whether a tensor and `workspace`, whose ranges of addresses meet, share a byte: it may lie in the gaps of a strided one.
[[nodiscard]] GRADKERN_COLD inline bool meeting_workspace_shares_bytes(const placed_tensor& t,
                                                                       std::span<std::byte> workspace) noexcept {
    tensor_memory bytes;
    bytes.high = bytes.element_bytes = static_cast<std::int64_t>(workspace.size());
    return meeting_tensors_share_bytes({&bytes, workspace.data()}, t);
}
/// Whether two tensors share a byte: exactly where their steps are equal or nest, else true where they may. In constant
/// time.
[[nodiscard]] inline bool share_bytes(const placed_tensor& a, const placed_tensor& b) noexcept {
    return a.meets(b.first(), b.last()) && meeting_tensors_share_bytes(a, b);
}

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END
