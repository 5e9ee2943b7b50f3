# Installs the build tree into an empty prefix and looks at what arrived there.
cmake_minimum_required(VERSION 3.20)

file(REMOVE_RECURSE "${prefix}")
unset(ENV{DESTDIR})
execute_process(COMMAND "${CMAKE_COMMAND}" --install "${build}" --prefix "${prefix}" --config "${config}"
                OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
file(GLOB_RECURSE installed RELATIVE "${prefix}" "${prefix}/*")
if(NOT "include/gradkern/gradkern.hpp" IN_LIST installed)
  message(FATAL_ERROR "installed without its headers: ${installed}")
endif()
foreach(file IN LISTS installed)
  if(NOT file MATCHES "(^|/)gradkern(/|\\.pc$|-golden(\\.exe)?$)")
    message(FATAL_ERROR "installed, and not gradkern's: ${file}")
  endif()
endforeach()
