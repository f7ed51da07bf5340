// SPDX-License-Identifier: Apache-2.0
// How a coordinator finds what a Step says of a sequence beside tokens and positions.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/program.pb.h"

namespace lockstep {

// Rotary frequencies that depend on a length.
struct RopeRule {
  bool of_prompt = false;             // The length is that of the prompt, not of all tokens.
  std::vector<int64_t> lengths = {};  // Ascending: beyond each of them frequencies are others.

  // cluster.StepSequence.rope_length, 0 where nothing depends on it.
  int64_t rope_length(int64_t prompt_tokens, int64_t tokens) const;
  // Sequences whose rope_length has the same number turn alike. Longer ones have no lower number.
  int frequencies(int64_t rope_length) const;
};

RopeRule rope_rule(const program::Program& program);

// As of cluster.StepSequence.
struct Prefix {
  int64_t rows = 0;
  int64_t held_position = 0;
};

// The prefix of a prompt by the ids in it.
struct PrefixRule {
  int32_t end = 0;
  std::vector<int32_t> held = {};  // None: prompts have no prefix.

  bool any() const { return !held.empty(); }
  // kInvalidArgument names the id that is missing.
  absl::StatusOr<Prefix> find(std::span<const int32_t> prompt) const;
};

PrefixRule prefix_rule(const program::SequenceRules& rules);

}  // namespace lockstep
