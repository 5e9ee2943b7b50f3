# Targets of gradkern's own: tests, benchmarks, examples. Each is one line in its directory's CMakeLists.txt.

include(GoogleTest)

# What all of them share.
#
#   ARCH <arch>        instead of GRADKERN_ARCH
#   DEFINITIONS <...>  macros
#   LIBRARIES <...>    more libraries to link
function(gradkern_own_target target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "ARCH" "DEFINITIONS;LIBRARIES")
  if(NOT arg_ARCH)
    set(arg_ARCH "${GRADKERN_ARCH}")
  endif()
  set_target_properties(${target} PROPERTIES CXX_EXTENSIONS OFF)
  target_link_libraries(${target} PRIVATE gradkern::gradkern ${arg_LIBRARIES})
  target_include_directories(${target} PRIVATE "${PROJECT_SOURCE_DIR}/tests")
  target_compile_definitions(${target} PRIVATE ${arg_DEFINITIONS})
  if(GRADKERN_SIMD_EMULATE_LANES)
    target_compile_definitions(${target} PRIVATE GRADKERN_SIMD_EMULATE_LANES=${GRADKERN_SIMD_EMULATE_LANES})
  endif()
  gradkern_target_warnings(${target})
  gradkern_target_arch(${target} "${arg_ARCH}")
endfunction()

# gradkern_compile_with(<level> <targets...>): another level of optimisation than the preset's. Names of no target are skipped.
function(gradkern_compile_with level)
  if(NOT CMAKE_CXX_COMPILER_ID MATCHES "GNU|Clang")
    return()
  endif()
  foreach(target IN LISTS ARGN)
    if(TARGET ${target})
      target_compile_options(${target} PRIVATE ${level})
    endif()
  endforeach()
endfunction()

# Whether a program compiled for `arch` runs here.
function(gradkern_arch_runs arch out_runs)
  if("${arch}" STREQUAL "" OR "${arch}" STREQUAL "native")
    set(${out_runs} TRUE PARENT_SCOPE)
    return()
  endif()
  string(MAKE_C_IDENTIFIER "GRADKERN_RUNS_${arch}" variable)
  if(NOT DEFINED ${variable})
    if(CMAKE_CROSSCOMPILING AND NOT CMAKE_CROSSCOMPILING_EMULATOR)
      set(exit_code 1)
    else()
      try_run(exit_code compiled "${CMAKE_CURRENT_BINARY_DIR}/arch" "${PROJECT_SOURCE_DIR}/cmake/arch_runs.cpp"
              COMPILE_DEFINITIONS "-march=${arch}")
    endif()
    if(exit_code EQUAL 0)
      set(${variable} TRUE CACHE INTERNAL "")
    else()
      set(${variable} FALSE CACHE INTERNAL "")
    endif()
  endif()
  set(${out_runs} ${${variable}} PARENT_SCOPE)
endfunction()

# A program that ctest runs; listed as disabled where this machine cannot run `arch`.
function(gradkern_add_run test target arch)
  add_test(NAME ${test} COMMAND ${target} ${ARGN})
  gradkern_arch_runs("${arch}" runs)
  if(NOT runs)
    set_tests_properties(${test} PROPERTIES DISABLED TRUE)
  endif()
endfunction()

# gradkern_add_test(<name> <sources...> [SINGLE] [ENGINES] [ARCH <arch>] [DEFINITIONS <...>] [LIBRARIES <...>])
#
# A GoogleTest program, its label the first source's folder. Each of its cases is a test of ctest's, named <name>.<case>;
# with SINGLE the whole program is one, for a program of very many small cases. With ENGINES it links the engines, compiled as
# users compile them (tests/engines), and what is left, above all its cases, is compiled with -O1: about half of the time. Not
# with an ARCH or macros that give kernels another namespace. Where this machine cannot run `arch`, the program is built all the
# same and stands disabled.
function(gradkern_add_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "SINGLE;ENGINES" "ARCH" "DEFINITIONS;LIBRARIES")
  set(sources ${arg_UNPARSED_ARGUMENTS})
  if(NOT arg_ARCH)
    set(arg_ARCH "${GRADKERN_ARCH}")
  endif()
  list(GET sources 0 label)
  get_filename_component(label "${label}" DIRECTORY)

  add_executable(${name} ${sources})
  gradkern_own_target(
    ${name}
    ARCH ${arg_ARCH}
    DEFINITIONS ${arg_DEFINITIONS}
    LIBRARIES ${arg_LIBRARIES} GTest::gtest_main)
  if(arg_ENGINES)
    target_link_libraries(${name} PRIVATE engines)
    gradkern_compile_with(-O1 ${name})
  endif()

  gradkern_arch_runs("${arg_ARCH}" runs)
  if(runs AND NOT arg_SINGLE)
    gtest_discover_tests(
      ${name}
      TEST_PREFIX ${name}.
      DISCOVERY_MODE PRE_TEST
      DISCOVERY_TIMEOUT 60
      PROPERTIES LABELS "${label}")
  else()
    gradkern_add_run(${name} ${name} "${arg_ARCH}")
    set_tests_properties(${name} PROPERTIES LABELS "${label}")
  endif()
endfunction()

# gradkern_add_bench(<name> <sources...> [ARCH <arch>] [DEFINITIONS <...>] [LIBRARIES <...>] [SMOKE <arguments...>])
#
# A Google Benchmark program. With SMOKE, ctest runs it with these arguments to see that it works.
function(gradkern_add_bench name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "ARCH" "DEFINITIONS;LIBRARIES;SMOKE")
  if(NOT arg_ARCH)
    set(arg_ARCH "${GRADKERN_ARCH}")
  endif()
  add_executable(${name} ${arg_UNPARSED_ARGUMENTS})
  gradkern_own_target(
    ${name}
    ARCH ${arg_ARCH}
    DEFINITIONS ${arg_DEFINITIONS}
    LIBRARIES ${arg_LIBRARIES} benchmark::benchmark)
  if(arg_SMOKE)
    gradkern_add_run(bench.${name} ${name} "${arg_ARCH}" ${arg_SMOKE})
    set_tests_properties(bench.${name} PROPERTIES LABELS bench)
  endif()
endfunction()

# gradkern_add_example(<name> <sources...> [PACKAGES <...>] [LIBRARIES <...>] [TEST [<arguments...>]])
#
# With TEST, ctest runs it with these arguments. Where find_package misses one of PACKAGES, the example is left out.
function(gradkern_add_example name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "PACKAGES;LIBRARIES;TEST")
  foreach(package IN LISTS arg_PACKAGES)
    find_package(${package} QUIET)
    if(NOT ${package}_FOUND)
      message(STATUS "gradkern: example ${name} is left out, it needs ${package}")
      return()
    endif()
  endforeach()
  add_executable(${name} ${arg_UNPARSED_ARGUMENTS})
  gradkern_own_target(${name} LIBRARIES ${arg_LIBRARIES})
  if(DEFINED arg_TEST OR "TEST" IN_LIST arg_KEYWORDS_MISSING_VALUES)
    gradkern_add_run(example.${name} ${name} "${GRADKERN_ARCH}" ${arg_TEST})
    set_tests_properties(example.${name} PROPERTIES LABELS example)
  endif()
endfunction()
