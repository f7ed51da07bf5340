// SPDX-License-Identifier: Apache-2.0
// Finds the longest of a set of strings at a place in a text.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep {

// Filled by one thread, then read by any.
class StringTrie {
 public:
  struct Match {
    int32_t value;  // -1: there is none.
    size_t bytes;
  };

  StringTrie() { roots_.fill(-1); }

  // `value` >= 0. An empty string never matches; the first of two equal strings counts.
  void add(std::string_view text, int32_t value);

  // The longest string at `offset`, in time proportional to its length.
  Match find_at(std::string_view text, size_t offset) const;

  bool empty() const { return nodes_.empty(); }

 private:
  struct Node {
    int32_t value = -1;
    std::vector<std::pair<uint8_t, int32_t>> children;
  };
  int32_t child(int32_t node, uint8_t byte) const;

  std::array<int32_t, 256> roots_;
  std::vector<Node> nodes_;
};

}  // namespace lockstep
