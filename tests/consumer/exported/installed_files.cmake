# Whatever is not named after gradkern is the parent's own.
cmake_minimum_required(VERSION 3.20)

file(GLOB_RECURSE installed RELATIVE "${prefix}" "${prefix}/*")
foreach(file IN LISTS installed)
  if(NOT file MATCHES "(^|/)(gradkern(/|\\.pc$)|cmake/parent/|(lib)?parent_[a-z]+\\.(a|lib)$)")
    message(FATAL_ERROR "installed: ${file}")
  endif()
endforeach()
if(NOT "share/doc/gradkern/LICENSE" IN_LIST installed OR NOT "include/gradkern/gradkern.hpp" IN_LIST installed)
  message(FATAL_ERROR "installed without gradkern's license or headers: ${installed}")
endif()
