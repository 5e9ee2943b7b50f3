# Configures, builds and tests the project in `source` from scratch; `extra`: more options for configuring.
cmake_minimum_required(VERSION 3.20)

file(REMOVE_RECURSE "${binary}")
execute_process(COMMAND "${CMAKE_COMMAND}" -S "${source}" -B "${binary}" -G "${generator}" -C "${cache}" ${extra}
                COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND "${CMAKE_COMMAND}" --build "${binary}" --config "${config}" COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND "${CMAKE_CTEST_COMMAND}" -C "${config}" --output-on-failure WORKING_DIRECTORY "${binary}"
                COMMAND_ERROR_IS_FATAL ANY)
