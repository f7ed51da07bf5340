// SPDX-License-Identifier: Apache-2.0
// Answers as bytes: heads and chunks.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "coordinator/http/exchange.h"

namespace lockstep::http {

enum class BodyKind {
  kNone,      // The answer to HEAD, whatever the length is.
  kLength,    // As long as Response::body.
  kChunks,    // Piece by piece.
  kUntilEnd,  // The same to HTTP/1.0: it ends with the connection.
};

// Status line and headers. Lengths, encoding, connection and date are from here; those of
// `response` are left out, and a header that would end its line is made harmless.
void append_head(const Response& response, BodyKind kind, bool keep_alive, std::string* bytes);

// A chunk around what the caller appends: begin, append, end.
class ChunkWriter {
 public:
  explicit ChunkWriter(std::string* bytes);
  // Whether anything was appended; without, nothing is left of the chunk.
  bool end();

 private:
  std::string* const bytes_;
  const size_t begin_;
};
inline constexpr const char* kLastChunk = "0\r\n\r\n";

}  // namespace lockstep::http
