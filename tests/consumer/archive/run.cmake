# An unpacked archive by itself, without an option: configured, installed, found and used.
cmake_minimum_required(VERSION 3.20)

file(REMOVE_RECURSE "${binary}")
execute_process(COMMAND "${CMAKE_COMMAND}" -S "${archive}" -B "${binary}/build" -G "${generator}" -C "${cache}"
                COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND "${CMAKE_COMMAND}" --install "${binary}/build" --prefix "${binary}/prefix" --config "${config}"
                OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
set(source "${CMAKE_CURRENT_LIST_DIR}/../fetch_content")
set(extra -Dby=install "-Dgradkern_ROOT=${binary}/prefix")
set(binary "${binary}/user")
include("${CMAKE_CURRENT_LIST_DIR}/../run_project.cmake")
