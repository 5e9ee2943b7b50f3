# The final weights have the same bits for one thread and for two, in every type.
#
#   cmake -D program=<train_digits> -D scratch=<directory> -P same_weights.cmake
cmake_minimum_required(VERSION 3.20)

foreach(dtype IN ITEMS f32 bf16 f16)
  foreach(threads IN ITEMS 1 2)
    execute_process(
      COMMAND "${program}" --epochs 1 --dtype ${dtype} --threads ${threads} --output "${scratch}"
      OUTPUT_VARIABLE output
      ERROR_VARIABLE output
      RESULT_VARIABLE status)
    if(NOT status EQUAL 0 OR NOT output MATCHES "final weights ([0-9a-f]+)")
      message(FATAL_ERROR "${dtype}, ${threads} threads: status ${status}\n${output}")
    endif()
    set(weights_${threads} "${CMAKE_MATCH_1}")
  endforeach()
  message(STATUS "${dtype}: ${weights_1} with one thread, ${weights_2} with two")
  if(NOT weights_1 STREQUAL weights_2)
    message(FATAL_ERROR "${dtype}: the weights depend on the number of threads")
  endif()
endforeach()
