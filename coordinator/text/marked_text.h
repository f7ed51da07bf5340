// SPDX-License-Identifier: Apache-2.0
// A text that records which of its bytes came from a request: special tokens in these bytes stay
// text, while those of a chat template become tokens.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

// Bytes [begin, end) of a text.
struct ByteRange {
  size_t begin;
  size_t end;
  bool operator==(const ByteRange&) const = default;
};

struct MarkedText {
  std::string bytes;
  std::vector<ByteRange> from_request;  // Ascending; no two touch; none is empty.

  static MarkedText of(std::string_view text, bool from_request);

  void append(std::string_view text, bool from_request);
  void append(const MarkedText& text) { append(text, 0, text.bytes.size()); }
  // Appends bytes [begin, end) of another text.
  void append(const MarkedText& text, size_t begin, size_t end);

  MarkedText substr(size_t begin, size_t end) const;

  // Removes all bytes from `end` on.
  void truncate(size_t end);

  bool operator==(const MarkedText&) const = default;
};

// Returns, for ascending offsets of a text, whether the byte came from the request. The text must
// outlive the cursor.
class MarkCursor {
 public:
  explicit MarkCursor(const MarkedText& text) : ranges_(text.from_request) {}
  bool at(size_t offset) {
    while (next_ < ranges_.size() && ranges_[next_].end <= offset) ++next_;
    return next_ < ranges_.size() && ranges_[next_].begin <= offset;
  }

 private:
  const std::vector<ByteRange>& ranges_;
  size_t next_ = 0;
};

// Bytes [begin, end) of a text: all of them came from the request, or none.
struct MarkedPiece {
  size_t begin;
  size_t end;
  bool from_request;
};
// Splits [begin, end) into the longest such pieces, in order.
std::vector<MarkedPiece> pieces_of(const MarkedText& text, size_t begin, size_t end);

}  // namespace lockstep
