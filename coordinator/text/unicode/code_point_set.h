// SPDX-License-Identifier: Apache-2.0
// A set of code points, for a character class of a pattern.
#pragma once

#include <vector>

namespace lockstep {

inline constexpr char32_t kLastCodePoint = 0x10FFFF;

// A value: copies are independent.
class CodePointSet {
 public:
  struct Range {
    char32_t first;
    char32_t last;  // Included in the range.
    friend bool operator==(const Range&, const Range&) = default;
  };

  CodePointSet() = default;
  CodePointSet(std::initializer_list<Range> ranges) {
    for (const Range& range : ranges) add(range);
  }
  static CodePointSet all() { return {{0, kLastCodePoint}}; }

  void add(Range range);
  void add(const CodePointSet& other);
  CodePointSet complement() const;
  CodePointSet intersection(const CodePointSet& other) const;

  bool contains(char32_t code_point) const;

  // Sorted, with a gap between successive ranges.
  const std::vector<Range>& ranges() const { return ranges_; }

  friend bool operator==(const CodePointSet&, const CodePointSet&) = default;

 private:
  std::vector<Range> ranges_;
};

}  // namespace lockstep
