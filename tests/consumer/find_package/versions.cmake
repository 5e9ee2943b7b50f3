# Which versions and ranges the package answers to. A range may cross minor and major versions.
string(REGEX REPLACE "^([0-9]+)\\.([0-9]+).*" "\\1;\\2" parts "${expected_version}")
list(GET parts 0 major)
list(GET parts 1 minor)
math(EXPR next_major "${major} + 1")
math(EXPR next_minor "${minor} + 1")

function(expect_found expected)
  foreach(version IN LISTS ARGN)
    find_package(gradkern ${version} QUIET)
    if((expected AND NOT gradkern_FOUND) OR (NOT expected AND gradkern_FOUND))
      message(FATAL_ERROR "gradkern ${expected_version}, asked for ${version}: found is ${gradkern_FOUND}")
    endif()
  endforeach()
endfunction()

set(here "${major}.${minor}")
expect_found(TRUE ${here} ${expected_version} ${here}...<${major}.${next_minor} ${here}...${next_major} 0.0...<${next_major}
             ${expected_version}...${expected_version})
expect_found(FALSE ${major}.${next_minor} ${here}.999 ${next_major} 0.0 0.0...<${expected_version}
             ${major}.${next_minor}...<${next_major} ${next_major}...${next_major}.9)
