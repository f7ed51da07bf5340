// SPDX-License-Identifier: Apache-2.0
// A whole model, as a family's function reads it from a config.json: layers between an embedding
// and a head, and the facts that other code needs.
#pragma once

#include <string>

#include "models/blocks/attention.h"
#include "models/blocks/experts.h"
#include "models/blocks/mlp.h"
#include "models/blocks/sizes.h"
#include "models/graph/graph.h"

namespace lockstep {

// A layer has two halves, attention and MLP: x += attention(norm(x)); x += mlp(norm(x)). If named,
// further norms apply to the output of a half (attention_out_norm, mlp_out_norm) or to the stream
// after it (attention_end_norm, mlp_end_norm). Parallel halves both read the layer's x:
// x += attention(norm(x)) + mlp(norm(x)).
struct LanguageModel {
  Sizes sizes;
  Norm norms;
  Block attention;
  Block mlp = nullptr;  // Null: a layer is one block.
  // Applied to the residual stream at its start (layer -1) and after each layer. Null: not applied.
  Block stream = nullptr;
  bool tied = false;  // The head is the embedding.

  // Names in the checkpoint.
  const char* embedding = "model.embed_tokens";
  const char* positions = nullptr;  // Learned positions; position 0 has row position_offset.
  int64_t position_rows = 0;
  int64_t position_offset = 0;
  // Projections between embeddings of embedding_width columns and the stream.
  const char* project_in = nullptr;
  const char* project_out = nullptr;
  const char* embedding_norm = nullptr;
  const char* layers = "model.layers";
  const char* attention_norm = "input_layernorm";
  const char* attention_out_norm = nullptr;
  const char* attention_end_norm = nullptr;
  const char* mlp_norm = "post_attention_layernorm";
  const char* mlp_out_norm = nullptr;
  const char* mlp_end_norm = nullptr;
  const char* norm = "model.norm";
  const char* head = "lm_head";

  int64_t embedding_width = 0;  // The width of embedding and head; 0: the stream's.
  float embedding_multiplier = 1;
  float residual_multiplier = 1;  // Multiplies the outputs of attention and MLP.
  float logits_multiplier = 1;
  float logits_cap = 0;  // 0: none.
  bool head_bias = false;
  bool head_unit_rows = false;  // Rows of the head are scaled to length 1.
  // The number of norms before parallel halves: 1 shared or 2; 0: the MLP follows the attention.
  int parallel_norms = 0;
  // Not 0: the output of a half is added to the half's normed input times this number, instead of
  // to the residual stream.
  float normed_residual = 0;

  double reach = 1;           // The max context, in multiples of Sizes::positions.
  int64_t max_positions = 0;  // A limit of the context; 0: none.
  program::SequenceRules sequence_rules = {};
  Mixture mixture = {};        // The experts, for messages.
  bool either_layout = false;  // Stacks of experts may have inputs first or outputs first.
};

// The model with norms after attention and MLP instead of before them.
LanguageModel post_norm(LanguageModel model);

// Appends the whole model.
void build(Graph& graph, const LanguageModel& model);

}  // namespace lockstep
