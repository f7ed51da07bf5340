// SPDX-License-Identifier: Apache-2.0
// Finds the matches of a program in a text, in time that is linear in the text: it goes back as
// Perl's engines do until that costs many steps per character, and from then on remembers what has
// failed at which place, so that nothing is tried twice. (Davis, Servant, Lee: Using selective
// memoization to defeat regular expression denial of service, 2021; for looks and atomic groups
// Fujinami and Hasuo: Efficient matching with memoization for regexes with look-around and atomic
// grouping, 2024.)
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "coordinator/text/regex/regex_program.h"

namespace lockstep {

// For one text and one thread. Places count characters.
class RegexMatcher {
 public:
  static constexpr size_t kFreeSteps = 32;

  // `text` must be well-formed UTF-8; neither it nor the program is kept alive. `free_steps`: so
  // many per character are taken before anything is remembered, which is faster where few fail.
  RegexMatcher(const RegexProgram& program, std::string_view text, size_t free_steps = kFreeSteps);

  size_t size() const { return size_; }

  // The first match that begins at `from` or later; false where there is none.
  bool search(size_t from, std::pair<size_t, size_t>* match);

  // The work done so far: instructions, and characters that runs went over.
  size_t steps() const { return steps_; }

 private:
  using Instruction = RegexProgram::Instruction;

  // A choice that is not exhausted. Plain: the rest of it is tried at `at` (a run: one character
  // less each time, down to `low`). Remembered: it stays until it is known to fail.
  struct Frame {
    enum class Kind : uint8_t { kPlain, kShorterRun, kLongerRun, kRemembered };
    Kind kind;
    bool second;  // kRemembered: the second of its two ways is on trial.
    uint32_t pc;
    size_t at;
    size_t low;
  };
  enum Memory : uint8_t { kUnknown = 0, kFails = 1, kMatches = 2 };

  // Whether the instructions from `pc` match from `at`; where the match ends. `is_part`: of a look
  // or an atomic group.
  bool run(uint32_t pc, size_t at, bool is_part, size_t* end);
  // One instruction, which may move pc and at; false where it does not match.
  bool step(uint32_t* pc, size_t* at);
  bool step_run(const Instruction& run, uint32_t* pc, size_t* at);
  bool choose(const Instruction& choice, uint32_t* pc, size_t* at);
  bool try_way(const Instruction& choice, bool second, uint32_t* pc, size_t* at) const;
  // Goes back to the last choice above `base` that is not exhausted; false where there is none.
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
  std::vector<uint16_t> classes_;  // The edge before and behind.
  std::vector<Frame> frames_;
  size_t steps_ = 0;
  size_t free_steps_;
  bool remembers_ = false;
  std::vector<std::unique_ptr<uint8_t[]>> pages_;      // The memories, four per byte.
  std::unordered_map<uint64_t, size_t> part_ends_;     // By key(): where a part that matches ends.
  std::vector<std::pair<size_t, size_t>> take_spans_;  // The last span of each kTake.
};

}  // namespace lockstep
