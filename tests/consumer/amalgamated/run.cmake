# All headers as one, made by cmake/amalgamate.py in place of gradkern/gradkern.hpp: the same program as plain_include, with no other
# header of gradkern's to be found.
cmake_minimum_required(VERSION 3.20)

file(REMOVE_RECURSE "${output}.include")
execute_process(COMMAND "${python}" "${script}" "${output}.include/gradkern/gradkern.hpp" COMMAND_ERROR_IS_FATAL ANY)
set(include "${output}.include")
include("${CMAKE_CURRENT_LIST_DIR}/../plain_include/run.cmake")
