// SPDX-License-Identifier: Apache-2.0
// Compiles a tree from its end to its beginning, so that each instruction knows the next. A loop
// ends when its body matches an empty text, as in Oniguruma. So no instruction of a loop may be
// reached twice without a character in between. The code after a node in a loop is therefore
// compiled twice: for the case that the body has taken characters, and for the case that it has
// not.
#include "coordinator/text/regex/regex_program.h"

#include <algorithm>
#include <map>
#include <utility>

namespace lockstep {
namespace {

using Op = RegexProgram::Op;
using Instruction = RegexProgram::Instruction;

constexpr size_t kMaxInstructions = 20'000;
constexpr size_t kMaxTable = 4 << 20;  // Bytes of `members`, and of `viable`.

// The instructions that follow a node in a loop's body.
struct Next {
  uint32_t taken;    // Follows if the body has taken characters.
  uint32_t nothing;  // Follows if it has taken none.
  bool is_one() const { return taken == nothing; }
};

bool is_set(const RegexNode& node) { return node.kind == RegexNode::Kind::kSet; }

void collect_sets(const RegexNode& node, std::vector<CodePointSet>* sets) {
  if (is_set(node) && std::find(sets->begin(), sets->end(), node.set) == sets->end()) {
    sets->push_back(node.set);
  }
  for (const RegexNode& child : node.children) collect_sets(child, sets);
}

class Compiler {
 public:
  absl::StatusOr<RegexProgram> run(const RegexNode& pattern) {
    sets_.push_back(CodePointSet::all());  // Ensures that there is a set.
    collect_sets(pattern, &sets_);
    program_.alphabet = RegexAlphabet(sets_);
    const size_t classes = program_.alphabet.class_count();
    if (classes > RegexAlphabet::kMaxClasses || sets_.size() * classes > kMaxTable) {
      return too_large();
    }
    for (const CodePointSet& set : sets_) {
      for (size_t i = 0; i + 1 < classes; ++i) {
        program_.members.push_back(set.contains(program_.alphabet.member(i)) ? 1 : 0);
      }
      program_.members.push_back(0);
    }
    const uint32_t accept = emit({});
    program_.start = node(pattern, {accept, accept}, false);
    if (unsupported_) return absl::UnimplementedError("an atomic group in a look-behind");
    if (nodes_ > 4 * kMaxInstructions || program_.code.size() > kMaxInstructions ||
        program_.choices * classes > kMaxTable) {
      return too_large();
    }
    find_viable();
    return std::move(program_);
  }

 private:
  static absl::Status too_large() { return absl::UnimplementedError("a pattern so large"); }

  uint32_t emit(const Instruction& instruction) {
    if (program_.code.size() <= kMaxInstructions) program_.code.push_back(instruction);
    return static_cast<uint32_t>(program_.code.size() - 1);
  }

  uint32_t set_row(const CodePointSet& set) const {
    const auto found = std::find(sets_.begin(), sets_.end(), set);
    return static_cast<uint32_t>(static_cast<size_t>(found - sets_.begin()) *
                                 program_.alphabet.class_count());
  }

  // Returns the beginning of the node's instructions.
  uint32_t node(const RegexNode& node, Next next, bool backward) {
    if (++nodes_ > 4 * kMaxInstructions) return 0;  // Too large already.
    switch (node.kind) {
      case RegexNode::Kind::kSet:
        return emit(
            {.op = Op::kSet, .backward = backward, .set = set_row(node.set), .next = next.taken});
      case RegexNode::Kind::kSequence:
        return sequence(node, next, backward);
      case RegexNode::Kind::kAlternate:
        return alternate(node, next, backward);
      case RegexNode::Kind::kRepeat:
        return repeat(node, next, backward);
      case RegexNode::Kind::kLook:
        return look(node, next);
      case RegexNode::Kind::kAtomic:
        return atomic(node, next, backward);
    }
    return 0;
  }

  uint32_t sequence(const RegexNode& sequence, Next next, bool backward) {
    const size_t count = sequence.children.size();
    for (size_t i = 0; i < count; ++i) {
      const RegexNode& child = sequence.children[backward ? i : count - 1 - i];
      const uint32_t nothing = node(child, next, backward);
      const uint32_t taken =
          next.is_one() ? nothing : node(child, {next.taken, next.taken}, backward);
      next = {taken, nothing};
    }
    return next.nothing;
  }

  uint32_t alternate(const RegexNode& alternate, Next next, bool backward) {
    uint32_t begin = node(alternate.children.back(), next, backward);
    for (size_t i = alternate.children.size() - 1; i > 0; --i) {
      begin = split(node(alternate.children[i - 1], next, backward), begin, false, backward);
    }
    return begin;
  }

  uint32_t split(uint32_t first, uint32_t second, bool swapped, bool backward) {
    return emit({.op = Op::kSplit,
                 .backward = backward,
                 .next = swapped ? second : first,
                 .other = swapped ? first : second,
                 .choice = program_.choices++});
  }

  // Emits the loop's body, and a split that enters the body or leaves the loop. Returns the split.
  uint32_t loop(const RegexNode& repeat, uint32_t out, bool backward) {
    const uint32_t head = split(0, 0, false, backward);
    const uint32_t body = node(repeat.children[0], {head, out}, backward);
    fill_loop(head, body, out, repeat.lazy);
    return head;
  }

  void fill_loop(uint32_t head, uint32_t body, uint32_t out, bool lazy) {
    program_.code[head].next = lazy ? out : body;
    program_.code[head].other = lazy ? body : out;
  }

  uint32_t repeat(const RegexNode& repeat, Next next, bool backward) {
    const RegexNode& child = repeat.children[0];
    if (repeat.max == RegexNode::kNoMax) {
      if (is_set(child) && !backward && next.is_one()) {
        const uint32_t run = emit({.op = Op::kRun,
                                   .lazy = repeat.lazy,
                                   .set = set_row(child.set),
                                   .next = next.taken,
                                   .choice = program_.choices++});
        next = {run, run};
      } else {
        const uint32_t taken = loop(repeat, next.taken, backward);
        uint32_t nothing = taken;
        if (!next.is_one()) {
          const uint32_t body = node(child, {taken, next.nothing}, backward);
          nothing = split(body, next.nothing, repeat.lazy, backward);
        }
        next = {taken, nothing};
      }
    } else {
      const Next out = next;
      for (int i = repeat.min; i < repeat.max; ++i) {
        const auto optional = [&](Next inner, uint32_t skip) {
          return split(node(child, inner, backward), skip, repeat.lazy, backward);
        };
        const uint32_t nothing = optional(next, out.nothing);
        const uint32_t taken =
            next.is_one() ? nothing : optional({next.taken, next.taken}, out.taken);
        next = {taken, nothing};
      }
    }
    for (int i = 0; i < repeat.min; ++i) {
      const uint32_t nothing = node(child, next, backward);
      const uint32_t taken =
          next.is_one() ? nothing : node(child, {next.taken, next.taken}, backward);
      next = {taken, nothing};
    }
    return next.nothing;
  }

  uint32_t look(const RegexNode& look, Next next) {
    const RegexNode& child = look.children[0];
    if (is_set(child)) {
      return emit({.op = Op::kPeek,
                   .backward = look.behind,
                   .negated = look.negated,
                   .set = set_row(child.set),
                   .next = next.nothing});
    }
    const uint32_t accept = emit({});
    const uint32_t body = node(child, {accept, accept}, look.behind);
    return emit({.op = Op::kLook, .negated = look.negated, .next = next.nothing, .body = body});
  }

  uint32_t atomic(const RegexNode& atomic, Next next, bool backward) {
    const RegexNode& child = atomic.children[0];
    unsupported_ |= backward;
    if (next.is_one() && child.kind == RegexNode::Kind::kRepeat && is_set(child.children[0]) &&
        child.max == RegexNode::kNoMax && !child.lazy) {
      uint32_t begin = emit({.op = Op::kTake,
                             .set = set_row(child.children[0].set),
                             .next = next.taken,
                             .choice = program_.takes++});
      for (int i = 0; i < child.min; ++i) begin = node(child.children[0], {begin, begin}, false);
      return begin;
    }
    if (child.kind == RegexNode::Kind::kRepeat && is_set(child.children[0]) && child.min == 0 &&
        child.max == 1 && !child.lazy) {  // The set, or a check that the set does not match.
      const uint32_t set = set_row(child.children[0].set);
      const uint32_t taken = emit({.op = Op::kSet, .set = set, .next = next.taken});
      return split(taken,
                   emit({.op = Op::kPeek, .negated = true, .set = set, .next = next.nothing}),
                   false, false);
    }
    const uint32_t accept = emit({});
    const uint32_t body = node(child, {accept, accept}, false);
    return emit({.op = Op::kAtomic, .next = next.taken, .other = next.nothing, .body = body});
  }

  // Finds the classes of the next character (backward: the previous one) with which each
  // instruction may match. Repeats until nothing changes.
  void find_viable() {
    const size_t classes = program_.alphabet.class_count();
    std::vector<std::vector<bool>> first(program_.code.size(), std::vector<bool>(classes));
    for (bool changed = true; changed;) {
      changed = false;
      for (size_t i = 0; i < program_.code.size(); ++i) {
        const Instruction& at = program_.code[i];
        std::vector<bool> now(classes);
        for (size_t c = 0; c < classes; ++c) {
          const bool in_set = program_.members[at.set + c] != 0;
          switch (at.op) {
            case Op::kSet:
              now[c] = in_set;
              break;
            case Op::kSplit:
              now[c] = first[at.next][c] || first[at.other][c];
              break;
            case Op::kRun:
            case Op::kTake:
              now[c] = in_set || first[at.next][c];
              break;
            case Op::kAtomic:
              now[c] = first[at.body][c];
              break;
            case Op::kPeek:
            case Op::kLook:
              now[c] = first[at.next][c];
              break;
            case Op::kAccept:
              now[c] = true;
              break;
          }
        }
        changed |= now != first[i];
        first[i] = std::move(now);
      }
    }
    program_.starts.assign(first[program_.start].begin(), first[program_.start].end());
    for (Instruction& at : program_.code) {
      if (at.op != Op::kSplit) continue;
      at.viable = static_cast<uint32_t>(program_.viable.size());
      for (size_t c = 0; c < classes; ++c) {
        program_.viable.push_back(
            static_cast<uint8_t>((first[at.next][c] ? 1 : 0) | (first[at.other][c] ? 2 : 0)));
      }
    }
  }

  RegexProgram program_;
  std::vector<CodePointSet> sets_;
  size_t nodes_ = 0;
  bool unsupported_ = false;
};

}  // namespace

absl::StatusOr<RegexProgram> RegexProgram::compile(const RegexNode& pattern) {
  return Compiler().run(pattern);
}

}  // namespace lockstep
