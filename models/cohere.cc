// SPDX-License-Identifier: Apache-2.0
// Command R and its successors: Llama's blocks in parallel, layer norms without biases.
#include "models/cohere.h"

#include <utility>

#include "base/status.h"

namespace lockstep {

absl::Status check_cohere(const Json& json) {
  const std::pair<const char*, Json> only[] = {{"position_embedding_type", "rope_gptj"},
                                               {"order_of_interleaved_layers", "local_attn_first"},
                                               {"rotary_pct", 1.0},
                                               {"use_embedding_sharing", true},
                                               {"use_gated_activation", true},
                                               {"use_parallel_block", true}};
  for (const auto& [key, value] : only) {
    const auto found = json.find(key);
    if (found == json.end() || found->is_null() || *found == value) continue;
    return invalid_argument("{}: {} is not supported; supported: {}", key, describe(*found),
                            value.dump());
  }
  return absl::OkStatus();
}

}  // namespace lockstep
