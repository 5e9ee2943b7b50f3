# Installs the build tree into an empty prefix, looks at what arrived there, and moves it: whoever uses `prefix` uses a package
# that was installed elsewhere.
cmake_minimum_required(VERSION 3.20)

set(first "${prefix}_installed")
file(REMOVE_RECURSE "${first}" "${prefix}")
unset(ENV{DESTDIR})
execute_process(COMMAND "${CMAKE_COMMAND}" --install "${build}" --prefix "${first}" --config "${config}"
                OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
file(RENAME "${first}" "${prefix}")
file(GLOB_RECURSE installed RELATIVE "${prefix}" "${prefix}/*")
if(NOT "include/gradkern/gradkern.hpp" IN_LIST installed)
  message(FATAL_ERROR "installed without its headers: ${installed}")
endif()
foreach(file IN LISTS installed)
  if(NOT file MATCHES "(^|/)gradkern(/|\\.pc$|-golden(\\.exe)?$)")
    message(FATAL_ERROR "installed, and not gradkern's: ${file}")
  endif()
endforeach()

# No file says where the package was made to be or was put first.
foreach(file IN LISTS installed)
  if(NOT file MATCHES "\\.(cmake|pc|cps)$")
    continue()
  endif()
  file(READ "${prefix}/${file}" text)
  foreach(place IN ITEMS "${first}" "${default_prefix}/")
    string(FIND "${text}" "${place}" at)
    if(NOT at EQUAL -1)
      message(FATAL_ERROR "${file} says ${place}")
    endif()
  endforeach()
endforeach()
