// SPDX-License-Identifier: Apache-2.0
// An operator's attributes as checks, printers and kernels read them: bound once from
// program.Attributes (proto/attributes.h). Arrays belong to the message that they were bound from,
// or to a device.
#pragma once

#include <cstdint>

#include "operators/function.h"

namespace lockstep {

// Which attributes an operator has. The numbers are those of program.Attributes' fields.
enum class AttrsKind : uint8_t {
  kNone = 0,
  kEmbed = 1,
  kNorm = 2,
  kRopeTable = 3,
  kRope = 4,
  kAttention = 5,
  kTopCandidates = 6,
  kGather = 7,
  kColumns = 8,
  kRoute = 9,
  kExpert = 10,
  kMap = 11,
  kConv = 12,
  kRecurrence = 13,
  kHeads = 14,
  kBlock = 15,
  kPositionScale = 20,
};

// What of a row's sequence rope_table takes as its position: program.PositionRow.
enum class PositionRow : uint8_t { kOwn = 0, kHeld = 1, kBlock = 2 };

// Of route: how experts are chosen for a row.
struct RouteRule {
  int64_t chosen = 0;
  bool sigmoid = false;            // Of each score, in place of softmax over all.
  bool softmax_of_chosen = false;  // Over the chosen scores, after the choice.
  int64_t groups = 0;              // Of experts.
  int64_t chosen_groups = 0;       // Those that experts are chosen from.
  bool best_two = false;           // A group counts by its two best.
  bool renormalised = false;       // The chosen weights add up to 1, before OperatorAttrs::scale.
};

// Fields by operator; each operator reads its own.
struct OperatorAttrs {
  float eps = 0;             // rms_norm, head_norm, add_norm, layer_norm, delta_rule
  bool centred = false;      // head_norm: layer_norm within each head, not rms_norm
  int64_t vocab_begin = 0;   // embed, top_candidates: first id of this rank's slice
  bool by_position = false;  // embed: the row of position + offset, not of the token
  // embed: by position; rope, rope_attention: first column of a head that turns; position_scale:
  // added to the position
  int64_t offset = 0;
  bool beside = false;    // embed: not the model's own, and what came with the step has the
  int64_t absent_id = 0;  // row of absent_id
  // head_norm, rope, attention, delta_rule, recurrence: columns of a q or k head; expand_heads: of
  // an output head
  int64_t head_dim = 0;
  int64_t v_dim = 0;            // attention, delta_rule, recurrence: columns of a value head
  bool values_in_keys = false;  // attention: values are the first v_dim columns of keys; v is k
  // attention: query heads on this rank; delta_rule, recurrence: value heads; head_linear,
  // join_heads, head_dot, expand_heads
  int64_t heads = 0;
  int64_t in_dim = 0;       // head_linear: columns of a head that are multiplied, its first ones
  bool transposed = false;  // head_linear: matrices are [out, in], not [in, out]
  int64_t kv_heads = 0;     // attention: KV heads on this rank; delta_rule, recurrence: key heads
  // [heads], the local KV head of each query head; delta_rule, recurrence: the key head of each
  // value head
  const int32_t* kv_head_of = nullptr;
  int64_t kv_head_of_count = 0;
  const float* slopes = nullptr;  // attention: [heads], or null; see program.AttentionAttrs
  int64_t slope_count = 0;
  float scale = 0;          // attention, route, delta_rule: scores, weights, q are multiplied by it
  int64_t window = 0;       // attention: 0, or how many positions a query sees, itself included
  int64_t chunk = 0;        // attention: 0, or keys are those of the query's run of so many
  bool read_only = false;   // attention: the pages have the step's k and v already
  float cap = 0;            // attention: scores become cap * tanh(score / cap); 0: they stay
  bool out_before = false;  // recurrence: of a row, from what the rows before it left
  int state = -1;           // Index into the program's states, of operators that have one.
  int64_t taps = 0;         // conv: rows that a column is summed over
  int64_t rotary_dim = 0;   // rope_table, rope, rope_attention: columns of a head that are rotated
  // rope, rope_attention: pairs (2i, 2i+1) instead of (i, i + rotary_dim / 2)
  bool interleaved = false;
  const float* inv_freq = nullptr;  // rope_table: [rope_length_count + 1, rotary_dim / 2]
  int64_t inv_freq_count = 0;
  // rope_table: set i of inv_freq is for a rope_length up to rope_lengths[i], the last for others.
  const int64_t* rope_lengths = nullptr;
  int64_t rope_length_count = 0;
  PositionRow position_row = PositionRow::kOwn;  // rope_table
  float rope_factor = 1;  // rope_table: cos and sin are multiplied by this (yarn)
  // rope_table "dynamic": with a dynamic_length D > 0 and L = max(position + 1, D), the base is
  // rope_theta * (dynamic_factor * L / D - (dynamic_factor - 1))^(d / (d - 2)).
  int64_t dynamic_length = 0;
  float dynamic_factor = 0;
  float rope_theta = 0;
  const int64_t* boundaries = nullptr;  // all_gather: [boundary_count], columns where ranks begin
  int64_t boundary_count = 0;
  Function function = Function::kNone;  // map, gated, gated_linear
  float factor = 0;                     // The same: of the functions that have one
  int64_t begin = 0;                    // columns: [begin, end) of the input
  int64_t end = 0;
  int64_t experts = 0;  // expert_linear: matrices in the weight
  RouteRule route;
  const float* position_scales = nullptr;  // position_scale: [position_scale_count]
  int64_t position_scale_count = 0;
  // position_scale: positions for each of them, or with log_factor where the logarithm begins
  int64_t position_scale_length = 0;
  float log_factor = 0;  // position_scale: of log(position + 1); 0: position_scales
};

// Of rope_table: the frequencies of a sequence with this rope_length.
[[gnu::always_inline]] constexpr const float* inv_freq_for(const OperatorAttrs& attrs,
                                                           int64_t rope_length) {
  int64_t set = 0;
  while (set < attrs.rope_length_count && attrs.rope_lengths[set] < rope_length) ++set;
  return attrs.inv_freq + set * (attrs.rotary_dim / 2);
}

// Of attention: the first position that a query at this one sees.
[[gnu::always_inline]] constexpr int64_t first_seen(const OperatorAttrs& attrs, int64_t position) {
  const bool cut = attrs.window > 0 && attrs.window <= position;
  const int64_t in_window = cut ? position - attrs.window + 1 : 0;
  const int64_t in_chunk = attrs.chunk > 0 ? position / attrs.chunk * attrs.chunk : 0;
  return in_window > in_chunk ? in_window : in_chunk;
}

// Calls visit(pointer, count) for every array that a kernel reads, so that whoever places
// attributes on a device copies them without knowing operators. Pointers may be changed.
template <typename Visit>
void visit_tables(OperatorAttrs& attrs, const Visit& visit) {
  if (attrs.kv_head_of != nullptr) visit(attrs.kv_head_of, attrs.kv_head_of_count);
  if (attrs.slopes != nullptr) visit(attrs.slopes, attrs.slope_count);
  if (attrs.inv_freq != nullptr) visit(attrs.inv_freq, attrs.inv_freq_count);
  if (attrs.rope_lengths != nullptr) visit(attrs.rope_lengths, attrs.rope_length_count);
  if (attrs.position_scales != nullptr) visit(attrs.position_scales, attrs.position_scale_count);
}

}  // namespace lockstep
