// SPDX-License-Identifier: Apache-2.0
// StableLM and its older form, StableLM epoch: Llama's blocks with layer norms.
#include "base/status.h"
#include "models/blocks.h"
#include "models/config_keys.h"
#include "models/families/families.h"

namespace lockstep::families::stablelm {
namespace {

absl::Status check_stablelm_epoch(const Json& json) {
  ASSIGN_OR_RETURN(const double factor, get_double(json, "rotary_scaling_factor", 1));
  if (factor == 1) return absl::OkStatus();
  return invalid_argument("rotary_scaling_factor: {} is not supported; supported: 1", factor);
}

constexpr Architecture kRows[] = {
    {"StableLmForCausalLM",
     old_build_llama,
     {.qk_norm = {.over = QkNorm::Over::kHead,
                  .centred = true,
                  .by_head = true,
                  .q = "q_layernorm.norms.*",
                  .k = "k_layernorm.norms.*"},
      .layer_norm = true,
      .parallel_norms = 1,
      .norm_eps = 1e-5,
      .partial_rotary = 0.25,
      .keys = {"use_qkv_bias", "use_parallel_residual", "use_qk_norm"},
      .names = {{{"layer_norm_eps", "rms_norm_eps"}, {"qk_layernorm", "use_qk_norm"}}}}},
    {"StableLMEpochForCausalLM",
     old_build_llama,
     {.layer_norm = true,
      .norm_eps = 1e-5,
      .partial_rotary = 0.25,
      .keys = {"use_qkv_bias", "rotary_scaling_factor"},
      .names = {{{"norm_eps", "rms_norm_eps"},
                 {"rope_pct", "partial_rotary_factor"},
                 {"num_heads", "num_attention_heads"}}},
      .check = check_stablelm_epoch}},
};

}  // namespace

Architectures rows() { return kRows; }

}  // namespace lockstep::families::stablelm
