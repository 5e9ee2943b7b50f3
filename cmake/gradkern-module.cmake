# gradkern_add_module(<target>)
#
# Adds a library of the C++20 module `gradkern`, for targets that `import gradkern;`. What a compiler makes of a module fits only files
# with the same options, above all the same instruction set: give the library those of the targets that link it, for example by
# gradkern_target_arch. Needs CMake 3.28, a generator that knows modules (Ninja 1.11) and clang 19 or
# newer, or clang 16 with CMAKE_CXX_EXTENSIONS off.
function(gradkern_add_module target)
  if(CMAKE_VERSION VERSION_LESS 3.28)
    message(FATAL_ERROR "gradkern_add_module(${target}): modules need CMake 3.28 or newer, this is ${CMAKE_VERSION}")
  endif()
  add_library(${target} STATIC)
  set(directory "${CMAKE_CURRENT_FUNCTION_LIST_DIR}")
  target_sources(${target} PUBLIC FILE_SET CXX_MODULES BASE_DIRS "${directory}" FILES "${directory}/gradkern.cppm")
  target_link_libraries(${target} PUBLIC gradkern::gradkern)
endfunction()
