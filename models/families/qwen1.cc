// SPDX-License-Identifier: Apache-2.0
// The first Qwen: Llama's layers with q, k and v in one matrix and the activation on the MLP's
// second linear. Beyond seq_length, queries are scaled by position (log-n) and rotated with
// frequencies that depend on the prompt's length (dynamic NTK).
#include "base/numbers/math.h"
#include "models/blocks/llama.h"
#include "models/families/families.h"

namespace lockstep::families::qwen1 {
namespace {

constexpr int64_t kPositions = 8192;

Value mlp(Graph& g, const Mlp& m, Value x) {
  const Value up = g.linear(x, "mlp.w1", ffn_axis(m.width));
  const Value gate = g.map(g.linear(x, "mlp.w2", ffn_axis(m.width)), m.activation);
  return g.linear(g.mul(up, gate), "mlp.c_proj", hidden_axis(m.hidden));
}

LanguageModel qwen1(Keys& keys) {
  keys.rename("layer_norm_epsilon", "rms_norm_eps");
  keys.rename("rotary_emb_base", "rope_theta");
  keys.rename("kv_channels", "head_dim");
  keys.only("rotary_pct", 1.0);
  keys.only("no_bias scale_attn_weights use_qkv_bias", true);
  const int64_t trained = keys.count("seq_length", kMaxPositions, kPositions);
  const bool ntk = keys.flag("use_dynamic_ntk", true);
  Llama m(keys, {.sizes = {.positions = kPositions}, .rope = {.ntk_length = ntk ? trained : 0}});
  m.attention.qkv_bias = true;
  if (keys.flag("use_logn_attn", true) && trained > 1) {
    const double factor = 1 / exact_log(static_cast<double>(trained));
    m.attention.ropes.query_scales = {.length = trained, .log_factor = static_cast<float>(factor)};
  }
  if (m.sizes.ffn % 2 != 0) {
    keys.fail("intermediate_size", "must be an even number, found {}", m.sizes.ffn);
  }
  m.mlp.width = m.sizes.ffn /= 2;
  LanguageModel d = m.model(stacked_attention(m.attention, "attn.c_attn", "attn.c_proj"),
                            [dense = m.mlp](Graph& g, Value x, int) { return mlp(g, dense, x); });
  d.embedding = "transformer.wte";
  d.layers = "transformer.h";
  d.attention_norm = "ln_1";
  d.mlp_norm = "ln_2";
  d.norm = "transformer.ln_f";
  d.sequence_rules.set_rope_length_of_prompt(ntk);
  return d;
}

constexpr Architecture kRows[] = {{"QWenLMHeadModel", qwen1}};

}  // namespace

Architectures rows() { return kRows; }

}  // namespace lockstep::families::qwen1
