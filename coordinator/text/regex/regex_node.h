// SPDX-License-Identifier: Apache-2.0
// A pattern as a tree. A look is a lookahead or a lookbehind. An anchor (^, $, \b) is a look at the
// characters beside it.
#pragma once

#include <vector>

#include "coordinator/text/unicode/code_point_set.h"

namespace lockstep {

struct RegexNode {
  enum class Kind {
    kSet,        // One character of `set`.
    kSequence,   // The children, one after the other; none: the empty text.
    kAlternate,  // The first child that matches.
    kRepeat,     // The child, `min` to `max` times.
    kLook,       // Whether the child matches here; takes nothing.
    kAtomic,     // Only the child's first match.
  };
  static constexpr int kNoMax = -1;

  Kind kind = Kind::kSequence;
  CodePointSet set;
  std::vector<RegexNode> children;
  int min = 0;
  int max = kNoMax;
  bool lazy = false;     // kRepeat: the smaller number of times is tried first.
  bool behind = false;   // kLook: a lookbehind, which ends here; else a lookahead.
  bool negated = false;  // kLook.
};

RegexNode set_node(CodePointSet set);
RegexNode sequence_node(std::vector<RegexNode> children);
RegexNode alternate_node(std::vector<RegexNode> children);
RegexNode atomic_node(RegexNode child);
RegexNode look_node(RegexNode child, bool behind, bool negated);

// \b: a word character on one side only; \B, `same`: on both sides or on neither.
RegexNode word_border_node(bool same);
RegexNode line_begin_node();     // ^: not after the newline at the end of the text.
RegexNode line_end_node();       // $
RegexNode text_begin_node();     // \A
RegexNode text_end_node();       // \z
RegexNode last_line_end_node();  // \Z: the end, or before the newline at the end of the text.
RegexNode line_break_node();     // \R

}  // namespace lockstep
