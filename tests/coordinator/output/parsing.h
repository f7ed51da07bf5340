// SPDX-License-Identifier: Apache-2.0
// Parses texts in pieces, and collects the parts.
#pragma once

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "coordinator/output/output_parser.h"

namespace lockstep {

struct Gathered {
  std::string thought;
  std::string content;
  std::vector<std::pair<std::string, std::string>> calls;  // Name, arguments.

  bool operator==(const Gathered&) const = default;

  // A call's name arrives once, whole, and before its arguments; indices count from 0.
  void add(const OutputDelta& delta) {
    thought += delta.thought;
    content += delta.content;
    for (const CallDelta& call : delta.calls) {
      if (call.index == calls.size()) {
        EXPECT_NE(call.name, "");
        calls.emplace_back(call.name, call.arguments);
        continue;
      }
      EXPECT_EQ(call.index + 1, calls.size());
      EXPECT_EQ(call.name, "");
      calls.back().second += call.arguments;
    }
  }
  // "thought|content|name(arguments)|..."
  std::string shown() const {
    std::string text = thought + "|" + content;
    for (const auto& [name, arguments] : calls) text += "|" + name + "(" + arguments + ")";
    return text;
  }
};

inline Gathered parse(const OutputOptions& options, const std::vector<std::string_view>& pieces,
                      bool is_cut = false) {
  OutputParser parser(options);
  Gathered gathered;
  for (const std::string_view piece : pieces) gathered.add(parser.push(piece));
  gathered.add(parser.finish(is_cut));
  EXPECT_EQ(parser.has_calls(), !gathered.calls.empty());
  return gathered;
}

// The text in pieces: cut in two at each byte, cut into single bytes, and 50 times cut at random
// (seed 1).
inline std::vector<std::vector<std::string_view>> all_cuts(std::string_view text) {
  std::vector<std::vector<std::string_view>> cuts;
  std::vector<std::string_view> bytes;
  for (size_t i = 0; i < text.size(); ++i) {
    bytes.push_back(text.substr(i, 1));
    cuts.push_back({text.substr(0, i), text.substr(i)});
  }
  cuts.push_back(std::move(bytes));
  std::mt19937 random(1);
  for (int i = 0; i < 50; ++i) {
    std::vector<std::string_view> pieces;
    for (size_t at = 0; at < text.size();) {
      pieces.push_back(text.substr(at, 1 + random() % 9));
      at += pieces.back().size();
    }
    cuts.push_back(std::move(pieces));
  }
  return cuts;
}

}  // namespace lockstep
