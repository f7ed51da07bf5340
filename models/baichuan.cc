// SPDX-License-Identifier: Apache-2.0
// Baichuan-7B: Llama's maths, with q, k and v below each other in one matrix, W_pack.
#include "models/baichuan.h"

#include <string>

#include "base/math.h"
#include "base/status.h"

namespace lockstep {
namespace {

constexpr int64_t k13bHiddenSize = 5120;
constexpr int64_t kBaichuan2VocabSize = 125696;

Value attention(Graph& g, const Config& c, Value x, int layer) {
  const int64_t q_end = heads(c).columns();
  const int64_t k_end = q_end + kv_heads(c).columns();
  const int64_t v_end = k_end + kv_heads(c).columns();
  const auto part = [&](const char* name, int64_t begin, int64_t end, AxisSize out) {
    const FusedPart rows = {.name = name, .all_rows = v_end, .rows = {{begin, end}}};
    return g.linear_part(x, "self_attn.W_pack", rows, out);
  };
  const Value q = g.rope(part("q", 0, q_end, heads(c)), c.rope);
  const Value k = g.rope(part("k", q_end, k_end, kv_heads(c)), c.rope);
  const Value v = part("v", k_end, v_end, kv_heads(c));
  const AttentionSpec spec = {
      .head_dim = c.head_dim,
      .heads = c.heads,
      .kv_heads = c.kv_heads,
      .scale = static_cast<float>(exact_pow(static_cast<double>(c.head_dim), -0.5)),
      .layer = layer,
  };
  return g.linear(g.attention(q, k, v, spec), "self_attn.o_proj", hidden(c));
}

Value mlp(Graph& g, const Config& c, Value x) {
  const Value gate = g.silu(g.linear(x, "mlp.gate_proj", ffn(c)));
  const Value up = g.linear(x, "mlp.up_proj", ffn(c));
  return g.linear(g.mul(gate, up), "mlp.down_proj", hidden(c));
}

}  // namespace

void build_baichuan(Graph& g, const Config& c) {
  Value x = g.embed("model.embed_tokens", vocab(c), hidden(c));
  for (int layer = 0; layer < c.layers; ++layer) {
    const Scope scope(g, "model.layers." + std::to_string(layer));
    const Value a = g.rms_norm(x, "input_layernorm", c.norm_eps);
    x = g.add(x, attention(g, c, a, layer));
    const Value m = g.rms_norm(x, "post_attention_layernorm", c.norm_eps);
    x = g.add(x, mlp(g, c, m));
  }
  x = g.rms_norm(g.select_rows(x), "model.norm", c.norm_eps);
  const char* head = c.tie_word_embeddings ? "model.embed_tokens" : "lm_head";
  g.top_candidates(g.head(x, head, vocab(c)));
}

// No key says which kind a model is. The reference's files differ in these, and each would load:
// the 13B has the 7B's weight names.
absl::Status check_baichuan(const Json& json) {
  const auto is = [&](const char* key, int64_t value) {
    return json.contains(key) && json[key] == value;
  };
  const bool has_positions =
      json.contains("max_position_embeddings") && !json["max_position_embeddings"].is_null();
  if (is("vocab_size", kBaichuan2VocabSize) || json.contains("z_loss_weight")) {
    return invalid_argument(
        "{}: this is a Baichuan 2, which normalises the rows of lm_head; that is not supported "
        "yet; supported: Baichuan-7B",
        json.contains("z_loss_weight") ? "z_loss_weight" : "vocab_size");
  }
  if (!has_positions || is("hidden_size", k13bHiddenSize)) {
    return invalid_argument(
        "{}: this is a Baichuan 13B, whose attention adds alibi instead of turning q and k; alibi "
        "is not supported yet; supported: Baichuan-7B",
        has_positions ? "hidden_size of 5120" : "max_position_embeddings is not there");
  }
  return absl::OkStatus();
}

}  // namespace lockstep
