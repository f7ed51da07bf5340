// SPDX-License-Identifier: Apache-2.0
#include "tools/npy.h"

#include <algorithm>
#include <regex>

#include "base/status.h"

namespace lockstep {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";

// Takes the text that says what the array is: behind magic, version and its own length, which has
// 2 bytes in version 1 and 4 in later ones.
absl::StatusOr<std::string> take_header(std::string_view* file) {
  const size_t start = kMagic.size() + 2;
  if (file->size() < start + 4 || !file->starts_with(kMagic)) {
    return invalid_argument("wanted an array that numpy.save wrote, found something else");
  }
  const int version = (*file)[kMagic.size()];
  if (version < 1 || version > 3) {
    return invalid_argument("wanted format 1 to 3, found {}", version);
  }
  const size_t digits = version == 1 ? 2 : 4;
  size_t length = 0;
  for (size_t i = digits; i > 0; --i) {
    length = length << 8 | static_cast<unsigned char>((*file)[start + i - 1]);
  }
  file->remove_prefix(start + digits);
  constexpr size_t kLongest = 4096;
  if (length > kLongest || length > file->size()) {
    return invalid_argument("wanted a header of at most {} bytes, found {}",
                            std::min(kLongest, file->size()), length);
  }
  std::string header(file->substr(0, length));
  file->remove_prefix(length);
  return header;
}

}  // namespace

absl::StatusOr<NpyMatrix> parse_npy(std::string_view file) {
  ASSIGN_OR_RETURN(const std::string header, take_header(&file));
  if (!std::regex_search(header, std::regex("'descr': *'<f4'"))) {
    return invalid_argument("wanted float32 ('<f4'), found {}: save array.astype('<f4')",
                            printable(header));
  }
  if (!std::regex_search(header, std::regex("'fortran_order': *False"))) {
    return invalid_argument("wanted its numbers row by row: save numpy.ascontiguousarray(array)");
  }
  std::smatch shape;
  const std::regex two(R"('shape': *\( *([0-9]{1,9}) *, *([0-9]{1,9}) *\))");
  if (!std::regex_search(header, shape, two)) {
    return invalid_argument("wanted an array of two dimensions, found {}", printable(header));
  }
  const NpyMatrix matrix = {
      .rows = std::stoll(shape[1]), .cols = std::stoll(shape[2]), .bytes = file};
  const int64_t wanted = matrix.rows * matrix.cols * int64_t{sizeof(float)};
  if (static_cast<int64_t>(file.size()) == wanted) return matrix;
  return invalid_argument("wanted {} bytes behind the header, as for [{}, {}], found {}", wanted,
                          matrix.rows, matrix.cols, file.size());
}

}  // namespace lockstep
