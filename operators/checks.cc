// SPDX-License-Identifier: Apache-2.0
// Attributes' ranges and columns. A graph knows neither its program's sizes nor its rank, so what
// needs them is checked in programs alone.
#include "operators/checks.h"

#include <cmath>

#include "base/numbers/quantization.h"
#include "operators/limits.h"

namespace lockstep {
namespace {

constexpr int64_t kMaxHeads = 1 << 16;
constexpr int64_t kMaxAngles = 1 << 16;
constexpr int64_t kMaxScales = 1 << 16;
constexpr int64_t kMaxRopeLengths = 32;

bool check_eps(const OperatorCall& c, Finding& f) {
  return f.finite("eps", c.attrs.eps) && f.holds(c.attrs.eps >= 0, "eps must not be negative");
}

// The columns are whole heads.
bool check_heads(const OperatorCall& c, Finding& f) {
  return f.within("head_dim", c.attrs.head_dim, 1, kMaxColumns) &&
         f.equal("columns beside whole heads", c.in[0].cols % c.attrs.head_dim, 0);
}

bool check_dynamic(const OperatorAttrs& a, Finding& f) {
  if (!f.within("dynamic_length", a.dynamic_length, 0, kMaxContext)) return false;
  if (a.dynamic_length == 0) return true;
  return f.holds(a.rope_theta >= 1, "theta must be 1 or more where dynamic_length is set") &&
         f.holds(a.dynamic_factor >= 1, "dynamic_factor must be 1 or more") &&
         f.within("inv_freq count of a dynamic table", a.rotary_dim / 2, 2, kMaxAngles);
}

// As many sets as rope_lengths are told apart.
bool check_rope_lengths(const OperatorAttrs& a, Finding& f) {
  if (!f.within("lengths count", a.rope_length_count, 0, kMaxRopeLengths) ||
      !f.equal("inv_freq count", a.inv_freq_count,
               (a.rope_length_count + 1) * (a.rotary_dim / 2))) {
    return false;
  }
  int64_t before = 0;
  for (int64_t i = 0; i < a.rope_length_count; ++i) {
    if (!f.within("a length, ascending,", a.rope_lengths[i], before + 1, kMaxContext)) return false;
    before = a.rope_lengths[i];
  }
  return f.holds(a.rope_length_count == 0 || a.dynamic_length == 0,
                 "lengths must be empty where dynamic_length is set");
}

// A row for each position that a sequence may have.
bool check_positions(const OperatorCall& c, Finding& f) {
  if (!f.within("offset", c.attrs.offset, 0, kMaxContext)) return false;
  if (c.program == nullptr) return true;
  return f.equal("vocab_begin of positions", c.attrs.vocab_begin, 0) &&
         f.within("rows of the weight", c.in[0].rows, c.program->context + c.attrs.offset,
                  kMaxColumns);
}

// Which columns of a head turn, by which table.
bool check_turn(const OperatorAttrs& a, const OperandShape& table, Finding& f) {
  return f.within("rotary_dim", a.rotary_dim, 2, a.head_dim) &&
         f.equal("rotary_dim's remainder by 2", a.rotary_dim % 2, 0) &&
         f.within("offset", a.offset, 0, a.head_dim - a.rotary_dim) &&
         f.equal("columns of the table", table.cols, a.rotary_dim);
}

// Of attention, with its own operand of sinks.
bool check_heads_and_pages(const OperatorCall& c, const OperandShape& sinks, Finding& f) {
  const OperatorAttrs& a = c.attrs;
  if (c.program != nullptr &&
      !(f.within("state", a.state, 0, c.program->state_count - 1) &&
        f.equal("head_dim", a.head_dim, c.kv.k_dim) &&
        f.equal("v_dim of the pages", c.kv.v_dim, a.values_in_keys ? 0 : a.v_dim) &&
        f.equal("kv_heads", a.kv_heads, c.kv.kv_heads))) {
    return false;
  }
  const bool shapes =
      f.within("heads", a.heads, 0, kMaxHeads) && f.within("kv_heads", a.kv_heads, 0, kMaxHeads) &&
      f.within("head_dim", a.head_dim, 1, kMaxColumns / kMaxHeads) &&
      f.within("v_dim", a.v_dim, 1, a.values_in_keys ? a.head_dim : kMaxColumns / kMaxHeads) &&
      f.equal("columns of q", c.in[0].cols, a.heads * a.head_dim) &&
      f.equal("columns of k", c.in[1].cols, a.kv_heads * a.head_dim) &&
      f.equal("columns of v", c.in[2].cols,
              a.kv_heads * (a.values_in_keys ? a.head_dim : a.v_dim)) &&
      f.equal("columns of the output", c.out[0].cols, a.heads * a.v_dim) &&
      f.equal("kv_head_of count", a.kv_head_of_count, a.heads) &&
      (a.slopes == nullptr || f.equal("slopes count", a.slope_count, a.heads)) &&
      (!sinks.present || f.equal("columns of sinks", sinks.cols, a.heads));
  if (!shapes) return false;
  for (int64_t head = 0; head < a.heads; ++head) {
    if (!f.within("kv_head_of", a.kv_head_of[head], 0, a.kv_heads - 1)) return false;
    if (a.slopes != nullptr && !f.finite("a slope", a.slopes[head])) return false;
  }
  return f.finite("scale", a.scale) && f.finite("cap", a.cap) &&
         f.holds(a.cap >= 0, "cap must not be negative") &&
         f.within("window", a.window, 0, kMaxColumns) && f.within("chunk", a.chunk, 0, kMaxColumns);
}

// Of linear and gated_linear: x, the weight, the bias.
bool check_matrix(const OperatorCall& c, Finding& f) {
  const OperandShape &x = c.in[0], &weight = c.in[1], &bias = c.in[2];
  return f.equal("matrices of the weight", weight.matrices, 1) &&
         f.equal("columns of the weight", weight.cols, x.cols) &&
         (!bias.present || f.equal("columns of the bias", bias.cols, weight.rows)) &&
         check_product(x.dtype, weight.dtype, f);
}

}  // namespace

bool check_embed(const OperatorCall& c, Finding& f) {
  const bool own = c.program != nullptr && !c.attrs.beside && !c.attrs.by_position;
  const int64_t hidden = own ? c.program->hidden : c.out[0].cols;
  if (c.attrs.beside &&
      !(f.holds(!c.attrs.by_position, "by_position and beside must not both be set") &&
        f.within("absent_id", c.attrs.absent_id, 0, kMaxColumns))) {
    return false;
  }
  if (!f.equal("columns of the weight", c.in[0].cols, hidden) ||
      !f.equal("columns of the output", c.out[0].cols, hidden)) {
    return false;
  }
  if (c.attrs.by_position) return check_positions(c, f);
  if (!f.equal("offset of tokens", c.attrs.offset, 0)) return false;
  if (c.program == nullptr) return true;
  const int64_t vocab = c.program->vocab;
  return f.within("vocab_begin", c.attrs.vocab_begin, 0, vocab) &&
         f.within("rows of the weight", c.in[0].rows, 0, vocab - c.attrs.vocab_begin);
}

bool check_product(DType x, DType weight, Finding& f) {
  if (is_rounded(x)) {
    return f.holds(x == rounded_rows(weight),
                   "rounded rows must be as the weight's type wants them");
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
  if (!check_eps(c, f)) return false;
  for (const OperandShape& operand : c.in) {  // Weight and bias, wherever they stand.
    if (operand.present && !f.equal("columns of the weight", operand.cols, c.in[0].cols)) {
      return false;
    }
  }
  return true;
}

bool check_head_norm(const OperatorCall& c, Finding& f) {
  const int64_t weight = c.in[1].cols;  // For all heads, or for each.
  if (!check_eps(c, f) || !check_heads(c, f)) return false;
  if (!c.in[1].present) return f.holds(!c.in[2].present, "a bias wants a weight before it");
  if (weight != c.in[0].cols && !f.equal("columns of the weight", weight, c.attrs.head_dim)) {
    return false;
  }
  return !c.in[2].present || (f.holds(c.attrs.centred, "a bias is for centred heads only") &&
                              f.equal("columns of the bias", c.in[2].cols, weight));
}

bool check_rope_table(const OperatorCall& c, Finding& f) {
  const OperatorAttrs& a = c.attrs;
  if (!f.within("inv_freq count", a.rotary_dim / 2, 1, kMaxAngles) ||
      !f.equal("columns of the output", c.out[0].cols, a.rotary_dim) || !check_rope_lengths(a, f)) {
    return false;
  }
  for (int64_t i = 0; i < a.inv_freq_count; ++i) {
    // The sine takes angles below 2^30: positions are below kMaxContext.
    if (!f.finite("inv_freq", a.inv_freq[i]) ||
        !f.holds(std::abs(a.inv_freq[i]) <= 32, "inv_freq must be within -32 to 32")) {
      return false;
    }
  }
  return f.within("position_row", static_cast<int64_t>(a.position_row), 0, 2) &&
         f.finite("factor", a.rope_factor) && f.finite("dynamic_factor", a.dynamic_factor) &&
         f.finite("theta", a.rope_theta) && check_dynamic(a, f);
}

bool check_rope(const OperatorCall& c, Finding& f) {
  return f.within("head_dim", c.attrs.head_dim, 1, kMaxColumns) &&
         check_turn(c.attrs, c.in[1], f) && check_heads(c, f);
}

bool check_position_scale(const OperatorCall& c, Finding& f) {
  const OperatorAttrs& a = c.attrs;
  const int64_t count = a.log_factor == 0 ? 1 : 0;  // At least; with a logarithm at most.
  if (!f.within("scales count", a.position_scale_count, count, count * kMaxScales) ||
      !f.within("length", a.position_scale_length, 1, kMaxContext) ||
      !f.within("offset", a.offset, 0, kMaxContext) || !f.finite("log_factor", a.log_factor)) {
    return false;
  }
  for (int64_t i = 0; i < a.position_scale_count; ++i) {
    if (!f.finite("scale", a.position_scales[i])) return false;
  }
  return true;
}

bool check_attention(const OperatorCall& c, Finding& f) {
  return check_heads_and_pages(c, c.in[3], f);
}

bool check_rope_attention(const OperatorCall& c, Finding& f) {
  return f.holds(!c.attrs.read_only, "read_only must not be set") &&
         f.holds(!c.attrs.values_in_keys, "values_in_keys must not be set") &&
         check_heads_and_pages(c, c.in[4], f) && check_turn(c.attrs, c.in[3], f);
}

bool check_map(const OperatorCall& c, Finding& f) {
  const auto function = static_cast<int>(c.attrs.function);
  if (!f.within("function", function, 1, kFunctionCount - 1) ||
      !f.finite("factor", c.attrs.factor)) {
    return false;
  }
  if (!has_factor(c.attrs.function)) {
    return f.holds(c.attrs.factor == 0, "factor must be 0 where the function has none");
  }
  return c.attrs.function == Function::kScale ||
         f.holds(c.attrs.factor > 0, "factor must be above 0, but for scale");
}

bool check_top_candidates(const OperatorCall& c, Finding& f) {
  if (c.program == nullptr) return true;
  const int64_t begin = c.attrs.vocab_begin, vocab = c.program->vocab;
  if (!f.within("vocab_begin", begin, 0, vocab + kVocabBlock) ||
      !f.equal("vocab_begin's remainder by 64", begin % kVocabBlock, 0)) {
    return false;
  }
  // Without columns a share may begin at the end of the last block, behind the last id.
  return c.in[0].cols == 0 || f.within("columns of the logits", c.in[0].cols, 0, vocab - begin);
}

bool check_all_gather(const OperatorCall& c, Finding& f) {
  const OperatorAttrs& a = c.attrs;
  const int64_t ranks = c.program != nullptr ? c.program->ranks : a.boundary_count - 1;
  if (!f.holds(ranks >= 1, "boundaries must be there") ||
      !f.equal("boundaries count", a.boundary_count, ranks + 1) ||
      !f.equal("first of the boundaries", a.boundaries[0], 0)) {
    return false;
  }
  for (int64_t i = 0; i < ranks; ++i) {
    if (!f.within("boundaries, ascending,", a.boundaries[i + 1], a.boundaries[i], kMaxColumns)) {
      return false;
    }
  }
  if (!f.equal("columns of the output", c.out[0].cols, a.boundaries[ranks])) return false;
  for (int64_t i = 0; i < ranks; ++i) {
    const int64_t whole = a.boundaries[i] == c.out[0].cols ? 1 : group_elements(c.out[0].dtype);
    if (!f.equal("a boundary's remainder by the group", a.boundaries[i] % whole, 0)) return false;
  }
  if (c.program == nullptr) return true;
  const int64_t* own = a.boundaries + c.program->rank;
  return f.equal("columns of the input", c.in[0].cols, own[1] - own[0]);
}

bool check_columns(const OperatorCall& c, Finding& f) {
  return f.within("end", c.attrs.end, 0, c.in[0].cols) &&
         f.within("begin", c.attrs.begin, 0, c.attrs.end) &&
         f.equal("columns of the view", c.out[0].cols, c.attrs.end - c.attrs.begin);
}

}  // namespace lockstep
