# Where xsimd, googletest and benchmark come from. In this order: a target that exists already; for xsimd, a tree of
# headers named by GRADKERN_XSIMD_INCLUDE_DIR; find_package; a download, where GRADKERN_FETCH_DEPENDENCIES allows one.

set(GRADKERN_XSIMD_INCLUDE_DIR "" CACHE PATH "Directory that holds xsimd/xsimd.hpp; empty to look for a package")

include(FetchContent)
include("${CMAKE_CURRENT_LIST_DIR}/gradkern-xsimd.cmake")

# Each is one commit of a release; FETCHCONTENT_SOURCE_DIR_<NAME> takes a local tree in its place.
FetchContent_Declare(
  xsimd # 14.1.0
  URL https://github.com/xtensor-stack/xsimd/archive/4050d947536137280ee9c01f2ec73fb3071e63f4.tar.gz)
FetchContent_Declare(
  googletest # 1.17.0
  URL https://github.com/google/googletest/archive/52eb8108c5bdec04579160ae17225d66034bd723.tar.gz)
FetchContent_Declare(
  benchmark # 1.9.4
  URL https://github.com/google/benchmark/archive/eddb0241389718a23a42db6af5f0164b6e0139af.tar.gz)

# Reached only where a dependency was not found. Variables set before the call reach the fetched project's options and
# nobody else's.
function(gradkern_fetch name reason advice)
  if(NOT GRADKERN_FETCH_DEPENDENCIES)
    message(FATAL_ERROR "gradkern needs ${name}, and ${reason}.\n${advice}\n"
                        "Or set GRADKERN_FETCH_DEPENDENCIES=ON to have ${name} downloaded.")
  endif()
  message(STATUS "gradkern: ${reason}; fetching ${name} (GRADKERN_FETCH_DEPENDENCIES=OFF forbids it). "
                 "Without a network: ${advice}")
  set(CMAKE_POLICY_DEFAULT_CMP0077 NEW)
  set(CMAKE_MESSAGE_LOG_LEVEL WARNING)
  FetchContent_MakeAvailable(${name})
endfunction()

function(gradkern_mark_system target)
  set_property(TARGET ${target} PROPERTY INTERFACE_SYSTEM_INCLUDE_DIRECTORIES
                                         $<TARGET_PROPERTY:${target},INTERFACE_INCLUDE_DIRECTORIES>)
endfunction()

function(gradkern_provide_xsimd)
  gradkern_find_xsimd(reason)
  if(TARGET gradkern::xsimd)
    return()
  endif()
  string(
    CONCAT advice "Install xsimd ${gradkern_xsimd_minimum} or newer (Debian and Ubuntu: libxsimd-dev) and, where it is in "
           "an unusual place, name that in CMAKE_PREFIX_PATH; or set GRADKERN_XSIMD_INCLUDE_DIR to a directory that "
           "holds xsimd/xsimd.hpp.")
  if(NOT TARGET xsimd AND NOT TARGET xsimd::xsimd AND NOT GRADKERN_XSIMD_INCLUDE_DIR)
    set(XSIMD_SKIP_INSTALL ON)
    set(BUILD_TESTS OFF)
    set(BUILD_BENCHMARK OFF)
    set(BUILD_EXAMPLES OFF)
    gradkern_fetch(xsimd "${reason}" "${advice}")
    gradkern_find_xsimd(reason)
  endif()
  if(NOT TARGET gradkern::xsimd)
    message(FATAL_ERROR "gradkern needs xsimd, and ${reason}.\n${advice}")
  endif()
endfunction()

# GTest::gtest_main
function(gradkern_provide_googletest)
  if(NOT TARGET GTest::gtest_main)
    find_package(GTest QUIET)
  endif()
  if(TARGET GTest::gtest_main)
    return()
  endif()
  set(INSTALL_GTEST OFF)
  set(BUILD_GMOCK OFF)
  gradkern_fetch(googletest "find_package(GTest) found nothing"
                 "Install it (Debian and Ubuntu: libgtest-dev), or set GRADKERN_BUILD_TESTS=OFF.")
  gradkern_mark_system(gtest)
  gradkern_mark_system(gtest_main)
endfunction()

# benchmark::benchmark_main
function(gradkern_provide_benchmark)
  if(NOT TARGET benchmark::benchmark_main)
    find_package(benchmark QUIET)
  endif()
  if(TARGET benchmark::benchmark_main)
    return()
  endif()
  set(BENCHMARK_ENABLE_TESTING OFF)
  set(BENCHMARK_ENABLE_GTEST_TESTS OFF)
  set(BENCHMARK_ENABLE_WERROR OFF)
  set(BENCHMARK_ENABLE_INSTALL OFF)
  set(BENCHMARK_INSTALL_DOCS OFF)
  gradkern_fetch(benchmark "find_package(benchmark) found nothing"
                 "Install it (Debian and Ubuntu: libbenchmark-dev), or set GRADKERN_BUILD_BENCHMARKS=OFF.")
  gradkern_mark_system(benchmark)
  gradkern_mark_system(benchmark_main)
endfunction()
