// How callers pass threads: the executor concept, a non-owning reference, and the serial default.
#pragma once

#include <concepts>
#include <cstddef>
#include <memory>
#include <type_traits>

#include <gradkern/detail/config.hpp>

GRADKERN_NAMESPACE_BEGIN

/// Something that runs `fn(i)` for every i in [0, n), in any order, on any threads, and returns when all are done.
/// `concurrency()` is the number of workers: how many calls usefully run at once. Results do not depend on either. Neither
/// may throw: an exception that leaves one of them ends the program, since operators are noexcept.
template <class E>
concept executor = requires(E& e, std::ptrdiff_t n, void (*fn)(std::ptrdiff_t)) {
    {e.parallel_for(n, fn)};
    { e.concurrency() } -> std::convertible_to<std::ptrdiff_t>;
};

/// Runs everything on the calling thread.
struct serial_executor {
    /// Calls fn(0) ... fn(n - 1) in order.
    template <class F>
    GRADKERN_PER_ISA constexpr void parallel_for(std::ptrdiff_t n, const F& fn) const {
        for (std::ptrdiff_t i = 0; i < n; ++i) fn(i);
    }
    /// One.
    [[nodiscard]] GRADKERN_PER_ISA static constexpr std::ptrdiff_t concurrency() noexcept { return 1; }
};

/// A non-owning reference to any executor; a default constructed one is serial. The executor must outlive it.
class executor_ref {
public:
    /// The serial executor.
    GRADKERN_ALWAYS_INLINE constexpr executor_ref() noexcept {
        // A member of aggregates.
        GRADKERN_DETAIL_STORE_APART();
        object_ = nullptr;
        GRADKERN_DETAIL_STORE_APART();
        run_ = nullptr;
        GRADKERN_DETAIL_STORE_APART();
        concurrency_ = nullptr;
    }

    /// Refers to `e`, which must outlive the call it is passed to.
    template <executor E>
    requires(!std::same_as<std::remove_cv_t<E>, executor_ref>)
        // NOLINTNEXTLINE(google-explicit-constructor,bugprone-forwarding-reference-overload): `run(..., pool)` must work
        GRADKERN_PER_ISA executor_ref(E& e)
    noexcept
        : object_(const_cast<void*>(static_cast<const void*>(std::addressof(e)))),
          run_([](void* object, std::ptrdiff_t n, void* fn, void (*call)(void*, std::ptrdiff_t)) {
              static_cast<E*>(object)->parallel_for(n, [fn, call](std::ptrdiff_t i) { call(fn, i); });
          }),
          concurrency_([](void* object) -> std::ptrdiff_t { return static_cast<E*>(object)->concurrency(); }) {}

    /// Calls fn(i) for every i in [0, n) and returns when all are done.
    template <class F>
    GRADKERN_PER_ISA void parallel_for(std::ptrdiff_t n, F& fn) const {
        if (run_ == nullptr) {
            serial_executor{}.parallel_for(n, fn);
        } else {
            run_(object_, n, std::addressof(fn), [](void* f, std::ptrdiff_t i) { (*static_cast<F*>(f))(i); });
        }
    }
    /// The number of workers: how many calls usefully run at once. At least 1.
    [[nodiscard]] GRADKERN_PER_ISA std::ptrdiff_t concurrency() const {
        const std::ptrdiff_t n = concurrency_ == nullptr ? 1 : concurrency_(object_);
        return n < 1 ? 1 : n;
    }

private:
    void* object_;
    void (*run_)(void*, std::ptrdiff_t, void*, void (*)(void*, std::ptrdiff_t));
    std::ptrdiff_t (*concurrency_)(void*);
};

GRADKERN_NAMESPACE_END
