set(VCPKG_BUILD_TYPE release) # headers only
file(COPY "$ENV{XSIMD_DIRECTORY}/xsimd" DESTINATION "${CURRENT_PACKAGES_DIR}/include")
file(WRITE "${CURRENT_PACKAGES_DIR}/share/xsimd/xsimdConfig.cmake" "
add_library(xsimd INTERFACE IMPORTED)
get_filename_component(include \"\${CMAKE_CURRENT_LIST_DIR}/../../include\" ABSOLUTE)
set_target_properties(xsimd PROPERTIES INTERFACE_INCLUDE_DIRECTORIES \"\${include}\")
")
file(WRITE "${CURRENT_PACKAGES_DIR}/share/xsimd/copyright" "See the package of the system.\n")
