// Memory between two pages that fault, if the system supports them.
#pragma once

#include <cstddef>

#if defined(__unix__) || defined(__APPLE__)
#include <sys/mman.h>
#include <unistd.h>
#define GRADKERN_TEST_GUARD_PAGES 1
#elif defined(_WIN32)
#define WIN32_LEAN_AND_MEAN
#ifndef NOMINMAX
#define NOMINMAX
#endif
#include <windows.h>
#define GRADKERN_TEST_GUARD_PAGES 1
#else
#define GRADKERN_TEST_GUARD_PAGES 0
#endif

#if GRADKERN_TEST_GUARD_PAGES

namespace gradkern_test {

inline std::size_t page_size() {
#if defined(_WIN32)
    SYSTEM_INFO info;
    GetSystemInfo(&info);
    return info.dwPageSize;
#else
    return static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
#endif
}

/// `size` bytes, whole pages, with a faulting page before and after them; null on failure.
inline std::byte* map_between_guards(std::size_t size) {
    const std::size_t page = page_size();
#if defined(_WIN32)
    void* const all = VirtualAlloc(nullptr, size + 2 * page, MEM_RESERVE, PAGE_NOACCESS);
    if (all == nullptr) return nullptr;
    std::byte* const first = static_cast<std::byte*>(all) + page;
    if (VirtualAlloc(first, size, MEM_COMMIT, PAGE_READWRITE) != nullptr) return first;
    VirtualFree(all, 0, MEM_RELEASE);
#else
    void* const all = mmap(nullptr, size + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (all == MAP_FAILED) return nullptr;
    std::byte* const first = static_cast<std::byte*>(all) + page;
    if (mprotect(first, size, PROT_READ | PROT_WRITE) == 0) return first;
    munmap(all, size + 2 * page);
#endif
    return nullptr;
}

/// Frees what map_between_guards returned for `size`, or null.
inline void unmap_between_guards(std::byte* first, [[maybe_unused]] std::size_t size) {
    if (first == nullptr) return;
#if defined(_WIN32)
    VirtualFree(first - page_size(), 0, MEM_RELEASE);
#else
    munmap(first - page_size(), size + 2 * page_size());
#endif
}

}  // namespace gradkern_test

#endif
