// SPDX-License-Identifier: Apache-2.0
// Finds the matches of a program in a text, in time linear in the text. It backtracks like Perl's
// engines. Once this has cost many steps per character, it also remembers what failed at each
// place, so that nothing is tried twice. A look is a lookahead or a lookbehind. The sources are:
// Davis, Servant, Lee: Using selective memoization to defeat regular expression denial of service,
// 2021; Fujinami and Hasuo: Efficient matching with memoization for regexes with look-around and
// atomic grouping, 2024.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "coordinator/text/regex/regex_program.h"

namespace lockstep {

// For one text and one thread. Places are offsets in characters.
class RegexMatcher {
 public:
  static constexpr size_t kFreeSteps = 32;

  // `text` must be well-formed UTF-8. It and the program must outlive the matcher. `free_steps`:
  // the number of steps per character without remembering, which is faster if few attempts fail.
  RegexMatcher(const RegexProgram& program, std::string_view text, size_t free_steps = kFreeSteps);

  size_t size() const { return size_; }

  // The first match that begins at `from` or later; false if there is none.
  bool search(size_t from, std::pair<size_t, size_t>* match);

  // The work done so far: instructions, and characters in runs.
  size_t steps() const { return steps_; }

 private:
  using Instruction = RegexProgram::Instruction;

  // A choice (kSplit, kRun) with a way that was not tried yet. kPlain: that way continues with `pc`
  // at `at`. kShorterRun: each try ends the run one character earlier, down to `low`. kLongerRun:
  // each try ends it one character later. kRemembered: the choice is the instruction `pc` at `at`;
  // the frame stays until both ways are known to fail.
  struct Frame {
    enum class Kind : uint8_t { kPlain, kShorterRun, kLongerRun, kRemembered };
    Kind kind;
    bool second;  // kRemembered: its second way is being tried.
    uint32_t pc;
    size_t at;
    size_t low;
  };
  enum Memory : uint8_t { kUnknown = 0, kFails = 1, kMatches = 2 };

  // Whether the instructions from `pc` on match from `at`; sets `end` to the match's end.
  // `is_part`: they belong to a look or an atomic group.
  bool run(uint32_t pc, size_t at, bool is_part, size_t* end);
  // Executes one instruction, which may move pc and at; false if it does not match.
  bool step(uint32_t* pc, size_t* at);
  bool step_run(const Instruction& run, uint32_t* pc, size_t* at);
  bool choose(const Instruction& choice, uint32_t* pc, size_t* at);
  bool try_way(const Instruction& choice, bool second, uint32_t* pc, size_t* at) const;
  // Goes back to the last choice above `base` that is not exhausted; false if there is none.
  bool go_back(size_t base, uint32_t* pc, size_t* at);
  size_t end_of_take(const Instruction& take, size_t at);

  uint16_t class_at(size_t at, bool backward) const { return classes_[at + (backward ? 0 : 1)]; }
  bool is_in(const Instruction& instruction, size_t at) const {
    return program_.members[instruction.set + class_at(at, instruction.backward)] != 0;
  }

  Memory recall(uint32_t choice, size_t at) const;
  void remember(uint32_t choice, size_t at, Memory memory);
  uint64_t key(uint32_t choice, size_t at) const { return at * program_.choices + choice; }

  const RegexProgram& program_;
  size_t size_ = 0;
  std::vector<uint16_t> classes_;  // The characters' classes; an edge before, one after.
  std::vector<Frame> frames_;
  size_t steps_ = 0;
  size_t free_steps_;
  bool remembers_ = false;
  std::vector<std::unique_ptr<uint8_t[]>> pages_;      // The Memory values, four per byte.
  std::unordered_map<uint64_t, size_t> part_ends_;     // By key(): the end of a part that matches.
  std::vector<std::pair<size_t, size_t>> take_spans_;  // The last span of each kTake.
};

}  // namespace lockstep
