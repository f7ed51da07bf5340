// SPDX-License-Identifier: Apache-2.0
// NumPy's file format for one array (numpy.lib.format, versions 1.0 to 3.0), for matrices of
// float32.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace lockstep {

struct NpyMatrix {
  int64_t rows = 0;
  int64_t cols = 0;
  std::string_view bytes;  // float32, little endian, row by row: a part of the file.
};

// Parses a file. kInvalidArgument names the expected and the found value.
absl::StatusOr<NpyMatrix> parse_npy(std::string_view file);

}  // namespace lockstep
