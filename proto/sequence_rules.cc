// SPDX-License-Identifier: Apache-2.0
#include "proto/sequence_rules.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "base/field_error.h"
#include "base/status.h"

namespace lockstep {

int64_t RopeRule::rope_length(int64_t prompt_tokens, int64_t tokens) const {
  if (lengths.empty()) return 0;
  return of_prompt ? prompt_tokens : tokens;
}

int RopeRule::frequencies(int64_t rope_length) const {
  const auto reached = std::lower_bound(lengths.begin(), lengths.end(), rope_length);
  return static_cast<int>(reached - lengths.begin());
}

RopeRule rope_rule(const program::Program& program) {
  std::set<int64_t> lengths;
  for (const program::Instruction& instruction : program.instructions()) {
    const auto& own = instruction.attributes().rope_table().lengths();
    lengths.insert(own.begin(), own.end());
  }
  return {.of_prompt = program.sequence_rules().rope_length_of_prompt(),
          .lengths = {lengths.begin(), lengths.end()}};
}

absl::StatusOr<Prefix> PrefixRule::find(std::span<const int32_t> prompt) const {
  if (!any()) return Prefix{};
  const auto found = std::ranges::find(prompt, end);
  if (found == prompt.end()) {
    return field_error("prompt", "must have the token {}, after which this model answers", end);
  }
  for (const int32_t id : held) {
    const auto at = std::ranges::find(prompt, id);
    if (at != prompt.end()) return Prefix{found - prompt.begin(), at - prompt.begin()};
  }
  return field_error("prompt", "must have one of the tokens {}, which this model's answer replaces",
                     fmt::join(held, ", "));
}

PrefixRule prefix_rule(const program::SequenceRules& rules) {
  return {.end = rules.prefix_end(), .held = {rules.held_ids().begin(), rules.held_ids().end()}};
}

}  // namespace lockstep
