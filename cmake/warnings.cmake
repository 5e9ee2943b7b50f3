# Warnings for gradkern's own tests, benchmarks and examples. The library's target carries none: it would impose them on
# its users.
function(gradkern_target_warnings target)
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wconversion)
  # Older g++ reports its own AVX-512 header (GCC bug 105593).
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 14)
    target_compile_options(${target} PRIVATE -Wno-uninitialized -Wno-maybe-uninitialized)
  endif()
  if(GRADKERN_WARNINGS_AS_ERRORS)
    target_compile_options(${target} PRIVATE -Werror)
  endif()
endfunction()
