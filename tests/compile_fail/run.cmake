# What cannot work is refused in one sentence, before any other error, and nothing follows but the missing header that ends
# the compilation.
cmake_minimum_required(VERSION 3.20)

file(MAKE_DIRECTORY "${binary}")
set(search "-I${include}")
if(xsimd)
  list(APPEND search -isystem "${xsimd}")
endif()

# Compiles a file that includes `header`, without making anything, and reads its errors, as lines.
function(errors_of header out_errors)
  set(source "${binary}/includes.cpp")
  file(WRITE "${source}" "#include <gradkern/${header}>\n")
  execute_process(COMMAND "${compiler}" -std=c++20 ${search} ${ARGN} -fsyntax-only "${source}"
                  OUTPUT_QUIET ERROR_VARIABLE text RESULT_VARIABLE ignored)
  string(REPLACE ";" "," text "${text}")
  string(REGEX MATCHALL "[^\n]*error:[^\n]*" errors "${text}")
  set(${out_errors} "${errors}" PARENT_SCOPE)
endfunction()

function(expect_refusal header sentence)
  errors_of(${header} errors ${ARGN})
  list(LENGTH errors count)
  list(POP_FRONT errors first)
  if(NOT first MATCHES "gradkern needs ${sentence}" OR NOT count EQUAL 2)
    message(SEND_ERROR "${header} with '${ARGN}': ${count} errors, the first one ${first}")
  endif()
endfunction()

function(expect_success header)
  errors_of(${header} errors ${ARGN})
  if(errors)
    message(SEND_ERROR "${header} with '${ARGN}': ${errors}")
  endif()
endfunction()

expect_success(gradkern.hpp)

foreach(header IN LISTS headers)
  string(REGEX REPLACE "^gradkern/" "" header "${header}")
  if(NOT header STREQUAL "version.hpp") # a few numbers, for whoever asks
    expect_refusal(${header} "C\\+\\+20" -std=c++17)
  endif()
endforeach()

set(fast_math_options -ffast-math -Ofast -ffinite-math-only)
if(compiler_id STREQUAL "GNU") # clang does not tell a header of these
  list(APPEND fast_math_options -funsafe-math-optimizations -freciprocal-math -fno-signed-zeros)
endif()
foreach(option IN LISTS fast_math_options)
  expect_refusal(gradkern.hpp "exact floating point: no -ffast-math" ${option})
endforeach()
expect_success(gradkern.hpp -ffast-math -DGRADKERN_ALLOW_FAST_MATH)
expect_success(gradkern.hpp -ffast-math -fno-fast-math)
expect_refusal(gradkern.hpp "exact floating point, and icpx" -ffast-math -D__INTEL_LLVM_COMPILER=20240000)

# An older compiler is played by its number.
if(compiler_id STREQUAL "GNU")
  expect_refusal(detail/requirements.hpp "g\\+\\+ 12" -U__GNUC__ -D__GNUC__=11)
  expect_success(detail/requirements.hpp -U__GNUC__ -D__GNUC__=11 -DGRADKERN_ALLOW_OLD_COMPILER)
elseif(compiler_id STREQUAL "Clang")
  expect_refusal(gradkern.hpp "clang 14" -U__clang_major__ -D__clang_major__=13)
  expect_success(gradkern.hpp -U__clang_major__ -D__clang_major__=13 -DGRADKERN_ALLOW_OLD_COMPILER)
endif()

if(processor MATCHES "x86_64|AMD64|amd64")
  # This header alone: those of the standard library are seldom there for 32 bits.
  expect_refusal(detail/requirements.hpp "a 64-bit target" -m32)
  # AVX-512 without the parts that xsimd takes for granted.
  expect_success(gradkern.hpp -march=x86-64-v3 -mavx512f -mavx512cd)
endif()
