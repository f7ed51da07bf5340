// SPDX-License-Identifier: Apache-2.0
// Checks for any answer in any format, for the fuzzer and its unit test. The first three bytes of
// an input choose the format, the options and the cuts. The others are the answer, in which bytes
// from 0x80 on become tags.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/check.h"
#include "coordinator/output/output_parser.h"

namespace lockstep {

// The thoughts, content and calls of an answer, separated by marks that no answer has.
inline std::string parsed(const OutputOptions& options, std::string_view text, unsigned max_piece,
                          bool is_cut) {
  OutputParser parser(options);
  OutputDelta all;
  const auto add = [&](OutputDelta delta) {
    for (const CallDelta& call : std::exchange(delta.calls, {})) {
      const bool is_new = all.calls.empty() || call.index > all.calls.back().index;
      LOCKSTEP_CHECK(is_new != call.name.empty());
      LOCKSTEP_CHECK(call.index == (all.calls.empty() ? 0 : all.calls.back().index + is_new));
      all.append({.calls = {call}});
    }
    all.append(std::move(delta));
  };
  for (unsigned size = 1; !text.empty(); size = size % max_piece + 1) {
    add(parser.push(text.substr(0, size)));
    text.remove_prefix(std::min<size_t>(size, text.size()));
  }
  add(parser.finish(is_cut));
  LOCKSTEP_CHECK(parser.has_calls() == !all.calls.empty());
  std::string shown = all.thought + "\x01" + all.content;
  for (const CallDelta& call : all.calls) {
    shown += "\x01" + call.id + "\x02" + call.name + "\x02" + call.arguments;
  }
  return shown;
}

inline void check_parser_input(std::string_view bytes) {
  if (bytes.size() < 3) return;
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(bytes[i]); };
  const Format& format = formats()[byte(0) % formats().size()];
  static const std::string tools[] = {
      R"({"function": {"name": "f", "parameters": {"properties": {
          "k": {"type": "string"}, "n": {"type": "integer"}, "o": {"type": "object"}}}}})"};
  static const auto functions = std::make_shared<const FunctionTypes>(tools);
  const bool thinks = format.has_thoughts() && (byte(1) & 1) == 0;
  const OutputOptions options = {
      .thoughts = thinks ? &format : nullptr,
      .place = thinks ? static_cast<ThoughtPlace>(byte(1) / 2 % 3) : ThoughtPlace::kBefore,
      .tools = format.has_calls() && (byte(1) & 8) == 0 ? &format : nullptr,
      .one_call = (byte(1) & 16) != 0,
      .functions = functions};
  std::vector<std::string_view> tags = thought_tags(format);
  for (const std::string_view tag : call_tags(format)) tags.push_back(tag);
  std::string text;
  for (const char c : bytes.substr(3)) {
    const auto number = static_cast<unsigned char>(c);
    if (number < 0x80) {
      text += c;
    } else if (!tags.empty()) {
      text += tags[number % tags.size()];
    }
  }
  const bool is_cut = (byte(1) & 32) != 0;
  const std::string whole = parsed(options, text, 1 + static_cast<unsigned>(text.size()), is_cut);
  LOCKSTEP_CHECK(parsed(options, text, 1, is_cut) == whole);
  LOCKSTEP_CHECK(parsed(options, text, 1 + byte(2) % 16, is_cut) == whole);
}

}  // namespace lockstep
