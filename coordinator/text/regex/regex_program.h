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

// Maps code points to classes: code points of one class are in the same sets.
class RegexAlphabet {
 public:
  RegexAlphabet() = default;
  explicit RegexAlphabet(const std::vector<CodePointSet>& sets);

  // The number of classes, including `edge`, which stands for the text's ends and has no code
  // point. If there are more than kMaxClasses, they are counted, but no code point is mapped.
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
    kSet,     // Takes a character of `set`.
    kPeek,    // Checks that the next character is in `set`; takes nothing.
    kSplit,   // Tries `next`, then `other`.
    kRun,     // Takes characters of `set`: all, then fewer; if lazy: none, then more.
    kTake,    // Takes all characters of `set`, without backtracking.
    kLook,    // Checks whether `body` matches from here.
    kAtomic,  // Takes only the first match of `body`; if it is empty, `other` is next.
    kAccept,
  };
  struct Instruction {
    Op op = Op::kAccept;
    bool backward = false;  // kSet, kPeek, kSplit: reads the text before, not after.
    bool negated = false;   // kPeek, kLook.
    bool lazy = false;      // kRun.
    uint32_t set = 0;       // The offset of the set's row in `members`.
    uint32_t next = 0;
    uint32_t other = 0;
    uint32_t body = 0;
    uint32_t choice = 0;  // kSplit, kRun: its number; kTake: its number among all kTake.
    uint32_t viable = 0;  // kSplit: the offset of its row in `viable`.
  };

  // kUnimplemented: the pattern is too large, or cannot be expressed in instructions.
  static absl::StatusOr<RegexProgram> compile(const RegexNode& pattern);

  RegexAlphabet alphabet;
  std::vector<Instruction> code;
  uint32_t start = 0;
  uint32_t choices = 0;  // The number of kSplit and kRun.
  uint32_t takes = 0;
  std::vector<uint8_t> members;  // [set][class]
  std::vector<uint8_t> viable;   // [kSplit][class]: whether `next` (bit 0), `other` (1) may match.
  std::vector<uint8_t> starts;   // [class]: whether a match may begin with it.
};

}  // namespace lockstep
