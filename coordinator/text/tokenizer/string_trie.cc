// SPDX-License-Identifier: Apache-2.0
// The first byte has a table, since there is no match at most places of a text; other bytes have
// lists.
#include "coordinator/text/tokenizer/string_trie.h"

namespace lockstep {

int32_t StringTrie::child(int32_t node, uint8_t byte) const {
  for (const auto& [key, next] : nodes_[static_cast<size_t>(node)].children) {
    if (key == byte) return next;
  }
  return -1;
}

void StringTrie::add(std::string_view text, int32_t value) {
  int32_t node = -1;
  for (const char c : text) {
    const auto byte = static_cast<uint8_t>(c);
    int32_t next = node < 0 ? roots_[byte] : child(node, byte);
    if (next < 0) {
      next = static_cast<int32_t>(nodes_.size());
      nodes_.emplace_back();
      if (node < 0) {
        roots_[byte] = next;
      } else {
        nodes_[static_cast<size_t>(node)].children.emplace_back(byte, next);
      }
    }
    node = next;
  }
  if (node >= 0 && nodes_[static_cast<size_t>(node)].value < 0) {
    nodes_[static_cast<size_t>(node)].value = value;
  }
}

StringTrie::Match StringTrie::find_at(std::string_view text, size_t offset) const {
  Match best{-1, 0};
  int32_t node = roots_[static_cast<uint8_t>(text[offset])];
  for (size_t bytes = 1; node >= 0; ++bytes) {
    if (const int32_t value = nodes_[static_cast<size_t>(node)].value; value >= 0) {
      best = {value, bytes};
    }
    if (offset + bytes == text.size()) break;
    node = child(node, static_cast<uint8_t>(text[offset + bytes]));
  }
  return best;
}

}  // namespace lockstep
