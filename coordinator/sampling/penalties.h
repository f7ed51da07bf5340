// SPDX-License-Identifier: Apache-2.0
// The logit edits of a sequence. Some follow from its request; all choices share them. Others
// follow from one choice's generated tokens, and are updated token by token.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "coordinator/engine/engine_request.h"
#include "proto/cluster.pb.h"

namespace lockstep {

// A request's rules by token id: stop ids, biases, allowed ids, bad words, and the prompt's tokens
// if a repetition penalty applies to them. Made once per request; immutable.
class LogitRules {
 public:
  struct Rule {
    int32_t id = 0;
    bool in_prompt = false;
    bool stop = false;
    float bias = 0;
    int32_t first_bad_word = 0;
    int32_t bad_words = 0;  // This many bad words, from first_bad_word on, end with this id.
  };

  // The rules' ids outside [0, vocab) are dropped.
  LogitRules(const SamplingParams& params, std::span<const int32_t> prompt,
             std::span<const int32_t> stop_ids, int64_t vocab);

  std::span<const Rule> rules() const { return rules_; }  // Ascending ids.
  // Whether a penalty is on: then generated tokens must be counted.
  bool counting() const { return repetition_ != 1 || presence_ != 0 || frequency_ != 0; }

  // The max number of tokens before the last one in a bad word.
  size_t longest_prefix() const { return longest_prefix_; }
  // Whether this rule's token completes a bad word. `before`: the last generated tokens, up to
  // longest_prefix() of them.
  bool completes_bad_word(const Rule& rule, std::span<const int32_t> before) const;
  const std::string& mask() const { return mask_; }  // See cluster.Output.
  // The edits of a choice that has no token yet and may stop: biases, and the penalties of the
  // prompt's tokens. They are the same in every step and for every choice.
  const cluster::LogitEdits& shared_edits() const { return shared_edits_; }
  // Indices of the rules that forbid their ids only in some steps: stop ids and bad words.
  std::span<const int32_t> conditional() const { return conditional_; }
  // Index of the rule of an id; -1: it has none.
  int32_t find(int32_t id) const;

  // Appends the edit, if any, of a token that was generated `generated` times. An edit without
  // effect is appended if it replaces one of shared_edits().
  void append_edit(const Rule& rule, int32_t generated, bool is_forbidden,
                   cluster::LogitEdits* edits) const;

 private:
  std::vector<Rule> rules_;
  std::vector<int32_t> conditional_;
  cluster::LogitEdits shared_edits_;
  std::vector<std::vector<int32_t>> bad_words_;  // Sorted by their last ids.
  size_t longest_prefix_ = 0;
  std::string mask_;
  float repetition_;
  float presence_;
  float frequency_;
};

// Following Hugging Face, repetition_penalty applies once to every id of the prompt and the
// generated tokens; following OpenAI and vLLM, presence_penalty applies once, and frequency_penalty
// once per occurrence, to every generated id. Used by one thread at a time.
class Penalties {
 public:
  // `rules` outlive the penalties.
  explicit Penalties(const LogitRules* rules) : rules_(*rules) {}

  // A token was generated.
  void append(int32_t id);

  // Writes the mask of allowed ids into `output`, and this choice's own edits: those that differ
  // from LogitRules::shared_edits(). A token that completes a bad word (with `forbid_stops`, also a
  // stop id) wins only if no other token can.
  void fill(bool forbid_stops, cluster::Output* output) const;

 private:
  struct Count {
    int32_t id = 0;
    int32_t rule = -1;  // Index into rules(); -1: the id has no rule.
    int32_t generated = 0;
  };

  const LogitRules& rules_;
  std::vector<Count> counts_;  // Ascending ids.
  std::vector<int32_t> last_;  // The last generated tokens, for bad words.
};

}  // namespace lockstep
