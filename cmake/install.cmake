include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# Headers only: nothing here depends on the architecture.
set(package_dir "${CMAKE_INSTALL_DATADIR}/cmake/gradkern")
set(pkgconfig_dir "${CMAKE_INSTALL_DATADIR}/pkgconfig")

target_include_directories(gradkern INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
install(TARGETS gradkern EXPORT gradkernTargets)
install(EXPORT gradkernTargets NAMESPACE gradkern:: DESTINATION "${package_dir}")
# For a project around this one that exports targets of its build tree.
export(EXPORT gradkernTargets NAMESPACE gradkern:: FILE "${PROJECT_BINARY_DIR}/gradkernTargets.cmake")
install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/gradkern" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}"
        FILES_MATCHING PATTERN "*.hpp")

configure_package_config_file(cmake/gradkernConfig.cmake.in "${PROJECT_BINARY_DIR}/gradkernConfig.cmake"
                              INSTALL_DESTINATION "${package_dir}" NO_SET_AND_CHECK_MACRO
                              NO_CHECK_REQUIRED_COMPONENTS_MACRO)
set(package_pointer_bytes "")
configure_file(cmake/gradkernConfigVersion.cmake.in "${PROJECT_BINARY_DIR}/gradkernConfigVersion.cmake" @ONLY)
set(modules cmake/gradkern-arch.cmake cmake/gradkern-build-type.cmake cmake/gradkern-module.cmake cmake/gradkern-xsimd.cmake
            cmake/gradkern.cppm)
install(FILES "${PROJECT_BINARY_DIR}/gradkernConfig.cmake" "${PROJECT_BINARY_DIR}/gradkernConfigVersion.cmake" ${modules}
        DESTINATION "${package_dir}")
file(COPY ${modules} DESTINATION "${PROJECT_BINARY_DIR}")

set(pkgconfig_requires "Requires: xsimd >= ${gradkern_xsimd_minimum}\n")
set(pkgconfig_cflags "")
if(GRADKERN_XSIMD_INCLUDE_DIR)
  set(pkgconfig_requires "")
  set(pkgconfig_cflags " -I${GRADKERN_XSIMD_INCLUDE_DIR}")
endif()
file(RELATIVE_PATH pkgconfig_to_include "${CMAKE_INSTALL_PREFIX}/${pkgconfig_dir}" "${CMAKE_INSTALL_FULL_INCLUDEDIR}")
configure_file(cmake/gradkern.pc.in "${PROJECT_BINARY_DIR}/gradkern.pc" @ONLY)
install(FILES "${PROJECT_BINARY_DIR}/gradkern.pc" DESTINATION "${pkgconfig_dir}")

# For CMake 4.3 and newer, which take this file before the package above. xsimd is a directory here and no package: CMake would want
# a target xsimd::xsimd of one, which no version of xsimd installs.
if(GRADKERN_INSTALL_CPS)
  set(cps_dir "${CMAKE_INSTALL_DATADIR}/cps/gradkern")
  set(cps_xsimd "")
  get_target_property(directory gradkern::xsimd GRADKERN_XSIMD_DIRECTORY)
  if(directory AND NOT directory IN_LIST CMAKE_CXX_IMPLICIT_INCLUDE_DIRECTORIES)
    set(cps_xsimd ", \"${directory}\"")
  endif()
  set(prefix "@prefix@")
  configure_file(cmake/gradkern.cps.in "${PROJECT_BINARY_DIR}/gradkern.cps" @ONLY)
  unset(prefix)
  install(FILES "${PROJECT_BINARY_DIR}/gradkern.cps" DESTINATION "${cps_dir}")
endif()

# Not CMAKE_INSTALL_DOCDIR: inside another project that is the other one's.
install(FILES LICENSE DESTINATION "${CMAKE_INSTALL_DATAROOTDIR}/doc/gradkern")
