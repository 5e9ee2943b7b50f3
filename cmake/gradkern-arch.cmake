# gradkern_target_arch(<target> <arch>)
#
# Compiles the target's sources for an instruction set: native (the machine at hand), or what the compiler's -march=
# takes, such as haswell, x86-64-v3, x86-64-v4. gradkern's kernels use what the translation unit is compiled for; a plain
# x86-64 build is SSE2. An empty <arch> changes nothing.
function(gradkern_target_arch target arch)
  if("${arch}" STREQUAL "")
    return()
  endif()
  set(flag "-march=${arch}")
  if("${arch}" STREQUAL "native" AND CMAKE_SYSTEM_PROCESSOR MATCHES "^(aarch64|arm64|ARM64|arm)")
    set(flag "-mcpu=native")
  endif()

  include(CheckCXXCompilerFlag)
  string(MAKE_C_IDENTIFIER "GRADKERN_COMPILER_HAS${flag}" variable)
  set(CMAKE_REQUIRED_QUIET ON)
  check_cxx_compiler_flag("${flag}" ${variable})
  if(NOT ${variable})
    message(FATAL_ERROR "gradkern_target_arch(${target} ${arch}): ${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION} "
                        "does not accept ${flag}")
  endif()

  get_target_property(type ${target} TYPE)
  if(type STREQUAL "INTERFACE_LIBRARY")
    target_compile_options(${target} INTERFACE $<$<COMPILE_LANGUAGE:CXX>:${flag}>)
  else()
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:${flag}>)
  endif()
endfunction()
