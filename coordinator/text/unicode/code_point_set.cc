// SPDX-License-Identifier: Apache-2.0
// Sorted ranges that neither overlap nor touch.
#include "coordinator/text/unicode/code_point_set.h"

#include <algorithm>

namespace lockstep {

void CodePointSet::add(Range range) {
  const auto begin = std::lower_bound(
      ranges_.begin(), ranges_.end(), range.first,
      [](const Range& a, char32_t first) { return a.last < first && a.last + 1 < first; });
  auto end = begin;
  for (; end != ranges_.end() && end->first <= range.last + 1; ++end) {
    range.first = std::min(range.first, end->first);
    range.last = std::max(range.last, end->last);
  }
  if (begin == end) {
    ranges_.insert(begin, range);
  } else {
    *begin = range;
    ranges_.erase(begin + 1, end);
  }
}

void CodePointSet::add(const CodePointSet& other) {
  for (const Range& range : std::vector<Range>(other.ranges_)) add(range);
}

CodePointSet CodePointSet::complement() const {
  CodePointSet outside;
  char32_t next = 0;
  for (const Range& range : ranges_) {
    if (range.first > next) outside.ranges_.push_back({next, range.first - 1});
    next = range.last + 1;
  }
  if (next <= kLastCodePoint) outside.ranges_.push_back({next, kLastCodePoint});
  return outside;
}

CodePointSet CodePointSet::intersection(const CodePointSet& other) const {
  CodePointSet outside = complement();
  outside.add(other.complement());
  return outside.complement();
}

bool CodePointSet::contains(char32_t code_point) const {
  const auto range =
      std::lower_bound(ranges_.begin(), ranges_.end(), code_point,
                       [](const Range& a, char32_t value) { return a.last < value; });
  return range != ranges_.end() && range->first <= code_point;
}

}  // namespace lockstep
