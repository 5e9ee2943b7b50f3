# Trains with 1 to 3 threads: losses and weights are the same to the last bit.
cmake_minimum_required(VERSION 3.20)
set(first "")
foreach(threads 1 2 3)
  execute_process(COMMAND "${CMAKE_COMMAND}" -E env GRADKERN_DLIB_THREADS=${threads} "${program}" train
                  OUTPUT_VARIABLE output COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX MATCH "loss [^\n]*" line "${output}")
  message(STATUS "${threads} threads: ${line}")
  if(first AND NOT line STREQUAL first)
    message(FATAL_ERROR "other bits")
  endif()
  set(first "${line}")
endforeach()
