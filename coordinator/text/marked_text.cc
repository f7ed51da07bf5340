// SPDX-License-Identifier: Apache-2.0
// Adjacent ranges are merged, so that texts with the same bytes and marks compare equal.
#include "coordinator/text/marked_text.h"

#include <algorithm>

namespace lockstep {
namespace {

void add_range(std::vector<ByteRange>* ranges, size_t begin, size_t end) {
  if (begin == end) return;
  if (!ranges->empty() && ranges->back().end == begin) {
    ranges->back().end = end;
  } else {
    ranges->push_back({begin, end});
  }
}

// The first range that ends after `offset`.
auto first_behind(const std::vector<ByteRange>& ranges, size_t offset) {
  return std::upper_bound(ranges.begin(), ranges.end(), offset,
                          [](size_t wanted, const ByteRange& range) { return wanted < range.end; });
}

}  // namespace

MarkedText MarkedText::of(std::string_view text, bool from_request) {
  MarkedText made;
  made.append(text, from_request);
  return made;
}

void MarkedText::append(std::string_view text, bool marked) {
  if (marked) add_range(&from_request, bytes.size(), bytes.size() + text.size());
  bytes.append(text);
}

void MarkedText::append(const MarkedText& text, size_t begin, size_t end) {
  const auto& ranges = text.from_request;
  for (auto range = first_behind(ranges, begin); range != ranges.end() && range->begin < end;
       ++range) {
    add_range(&from_request, bytes.size() + std::max(range->begin, begin) - begin,
              bytes.size() + std::min(range->end, end) - begin);
  }
  bytes.append(text.bytes, begin, end - begin);
}

MarkedText MarkedText::substr(size_t begin, size_t end) const {
  MarkedText part;
  part.append(*this, begin, end);
  return part;
}

void MarkedText::truncate(size_t end) {
  bytes.resize(end);
  while (!from_request.empty() && from_request.back().begin >= end) from_request.pop_back();
  if (!from_request.empty()) from_request.back().end = std::min(from_request.back().end, end);
}

std::vector<MarkedPiece> pieces_of(const MarkedText& text, size_t begin, size_t end) {
  std::vector<MarkedPiece> pieces;
  size_t covered = begin;
  const auto& ranges = text.from_request;
  for (auto range = first_behind(ranges, begin); range != ranges.end() && range->begin < end;
       ++range) {
    const size_t first = std::max(range->begin, begin);
    const size_t last = std::min(range->end, end);
    if (covered < first) pieces.push_back({covered, first, false});
    pieces.push_back({first, last, true});
    covered = last;
  }
  if (covered < end) pieces.push_back({covered, end, false});
  return pieces;
}

}  // namespace lockstep
