# Checks that documents show code exactly as it is compiled.
#
#   cmake -D "documents=<file.md>;..." -D code=<file> -P shows_code.cmake
#
# If the code has regions, each from a line `// [name]` to a line `// [/name]`, the documents must show every region in a
# separate block, without the indentation of the first line. Otherwise one of them must show the whole file.
cmake_minimum_required(VERSION 3.20)

foreach(document IN LISTS documents)
  file(READ "${document}" words)
  string(APPEND text "${words}")
endforeach()
file(READ "${code}" wanted)

function(require_shown what block)
  string(FIND "${text}" "```cpp\n${block}```" at)
  if(at EQUAL -1)
    message(FATAL_ERROR "${documents} does not show ${what} as it is")
  endif()
endfunction()

string(REGEX MATCHALL "// \\[[a-z0-9_]+\\]" names "${wanted}")
if(NOT names)
  require_shown("${code}" "${wanted}")
endif()
foreach(begin IN LISTS names)
  string(REPLACE "// [" "// [/" end "${begin}")
  string(FIND "${wanted}" "${begin}\n" from)
  string(FIND "${wanted}" "${end}\n" to)
  if(from EQUAL -1 OR to LESS from)
    message(FATAL_ERROR "${code}: ${begin} has no end, ${end}")
  endif()
  string(SUBSTRING "${wanted}" 0 ${to} block)
  string(REGEX REPLACE "[ ]+$" "" block "${block}")
  string(LENGTH "${begin}\n" length)
  math(EXPR from "${from} + ${length}")
  string(SUBSTRING "${block}" ${from} -1 block)
  string(REGEX MATCH "^[ ]+" indentation "${block}")
  if(indentation)
    string(REPLACE "\n${indentation}" "\n" block "\n${block}")
    string(SUBSTRING "${block}" 1 -1 block)
  endif()
  require_shown("${begin} of ${code}" "${block}")
endforeach()
