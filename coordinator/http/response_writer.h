// SPDX-License-Identifier: Apache-2.0
// Writes answers as bytes: heads and chunks.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "coordinator/http/exchange.h"

namespace lockstep::http {

enum class BodyKind {
  kNone,      // The answer to HEAD has no body.
  kLength,    // The length is that of Response::body.
  kChunks,    // Chunked: piece by piece.
  kUntilEnd,  // Piece by piece for HTTP/1.0: the end of the connection ends the body.
};

// Writes the status line and headers. Content-Length, Transfer-Encoding, Connection and Date are
// set here, and ignored in `response`. Line ends in a header's value become blanks.
void append_head(const Response& response, BodyKind kind, bool keep_alive, std::string* bytes);

// Makes a chunk of the bytes that the caller appends between the constructor and end().
class ChunkWriter {
 public:
  explicit ChunkWriter(std::string* bytes);
  // Returns whether any bytes were appended; if not, the chunk is removed.
  bool end();

 private:
  std::string* const bytes_;
  const size_t begin_;
};
inline constexpr const char* kLastChunk = "0\r\n\r\n";

}  // namespace lockstep::http
