# The consumer's install holds the consumer alone.
cmake_minimum_required(VERSION 3.20)

file(REMOVE_RECURSE "${binary}/prefix")
unset(ENV{DESTDIR})
execute_process(COMMAND "${CMAKE_COMMAND}" --install "${binary}" --prefix "${binary}/prefix" --config "${config}"
                COMMAND_ERROR_IS_FATAL ANY)
file(GLOB_RECURSE installed RELATIVE "${binary}/prefix" "${binary}/prefix/*")
if(NOT installed STREQUAL "bin/consumer")
  message(FATAL_ERROR "installed: ${installed}")
endif()
