// SPDX-License-Identifier: Apache-2.0
// The logit edits of a sequence: what its request says about single tokens, which all its choices
// share, and what one choice has generated, kept up to date token by token.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "coordinator/engine/request.h"
#include "proto/cluster.pb.h"

namespace lockstep {

// A request's wishes by token id: stop ids, biases, allowed ids, bad words, and the prompt's
// tokens where the repetition penalty falls on them. Made once per request; immutable.
class LogitRules {
 public:
  struct Rule {
    int32_t id = 0;
    bool in_prompt = false;
    bool stop = false;
    float bias = 0;
    int32_t first_bad_word = 0;
    int32_t bad_words = 0;  // From that one on: those that end with this id.
  };

  // Ids outside [0, vocab) are left out.
  LogitRules(const SamplingParams& params, std::span<const int32_t> prompt,
             std::span<const int32_t> stop_ids, int64_t vocab);

  std::span<const Rule> rules() const { return rules_; }  // Ascending ids.
  // A penalty is on, so that generated tokens have to be counted.
  bool counting() const { return repetition_ != 1 || presence_ != 0 || frequency_ != 0; }

  // How many tokens before the last one of a bad word decide, at most.
  size_t longest_prefix() const { return longest_prefix_; }
  // Whether a bad word would be whole with this rule's token. `before`: the tokens that were
  // generated last, up to longest_prefix() of them.
  bool completes_bad_word(const Rule& rule, std::span<const int32_t> before) const;
  const std::string& mask() const { return mask_; }  // See cluster.Output.

  // Adds the edit of one token that was generated this often, where there is one.
  void add_edit(const Rule& rule, int32_t generated, bool is_forbidden,
                cluster::Output* output) const;

 private:
  std::vector<Rule> rules_;
  std::vector<std::vector<int32_t>> bad_words_;  // By their last ids.
  size_t longest_prefix_ = 0;
  std::string mask_;
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

  // Writes the edits into `output`, ascending ids, and the mask of allowed ids. No token that
  // completes a bad word, and with `forbid_stops` no stop id, can win while another one can.
  void fill(bool forbid_stops, cluster::Output* output) const;

 private:
  struct Count {
    int32_t id = 0;
    int32_t generated = 0;
  };

  const LogitRules& rules_;
  std::vector<Count> counts_;  // Ascending ids.
  std::vector<int32_t> last_;  // Generated; those that bad words need.
};

}  // namespace lockstep
