// SPDX-License-Identifier: Apache-2.0
// InternLM 1, a Llama with biases, and InternLM2: Llama's layers with other names, and grouped rows
// in one matrix of q, k and v.
#include "models/blocks/llama.h"
#include "models/families/families.h"

namespace lockstep::families::internlm {
namespace {

// True for {"type": "dynamic", "base": 10000}, too: dynamic scaling with factor 1 changes nothing
// within the model's positions, and a context is never longer.
bool is_plain(const Json& rotary) {
  if (!rotary.is_object()) return rotary.is_null();
  const Json type = rotary.value("type", Json());
  return (type == "origin" || type == "dynamic") && rotary.value("base", Json()) == 10000 &&
         rotary.value("scaling_factor", Json(1)) == 1;
}

Llama read_internlm(Keys& keys) {
  keys.rename("bias", "attention_bias");
  Llama m(keys);
  m.attention.set_bias(keys.flag("attention_bias", true));
  return m;
}

LanguageModel internlm(Keys& keys) {
  if (const Json& rotary = keys.json("rotary"); !is_plain(rotary)) {
    keys.fail("rotary",
              "{} is not supported; supported: type origin or dynamic, base 10000, without a "
              "scaling_factor",
              printable(rotary.dump()));
  }
  return read_internlm(keys).model();
}

LanguageModel internlm2(Keys& keys) {
  const Llama m = read_internlm(keys);
  LanguageModel d =
      m.model(grouped_attention(m.attention, "attention.wqkv", "attention.wo"),
              gated_mlp(m.mlp, {"feed_forward.w1", "feed_forward.w3", "feed_forward.w2"}));
  d.embedding = "model.tok_embeddings";
  d.attention_norm = "attention_norm";
  d.mlp_norm = "ffn_norm";
  d.head = "output";
  return d;
}

constexpr Architecture kRows[] = {{"InternLMForCausalLM", internlm},
                                  {"InternLM2ForCausalLM", internlm2}};

}  // namespace

Architectures rows() { return kRows; }

}  // namespace lockstep::families::internlm
