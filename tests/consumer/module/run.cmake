# `import gradkern;` from an installed package and from a subproject.
cmake_minimum_required(VERSION 3.20)

execute_process(COMMAND "${cmake}" --version OUTPUT_VARIABLE version COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCH "[0-9.]+" version "${version}")
if(version VERSION_LESS 3.28)
  message("skipped: modules need CMake 3.28, ${cmake} is ${version}")
  return()
endif()
if(NOT clang OR NOT ninja)
  message("skipped: there is no clang from 16 on, or no ninja")
  return()
endif()

file(REMOVE_RECURSE "${binary}")
unset(ENV{DESTDIR})
set(ENV{CXX} "${clang}")
execute_process(COMMAND "${cmake}" -S "${archive}" -B "${binary}/build" COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND "${cmake}" --install "${binary}/build" --prefix "${binary}/prefix" OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)

foreach(way IN ITEMS "-Dgradkern_ROOT=${binary}/prefix" "-Darchive=${archive}")
  execute_process(COMMAND "${cmake}" --fresh -S "${CMAKE_CURRENT_LIST_DIR}" -B "${binary}/user" -G Ninja "-DCMAKE_MAKE_PROGRAM=${ninja}"
                          -DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_FLAGS_DEBUG=-O0 -DCMAKE_COMPILE_WARNING_AS_ERROR=ON "-Darch=${arch}" "${way}" COMMAND_ERROR_IS_FATAL ANY)
  execute_process(COMMAND "${cmake}" --build "${binary}/user" COMMAND_ERROR_IS_FATAL ANY)
  execute_process(COMMAND "${binary}/user/consumer" COMMAND_ERROR_IS_FATAL ANY)
endforeach()
