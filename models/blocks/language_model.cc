// SPDX-License-Identifier: Apache-2.0
#include "models/blocks/language_model.h"

#include <utility>

namespace lockstep {

LanguageModel post_norm(LanguageModel d) {
  d.attention_norm = nullptr;
  d.attention_out_norm = "post_attention_layernorm";
  d.mlp_norm = nullptr;
  d.mlp_out_norm = "post_feedforward_layernorm";
  return d;
}

void build(Graph& g, const LanguageModel& d) {
  const Sizes& s = d.sizes;
  const AxisSize hidden = hidden_axis(s.hidden), vocab = {Axis::kVocab, s.vocab, 1};
  const AxisSize width = d.embedding_width > 0 ? hidden_axis(d.embedding_width) : hidden;
  const auto scaled = [&](Value x, float factor) {
    return factor == 1 ? x : g.map(x, Function::kScale, factor);
  };
  const auto residual = [&](Value x, Value normed) {
    return d.normed_residual == 0 ? x : scaled(normed, d.normed_residual);
  };
  const auto norm = [&](Value x, const char* name) { return apply(g, d.norms, x, name); };
  const bool narrow = width.count != s.hidden;
  g.sequence_rules = d.sequence_rules;
  Value x = scaled(g.embed(d.embedding, vocab, width), d.embedding_multiplier);
  if (narrow) x = g.linear(x, d.project_in, hidden);
  if (d.position_rows > 0) {
    x = g.add(x, g.embed_positions(d.positions, d.position_rows, d.position_offset, hidden));
  }
  x = norm(x, d.embedding_norm);
  if (d.stream != nullptr) x = d.stream(g, x, -1);
  for (int layer = 0; layer < s.layers; ++layer) {
    const Scope scope(g, fmt::format("{}.{}", d.layers, layer));
    const Value normed = norm(x, d.attention_norm);
    const Value a =
        scaled(norm(d.attention(g, normed, layer), d.attention_out_norm), d.residual_multiplier);
    if (d.parallel_norms == 0) x = norm(g.add(residual(x, normed), a), d.attention_end_norm);
    if (d.mlp != nullptr) {
      const Value mlp_in = d.parallel_norms == 1 ? normed : norm(x, d.mlp_norm);
      Value m = scaled(norm(d.mlp(g, mlp_in, layer), d.mlp_out_norm), d.residual_multiplier);
      // The outputs of both halves are added to each other first, and then to the stream. So one
      // collective makes their sum whole.
      if (d.parallel_norms != 0) m = g.add(a, m);
      x = norm(g.add(residual(x, mlp_in), m), d.mlp_end_norm);
    }
    if (d.stream != nullptr) x = d.stream(g, x, layer);
  }
  x = norm(g.select_rows(x), d.norm);
  if (narrow) x = g.linear(x, d.project_out, width);
  x = g.head(x, d.tied ? d.embedding : d.head, vocab, d.head_bias, d.head_unit_rows);
  x = scaled(x, d.logits_multiplier);
  g.top_candidates(d.logits_cap == 0 ? x : g.map(x, Function::kCap, d.logits_cap));
}

}  // namespace lockstep
