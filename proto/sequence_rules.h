// SPDX-License-Identifier: Apache-2.0
// How a coordinator computes a StepSequence's rope_length, prefix_rows and held_position.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/program.pb.h"

namespace lockstep {

// Rotary frequencies that depend on a length.
struct RopeRule {
  bool of_prompt = false;             // The length is the prompt's, not that of all tokens.
  std::vector<int64_t> lengths = {};  // Ascending: frequencies change beyond each of them.

  // cluster.StepSequence.rope_length; 0 if nothing depends on it.
  int64_t rope_length(int64_t prompt_tokens, int64_t tokens) const;
  // The number of the set of frequencies for this rope_length. It never decreases as the length
  // grows.
  int frequencies(int64_t rope_length) const;
};

RopeRule rope_rule(const program::Program& program);

// See cluster.StepSequence.
struct Prefix {
  int64_t rows = 0;
  int64_t held_position = 0;
};

// Finds the prefix of a prompt by the ids in it.
struct PrefixRule {
  int32_t end = 0;
  std::vector<int32_t> held = {};  // None: prompts have no prefix.

  bool any() const { return !held.empty(); }
  // kInvalidArgument names the missing id.
  absl::StatusOr<Prefix> find(std::span<const int32_t> prompt) const;
};

PrefixRule prefix_rule(const program::SequenceRules& rules);

}  // namespace lockstep
