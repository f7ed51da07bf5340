// SPDX-License-Identifier: Apache-2.0
// Command R and its successors: Llama's blocks in parallel, layer norms without biases.
#include "models/blocks/llama.h"
#include "models/families/families.h"

namespace lockstep::families::cohere {
namespace {

Llama read_cohere(Keys& keys, double theta) {
  keys.rename("layer_norm_eps", "rms_norm_eps");
  keys.only("use_parallel_residual", true);
  Llama m(keys, {.norm = read_layer_norm(keys, /*bias=*/false),
                 .tied = true,
                 .rope = {.theta = theta, .interleaved = true}});
  m.attention.set_bias(keys.flag("attention_bias", false));
  return m;
}

LanguageModel model_of(Keys& keys, const Llama& m) {
  LanguageModel d = m.model();
  d.parallel_norms = 1;
  d.logits_multiplier = keys.factor("logit_scale", 0.0625);
  return d;
}

LanguageModel cohere(Keys& keys) {
  Llama m = read_cohere(keys, 500000);
  const QkNorm norms = {.over = QkNorm::Over::kHead, .centred = true, .by_head = true};
  m.attention.norm_heads_if_asked(keys, norms);
  return model_of(keys, m);
}

LanguageModel cohere2(Keys& keys) {
  keys.rename("layer_switch", "sliding_window_pattern");
  keys.only("position_embedding_type", "rope_gptj");
  keys.only("order_of_interleaved_layers", "local_attn_first");
  keys.only("rotary_pct", 1.0);
  keys.only("use_embedding_sharing use_gated_activation use_parallel_block", true);
  keys.ignore("use_parallel_embedding");
  Llama m = read_cohere(keys, 10000);
  m.attention.windows = windows_by_pattern(keys, m.sizes.layers, 4096, 4, /*reads_pattern=*/true);
  m.attention.rotate_with_windows(keys);
  return model_of(keys, m);
}

constexpr Architecture kRows[] = {{"CohereForCausalLM", cohere}, {"Cohere2ForCausalLM", cohere2}};

}  // namespace

Architectures rows() { return kRows; }

}  // namespace lockstep::families::cohere
