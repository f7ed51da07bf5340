// SPDX-License-Identifier: Apache-2.0
// The search is depth first with its own stack. Only looks and atomic groups, which nest as deeply
// as the pattern does, call it recursively.
#include "coordinator/text/regex/regex_matcher.h"

#include "coordinator/text/unicode/unicode.h"

namespace lockstep {
namespace {

using Op = RegexProgram::Op;

constexpr size_t kPageBytes = 16 << 10;

}  // namespace

RegexMatcher::RegexMatcher(const RegexProgram& program, std::string_view text, size_t free_steps)
    : program_(program) {
  classes_.reserve(text.size() + 2);
  classes_.push_back(program.alphabet.edge());
  for (size_t offset = 0; offset < text.size(); ++size_) {
    const CodePoint point = code_point_at(text, offset);
    classes_.push_back(program.alphabet.class_of(point.value));
    offset += point.bytes;
  }
  classes_.push_back(program.alphabet.edge());
  free_steps_ = free_steps * (size_ + kFreeSteps);
  take_spans_.resize(program.takes, {1, 0});
}

bool RegexMatcher::search(size_t from, std::pair<size_t, size_t>* match) {
  for (size_t begin = from; begin <= size_; ++begin) {
    if (program_.starts[class_at(begin, false)] == 0) continue;
    size_t end = 0;
    if (!run(program_.start, begin, false, &end)) continue;
    *match = {begin, end};
    return true;
  }
  return false;
}

bool RegexMatcher::run(uint32_t pc, size_t at, bool is_part, size_t* end) {
  const size_t base = frames_.size();
  for (;;) {
    const Instruction& next = program_.code[pc];
    bool accepted = next.op == Op::kAccept;
    size_t part_end = at;
    if (is_part && remembers_ && (next.op == Op::kSplit || next.op == Op::kRun) &&
        recall(next.choice, at) == kMatches) {
      accepted = true;
      part_end = part_ends_[key(next.choice, at)];
    }
    if (accepted) {
      for (size_t i = base; is_part && i < frames_.size(); ++i) {
        if (frames_[i].kind != Frame::Kind::kRemembered) continue;
        const uint32_t choice = program_.code[frames_[i].pc].choice;
        remember(choice, frames_[i].at, kMatches);
        part_ends_[key(choice, frames_[i].at)] = part_end;
      }
      frames_.resize(base);
      *end = part_end;
      return true;
    }
    if (!step(&pc, &at) && !go_back(base, &pc, &at)) return false;
  }
}

bool RegexMatcher::step(uint32_t* pc, size_t* at) {
  const Instruction& now = program_.code[*pc];
  if (++steps_ > free_steps_) remembers_ = true;
  switch (now.op) {
    case Op::kSet:
      if (!is_in(now, *at)) return false;
      *at = now.backward ? *at - 1 : *at + 1;
      *pc = now.next;
      return true;
    case Op::kPeek:
      *pc = now.next;
      return is_in(now, *at) != now.negated;
    case Op::kSplit:
      if (remembers_) return choose(now, pc, at);
      switch (program_.viable[now.viable + class_at(*at, now.backward)]) {
        case 0:
          return false;
        case 1:
          *pc = now.next;
          return true;
        case 2:
          *pc = now.other;
          return true;
        default:
          frames_.push_back({Frame::Kind::kPlain, false, now.other, *at, 0});
          *pc = now.next;
          return true;
      }
    case Op::kRun:
      return remembers_ ? choose(now, pc, at) : step_run(now, pc, at);
    case Op::kTake:
      *at = end_of_take(now, *at);
      *pc = now.next;
      return true;
    case Op::kLook: {
      size_t end = 0;
      *pc = now.next;
      return run(now.body, *at, true, &end) != now.negated;
    }
    case Op::kAtomic: {
      size_t end = 0;
      if (!run(now.body, *at, true, &end)) return false;
      *pc = end == *at ? now.other : now.next;
      *at = end;
      return true;
    }
    case Op::kAccept:
      break;
  }
  return false;
}

bool RegexMatcher::step_run(const Instruction& run, uint32_t* pc, size_t* at) {
  const size_t low = *at;
  if (run.lazy) {
    if (is_in(run, low)) frames_.push_back({Frame::Kind::kLongerRun, false, *pc, low, 0});
  } else {
    while (is_in(run, *at)) ++*at;
    steps_ += *at - low;
    if (*at > low) frames_.push_back({Frame::Kind::kShorterRun, false, run.next, *at, low});
  }
  *pc = run.next;
  return true;
}

// Executes a choice in the mode that remembers failures: there, a run takes one character at a
// time.
bool RegexMatcher::choose(const Instruction& choice, uint32_t* pc, size_t* at) {
  if (recall(choice.choice, *at) == kFails) return false;
  frames_.push_back({Frame::Kind::kRemembered, false, *pc, *at, 0});
  return try_way(choice, false, pc, at);
}

bool RegexMatcher::try_way(const Instruction& choice, bool second, uint32_t* pc, size_t* at) const {
  if (choice.op == Op::kSplit) {
    *pc = second ? choice.other : choice.next;
    return true;
  }
  if (second != choice.lazy) {  // Leave the run.
    *pc = choice.next;
    return true;
  }
  if (!is_in(choice, *at)) return false;
  ++*at;
  return true;
}

bool RegexMatcher::go_back(size_t base, uint32_t* pc, size_t* at) {
  while (frames_.size() > base) {
    Frame& frame = frames_.back();
    ++steps_;
    switch (frame.kind) {
      case Frame::Kind::kPlain:
        *pc = frame.pc;
        *at = frame.at;
        frames_.pop_back();
        return true;
      case Frame::Kind::kShorterRun:
        *pc = frame.pc;
        *at = --frame.at;
        if (frame.at == frame.low) frames_.pop_back();
        return true;
      case Frame::Kind::kLongerRun: {
        const Instruction& run = program_.code[frame.pc];
        *pc = run.next;
        *at = ++frame.at;
        if (!is_in(run, frame.at)) frames_.pop_back();
        return true;
      }
      case Frame::Kind::kRemembered: {
        const Instruction& choice = program_.code[frame.pc];
        *pc = frame.pc;
        *at = frame.at;
        if (!frame.second) {
          frame.second = true;
          if (try_way(choice, true, pc, at)) return true;
        }
        remember(choice.choice, frame.at, kFails);
        frames_.pop_back();
        break;
      }
    }
  }
  return false;
}

size_t RegexMatcher::end_of_take(const Instruction& take, size_t at) {
  auto& [begin, end] = take_spans_[take.choice];
  if (at >= begin && at <= end) return end;
  // A scan that reaches the beginning of the last span stops there: both end at the same place.
  // This keeps the time linear if a look is tried at ever earlier places.
  const size_t from = at, known = begin <= end ? begin : SIZE_MAX;
  while (at != known && is_in(take, at)) ++at;
  steps_ += at - from;
  begin = from;
  if (at != known) end = at;
  return end;
}

RegexMatcher::Memory RegexMatcher::recall(uint32_t choice, size_t at) const {
  const uint64_t index = key(choice, at);
  const uint64_t page = index / 4 / kPageBytes;
  if (page >= pages_.size() || pages_[page] == nullptr) return kUnknown;
  return static_cast<Memory>(pages_[page][index / 4 % kPageBytes] >> (index % 4 * 2) & 3);
}

void RegexMatcher::remember(uint32_t choice, size_t at, Memory memory) {
  const uint64_t index = key(choice, at);
  const uint64_t page = index / 4 / kPageBytes;
  if (page >= pages_.size()) pages_.resize(page + 1);
  if (pages_[page] == nullptr) pages_[page] = std::make_unique<uint8_t[]>(kPageBytes);
  pages_[page][index / 4 % kPageBytes] |= static_cast<uint8_t>(memory << (index % 4 * 2));
}

}  // namespace lockstep
