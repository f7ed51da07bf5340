// SPDX-License-Identifier: Apache-2.0
// The logit edits of a sequence: what its request says about single tokens, which all its choices
// share, and what one choice has generated, kept up to date token by token.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "coordinator/request.h"
#include "proto/cluster.pb.h"

namespace lockstep {

// What a request asks for by token id: stop ids, biases, and the prompt's tokens where the
// repetition penalty falls on them. Made once per request; immutable.
class LogitRules {
 public:
  struct Rule {
    int32_t id = 0;
    bool in_prompt = false;
    bool stop = false;
    float bias = 0;
  };

  // Ids outside [0, vocab) are left out.
  LogitRules(const SamplingParams& params, std::span<const int32_t> prompt,
             std::span<const int32_t> stop_ids, int64_t vocab);

  std::span<const Rule> rules() const { return rules_; }  // Ascending ids.
  // A penalty is on, so that generated tokens have to be counted.
  bool counting() const { return repetition_ != 1 || presence_ != 0 || frequency_ != 0; }

  // Adds the edit of one token that was generated this often, where there is one.
  void add_edit(const Rule& rule, int32_t generated, bool forbid_stops,
                cluster::Output* output) const;

 private:
  std::vector<Rule> rules_;
  float repetition_;
  float presence_;
  float frequency_;
};

// As Hugging Face has it, repetition_penalty falls once on every id of the prompt and of what was
// generated; as OpenAI and vLLM have it, presence_penalty falls once, and frequency_penalty as
// often as it occurs, on every id that was generated. Used by one thread at a time.
class Penalties {
 public:
  // `rules` outlive the penalties.
  explicit Penalties(const LogitRules* rules) : rules_(*rules) {}

  // A token was generated.
  void append(int32_t id);

  // Writes the edits into `output`, ascending ids. With `forbid_stops` no stop id can win while
  // another token can.
  void fill(bool forbid_stops, cluster::Output* output) const;

 private:
  struct Count {
    int32_t id = 0;
    int32_t generated = 0;
  };

  const LogitRules& rules_;
  std::vector<Count> counts_;  // Ascending ids.
};

}  // namespace lockstep
