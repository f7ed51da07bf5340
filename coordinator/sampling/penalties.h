// SPDX-License-Identifier: Apache-2.0
// The logit edits of one sequence, kept up token by token: what a Step carries is ready at all
// times.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "coordinator/request.h"
#include "proto/cluster.pb.h"

namespace lockstep {

// As Hugging Face has it, repetition_penalty falls once on every id of the prompt and of what was
// generated; as OpenAI and vLLM have it, presence_penalty falls once, and frequency_penalty as
// often as it occurs, on every id that was generated. Used by the engine's thread alone.
class Penalties {
 public:
  // `stop_ids` are those that may not be drawn while forbid is asked for in edits(). Ids outside
  // [0, vocab) are left out. Both outlive the penalties.
  Penalties(const SamplingParams& params, std::span<const int32_t> prompt,
            std::span<const int32_t> stop_ids, int64_t vocab);

  // A token was generated.
  void append(int32_t id);

  // Writes the edits into `output`, ascending ids. With `forbid_stops` no stop id can win while
  // another token can.
  void fill(bool forbid_stops, cluster::Output* output) const;

 private:
  struct Entry {
    int32_t id = 0;
    bool seen = false;  // In the prompt or generated.
    bool stop = false;
    int32_t generated = 0;  // How often.
    float bias = 0;
  };
  // The entry of an id, made where there is none.
  Entry& entry_of(int32_t id);

  const SamplingParams& params_;
  int64_t vocab_;
  bool counting_;               // A penalty is on, so that tokens are worth remembering.
  std::vector<Entry> entries_;  // Ascending ids.
};

}  // namespace lockstep
