# `conan create` without a network: with the system's xsimd, then with one that is a package.
cmake_minimum_required(VERSION 3.20)

file(REMOVE_RECURSE "${binary}")
set(ENV{CONAN_HOME} "${binary}/home")
set(ENV{XSIMD_DIRECTORY} "${xsimd}")
set(ENV{CXX} "${compiler}")
unset(ENV{DESTDIR})
get_filename_component(directory "${CMAKE_COMMAND}" DIRECTORY)
set(ENV{PATH} "${directory}:$ENV{PATH}")

function(run_conan)
  execute_process(COMMAND "${conan}" ${ARGN} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

run_conan(profile detect)
set(create create "${archive}/packaging/conan" --no-remote -s compiler.cppstd=20)
run_conan(${create} -o "gradkern/*:system_xsimd=True")
run_conan(create "${CMAKE_CURRENT_LIST_DIR}/xsimd.py" --no-remote --version "${xsimd_version}")
run_conan(${create})
