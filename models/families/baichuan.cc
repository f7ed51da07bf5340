// SPDX-License-Identifier: Apache-2.0
// Baichuan-7B: Llama's maths, with q, k and v below each other in one matrix, W_pack.
#include "base/status.h"
#include "models/blocks.h"
#include "models/families/families.h"

namespace lockstep::families::baichuan {
namespace {

constexpr int64_t k13bHiddenSize = 5120;
constexpr int64_t kBaichuan2VocabSize = 125696;

Value attention(Graph& g, const Config& c, Value x, int layer) {
  return stacked_attention(g, c, x, layer, "self_attn.W_pack", "self_attn.o_proj");
}

void build_baichuan(Graph& g, const Config& c) { build_layers(g, c, {.attention = attention}); }

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

constexpr Architecture kRows[] = {
    {"BaiChuanForCausalLM", build_baichuan, {.check = check_baichuan}},
    {"BaichuanForCausalLM", build_baichuan, {.check = check_baichuan}},
};

}  // namespace

Architectures rows() { return kRows; }

}  // namespace lockstep::families::baichuan
