// SPDX-License-Identifier: Apache-2.0
// Granite: Llama with four multipliers.
#include "models/blocks.h"
#include "models/families/families.h"

namespace lockstep::families::granite {
namespace {

constexpr Architecture kRows[] = {
    {"GraniteForCausalLM",
     build_llama,
     {.keys = {"attention_bias", "mlp_bias", "embedding_multiplier", "attention_multiplier",
               "residual_multiplier", "logits_scaling"}}},
};

}  // namespace

Architectures rows() { return kRows; }

}  // namespace lockstep::families::granite
