// SPDX-License-Identifier: Apache-2.0
// A pattern as a tree. An anchor is a look at the characters beside it.
#pragma once

#include <vector>

#include "coordinator/text/unicode/code_point_set.h"

namespace lockstep {

struct RegexNode {
  enum class Kind {
    kSet,        // One character of `set`.
    kSequence,   // The children, one after the other; none: the empty text.
    kAlternate,  // One of the children, the first that does.
    kRepeat,     // The child, `min` to `max` times.
    kLook,       // Whether the child matches here; takes nothing.
    kAtomic,     // The child's first match and no other.
  };
  static constexpr int kNoMax = -1;

  Kind kind = Kind::kSequence;
  CodePointSet set;
  std::vector<RegexNode> children;
  int min = 0;
  int max = kNoMax;
  bool lazy = false;     // Fewer times are tried first.
  bool behind = false;   // kLook: what ends here, not what begins here.
  bool negated = false;  // kLook.
};

RegexNode set_node(CodePointSet set);
RegexNode sequence_node(std::vector<RegexNode> children);
RegexNode alternate_node(std::vector<RegexNode> children);
RegexNode atomic_node(RegexNode child);
RegexNode look_node(RegexNode child, bool behind, bool negated);

// \b: a word on one side and none on the other; \B, `same`: on both sides or on none.
RegexNode word_border_node(bool same);
RegexNode line_begin_node();     // ^: not after the newline that ends the text.
RegexNode line_end_node();       // $
RegexNode text_begin_node();     // \A
RegexNode text_end_node();       // \z
RegexNode last_line_end_node();  // \Z: the end, or before the newline that ends the text.
RegexNode line_break_node();     // \R

}  // namespace lockstep
