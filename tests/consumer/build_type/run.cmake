# Who chooses neither a build type nor a level of optimisation is warned once; who chooses one, or silences it, is not.
cmake_minimum_required(VERSION 3.20)

if(generator MATCHES "Visual Studio|Xcode|Multi-Config")
  return()
endif()
unset(ENV{CXXFLAGS})
unset(ENV{CMAKE_BUILD_TYPE})

function(expect_warnings count)
  file(REMOVE_RECURSE "${binary}")
  execute_process(
    COMMAND "${CMAKE_COMMAND}" -S "${CMAKE_CURRENT_LIST_DIR}" -B "${binary}" -G "${generator}" -C "${cache}"
            -DCMAKE_BUILD_TYPE= -DCMAKE_CXX_FLAGS= "-Dway=${way}" ${ARGN}
    OUTPUT_QUIET ERROR_VARIABLE errors COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX MATCHALL "CMAKE_BUILD_TYPE is empty" warnings "${errors}")
  list(LENGTH warnings found)
  if(NOT found EQUAL count)
    message(FATAL_ERROR "${way} with '${ARGN}': ${found} warnings, expected ${count}\n${errors}")
  endif()
endfunction()

foreach(way find_package add_subdirectory)
  expect_warnings(1)
  expect_warnings(1 -DCMAKE_CXX_FLAGS=-Wall)
  expect_warnings(0 -DGRADKERN_WARN_UNOPTIMIZED=OFF)
  expect_warnings(0 -DCMAKE_BUILD_TYPE=Debug)
  expect_warnings(0 -Dlate_build_type=Release)
  expect_warnings(0 "-DCMAKE_CXX_FLAGS=-Wall -O2")
  expect_warnings(0 -DCMAKE_CXX_FLAGS=-O0)
  expect_warnings(0 -Doption_for_all=-O2)
endforeach()
