# The overlay port, installed by vcpkg itself without a network, and used through its toolchain file. The client and its checkout,
# VCPKG_ROOT in the environment, have to be here, and cmake, ninja and patchelf, which it would download.
cmake_minimum_required(VERSION 3.20)

set(root "$ENV{VCPKG_ROOT}")
if(NOT EXISTS "${root}/scripts/buildsystems/vcpkg.cmake")
  message("skipped: VCPKG_ROOT names no checkout of vcpkg")
  return()
endif()

file(REMOVE_RECURSE "${binary}")
file(MAKE_DIRECTORY "${binary}")
set(ENV{VCPKG_FORCE_SYSTEM_BINARIES} 1)
set(ENV{VCPKG_KEEP_ENV_VARS} XSIMD_DIRECTORY)
set(ENV{XSIMD_DIRECTORY} "${xsimd}")
set(ENV{CXX} "${compiler}")
unset(ENV{DESTDIR})
set(ports "${archive}/packaging/vcpkg")

file(COPY "${ports}/gradkern/vcpkg.json" DESTINATION "${binary}/format")
execute_process(COMMAND "${vcpkg}" format-manifest "${binary}/format/vcpkg.json" COMMAND_ERROR_IS_FATAL ANY)
file(READ "${ports}/gradkern/vcpkg.json" before)
file(READ "${binary}/format/vcpkg.json" after)
if(NOT before STREQUAL after)
  message(FATAL_ERROR "vcpkg format-manifest changes the manifest:\n${after}")
endif()

execute_process(
  COMMAND "${vcpkg}" install gradkern --classic --enforce-port-checks --binarysource=clear "--vcpkg-root=${root}" "--overlay-ports=${ports}"
          "--overlay-ports=${CMAKE_CURRENT_LIST_DIR}/ports" "--x-install-root=${binary}/installed" "--x-buildtrees-root=${binary}/buildtrees"
          "--x-packages-root=${binary}/packages" "--downloads-root=${binary}/downloads"
  WORKING_DIRECTORY "${binary}" COMMAND_ERROR_IS_FATAL ANY)
file(GLOB prefix "${binary}/installed/*-*/share/gradkern")
get_filename_component(prefix "${prefix}/../.." ABSOLUTE)
set(source "${CMAKE_CURRENT_LIST_DIR}/../find_package")
set(extra "-DCMAKE_TOOLCHAIN_FILE=${root}/scripts/buildsystems/vcpkg.cmake" "-DVCPKG_INSTALLED_DIR=${binary}/installed"
          -DVCPKG_MANIFEST_MODE=OFF "-Dexpected_prefix=${prefix}" "-Dexpected_version=${gradkern_version}")
file(WRITE "${binary}/cache.cmake" "set(CMAKE_BUILD_TYPE Release CACHE STRING \"\")\n")
set(cache "${binary}/cache.cmake")
set(binary "${binary}/user")
include("${CMAKE_CURRENT_LIST_DIR}/../run_project.cmake")
