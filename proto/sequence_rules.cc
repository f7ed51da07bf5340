// SPDX-License-Identifier: Apache-2.0
#include "proto/sequence_rules.h"

#include <algorithm>
#include <set>

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

}  // namespace lockstep
