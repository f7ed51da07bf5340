// SPDX-License-Identifier: Apache-2.0
// InternLM 1, a Llama with biases, and InternLM2: Llama's maths under names of its own, with
// grouped rows in one matrix of q, k and v.
#include "base/status.h"
#include "models/blocks.h"
#include "models/families/families.h"

namespace lockstep::families::internlm {
namespace {

Value attention(Graph& g, const Config& c, Value x, int layer) {
  return grouped_attention(g, c, x, layer, "attention.wqkv", "attention.wo");
}

Value mlp(Graph& g, const Config& c, Value x, int) {
  const Value gate = g.map(g.linear(x, "feed_forward.w1", ffn(c)), c.activation);
  const Value up = g.linear(x, "feed_forward.w3", ffn(c));
  return g.linear(g.mul(gate, up), "feed_forward.w2", hidden(c));
}

void build_internlm2(Graph& g, const Config& c) {
  build_layers(g, c,
               {.attention = attention,
                .mlp = mlp,
                .embedding = "model.tok_embeddings",
                .attention_norm = "attention_norm",
                .mlp_norm = "ffn_norm",
                .head = "output"});
}

// {"type": "dynamic", "base": 10000}: dynamic of factor 1 changes nothing within the positions that
// the model has, and a context is never longer.
absl::Status check_internlm(const Json& json) {
  if (!json.contains("rotary") || json["rotary"].is_null()) return absl::OkStatus();
  const Json& rotary = json["rotary"];
  const auto is = [&](const char* key, const Json& value) {
    return rotary.is_object() && rotary.contains(key) && rotary[key] == value;
  };
  const bool plain = is("type", "origin") || is("type", "dynamic");
  const bool stretched = rotary.is_object() && rotary.contains("scaling_factor");
  if (plain && is("base", 10000) && (!stretched || is("scaling_factor", 1))) {
    return absl::OkStatus();
  }
  return invalid_argument(
      "rotary: {} is not supported; supported: type origin or dynamic, base 10000, without a "
      "scaling_factor",
      printable(rotary.dump()));
}

constexpr Architecture kRows[] = {
    {"InternLMForCausalLM",
     old_build_llama,
     {.attention_bias = true,
      .keys = {"attention_bias", "rotary"},
      .names = {{{"bias", "attention_bias"}}},
      .check = check_internlm}},
    {"InternLM2ForCausalLM",
     build_internlm2,
     {.attention_bias = true, .keys = {"attention_bias"}, .names = {{{"bias", "attention_bias"}}}}},
};

}  // namespace

Architectures rows() { return kRows; }

}  // namespace lockstep::families::internlm
