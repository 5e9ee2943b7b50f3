# Warns once where whatever compiles gradkern's kernels is not optimised because nobody chose a build type.
#
# GRADKERN_WARN_UNOPTIMIZED=OFF silences it, for options that are set on targets, where nothing here sees them.

# Whether the directory at hand, or the generator, decides how much the compiler optimises.
function(gradkern_optimization_is_chosen out_chosen)
  get_property(is_multi_config GLOBAL PROPERTY GENERATOR_IS_MULTI_CONFIG)
  get_property(options DIRECTORY PROPERTY COMPILE_OPTIONS)
  if(is_multi_config OR CMAKE_BUILD_TYPE OR " ${CMAKE_CXX_FLAGS};${options}" MATCHES "[ ;:](-O|/O[12dx])")
    set(${out_chosen} TRUE PARENT_SCOPE)
  else()
    set(${out_chosen} FALSE PARENT_SCOPE)
  endif()
endfunction()

function(gradkern_warn_unoptimized)
  gradkern_optimization_is_chosen(chosen)
  if(chosen OR DEFINED GRADKERN_WARN_UNOPTIMIZED AND NOT GRADKERN_WARN_UNOPTIMIZED)
    return()
  endif()
  message(WARNING "gradkern: CMAKE_BUILD_TYPE is empty, so the compiler does not optimise, and gradkern's kernels take "
                  "hundreds of times as long. Configure with -DCMAKE_BUILD_TYPE=Release. "
                  "(GRADKERN_WARN_UNOPTIMIZED=OFF silences this warning.)")
endfunction()

# Called where gradkern is found or added. The whole project may still choose a build type below that line, so its end is
# where this looks again and warns.
function(gradkern_check_build_type)
  get_property(is_checked GLOBAL PROPERTY GRADKERN_BUILD_TYPE_IS_CHECKED)
  gradkern_optimization_is_chosen(chosen)
  if(NOT chosen AND NOT is_checked)
    set_property(GLOBAL PROPERTY GRADKERN_BUILD_TYPE_IS_CHECKED TRUE)
    cmake_language(DEFER DIRECTORY "${CMAKE_SOURCE_DIR}" CALL gradkern_warn_unoptimized)
  endif()
endfunction()
