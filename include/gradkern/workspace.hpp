// Workspaces that own their memory. Include them explicitly: the operators never allocate.
//
//     gradkern::workspace scratch(plan.workspace_bytes(pool.concurrency()));     // for one plan
//     if (!scratch) ...                                                          // out of memory
//     const gradkern::status s = plan.run(src, weights, nullptr, dst, scratch, pool);
//
//     thread_local gradkern::growing_workspace memory;                           // for all plans that a thread runs
//     const gradkern::status t = plan.run(src, weights, nullptr, dst, memory.of(plan.workspace_bytes()));
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>
#include <span>
#include <utility>

#include <gradkern/detail/config.hpp>

GRADKERN_NAMESPACE_BEGIN

/// Uninitialised bytes on a cache line boundary. Move only; never throws.
class workspace {
public:
    static constexpr std::size_t alignment = 64;  ///< of the first byte

    /// No memory.
    GRADKERN_PER_ISA constexpr workspace() noexcept = default;
    /// `bytes` bytes, or none if the allocation fails.
    GRADKERN_PER_ISA explicit workspace(std::size_t bytes) noexcept : complete_(bytes == 0) {
        // Allocators round sizes up to the alignment; near the end of the range some would wrap around.
        if (bytes == 0 || bytes > static_cast<std::size_t>(PTRDIFF_MAX) - alignment) return;
        data_ = static_cast<std::byte*>(::operator new (bytes, std::align_val_t{alignment}, std::nothrow));
        if (data_ == nullptr) return;
        bytes_ = bytes;
        complete_ = true;
    }
    /// Takes over the memory of `other`, which is empty afterwards.
    GRADKERN_PER_ISA workspace(workspace&& other) noexcept
        : data_(std::exchange(other.data_, nullptr)),
          bytes_(std::exchange(other.bytes_, 0)),
          complete_(std::exchange(other.complete_, true)) {}
    /// Releases its own memory and takes over that of `other`.
    GRADKERN_PER_ISA workspace& operator=(workspace&& other) noexcept {
        if (this != &other) {
            release();
            data_ = std::exchange(other.data_, nullptr);
            bytes_ = std::exchange(other.bytes_, 0);
            complete_ = std::exchange(other.complete_, true);
        }
        return *this;
    }
    workspace(const workspace&) = delete;
    workspace& operator=(const workspace&) = delete;
    GRADKERN_PER_ISA ~workspace() { release(); }

    /// True if the allocation succeeded; zero bytes always do.
    [[nodiscard]] GRADKERN_PER_ISA explicit operator bool() const noexcept { return complete_; }
    /// The first byte; null if there are none.
    [[nodiscard]] GRADKERN_PER_ISA std::byte* data() const noexcept { return data_; }
    /// The number of bytes.
    [[nodiscard]] GRADKERN_PER_ISA std::size_t size() const noexcept { return bytes_; }
    /// The bytes, as plans take them.
    // NOLINTNEXTLINE(google-explicit-constructor): `plan.run(..., scratch)` must work
    GRADKERN_PER_ISA operator std::span<std::byte>() const noexcept { return {data_, bytes_}; }

private:
    GRADKERN_PER_ISA void release() noexcept {
        if (data_ != nullptr) ::operator delete (data_, std::align_val_t{alignment});
    }

    std::byte* data_ = nullptr;
    std::size_t bytes_ = 0;
    bool complete_ = true;
};

/// A workspace for many plans: it grows to what the largest of them needs, and does not shrink. Move only; never throws.
///
/// Two calls must not use it at once: give each thread that runs plans one of its own.
class growing_workspace {
public:
    /// No memory.
    GRADKERN_PER_ISA constexpr growing_workspace() noexcept = default;
    /// Takes over the memory of `other`, which is empty afterwards.
    GRADKERN_PER_ISA growing_workspace(growing_workspace&& other) noexcept = default;
    /// Releases its own memory and takes over that of `other`.
    GRADKERN_PER_ISA growing_workspace& operator=(growing_workspace&& other) noexcept = default;
    growing_workspace(const growing_workspace&) = delete;
    growing_workspace& operator=(const growing_workspace&) = delete;
    GRADKERN_PER_ISA ~growing_workspace() = default;

    /// `bytes` bytes on a cache line boundary, valid until the next call that needs more. What they hold is undefined. If the
    /// memory cannot be had, the span is empty, so that run() returns workspace_too_small; what there was before is kept.
    [[nodiscard]] GRADKERN_PER_ISA std::span<std::byte> of(std::size_t bytes) noexcept {
        if (bytes > memory_.size()) {
            workspace larger(bytes);
            if (!larger) return {};
            memory_ = std::move(larger);
        }
        return {memory_.data(), bytes};
    }
    /// The largest number of bytes that of() returns without an allocation.
    [[nodiscard]] GRADKERN_PER_ISA std::size_t size() const noexcept { return memory_.size(); }

private:
    workspace memory_;
};

GRADKERN_NAMESPACE_END
