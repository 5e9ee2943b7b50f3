# A package with a CPS description, installed, moved, and found by CMake through that description alone.
cmake_minimum_required(VERSION 3.20)

execute_process(COMMAND "${cmake}" --version OUTPUT_VARIABLE version COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCH "[0-9.]+" version "${version}")
if(version VERSION_LESS 4.3)
  message("skipped: CMake 4.3 reads CPS files, ${cmake} is ${version}")
  return()
endif()

file(REMOVE_RECURSE "${binary}")
unset(ENV{DESTDIR})
set(ENV{CXX} "${compiler}")
execute_process(COMMAND "${cmake}" -S "${archive}" -B "${binary}/build" -D GRADKERN_INSTALL_CPS=ON
                COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND "${cmake}" --install "${binary}/build" --prefix "${binary}/installed" OUTPUT_QUIET
                COMMAND_ERROR_IS_FATAL ANY)
file(RENAME "${binary}/installed" "${binary}/prefix")
execute_process(COMMAND "${cmake}" -S "${CMAKE_CURRENT_LIST_DIR}" -B "${binary}/user" "-DCMAKE_CXX_FLAGS=${flags}" -DCMAKE_BUILD_TYPE=Release
                        "-Dgradkern_ROOT=${binary}/prefix" "-Dexpected_prefix=${binary}/prefix"
                        "-Dexpected_version=${gradkern_version}" COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND "${cmake}" --build "${binary}/user" COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND "${binary}/user/consumer" COMMAND_ERROR_IS_FATAL ANY)

# xsimd in a place of its own is named in the file.
file(MAKE_DIRECTORY "${binary}/elsewhere")
file(CREATE_LINK "${xsimd}/xsimd" "${binary}/elsewhere/xsimd" SYMBOLIC)
execute_process(COMMAND "${cmake}" "-DGRADKERN_XSIMD_INCLUDE_DIR=${binary}/elsewhere" "${binary}/build" OUTPUT_QUIET
                COMMAND_ERROR_IS_FATAL ANY)
file(READ "${binary}/build/gradkern.cps" description)
string(JSON directory GET "${description}" components gradkern includes 1)
if(NOT directory STREQUAL "${binary}/elsewhere")
  message(FATAL_ERROR "xsimd is not in ${description}")
endif()
