// SPDX-License-Identifier: Apache-2.0
// A pattern as instructions for the matcher. Code points are mapped to the few classes that the
// pattern distinguishes.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "coordinator/text/regex/regex_node.h"

namespace lockstep {

// Maps code points to classes: two of the same class are in the same sets.
class RegexAlphabet {
 public:
  RegexAlphabet() = default;
  explicit RegexAlphabet(const std::vector<CodePointSet>& sets);

  // The classes, and one more, `edge`, of which no code point is: what is beyond the text's ends.
  // More than kMaxClasses are counted, but not mapped.
  static constexpr size_t kMaxClasses = 1 << 16;
  size_t class_count() const { return edge_ + 1; }
  uint16_t edge() const { return static_cast<uint16_t>(edge_); }

  uint16_t class_of(char32_t code_point) const {
    return blocks_[block_of_[code_point >> kBlockBits] + (code_point & (kBlock - 1))];
  }

  // A code point of the class, which must not be the edge.
  char32_t member(size_t class_index) const { return members_[class_index]; }

 private:
  static constexpr int kBlockBits = 8;
  static constexpr char32_t kBlock = 1 << kBlockBits;

  size_t edge_ = 0;
  std::vector<uint32_t> block_of_;  // The offset of each block in blocks_.
  std::vector<uint16_t> blocks_;
  std::vector<char32_t> members_;
};

// Immutable once compiled, for any thread.
struct RegexProgram {
  enum class Op : uint8_t {
    kSet,    // Takes a character of `set`.
    kPeek,   // Whether the next character is of `set`; takes nothing.
    kSplit,  // Tries `next`, then `other`.
    kRun,    // Takes characters of `set`, all or, where lazy, none at first; then the other counts.
    kTake,   // Takes all characters of `set`, for good.
    kLook,   // Whether `body` matches from here.
    kAtomic,  // Takes the first match of `body`, for good; `other` where that takes nothing.
    kAccept,
  };
  struct Instruction {
    Op op = Op::kAccept;
    bool backward = false;  // kSet, kPeek, kSplit: of the text before, not behind.
    bool negated = false;   // kPeek, kLook.
    bool lazy = false;      // kRun.
    uint32_t set = 0;       // Where the set's row begins in `members`.
    uint32_t next = 0;
    uint32_t other = 0;
    uint32_t body = 0;
    uint32_t choice = 0;  // kSplit, kRun: its number; kTake: its number among those.
    uint32_t viable = 0;  // kSplit: where its row begins in `viable`.
  };

  // Unimplemented: the pattern is too large, or needs what instructions cannot say.
  static absl::StatusOr<RegexProgram> compile(const RegexNode& pattern);

  RegexAlphabet alphabet;
  std::vector<Instruction> code;
  uint32_t start = 0;
  uint32_t choices = 0;  // kSplit and kRun.
  uint32_t takes = 0;
  std::vector<uint8_t> members;  // [set][class]
  std::vector<uint8_t> viable;   // [kSplit][class]: bit 0, `next` may match before it; 1, `other`.
  std::vector<uint8_t> starts;   // [class]: a match may begin before it.
};

}  // namespace lockstep
