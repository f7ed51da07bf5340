// SPDX-License-Identifier: Apache-2.0
// Baichuan 1 and 2, 7B and 13B: Llama's layers, with q, k and v stacked vertically in one matrix.
#include "models/blocks/llama.h"
#include "models/families/families.h"

namespace lockstep::families::baichuan {
namespace {

constexpr int64_t k13bHiddenSize = 5120;
constexpr int64_t kBaichuan2VocabSize = 125696;
constexpr int64_t kPositions = 4096;

LanguageModel baichuan(Keys& keys) {
  const bool has_positions = keys.has("max_position_embeddings");
  const int64_t positions =
      has_positions ? 0 : keys.count("model_max_length", kMaxPositions, kPositions);
  Llama m(keys, {.sizes = {.positions = positions}});
  // No key states the kind of a model; the published files differ in these keys. A 13B adds ALiBi
  // to scores and rotates nothing; a Baichuan 2 scales the rows of its head to length 1.
  if (!has_positions || m.sizes.hidden == k13bHiddenSize) {
    m.attention.slopes = alibi_slopes(m.sizes.heads);
    m.attention.rotate_nothing();
  }
  LanguageModel d = m.model(stacked_attention(m.attention, "self_attn.W_pack", "self_attn.o_proj"));
  keys.ignore("z_loss_weight");
  d.head_unit_rows = m.sizes.vocab == kBaichuan2VocabSize || !keys.is_missing("z_loss_weight");
  return d;
}

constexpr Architecture kRows[] = {{"BaiChuanForCausalLM", baichuan},
                                  {"BaichuanForCausalLM", baichuan}};

}  // namespace

Architectures rows() { return kRows; }

}  // namespace lockstep::families::baichuan
