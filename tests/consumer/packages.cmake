# Package managers and tools that few machines have: `.ci/run packages` installs them and takes these tests, which all use the
# archive of the checkout.
option(GRADKERN_TEST_PACKAGES "Test the recipes of packaging/, the CPS description and the C++20 module" OFF)
if(NOT GRADKERN_TEST_PACKAGES OR CMAKE_CROSSCOMPILING)
  return()
endif()

# gradkern_add_package_test(<name> <program> [<option of the script>...])
#
# Runs <name>/run.cmake, which knows the path of the program as the variable <program>. Where the program is not here, this says so.
function(gradkern_add_package_test name tool)
  string(MAKE_C_IDENTIFIER "GRADKERN_TEST_${tool}" variable)
  string(TOUPPER "${variable}" variable)
  find_program(${variable} ${tool})
  mark_as_advanced(${variable})
  if(NOT ${variable})
    message(STATUS "gradkern: no test consumer.${name}: there is no ${tool}")
    return()
  endif()
  gradkern_add_consumer(
    ${name} "-D${tool}=${${variable}}" "-Darchive=${archive}" "-Dbinary=${CMAKE_CURRENT_BINARY_DIR}/${name}"
    "-Dcompiler=${CMAKE_CXX_COMPILER}" "-Dflags=${CMAKE_CXX_FLAGS}" "-Dxsimd=${xsimd_directory}" ${ARGN} -P
    "${CMAKE_CURRENT_SOURCE_DIR}/${name}/run.cmake")
  set_tests_properties(consumer.${name} PROPERTIES LABELS "consumer;packages" FIXTURES_REQUIRED gradkern_archive
                                                 SKIP_REGULAR_EXPRESSION "(^|\n)skipped: ")
endfunction()

get_target_property(xsimd_version gradkern::xsimd GRADKERN_XSIMD_VERSION)
gradkern_add_package_test(conan conan "-Dxsimd_version=${xsimd_version}")
gradkern_add_package_test(cps cmake "-Dgradkern_version=${PROJECT_VERSION}")

# The newest clang, whatever compiles the other tests: Debian's clang 14 knows no such modules.
find_program(GRADKERN_TEST_MODULE_COMPILER NAMES clang++-21 clang++-20 clang++-19 clang++-18 clang++-17 clang++-16)
find_program(GRADKERN_TEST_NINJA NAMES ninja)
mark_as_advanced(GRADKERN_TEST_MODULE_COMPILER GRADKERN_TEST_NINJA)
set(arch "")
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64|amd64")
  set(arch x86-64-v3)
endif()
gradkern_add_package_test(module cmake "-Dclang=${GRADKERN_TEST_MODULE_COMPILER}" "-Dninja=${GRADKERN_TEST_NINJA}" "-Darch=${arch}")

set(sets baseline)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64|amd64")
  set(sets x86-64)
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64|ARM64")
  set(sets armv8-a)
endif()
gradkern_add_package_test(debian dpkg-buildpackage "-Dset=${sets}" "-Dclient=${PROJECT_SOURCE_DIR}/tests/runtime/client.c")
gradkern_add_package_test(vcpkg vcpkg "-Dgradkern_version=${PROJECT_VERSION}" "-Dgenerator=${CMAKE_GENERATOR}" "-Dconfig=$<CONFIG>")
