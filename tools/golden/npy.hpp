// .npy files, the arrays of NumPy.
#pragma once

#include <filesystem>
#include <string>

#include "tensor.hpp"

namespace golden {

/// Reads a file of one of the types of `elements`, little-endian, in C or Fortran order. A failure names the file and says
/// what is wrong with it: missing, a directory, no such array (with its header), cut off, too long, another type.
///
/// `expected` is the type that the tensor must have. Indices, i64, may be int32 in the file.
[[nodiscard]] tensor read_npy(const std::filesystem::path& file, element expected);

/// Writes a tensor, and its directory where that is missing. A file that could not be written whole is a failure.
void write_npy(const std::filesystem::path& file, const tensor& t);

/// All bytes of a file.
[[nodiscard]] std::string read_file(const std::filesystem::path& file);

}  // namespace golden
