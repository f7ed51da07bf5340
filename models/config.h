// SPDX-License-Identifier: Apache-2.0
// The facts of a model's config.json that other code needs after its graph is built.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/numbers/dtype.h"

namespace lockstep {

struct ExpertConfig {
  int64_t count = 0;
  int64_t chosen = 0;
  int64_t size = 0;            // Columns of an expert's gate and up.
  bool either_layout = false;  // Stacks may be stored with inputs first or outputs first.
};

struct Config {
  std::string architecture;
  int64_t vocab_size = 0;
  int64_t hidden_size = 0;
  int64_t embedding_width = 0;  // Columns of embedding and head.
  int64_t intermediate_size = 0;
  int layers = 0;
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t head_dim = 0;
  ExpertConfig experts;
  int64_t context = 0;         // The max positions of a sequence.
  DType dtype = DType::kNone;  // The stored type of weights, if the config states it.
  std::string scheme;          // The scheme of `lockstep quantize`; "": the weights are plain.
  bool tie_word_embeddings = false;
  std::string own_head;  // The tensor of a tied model's own head, if it has one.
  // config.json has tie_word_embeddings twice, with true and with false: the checkpoint decides.
  bool tie_disputed = false;
  std::vector<int64_t> bos_token_ids;
  std::vector<int64_t> eos_token_ids;
};

}  // namespace lockstep
