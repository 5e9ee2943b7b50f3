# README.md shows exactly this code.
#
#   cmake -D readme=<README.md> -D code=<file> -P readme_shows.cmake
cmake_minimum_required(VERSION 3.20)

file(READ "${readme}" text)
file(READ "${code}" wanted)
string(FIND "${text}" "```cpp\n${wanted}```" at)
if(at EQUAL -1)
  message(FATAL_ERROR "${readme} does not show ${code} as it is")
endif()
