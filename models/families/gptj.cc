// SPDX-License-Identifier: Apache-2.0
// GPT-J: one layer norm for both attention and MLP; rotates neighbouring columns. CodeGen and MOSS:
// the same, but q, k and v are stored in one matrix.
#include "models/blocks/llama.h"
#include "models/families/families.h"

namespace lockstep::families::gptj {
namespace {

Llama read_gptj(Keys& keys) {
  keys.rename("n_embd", "hidden_size");
  keys.rename("n_layer", "num_hidden_layers");
  keys.rename("n_head", "num_attention_heads");
  keys.rename("n_positions", "max_position_embeddings");
  keys.rename("n_inner", "intermediate_size");
  keys.rename("activation_function", "hidden_act");
  keys.rename("layer_norm_epsilon", "rms_norm_eps");
  keys.ignore("rotary n_ctx scale_attn_weights");
  keys.only("mlp_bias use_parallel_residual", true);
  Llama m(keys, {.sizes = {.ffn_per_hidden = 4},
                 .norm = read_layer_norm(keys),
                 .activation = "gelu_new",
                 .rope = {.interleaved = true, .reads_dim = true}});
  m.mlp.bias = true;
  return m;
}

LanguageModel model_of(const Llama& m, const Block& attention) {
  LanguageModel d = m.model(attention, plain_mlp(m.mlp, "mlp.fc_in", "mlp.fc_out"));
  d.parallel_norms = 1;
  d.embedding = "transformer.wte";
  d.layers = "transformer.h";
  d.attention_norm = "ln_1";
  d.norm = "transformer.ln_f";
  d.head_bias = true;
  return d;
}

LanguageModel gptj(Keys& keys) {
  const Llama m = read_gptj(keys);
  return model_of(m, separate_attention(m.attention, "attn", "attn.out_proj"));
}

LanguageModel codegen(Keys& keys) {
  constexpr int64_t kBlocks = 4;  // The number of blocks in the matrix of every published model.
  const Llama m = read_gptj(keys);
  const Attention a = m.attention;
  if (a.heads % kBlocks != 0) {
    keys.fail("num_attention_heads", "must be a multiple of {}, found {}", kBlocks, a.heads);
  }
  if (a.kv_heads != a.heads) {
    keys.fail("num_key_value_heads", "must be num_attention_heads ({}), found {}", a.heads,
              a.kv_heads);
  }
  // Each block has the q, the v and the k of a quarter of the heads.
  return model_of(m, [=](Graph& g, Value x, int layer) {
    const int64_t width = a.q_axis().columns() / kBlocks;
    const auto part = [&](const char* name, int64_t place, AxisSize out) {
      const FusedPart rows = rows_of_runs(name, kBlocks, 3 * width, place * width, width);
      return g.linear_part(x, "attn.qkv_proj", rows, out);
    };
    const Value v = part("v", 1, a.kv_axis()), k = part("k", 2, a.kv_axis());
    return rotated_attention(g, a, {part("q", 0, a.q_axis()), k, v}, layer, "attn.out_proj");
  });
}

constexpr Architecture kRows[] = {
    {"GPTJForCausalLM", gptj},
    {"CodeGenForCausalLM", codegen},
    {"MossForCausalLM", codegen},
};

}  // namespace

Architectures rows() { return kRows; }

}  // namespace lockstep::families::gptj
