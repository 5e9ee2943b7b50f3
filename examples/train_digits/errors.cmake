# Checks that each mistake of a user gives one clear line and exit status 2.
#
#   cmake -D program=<train_digits> -D data=<digits.csv.gz> -D scratch=<directory> -P errors.cmake
cmake_minimum_required(VERSION 3.20)

file(REMOVE_RECURSE "${scratch}")
file(MAKE_DIRECTORY "${scratch}")

function(expect_error text)
  set(output_option --output "${scratch}/out")
  if("--output" IN_LIST ARGN)
    set(output_option "")
  endif()
  execute_process(
    COMMAND "${program}" ${output_option} ${ARGN}
    OUTPUT_VARIABLE output
    ERROR_VARIABLE error
    RESULT_VARIABLE status)
  if(NOT status EQUAL 2 OR NOT error MATCHES "${text}")
    message(FATAL_ERROR "${ARGN}: expected status 2 and '${text}', got status ${status} and\n${error}${output}")
  endif()
endfunction()

# A gzip file of this name with this text.
function(write_gzip name text)
  file(WRITE "${scratch}/text.csv" "${text}")
  file(ARCHIVE_CREATE OUTPUT "${scratch}/${name}" PATHS "${scratch}/text.csv" FORMAT raw COMPRESSION GZip)
endfunction()

expect_error("absent.csv.gz: no such file" --data "${scratch}/absent.csv.gz")
expect_error("not a regular file" --data "${scratch}")

file(WRITE "${scratch}/plain.csv.gz" "0,1,2\n")
expect_error("plain.csv.gz: not a gzip file" --data "${scratch}/plain.csv.gz")

file(WRITE "${scratch}/empty.csv.gz" "")
expect_error("empty.csv.gz: not a gzip file" --data "${scratch}/empty.csv.gz")

execute_process(COMMAND head -c 30000 "${data}" OUTPUT_FILE "${scratch}/cut.csv.gz")
expect_error("cut.csv.gz: damaged gzip file" --data "${scratch}/cut.csv.gz")

string(REPEAT "7," 64 pixels)
write_gzip(one.csv.gz "${pixels}3\n")
expect_error("one.csv.gz: 1 images instead of 1797" --data "${scratch}/one.csv.gz")
write_gzip(narrow.csv.gz "${pixels}3\n1,2,3\n")
expect_error("narrow.csv.gz, line 2: 3 columns instead of 65" --data "${scratch}/narrow.csv.gz")
write_gzip(wide.csv.gz "${pixels}3,4\n")
expect_error("wide.csv.gz, line 1: 66 columns instead of 65" --data "${scratch}/wide.csv.gz")
write_gzip(word.csv.gz "${pixels}three\n")
expect_error("word.csv.gz, line 1: column 65 is not an integer" --data "${scratch}/word.csv.gz")
write_gzip(label.csv.gz "${pixels}10\n")
expect_error("line 1: column 65 holds 10, outside 0..9" --data "${scratch}/label.csv.gz")

expect_error("--epochs" --epochs 0)
expect_error("--epochs" --epochs many)
expect_error("--threads" --threads -1)
expect_error("--dtype" --dtype f8)
expect_error("--batch" --batch 1501)
expect_error("--learning-rate" --learning-rate -1)
expect_error("--noise: not a number" --noise nan)
expect_error("--noise" --noise 11)
expect_error("--colour" --colour)

# A directory cannot be made below a file.
expect_error("cannot be made" --output "${scratch}/plain.csv.gz/below")
file(MAKE_DIRECTORY "${scratch}/taken/digits.png")
expect_error("digits.png: cannot be written" --output "${scratch}/taken")
