#ifndef GRADKERN_DETAIL_SIMD_X86_HPP
#define GRADKERN_DETAIL_SIMD_X86_HPP

/// \file
/// \brief Operations on SSE, AVX and AVX-512 registers for which xsimd has no form, or not the same one in every version.
///
/// Included by batch.hpp alone. Overloaded by register type, since a program may ask for shorter registers than the target has:
/// one header for each length.

#include <gradkern/detail/simd/x86/avx.hpp>
#include <gradkern/detail/simd/x86/avx512.hpp>
#include <gradkern/detail/simd/x86/sse.hpp>

#endif  // GRADKERN_DETAIL_SIMD_X86_HPP
