# gradkern::gradkern for a client: an installed package, or the checkout that this folder is in.
find_package(gradkern QUIET)
if(NOT TARGET gradkern::gradkern)
  add_subdirectory("${CMAKE_CURRENT_LIST_DIR}/../.." gradkern EXCLUDE_FROM_ALL)
endif()
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()
set(GRADKERN_CLIENT_ARCH native CACHE STRING "-march= of the adapter: native, x86-64-v3, x86-64-v4, ...")
