// SPDX-License-Identifier: Apache-2.0
// A set of code points, as a character class of a pattern has it.
#pragma once

#include <vector>

namespace lockstep {

inline constexpr char32_t kLastCodePoint = 0x10FFFF;

// A value: copies are independent.
class CodePointSet {
 public:
  struct Range {
    char32_t first;
    char32_t last;  // In the range.
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

  // In order, with a gap between two.
  const std::vector<Range>& ranges() const { return ranges_; }

  friend bool operator==(const CodePointSet&, const CodePointSet&) = default;

 private:
  std::vector<Range> ranges_;
};

}  // namespace lockstep
