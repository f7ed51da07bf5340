// SPDX-License-Identifier: Apache-2.0
#include "tools/npy.h"

#include <algorithm>
#include <charconv>

#include "base/status.h"

namespace lockstep {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";

// Takes the header text, which follows magic, version and its own length; the length has 2 bytes in
// version 1 and 4 in later ones.
absl::StatusOr<std::string> take_header(std::string_view* file) {
  const size_t start = kMagic.size() + 2;
  if (file->size() < start + 4 || !file->starts_with(kMagic)) {
    return invalid_argument("must be an array written by numpy.save, found something else");
  }
  const int version = (*file)[kMagic.size()];
  if (version < 1 || version > 3) {
    return invalid_argument("must have format 1 to 3, found {}", version);
  }
  const size_t digits = version == 1 ? 2 : 4;
  size_t length = 0;
  for (size_t i = digits; i > 0; --i) {
    length = length << 8 | static_cast<unsigned char>((*file)[start + i - 1]);
  }
  file->remove_prefix(start + digits);
  constexpr size_t kLongest = 4096;
  if (length > kLongest || length > file->size()) {
    return invalid_argument("must have a header of at most {} bytes, found {}",
                            std::min(kLongest, file->size()), length);
  }
  std::string header(file->substr(0, length));
  file->remove_prefix(length);
  return header;
}

// The rest of the header after "'key': "; "" if the header has no such key.
std::string_view text_after(std::string_view header, std::string_view key) {
  const size_t at = header.find(key);
  if (at == std::string_view::npos) return "";
  header.remove_prefix(at + key.size());
  header.remove_prefix(std::min(header.find_first_not_of(" :"), header.size()));
  return header;
}

// Takes `first`, which is "(", "," or ")", and the number after it, with blanks. Returns the
// number; -1: not found.
int64_t take_number(std::string_view* text, char first) {
  if (!text->starts_with(first)) return -1;
  text->remove_prefix(1);
  text->remove_prefix(std::min(text->find_first_not_of(' '), text->size()));
  int64_t number = -1;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), number);
  constexpr int64_t kMax = 1 << 30;
  if (error != std::errc() || number < 0 || number > kMax) return -1;
  text->remove_prefix(static_cast<size_t>(end - text->data()));
  text->remove_prefix(std::min(text->find_first_not_of(' '), text->size()));
  return number;
}

}  // namespace

absl::StatusOr<NpyMatrix> parse_npy(std::string_view file) {
  ASSIGN_OR_RETURN(const std::string header, take_header(&file));
  if (!text_after(header, "'descr'").starts_with("'<f4'")) {
    return invalid_argument("must be float32 ('<f4'), found {}; save array.astype('<f4')",
                            printable(header));
  }
  if (!text_after(header, "'fortran_order'").starts_with("False")) {
    return invalid_argument(
        "must have its numbers row by row; save numpy.ascontiguousarray(array)");
  }
  std::string_view shape = text_after(header, "'shape'");
  const int64_t rows = take_number(&shape, '('), cols = take_number(&shape, ',');
  if (rows < 0 || cols < 0 || !shape.starts_with(')')) {
    return invalid_argument("must be an array of two dimensions, found {}", printable(header));
  }
  const int64_t wanted = rows * cols * int64_t{sizeof(float)};
  if (static_cast<int64_t>(file.size()) != wanted) {
    return invalid_argument("must have {} bytes after the header, for [{}, {}], found {}", wanted,
                            rows, cols, file.size());
  }
  return NpyMatrix{.rows = rows, .cols = cols, .bytes = file};
}

}  // namespace lockstep
