// SPDX-License-Identifier: Apache-2.0
// DeepSeek-V3.2 and GLM-5: as DeepSeek-V3, but a query sees only the index_topk positions that an
// indexer chooses. Up to as many positions that is all of them, and the indexer decides nothing: a
// context ends there, and its tensors are not read.
#include <algorithm>

#include "base/status.h"
#include "models/families/deepseek_v3.h"
#include "models/families/families.h"

namespace lockstep::families::deepseek_sparse {
namespace {

constexpr int64_t kIndexTopk = 2048;

absl::Status refine_sparse(const Json& json, Config& c) {
  RETURN_IF_ERROR(read_latent(json, c));
  ASSIGN_OR_RETURN(c.most_positions, get_count(json, "index_topk", 1 << 24, kIndexTopk));
  return absl::OkStatus();
}

constexpr Family sparse() {
  Family family = kDeepseekV3;
  family.refine = refine_sparse;
  const auto end = std::find(family.keys.begin(), family.keys.end(), std::string_view());
  std::string_view more[] = {"index_topk", "layer_types", "mlp_bias"};
  std::copy(std::begin(more), std::end(more), end);
  return family;
}

constexpr Family glm5() {
  Family family = sparse();
  family.norm_eps = 1e-5;
  family.defaults = R"({"head_dim": 64, "kv_lora_rank": 512, "qk_nope_head_dim": 192,
      "v_head_dim": 256, "routed_scaling_factor": 2.5, "first_k_dense_replace": 3})";
  return family;
}

constexpr Architecture kRows[] = {
    {"DeepseekV32ForCausalLM", build_deepseek_v3, sparse()},
    {"GlmMoeDsaForCausalLM", build_deepseek_v3, glm5()},
};

}  // namespace

Architectures rows() { return kRows; }

}  // namespace lockstep::families::deepseek_sparse
