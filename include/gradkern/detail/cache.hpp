// What the library takes for granted of a CPU's caches. It decides what is kept at a time and what is asked for ahead: speed
// only, never a bit of a result.
#pragma once

#include <cstdint>

#include <gradkern/detail/config.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail {

inline constexpr std::int64_t cache_line = 64;  ///< bytes

/// Bytes of L1, where a CPU has more than 32 KB.
inline constexpr std::int64_t l1_cache = std::int64_t{48} << 10;
/// Bytes of a tensor that is likely to be in L2, if it was used last.
inline constexpr std::int64_t l2_cache = std::int64_t{1} << 20;
/// Bytes of a core's share of the last cache: larger tensors are read from memory, whatever ran before.
inline constexpr std::int64_t last_cache = std::int64_t{16} << 20;

/// Whether each core has 2 MB of L2, as servers with AVX512_FP16 have; other CPUs mostly have 1 MB or less.
#if defined(__AVX512FP16__)
inline constexpr bool large_l2 = true;
#else
inline constexpr bool large_l2 = false;
#endif

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END
