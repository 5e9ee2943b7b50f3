# Makes an archive of the checkout's last commit and unpacks it: what a release, a wrap or a recipe would download.
cmake_minimum_required(VERSION 3.20)

file(REMOVE_RECURSE "${binary}")
file(MAKE_DIRECTORY "${binary}")
# The checkout may belong to somebody else.
set(git "${git}" -c safe.directory=*)
execute_process(COMMAND ${git} archive --worktree-attributes --format=tar.gz --prefix=gradkern/ -o "${binary}/gradkern.tar.gz" HEAD
                WORKING_DIRECTORY "${source}" COMMAND_ERROR_IS_FATAL ANY)
file(ARCHIVE_EXTRACT INPUT "${binary}/gradkern.tar.gz" DESTINATION "${binary}")

file(SIZE "${binary}/gradkern.tar.gz" packed)
file(GLOB_RECURSE files RELATIVE "${binary}/gradkern" "${binary}/gradkern/*")
set(unpacked 0)
foreach(file IN LISTS files)
  file(SIZE "${binary}/gradkern/${file}" bytes)
  math(EXPR unpacked "${unpacked} + ${bytes}")
  if(file MATCHES "^(\\.|tests|bench|docs|examples|tools)")
    message(FATAL_ERROR "in the archive, and no use to a project that uses gradkern: ${file}")
  endif()
endforeach()
list(LENGTH files count)
math(EXPR packed_kb "${packed} / 1000")
math(EXPR unpacked_kb "${unpacked} / 1000")
message("git archive: ${packed_kb} kB packed, ${unpacked_kb} kB in ${count} files")
if(packed GREATER 600000)
  message(FATAL_ERROR "the archive has grown: see .gitattributes")
endif()

# The same as a repository, for those that clone.
foreach(arguments "init;-q" "add;-A" "-c;user.name=test;-c;user.email=test@example.org;-c;commit.gpgsign=false;commit;-q;-m;Import")
  execute_process(COMMAND ${git} ${arguments} WORKING_DIRECTORY "${binary}/gradkern" COMMAND_ERROR_IS_FATAL ANY)
endforeach()
