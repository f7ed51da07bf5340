// SPDX-License-Identifier: Apache-2.0
// How a coordinator finds what a Step says of a sequence beside tokens and positions.
#pragma once

#include <cstdint>
#include <vector>

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

}  // namespace lockstep
