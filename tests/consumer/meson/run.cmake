# A Meson project that uses gradkern as a subproject, by the wrap of packaging/, then as the package that Meson itself installs.
cmake_minimum_required(VERSION 3.20)

file(REMOVE_RECURSE "${binary}")
unset(ENV{DESTDIR})
set(ENV{CXX} "${compiler}")
set(ENV{CXXFLAGS} "${flags}")

function(run_consumer kind)
  file(COPY "${CMAKE_CURRENT_LIST_DIR}/" DESTINATION "${binary}/${kind}")
  file(COPY "${CMAKE_CURRENT_LIST_DIR}/../find_package/main.cpp" DESTINATION "${binary}/${kind}")
  if(kind STREQUAL "internal")
    file(READ "${archive}/packaging/meson/gradkern.wrap" wrap)
    file(SHA256 "${archive}.tar.gz" checksum)
    string(REPLACE "ARCHIVE" "file://${archive}.tar.gz" wrap "${wrap}")
    string(REPLACE "CHECKSUM" "${checksum}" wrap "${wrap}")
    file(WRITE "${binary}/${kind}/subprojects/gradkern.wrap" "${wrap}")
  endif()
  execute_process(COMMAND "${meson}" setup "-Dexpected_kind=${kind}" build WORKING_DIRECTORY "${binary}/${kind}"
                  COMMAND_ERROR_IS_FATAL ANY)
  execute_process(COMMAND "${meson}" test --print-errorlogs -C build WORKING_DIRECTORY "${binary}/${kind}"
                  COMMAND_ERROR_IS_FATAL ANY)
endfunction()

run_consumer(internal)

execute_process(COMMAND "${meson}" setup "--prefix=${binary}/prefix" "${binary}/build" "${archive}" COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND "${meson}" install -C "${binary}/build" OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
set(ENV{PKG_CONFIG_PATH} "${binary}/prefix/share/pkgconfig:$ENV{PKG_CONFIG_PATH}")
run_consumer(pkgconfig)
