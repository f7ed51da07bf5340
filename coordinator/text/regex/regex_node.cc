// SPDX-License-Identifier: Apache-2.0
// Constructors of nodes.
#include "coordinator/text/regex/regex_node.h"

#include <utility>

#include "coordinator/text/unicode/unicode_properties.h"

namespace lockstep {
namespace {

const CodePointSet& newline_set() {
  static const CodePointSet set = {{'\n', '\n'}};
  return set;
}

RegexNode look_at(const CodePointSet& set, bool behind, bool negated) {
  return look_node(set_node(set), behind, negated);
}

}  // namespace

RegexNode set_node(CodePointSet set) {
  RegexNode node;
  node.kind = RegexNode::Kind::kSet;
  node.set = std::move(set);
  return node;
}

RegexNode sequence_node(std::vector<RegexNode> children) {
  if (children.size() == 1) return std::move(children.front());
  RegexNode node;
  node.children = std::move(children);
  return node;
}

RegexNode alternate_node(std::vector<RegexNode> children) {
  if (children.size() == 1) return std::move(children.front());
  RegexNode node;
  node.kind = RegexNode::Kind::kAlternate;
  node.children = std::move(children);
  return node;
}

RegexNode atomic_node(RegexNode child) {
  RegexNode node;
  node.kind = RegexNode::Kind::kAtomic;
  node.children.push_back(std::move(child));
  return node;
}

RegexNode look_node(RegexNode child, bool behind, bool negated) {
  RegexNode node;
  node.kind = RegexNode::Kind::kLook;
  node.behind = behind;
  node.negated = negated;
  node.children.push_back(std::move(child));
  return node;
}

RegexNode word_border_node(bool same) {
  const CodePointSet& word = word_set();
  return alternate_node({sequence_node({look_at(word, true, false), look_at(word, false, !same)}),
                         sequence_node({look_at(word, true, true), look_at(word, false, same)})});
}

RegexNode line_begin_node() {
  return alternate_node({look_at(CodePointSet::all(), true, true),
                         sequence_node({look_at(newline_set(), true, false),
                                        look_at(CodePointSet::all(), false, false)})});
}

RegexNode line_end_node() { return look_at(newline_set().complement(), false, true); }

RegexNode text_begin_node() { return look_at(CodePointSet::all(), true, true); }

RegexNode text_end_node() { return look_at(CodePointSet::all(), false, true); }

RegexNode last_line_end_node() {
  return alternate_node(
      {text_end_node(),
       look_node(sequence_node({set_node(newline_set()), text_end_node()}), false, false)});
}

RegexNode line_break_node() {
  return atomic_node(
      alternate_node({sequence_node({set_node({{'\r', '\r'}}), set_node(newline_set())}),
                      set_node({{'\n', '\r'}, {0x85, 0x85}, {0x2028, 0x2029}})}));
}

}  // namespace lockstep
