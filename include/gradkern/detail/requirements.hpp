#ifndef GRADKERN_DETAIL_REQUIREMENTS_HPP
#define GRADKERN_DETAIL_REQUIREMENTS_HPP

/// \file
/// \brief What the library needs of a compiler and its options. Where something is missing, one sentence says what.
///
/// Every header includes this one before xsimd and before any code. `#error` does not end a compilation, but a header that does not exist
/// does: so the sentence is not buried under errors that follow from the same cause.
///
/// Macros that a user may define, at the price that the message names:
///
/// - `GRADKERN_ALLOW_OLD_COMPILER`: compilers that nobody tests.
/// - `GRADKERN_ALLOW_FAST_MATH`: options that let the compiler change floating-point results, such as -ffast-math.

#if defined(_MSVC_LANG)
#define GRADKERN_DETAIL_LANGUAGE _MSVC_LANG
#else
#define GRADKERN_DETAIL_LANGUAGE __cplusplus
#endif

// Compilers before C++20 was finished call it 201707L to 201709L with -std=c++2a: those are too old, and said to be below.
#if GRADKERN_DETAIL_LANGUAGE <= 201703L
#error "gradkern needs C++20: compile with -std=c++20 (MSVC: /std:c++20) or newer."
#include <gradkern/detail/see_the_error_above.hpp>
#endif
#undef GRADKERN_DETAIL_LANGUAGE

#if !defined(GRADKERN_ALLOW_OLD_COMPILER)
#if defined(_MSC_VER) && !defined(__clang__)
#error "gradkern is tested with g++ and clang (on Windows MinGW-w64's), not with cl.exe; GRADKERN_ALLOW_OLD_COMPILER tries it."
#include <gradkern/detail/see_the_error_above.hpp>
#elif defined(__clang__) && __clang_major__ < 14
#error "gradkern needs clang 14 or newer; GRADKERN_ALLOW_OLD_COMPILER tries an older one."
#include <gradkern/detail/see_the_error_above.hpp>
#elif defined(__GNUC__) && !defined(__clang__) && __GNUC__ < 12
#error "gradkern needs g++ 12 or newer; GRADKERN_ALLOW_OLD_COMPILER tries an older one."
#include <gradkern/detail/see_the_error_above.hpp>
#endif
#endif

#if (defined(__SIZEOF_POINTER__) && __SIZEOF_POINTER__ < 8) || (defined(_WIN32) && !defined(_WIN64))
#error "gradkern needs a 64-bit target: sizes and strides are 64-bit numbers."
#include <gradkern/detail/see_the_error_above.hpp>
#endif

// Parts of -ffast-math count, too: they change the order of sums, NaN, infinities, quotients or the signs of zeros.
#if defined(__FAST_MATH__) || (defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__ + 0 != 0) || \
    defined(__ASSOCIATIVE_MATH__) || defined(__RECIPROCAL_MATH__) || defined(__NO_SIGNED_ZEROS__) || defined(_M_FP_FAST)
#if defined(GRADKERN_ALLOW_FAST_MATH)
#define GRADKERN_DETAIL_ISA_MATH _inexact
#elif defined(__INTEL_LLVM_COMPILER)
#error "gradkern needs exact floating point, and icpx has it with -fp-model=precise alone; GRADKERN_ALLOW_FAST_MATH accepts other results."
#include <gradkern/detail/see_the_error_above.hpp>
#else
#error "gradkern needs exact floating point: no -ffast-math, -Ofast or part of them; GRADKERN_ALLOW_FAST_MATH accepts other results."
#include <gradkern/detail/see_the_error_above.hpp>
#endif
#else
#define GRADKERN_DETAIL_ISA_MATH
#endif

#endif  // GRADKERN_DETAIL_REQUIREMENTS_HPP
