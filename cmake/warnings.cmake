# Warnings for gradkern's own tests, benchmarks and examples. The library's target carries none: it would impose them on
# its users.
function(gradkern_target_warnings target)
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wconversion)
  if(GRADKERN_WARNINGS_AS_ERRORS)
    target_compile_options(${target} PRIVATE -Werror)
  endif()
endfunction()
