// SPDX-License-Identifier: Apache-2.0
#include "tests/models/described_config.h"

#include <algorithm>
#include <fstream>
#include <optional>

#include "models/summary.h"
#include "tests/support/files/temp_folder.h"

namespace lockstep {
namespace {

// Reads facts about layers from a graph, by the names of values and by what computes them.
class Walk {
 public:
  Walk(const ModelDescription& model, Described& found) : graph_(model.graph), out_(found) {
    out_.rotates.resize(static_cast<size_t>(out_.layers));
    out_.attends = out_.has_router = out_.rotates;
    out_.kinds.assign(static_cast<size_t>(out_.layers), '-');
  }

  void walk() {
    for (const Node& node : graph_.nodes()) {
      if (node.op == Op::kAttention) see_attention(node);
      if (node.op == Op::kRoute) see_route(node);
      if (node.op == Op::kRecurrence || node.op == Op::kDeltaRule) {
        out_.recurrence = node.attributes.recurrence();
        out_.kinds[layer_of(name(node))] = 'M';
      }
      if (node.op == Op::kConv) out_.taps = node.attributes.conv().taps();
      if (is_norm(node) && out_.norm_eps == 0) see_norm(node);
      if (node.op == Op::kEmbed && node.attributes.embed().by_position()) {
        out_.position_rows = parameter(node, 0).rows.count;
        out_.position_offset = node.attributes.embed().offset();
      }
    }
    see_ends();
    see_halves();
    see_mlp();
  }

 private:
  static bool is_norm(const Node& node) {
    return node.op == Op::kRmsNorm || node.op == Op::kLayerNorm || node.op == Op::kHeadNorm;
  }
  const Node& maker(int value) const { return graph_.nodes()[graph_.values()[value].node]; }
  std::string name(const Node& node) const {
    return node.outputs.empty() ? "" : graph_.values()[node.outputs[0]].name;
  }
  const Parameter& parameter(const Node& node, size_t index) const {
    return graph_.parameters()[node.parameters[index]];
  }
  bool has_bias(const Node& node) const {
    return std::ranges::any_of(
        node.parameters, [&](int id) { return graph_.parameters()[id].role == program::BIAS; });
  }
  static bool is_map(const Node& node, Function function) {
    return node.op == Op::kMap &&
           node.attributes.map().function() == static_cast<program::Function>(function);
  }
  // The layer's number, which is between two dots in the name of a value; -1: the value belongs to
  // no layer.
  static int layer_of(const std::string& name) {
    for (size_t dot = name.find('.'); dot != name.npos; dot = name.find('.', dot + 1)) {
      const size_t end = name.find_first_not_of("0123456789", dot + 1);
      if (end != name.npos && end > dot + 1 && name[end] == '.') return std::stoi(&name[dot + 1]);
    }
    return -1;
  }

  void see_attention(const Node& node) {
    const program::AttentionAttrs& attention = node.attributes.attention();
    const bool first = out_.windows.empty();
    const int layer = layer_of(name(node));
    out_.windows.push_back(attention.window());
    out_.chunks.push_back(attention.chunk());
    out_.attends[layer] = true;
    out_.kinds[layer] = '*';
    if (first) {
      out_.attention_scale = attention.scale();
      out_.attention_cap = attention.cap();
      out_.slopes.assign(attention.slopes().begin(), attention.slopes().end());
      for (const Node& linear : graph_.nodes()) {
        if (linear.op == Op::kLinear && reads(linear, node)) out_.output_bias = has_bias(linear);
      }
    }
    for (const Node* at = &maker(node.inputs[0]); !at->inputs.empty(); at = &maker(at->inputs[0])) {
      if (at->op == Op::kJoinHeads) at = &maker(at->inputs[1]);  // Input 1: the rotated columns.
      if (at->op == Op::kRope) see_rope(*at, attention, layer);
      if (at->op == Op::kPositionScale) out_.query_scales = at->attributes.position_scale();
      if (is_map(*at, Function::kClamp)) out_.qkv_clamp = at->attributes.map().factor();
      if (is_norm(*at) && first) {
        out_.normed_q = true;
        out_.q_norm = at->attributes.norm();
        out_.q_norm_by_head = !at->parameters.empty() && parameter(*at, 0).pieces.size() > 1;
      }
      if (at->op != Op::kLinear) continue;
      if (first) out_.qkv_bias = has_bias(*at);
      return;
    }
  }

  bool reads(const Node& node, const Node& made) const {
    for (int value : node.inputs) {
      if (value == made.outputs[0]) return true;
      const Node& between = maker(value);
      if (between.op == Op::kMul && reads(between, made)) return true;
    }
    return false;
  }

  void see_rope(const Node& node, const program::AttentionAttrs& attention, int layer) {
    const program::RopeTableAttrs& table = maker(node.inputs[1]).attributes.rope_table();
    const bool first = std::ranges::find(out_.rotates, true) == out_.rotates.end();
    out_.rotates[layer] = true;
    if (first || attention.window() == 0) {
      out_.rotary = node.attributes.rope();
      out_.rope = table;
    }
    if (attention.window() == 0) return;
    out_.window_rotary = node.attributes.rope();
    out_.window_rope = table;
  }

  void see_route(const Node& node) {
    const int layer = layer_of(name(node));
    if (out_.has_router[layer]) return;
    out_.has_router[layer] = true;
    if (out_.kinds[layer] == '-') out_.kinds[layer] = 'E';
    if (out_.route.chosen() == 0) out_.route = node.attributes.route();
  }

  void see_norm(const Node& node) {
    out_.norm_eps = node.attributes.norm().eps();
    out_.norm_plus = node.parameters.empty() ? 0 : parameter(node, 0).pieces[0].plus();
    out_.layer_norm = node.op == Op::kLayerNorm;
    out_.norm_bias = has_bias(node);
  }

  void see_ends() {
    bool after = false;
    for (const Node& node : graph_.nodes()) {
      if (node.op == Op::kMap && layer_of(name(node)) < 0) {
        const float factor = node.attributes.map().factor();
        if (is_map(node, Function::kCap)) out_.logits_cap = factor;
        float& multiplier = after ? out_.logits_multiplier : out_.embedding_multiplier;
        if (is_map(node, Function::kScale) && multiplier == 1) multiplier = factor;
      }
      if (node.parameters.empty() || parameter(node, 0).role != program::HEAD_WEIGHT) continue;
      after = true;
      out_.head_bias = has_bias(node);
      out_.head_unit_rows = parameter(node, 0).pieces[0].unit_rows();
    }
  }

  // The norms of the residual stream in the first layer, and the value to which the first sum adds.
  void see_halves() {
    std::vector<int> normed;
    bool added = false;
    for (const Node& node : graph_.nodes()) {
      if (layer_of(name(node)) != 0) continue;
      const bool wide = node.op == Op::kRmsNorm || node.op == Op::kLayerNorm;
      if (wide && graph_.info({node.inputs[0]}).axis.axis == Axis::kHidden) {
        normed.push_back(node.inputs[0]);
      }
      if (node.op != Op::kAdd || added) continue;
      added = true;
      const Node& kept = maker(node.inputs[0]);
      const bool scaled = is_map(kept, Function::kScale);
      const bool of_norm = is_norm(scaled ? maker(kept.inputs[0]) : kept);
      const bool inside = layer_of(name(kept)) == 0 && name(kept).find(".0.") != std::string::npos;
      if (of_norm && inside) out_.normed_residual = scaled ? kept.attributes.map().factor() : 1;
    }
    if (normed.size() == 1) out_.parallel_norms = 1;
    if (normed.size() == 2 && normed[0] == normed[1]) out_.parallel_norms = 2;
  }

  // The first linear that produces columns of an MLP, and the first function of such columns.
  void see_mlp() {
    const auto is_wide = [&](const Node& node) {
      return !node.outputs.empty() && graph_.info({node.outputs[0]}).axis.axis == Axis::kFfn;
    };
    const auto find = [&](Op op) {
      return std::ranges::find_if(graph_.nodes(),
                                  [&](const Node& node) { return node.op == op && is_wide(node); });
    };
    const auto linear = find(Op::kLinear), map = find(Op::kMap), end = graph_.nodes().end();
    if (linear != end) out_.mlp_bias = has_bias(*linear);
    if (map != end) out_.activation = static_cast<Function>(map->attributes.map().function());
  }

  const Graph& graph_;
  Described& out_;
};

}  // namespace

Described described(const ModelDescription& model) {
  Described found{model.config};
  Walk(model, found).walk();
  return found;
}

namespace {

absl::StatusOr<ModelDescription> describe(const std::string& config,
                                          const std::vector<std::string>& ignored,
                                          int64_t max_context) {
  const TempFolder folder;
  std::ofstream(folder.path() / "config.json") << config;
  return describe_model(folder.path(), ignored, max_context);
}

}  // namespace

absl::StatusOr<ModelDescription> describe_config(const std::string& config) {
  return describe(config, {}, 0);
}

absl::StatusOr<ModelDescription> describe_config(const std::string& config,
                                                 const std::string& patch,
                                                 const std::vector<std::string>& ignored,
                                                 int64_t max_context) {
  Json json = Json::parse(config);
  json.merge_patch(Json::parse(patch));
  return describe(json.dump(), ignored, max_context);
}

std::vector<int64_t> shape_of(const ModelDescription& model, const std::string& tensor) {
  const Summary summary = summarize(model.graph);
  const auto found = summary.tensors.find(tensor);
  return found == summary.tensors.end() ? std::vector<int64_t>() : found->second;
}

void expect_refused(const absl::StatusOr<ModelDescription>& model, const std::string& says) {
  ASSERT_FALSE(model.ok()) << says;
  EXPECT_NE(message_of(model.status()).find(says), std::string::npos) << model.status();
}

void expect_refused(const std::string& config, const std::string& says) {
  expect_refused(describe_config(config), says);
}

void expect_refused(const std::string& config, const std::string& patch, const std::string& says) {
  expect_refused(describe_config(config, patch), says);
}

}  // namespace lockstep
