// SPDX-License-Identifier: Apache-2.0
// Granite: Llama with four multipliers; Granite 4: in most layers Mamba-2 in place of attention,
// and an MLP that every token goes through, beside experts where it has any.
#include "base/status.h"
#include "models/blocks.h"
#include "models/config_keys.h"
#include "models/families/families.h"
#include "models/mamba_blocks.h"
#include "operators/limits.h"

namespace lockstep::families::granite {
namespace {

constexpr Architecture kRows[] = {
    {"GraniteForCausalLM",
     old_build_llama,
     {.keys = {"attention_bias", "mlp_bias", "embedding_multiplier", "attention_multiplier",
               "residual_multiplier", "logits_scaling"}}},
};

}  // namespace

Architectures rows() { return kRows; }

}  // namespace lockstep::families::granite
