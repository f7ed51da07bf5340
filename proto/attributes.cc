// SPDX-License-Identifier: Apache-2.0
#include "proto/attributes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <span>

#include "operators/schema.h"

namespace lockstep {
namespace {

using program::Attributes;

static_assert(static_cast<int>(AttrsKind::kNone) == Attributes::KIND_NOT_SET);
static_assert(static_cast<int>(AttrsKind::kEmbed) == Attributes::kEmbed);
static_assert(static_cast<int>(AttrsKind::kNorm) == Attributes::kNorm);
static_assert(static_cast<int>(AttrsKind::kRopeTable) == Attributes::kRopeTable);
static_assert(static_cast<int>(AttrsKind::kRope) == Attributes::kRope);
static_assert(static_cast<int>(AttrsKind::kAttention) == Attributes::kAttention);
static_assert(static_cast<int>(AttrsKind::kTopCandidates) == Attributes::kTopCandidates);
static_assert(static_cast<int>(AttrsKind::kGather) == Attributes::kGather);
static_assert(static_cast<int>(AttrsKind::kColumns) == Attributes::kColumns);
static_assert(static_cast<int>(AttrsKind::kRoute) == Attributes::kRoute);
static_assert(static_cast<int>(AttrsKind::kExpert) == Attributes::kExpert);
static_assert(static_cast<int>(AttrsKind::kMap) == Attributes::kMap);
static_assert(static_cast<int>(AttrsKind::kPositionScale) == Attributes::kPositionScale);
static_assert(static_cast<int>(AttrsKind::kConv) == Attributes::kConv);
static_assert(static_cast<int>(AttrsKind::kRecurrence) == Attributes::kRecurrence);
static_assert(static_cast<int>(AttrsKind::kHeads) == Attributes::kHeads);
static_assert(static_cast<int>(AttrsKind::kBlock) == Attributes::kBlock);

#define LOCKSTEP_OP(number, constant, message, word) \
  static_assert(program::message == (number), #word ": program.proto has another number");
#include "operators/ops.inc"
static_assert(program::Op_ARRAYSIZE == kOpCount, "program.proto has more than operators/ops.inc");

#define LOCKSTEP_FUNCTION(number, constant, message, word) \
  static_assert(program::message == (number), #word ": program.proto has another number");
#include "operators/functions.inc"
static_assert(program::Function_ARRAYSIZE == kFunctionCount,
              "program.proto has more than operators/functions.inc");

void bind_embed(const program::EmbedAttrs& from, OperatorAttrs& attrs) {
  attrs.vocab_begin = from.vocab_begin();
  attrs.by_position = from.by_position();
  attrs.offset = from.offset();
  attrs.beside = from.beside();
  attrs.absent_id = from.absent_id();
}

void bind_rope_table(const program::RopeTableAttrs& from, OperatorAttrs& attrs) {
  attrs.rotary_dim = 2 * (from.inv_freq_size() / (int64_t{from.lengths_size()} + 1));
  attrs.inv_freq = from.inv_freq().data();
  attrs.inv_freq_count = from.inv_freq_size();
  if (from.lengths_size() > 0) attrs.rope_lengths = from.lengths().data();
  attrs.rope_length_count = from.lengths_size();
  // A number that is none is checked as such.
  attrs.position_row = static_cast<PositionRow>(from.position_row());
  attrs.rope_factor = from.factor();
  attrs.dynamic_length = from.dynamic_length();
  attrs.dynamic_factor = from.dynamic_factor();
  attrs.rope_theta = from.theta();
}

void bind_attention(const program::AttentionAttrs& from, OperatorAttrs& attrs) {
  attrs.head_dim = from.head_dim();
  attrs.v_dim = from.v_dim() == 0 ? from.head_dim() : from.v_dim();
  attrs.heads = from.heads();
  attrs.kv_heads = from.kv_heads();
  attrs.kv_head_of = from.kv_head_of().data();
  attrs.kv_head_of_count = from.kv_head_of_size();
  if (from.slopes_size() > 0) attrs.slopes = from.slopes().data();
  attrs.slope_count = from.slopes_size();
  attrs.scale = from.scale();
  attrs.window = from.window();
  attrs.chunk = from.chunk();
  attrs.read_only = from.read_only();
  attrs.values_in_keys = from.values_in_keys();
  attrs.cap = from.cap();
  attrs.state = from.state();
  attrs.rotary_dim = from.rotary_dim();
  attrs.interleaved = from.interleaved();
  attrs.offset = from.offset();
}

void bind_route(const program::RouteAttrs& from, OperatorAttrs& attrs) {
  attrs.route.chosen = from.chosen();
  attrs.route.sigmoid = from.sigmoid();
  attrs.route.softmax_of_chosen = from.softmax_of_chosen();
  attrs.route.groups = from.groups();
  attrs.route.chosen_groups = from.chosen_groups();
  attrs.route.best_two = from.best_two();
  attrs.route.renormalised = from.renormalised();
  attrs.scale = from.scale();
}

void bind_recurrence(const program::RecurrenceAttrs& from, OperatorAttrs& attrs) {
  attrs.heads = from.heads();
  attrs.kv_heads = from.key_heads();
  attrs.head_dim = from.k_dim();
  attrs.v_dim = from.v_dim();
  attrs.kv_head_of = from.key_head_of().data();
  attrs.kv_head_of_count = from.key_head_of_size();
  attrs.scale = from.scale();
  attrs.eps = from.eps();
  attrs.out_before = from.out_before();
  attrs.state = from.state();
}

void bind_map(const program::MapAttrs& from, OperatorAttrs& attrs) {
  // A number that is none stays one.
  const bool known = program::Function_IsValid(from.function());
  attrs.function = known ? static_cast<Function>(from.function()) : Function::kNone;
  attrs.factor = from.factor();
}

template <typename T>
std::string list_text(std::span<const T> values, bool brief, const char* format) {
  const auto text = [format](T value) { return fmt::format(fmt::runtime(format), value); };
  if (brief && values.size() > 4) {
    return fmt::format("[{} .. {}, {} values]", text(values.front()), text(values.back()),
                       values.size());
  }
  std::string joined;
  for (const T value : values) joined += (joined.empty() ? "" : ", ") + text(value);
  return "[" + joined + "]";
}

std::string norm_text(const OperatorAttrs& attrs) {
  std::string text = fmt::format("eps {:.6g}", attrs.eps);
  if (attrs.head_dim != 0) text += fmt::format(" head_dim {}", attrs.head_dim);
  if (attrs.centred) text += " centred";
  return text;
}

std::string rope_table_text(const OperatorAttrs& attrs, bool brief) {
  const std::span<const float> inv_freq(attrs.inv_freq, static_cast<size_t>(attrs.inv_freq_count));
  std::string text = fmt::format("inv_freq {} factor {:.6g}", list_text(inv_freq, brief, "{:.6g}"),
                                 attrs.rope_factor);
  if (attrs.rope_lengths != nullptr) {
    const std::span<const int64_t> lengths(attrs.rope_lengths,
                                           static_cast<size_t>(attrs.rope_length_count));
    text += " lengths " + list_text(lengths, brief, "{}");
  }
  if (attrs.position_row == PositionRow::kHeld) text += " held";
  if (attrs.position_row == PositionRow::kBlock) text += " block";
  if (attrs.dynamic_length == 0) return text;
  return text + fmt::format(" dynamic_length {} dynamic_factor {:.6g} theta {:.6g}",
                            attrs.dynamic_length, attrs.dynamic_factor, attrs.rope_theta);
}

std::string turn_text(const OperatorAttrs& attrs) {
  std::string text = fmt::format("rotary_dim {}", attrs.rotary_dim);
  if (attrs.offset != 0) text += fmt::format(" offset {}", attrs.offset);
  return text + (attrs.interleaved ? " interleaved" : "");
}

std::string rope_text(const OperatorAttrs& attrs) {
  return fmt::format("head_dim {} ", attrs.head_dim) + turn_text(attrs);
}

std::string position_scale_text(const OperatorAttrs& attrs, bool brief) {
  const std::span<const float> scales(attrs.position_scales,
                                      static_cast<size_t>(attrs.position_scale_count));
  std::string text = fmt::format("scales {} length {}", list_text(scales, brief, "{:.9g}"),
                                 attrs.position_scale_length);
  if (attrs.log_factor != 0) text += fmt::format(" log_factor {:.9g}", attrs.log_factor);
  if (attrs.offset != 0) text += fmt::format(" offset {}", attrs.offset);
  return text;
}

std::string attention_text(const OperatorAttrs& attrs, bool brief) {
  std::string text =
      fmt::format("heads {} kv_heads {} head_dim {}", attrs.heads, attrs.kv_heads, attrs.head_dim);
  if (attrs.v_dim != attrs.head_dim) text += fmt::format(" v_dim {}", attrs.v_dim);
  text += fmt::format(" scale {:.9g} state {}", attrs.scale, attrs.state);
  if (attrs.values_in_keys) text += " values_in_keys";
  if (attrs.read_only) text += " read_only";
  if (attrs.window != 0) text += fmt::format(" window {}", attrs.window);
  if (attrs.chunk != 0) text += fmt::format(" chunk {}", attrs.chunk);
  if (attrs.cap != 0) text += fmt::format(" cap {:.9g}", attrs.cap);
  if (attrs.slopes != nullptr) {
    const std::span<const float> slopes(attrs.slopes, static_cast<size_t>(attrs.slope_count));
    text += " slopes " + list_text(slopes, brief, "{:.6g}");
  }
  if (attrs.rotary_dim != 0) text += " " + turn_text(attrs);
  const std::span<const int32_t> map(attrs.kv_head_of, static_cast<size_t>(attrs.kv_head_of_count));
  return text + " kv_head_of " + list_text(map, brief, "{}");
}

std::string recurrence_text(const OperatorAttrs& attrs, bool brief) {
  const std::span<const int32_t> map(attrs.kv_head_of, static_cast<size_t>(attrs.kv_head_of_count));
  std::string text = fmt::format("heads {} key_heads {} k_dim {} v_dim {}", attrs.heads,
                                 attrs.kv_heads, attrs.head_dim, attrs.v_dim);
  if (attrs.scale != 0) text += fmt::format(" scale {:.9g} eps {:.6g}", attrs.scale, attrs.eps);
  if (attrs.out_before) text += " out_before";
  return text + fmt::format(" state {} key_head_of {}", attrs.state, list_text(map, brief, "{}"));
}

std::string heads_text(const OperatorAttrs& attrs) {
  std::string text = fmt::format("heads {}", attrs.heads);
  if (attrs.in_dim != 0) text += fmt::format(" in_dim {}", attrs.in_dim);
  if (attrs.head_dim != 0) text += fmt::format(" out_dim {}", attrs.head_dim);
  return text + (attrs.transposed ? " transposed" : "");
}

std::string route_text(const OperatorAttrs& attrs) {
  std::string text = fmt::format("chosen {}", attrs.route.chosen);
  if (attrs.route.sigmoid) text += " sigmoid";
  if (attrs.route.softmax_of_chosen) text += " softmax_of_chosen";
  if (attrs.route.groups != 1) {
    text +=
        fmt::format(" groups {} chosen_groups {}", attrs.route.groups, attrs.route.chosen_groups);
    if (attrs.route.best_two) text += " best_two";
  }
  if (attrs.route.renormalised) text += " renormalised";
  return text + fmt::format(" scale {:.9g}", attrs.scale);
}

void bind_position_scale(const program::PositionScaleAttrs& from, OperatorAttrs& attrs) {
  attrs.position_scales = from.scales().data();
  attrs.position_scale_count = from.scales_size();
  attrs.position_scale_length = from.length();
  attrs.log_factor = from.log_factor();
  attrs.offset = from.offset();
}

}  // namespace

OperatorAttrs bind_attributes(const Attributes& from) {
  OperatorAttrs attrs;
  switch (attrs_kind(from)) {
    case AttrsKind::kNone:
      break;
    case AttrsKind::kEmbed:
      bind_embed(from.embed(), attrs);
      break;
    case AttrsKind::kNorm:
      attrs.eps = from.norm().eps();
      attrs.head_dim = from.norm().head_dim();
      attrs.centred = from.norm().centred();
      break;
    case AttrsKind::kRopeTable:
      bind_rope_table(from.rope_table(), attrs);
      break;
    case AttrsKind::kRope:
      attrs.head_dim = from.rope().head_dim();
      attrs.rotary_dim = from.rope().rotary_dim();
      attrs.interleaved = from.rope().interleaved();
      attrs.offset = from.rope().offset();
      break;
    case AttrsKind::kAttention:
      bind_attention(from.attention(), attrs);
      break;
    case AttrsKind::kTopCandidates:
      attrs.vocab_begin = from.top_candidates().vocab_begin();
      break;
    case AttrsKind::kGather:
      attrs.boundaries = from.gather().boundaries().data();
      attrs.boundary_count = from.gather().boundaries_size();
      break;
    case AttrsKind::kColumns:
      attrs.begin = from.columns().begin();
      attrs.end = from.columns().end();
      break;
    case AttrsKind::kRoute:
      bind_route(from.route(), attrs);
      break;
    case AttrsKind::kExpert:
      attrs.experts = from.expert().experts();
      break;
    case AttrsKind::kMap:
      bind_map(from.map(), attrs);
      break;
    case AttrsKind::kPositionScale:
      bind_position_scale(from.position_scale(), attrs);
      break;
    case AttrsKind::kConv:
      attrs.taps = from.conv().taps();
      attrs.state = from.conv().state();
      break;
    case AttrsKind::kRecurrence:
      bind_recurrence(from.recurrence(), attrs);
      break;
    case AttrsKind::kHeads:
      attrs.heads = from.heads().heads();
      attrs.in_dim = from.heads().in_dim();
      attrs.transposed = from.heads().transposed();
      attrs.head_dim = from.heads().out_dim();
      break;
    case AttrsKind::kBlock:
      attrs.state = from.block().state();
      break;
  }
  return attrs;
}

std::string attributes_text(const Attributes& attributes, bool brief) {
  const OperatorAttrs attrs = bind_attributes(attributes);
  switch (attrs_kind(attributes)) {
    case AttrsKind::kNone:
      return "";
    case AttrsKind::kEmbed:
      return fmt::format("vocab_begin {}", attrs.vocab_begin) +
             (attrs.by_position ? fmt::format(" by_position offset {}", attrs.offset) : "") +
             (attrs.beside ? fmt::format(" beside absent_id {}", attrs.absent_id) : "");
    case AttrsKind::kTopCandidates:
      return fmt::format("vocab_begin {}", attrs.vocab_begin);
    case AttrsKind::kNorm:
      return norm_text(attrs);
    case AttrsKind::kRopeTable:
      return rope_table_text(attrs, brief);
    case AttrsKind::kRope:
      return rope_text(attrs);
    case AttrsKind::kAttention:
      return attention_text(attrs, brief);
    case AttrsKind::kGather: {
      const std::span<const int64_t> boundaries(attrs.boundaries,
                                                static_cast<size_t>(attrs.boundary_count));
      return "boundaries " + list_text(boundaries, false, "{}");
    }
    case AttrsKind::kColumns:
      return fmt::format("{}:{}", attrs.begin, attrs.end);
    case AttrsKind::kRoute:
      return route_text(attrs);
    case AttrsKind::kExpert:
      return fmt::format("experts {}", attrs.experts);
    case AttrsKind::kMap:
      return attrs.factor == 0
                 ? std::string(function_name(attrs.function))
                 : fmt::format("{} {:.9g}", function_name(attrs.function), attrs.factor);
    case AttrsKind::kPositionScale:
      return position_scale_text(attrs, brief);
    case AttrsKind::kConv:
      return fmt::format("taps {} state {}", attrs.taps, attrs.state);
    case AttrsKind::kRecurrence:
      return recurrence_text(attrs, brief);
    case AttrsKind::kHeads:
      return heads_text(attrs);
    case AttrsKind::kBlock:
      return fmt::format("state {}", attrs.state);
  }
  return "";
}

}  // namespace lockstep
