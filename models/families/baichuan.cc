// SPDX-License-Identifier: Apache-2.0
// Baichuan 1 and 2, 7B and 13B: Llama's maths, with q, k and v below each other in one matrix.
#include "base/status.h"
#include "models/alibi.h"
#include "models/blocks.h"
#include "models/config_keys.h"
#include "models/families/families.h"

namespace lockstep::families::baichuan {
namespace {

constexpr int64_t k13bHiddenSize = 5120;
constexpr int64_t kBaichuan2VocabSize = 125696;
constexpr int64_t kPositions = 4096;

Value attention(Graph& g, const Config& c, Value x, int layer) {
  return stacked_attention(g, c, x, layer, "self_attn.W_pack", "self_attn.o_proj");
}

void build_baichuan(Graph& g, const Config& c) { build_layers(g, c, {.attention = attention}); }

// No key says which kind a model is; the reference's files differ in these. A 13B adds alibi to
// scores and turns nothing; a Baichuan 2 brings the rows of its head to length 1.
absl::Status refine_baichuan(const Json& json, Config& c) {
  c.head_unit_rows = c.vocab_size == kBaichuan2VocabSize || json.contains("z_loss_weight");
  const bool has_positions = !json.value("max_position_embeddings", Json()).is_null();
  if (has_positions && c.hidden_size != k13bHiddenSize) return absl::OkStatus();
  c.slopes = alibi_slopes(c.heads);
  if (!has_positions) {
    ASSIGN_OR_RETURN(c.max_position_embeddings,
                     get_count(json, "model_max_length", 1 << 24, kPositions));
  }
  return absl::OkStatus();
}

constexpr Family kBaichuan = {
    .positions = kPositions, .keys = {"z_loss_weight"}, .refine = refine_baichuan};

constexpr Architecture kRows[] = {
    {"BaiChuanForCausalLM", build_baichuan, kBaichuan},
    {"BaichuanForCausalLM", build_baichuan, kBaichuan},
};

}  // namespace

Architectures rows() { return kRows; }

}  // namespace lockstep::families::baichuan
