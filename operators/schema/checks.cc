// SPDX-License-Identifier: Apache-2.0
// Checks of attribute ranges and columns. A graph knows neither its program's sizes nor its rank,
// so checks that need these run for programs only.
#include "operators/schema/checks.h"

#include "base/numbers/quantization.h"
#include "operators/limits.h"

namespace lockstep {
namespace {

constexpr int64_t kMaxAngles = 1 << 16;
constexpr int64_t kMaxScales = 1 << 16;
constexpr int64_t kMaxRopeLengths = 32;

// Checks that the columns are whole heads.
bool check_heads(const OperatorCall& c, int64_t head_dim, Finding& f) {
  return f.within("head_dim", head_dim, 1, kMaxColumns) &&
         f.equal("columns outside whole heads", c.in[0].cols % head_dim, 0);
}

bool check_dynamic(const RopeTableAttrs& a, Finding& f) {
  if (a.dynamic_length == 0) return true;
  return f.holds(a.theta >= 1, "theta must be 1 or more where dynamic_length is set") &&
         f.holds(a.dynamic_factor >= 1, "dynamic_factor must be 1 or more") &&
         f.within("inv_freq count of a dynamic table", rotary_dim_of(a) / 2, 2, kMaxAngles);
}

// Checks that there is one more set of frequencies than lengths.
bool check_lengths(const RopeTableAttrs& a, Finding& f) {
  if (!f.within("lengths count", a.lengths.size, 0, kMaxRopeLengths) ||
      !f.equal("inv_freq count", a.inv_freq.size, (a.lengths.size + 1) * (rotary_dim_of(a) / 2))) {
    return false;
  }
  int64_t before = 0;
  for (const int64_t length : a.lengths) {
    if (!f.within("a length, ascending,", length, before + 1, kMaxContext)) return false;
    before = length;
  }
  return f.holds(a.lengths.empty() || a.dynamic_length == 0,
                 "lengths must be empty where dynamic_length is set");
}

// Checks that the table has a row for each position of a sequence.
bool check_positions(const OperatorCall& c, Finding& f) {
  if (c.program == nullptr) return true;
  const EmbedAttrs& a = c.attrs.embed();
  return f.equal("vocab_begin of positions", a.vocab_begin, 0) &&
         f.within("rows of the weight", c.in[0].rows, c.program->context + a.offset, kMaxColumns);
}

// Checks which columns of a head are rotated, by which table.
bool check_rotation(const RopeAttrs& a, const OperandShape& table, Finding& f) {
  return f.within("rotary_dim", a.rotary_dim, 2, a.head_dim) &&
         f.equal("rotary_dim's remainder by 2", a.rotary_dim % 2, 0) &&
         f.within("offset", a.offset, 0, a.head_dim - a.rotary_dim) &&
         f.equal("columns of the table", table.cols, a.rotary_dim);
}

// The checks that attention and rope_attention share. Their `sinks` have different indices.
bool check_heads_and_pages(const OperatorCall& c, const OperandShape& sinks, Finding& f) {
  const AttentionAttrs& a = c.attrs.attention();
  if (c.program != nullptr &&
      !(f.within("state", a.state, 0, c.program->state_count - 1) &&
        f.equal("head_dim", a.head_dim, c.kv.k_dim) &&
        f.equal("v_dim of the pages", c.kv.v_dim, a.values_in_keys ? 0 : a.v_dim) &&
        f.equal("kv_heads", a.kv_heads, c.kv.kv_heads))) {
    return false;
  }
  const bool shapes =
      f.within("v_dim", a.v_dim, 1, a.values_in_keys ? a.head_dim : kMaxHeadColumns) &&
      f.equal("columns of q", c.in[0].cols, a.heads * a.head_dim) &&
      f.equal("columns of k", c.in[1].cols, a.kv_heads * a.head_dim) &&
      f.equal("columns of v", c.in[2].cols,
              a.kv_heads * (a.values_in_keys ? a.head_dim : a.v_dim)) &&
      f.equal("columns of the output", c.out[0].cols, a.heads * a.v_dim) &&
      f.equal("kv_head_of count", a.kv_head_of.size, a.heads) &&
      (a.slopes.empty() || f.equal("slopes count", a.slopes.size, a.heads)) &&
      (!sinks.present || f.equal("columns of sinks", sinks.cols, a.heads));
  if (!shapes) return false;
  for (const int32_t kv_head : a.kv_head_of) {
    if (!f.within("kv_head_of", kv_head, 0, a.kv_heads - 1)) return false;
  }
  return true;
}

// The checks that linear and gated_linear share: x, the weight, the bias.
bool check_matrix(const OperatorCall& c, Finding& f) {
  const OperandShape &x = c.in[0], &weight = c.in[1], &bias = c.in[2];
  return f.equal("matrices of the weight", weight.matrices, 1) &&
         f.equal("columns of the weight", weight.cols, x.cols) &&
         (!bias.present || f.equal("columns of the bias", bias.cols, weight.rows)) &&
         check_product(x.dtype, weight.dtype, f);
}

}  // namespace

bool check_embed(const OperatorCall& c, Finding& f) {
  const EmbedAttrs& a = c.attrs.embed();
  const bool own = c.program != nullptr && !a.beside && !a.by_position;
  const int64_t hidden = own ? c.program->hidden : c.out[0].cols;
  if (!f.holds(!a.beside || !a.by_position, "by_position and beside must not both be set") ||
      !f.equal("columns of the weight", c.in[0].cols, hidden) ||
      !f.equal("columns of the output", c.out[0].cols, hidden)) {
    return false;
  }
  if (a.by_position) return check_positions(c, f);
  if (!f.equal("offset of tokens", a.offset, 0)) return false;
  if (c.program == nullptr) return true;
  const int64_t vocab = c.program->vocab;
  return f.within("vocab_begin", a.vocab_begin, 0, vocab) &&
         f.within("rows of the weight", c.in[0].rows, 0, vocab - a.vocab_begin);
}

bool check_product(DType x, DType weight, Finding& f) {
  if (is_rounded(x)) {
    return f.holds(x == rounded_rows(weight),
                   "rounded rows must be as the weight's type rounds them");
  }
  const bool fits = x == DType::kF32 || weight == DType::kBF16 || quantization(weight).has_value();
  return f.holds(fits, "a bfloat16 input must have a bfloat16 or quantized weight");
}

bool check_linear(const OperatorCall& c, Finding& f) {
  return check_matrix(c, f) && f.equal("columns of the output", c.out[0].cols, c.in[1].rows);
}

bool check_gated_linear(const OperatorCall& c, Finding& f) {
  return check_matrix(c, f) && f.equal("rows of the weight", c.in[1].rows, 2 * c.out[0].cols) &&
         check_map(c, f);
}

bool check_norm(const OperatorCall& c, Finding& f) {
  for (const OperandShape& operand : c.in) {  // The weight and the bias may have any index.
    if (operand.present && !f.equal("columns of the weight", operand.cols, c.in[0].cols)) {
      return false;
    }
  }
  return true;
}

bool check_head_norm(const OperatorCall& c, Finding& f) {
  const NormAttrs& a = c.attrs.norm();
  const int64_t weight = c.in[1].cols;  // The columns of all heads, or of one.
  if (!check_heads(c, a.head_dim, f)) return false;
  if (!c.in[1].present) return f.holds(!c.in[2].present, "a bias needs a weight before it");
  if (weight != c.in[0].cols && !f.equal("columns of the weight", weight, a.head_dim)) {
    return false;
  }
  return !c.in[2].present || (f.holds(a.centred, "a bias is for centred heads only") &&
                              f.equal("columns of the bias", c.in[2].cols, weight));
}

bool check_rope_table(const OperatorCall& c, Finding& f) {
  const RopeTableAttrs& a = c.attrs.rope_table();
  const int64_t rotary_dim = rotary_dim_of(a);
  return f.within("inv_freq count", rotary_dim / 2, 1, kMaxAngles) &&
         f.equal("columns of the output", c.out[0].cols, rotary_dim) && check_lengths(a, f) &&
         check_dynamic(a, f);
}

bool check_rope(const OperatorCall& c, Finding& f) {
  const RopeAttrs& a = c.attrs.rope();
  return check_rotation(a, c.in[1], f) && check_heads(c, a.head_dim, f);
}

bool check_position_scale(const OperatorCall& c, Finding& f) {
  const PositionScaleAttrs& a = c.attrs.position_scale();
  const int64_t count = a.log_factor == 0 ? 1 : 0;  // 1 to kMaxScales; 0 with log_factor.
  return f.within("scales count", a.scales.size, count, count * kMaxScales);
}

bool check_attention(const OperatorCall& c, Finding& f) {
  return check_heads_and_pages(c, c.in[3], f);
}

bool check_rope_attention(const OperatorCall& c, Finding& f) {
  const AttentionAttrs& a = c.attrs.attention();
  return f.holds(!a.read_only, "read_only must not be set") &&
         f.holds(!a.values_in_keys, "values_in_keys must not be set") &&
         check_heads_and_pages(c, c.in[4], f) && check_rotation(rope_of(a), c.in[3], f);
}

bool check_map(const OperatorCall& c, Finding& f) {
  const MapAttrs& a = c.attrs.map();
  if (!has_factor(a.function)) {
    return f.holds(a.factor == 0, "factor must be 0 where the function has none");
  }
  return a.function == Function::kScale ||
         f.holds(a.factor > 0, "factor must be above 0, except for scale");
}

bool check_top_candidates(const OperatorCall& c, Finding& f) {
  if (c.program == nullptr) return true;
  const int64_t begin = c.attrs.top_candidates().vocab_begin, vocab = c.program->vocab;
  if (!f.within("vocab_begin", begin, 0, vocab + kVocabBlock) ||
      !f.equal("vocab_begin's remainder by 64", begin % kVocabBlock, 0)) {
    return false;
  }
  // An empty slice of the vocabulary may begin at the end of the last block, after the last id.
  return c.in[0].cols == 0 || f.within("columns of the logits", c.in[0].cols, 0, vocab - begin);
}

bool check_all_gather(const OperatorCall& c, Finding& f) {
  const ArrayView<int64_t>& boundaries = c.attrs.gather().boundaries;
  const int64_t ranks = c.program != nullptr ? c.program->ranks : boundaries.size - 1;
  if (!f.holds(ranks >= 1, "boundaries must be given") ||
      !f.equal("boundaries count", boundaries.size, ranks + 1) ||
      !f.equal("first of the boundaries", boundaries[0], 0)) {
    return false;
  }
  for (int64_t i = 0; i < ranks; ++i) {
    if (!f.within("boundaries, ascending,", boundaries[i + 1], boundaries[i], kMaxColumns)) {
      return false;
    }
  }
  if (!f.equal("columns of the output", c.out[0].cols, boundaries[ranks])) return false;
  for (int64_t i = 0; i < ranks; ++i) {
    const int64_t whole = boundaries[i] == c.out[0].cols ? 1 : group_elements(c.out[0].dtype);
    if (!f.equal("a boundary's remainder by the group", boundaries[i] % whole, 0)) return false;
  }
  if (c.program == nullptr) return true;
  const int rank = c.program->rank;
  return f.equal("columns of the input", c.in[0].cols, boundaries[rank + 1] - boundaries[rank]);
}

bool check_columns(const OperatorCall& c, Finding& f) {
  const ColumnsAttrs& a = c.attrs.columns();
  return f.within("end", a.end, 0, c.in[0].cols) && f.within("begin", a.begin, 0, a.end) &&
         f.equal("columns of the view", c.out[0].cols, a.end - a.begin);
}

}  // namespace lockstep
