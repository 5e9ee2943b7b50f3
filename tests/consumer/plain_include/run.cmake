# The compiler alone: -I of the headers, -isystem of xsimd's where it does not look there anyway.
cmake_minimum_required(VERSION 3.20)

separate_arguments(options UNIX_COMMAND "-std=c++20 -O1 -Wall -Wextra -Werror ${flags} ${extra}")
list(APPEND options "-I${include}")
if(xsimd)
  list(APPEND options -isystem "${xsimd}")
endif()
execute_process(COMMAND "${compiler}" ${options} "${source}" -o "${output}" COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND "${output}" COMMAND_ERROR_IS_FATAL ANY)
