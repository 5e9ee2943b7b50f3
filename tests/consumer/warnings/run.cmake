# No warning from the headers under plain -I, for every instruction set of `archs` (joined by commas); xsimd's are system headers.
cmake_minimum_required(VERSION 3.20)

separate_arguments(options UNIX_COMMAND "-std=c++20 -fsyntax-only ${flags}")
list(APPEND options -Wall -Wextra -Wpedantic -Wconversion -Wsign-conversion -Wshadow -Wundef -Werror "-I${include}"
     "-I${everything}")
if(xsimd)
  list(APPEND options -isystem "${xsimd}")
endif()
if(archs)
  string(REPLACE "," ";-march=" arch_options "-march=${archs}")
else()
  set(arch_options -O0)
endif()
foreach(option IN LISTS arch_options)
  foreach(source main min_max)
    execute_process(COMMAND "${compiler}" ${options} "${option}" "${CMAKE_CURRENT_LIST_DIR}/${source}.cpp"
                    COMMAND_ERROR_IS_FATAL ANY)
  endforeach()
endforeach()
