// SPDX-License-Identifier: Apache-2.0
// A matrix as bytes: rows that are apart in memory, read and written as if they were contiguous.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace lockstep {

// A row-major rectangle.
struct Rows {
  std::byte* data = nullptr;
  int64_t row_bytes = 0;
  int64_t stride_bytes = 0;
};

// A part of a rectangle's packed bytes: [begin, begin + bytes).
struct RowBytes {
  Rows rows;
  int64_t begin = 0;
  int64_t bytes = 0;
};

// Calls body(place in memory, place in the piece's packed bytes, length) for each run of bytes that
// is contiguous in memory.
template <typename Body>
void for_each_run(const RowBytes& piece, const Body& body) {
  const auto [rows, begin, bytes] = piece;
  if (bytes == 0) return;
  if (rows.row_bytes == rows.stride_bytes) {
    body(rows.data + begin, int64_t{0}, bytes);
    return;
  }
  int64_t row = begin / rows.row_bytes;
  int64_t offset = begin - row * rows.row_bytes;
  for (int64_t done = 0; done < bytes; ++row, offset = 0) {
    const int64_t run = std::min(rows.row_bytes - offset, bytes - done);
    body(rows.data + row * rows.stride_bytes + offset, done, run);
    done += run;
  }
}

inline void pack(const RowBytes& piece, std::byte* packed) {
  for_each_run(piece, [&](const std::byte* from, int64_t to, int64_t run) {
    std::memcpy(packed + to, from, static_cast<size_t>(run));
  });
}

inline void unpack(const std::byte* packed, const RowBytes& piece) {
  for_each_run(piece, [&](std::byte* to, int64_t from, int64_t run) {
    std::memcpy(to, packed + from, static_cast<size_t>(run));
  });
}

}  // namespace lockstep
