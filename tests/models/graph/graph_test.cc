// SPDX-License-Identifier: Apache-2.0
#include "models/graph/graph.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "base/source_dir.h"
#include "base/status.h"
#include "models/architecture.h"
#include "models/models.h"

namespace lockstep {
namespace {

ModelDescription own_config(const std::string& name) {
  const std::filesystem::path folder =
      std::filesystem::path(LOCKSTEP_SOURCE_DIR) / "tests/data/configs" / name;
  absl::StatusOr<ModelDescription> model = describe_model(folder, {}, 0);
  EXPECT_TRUE(model.ok()) << message_of(model.status());
  return *std::move(model);
}

int count(const Graph& graph, Op op) {
  int found = 0;
  for (const Node& node : graph.nodes()) found += node.op == op ? 1 : 0;
  return found;
}

TEST(GraphTest, ParametersHaveTheCheckpointsNamesAndShapes) {
  Graph graph;
  const AxisSize hidden = {Axis::kHidden, 8, 1}, ffn = {Axis::kFfn, 12, 1};
  const Value x = graph.embed("embed", {Axis::kVocab, 64, 1}, hidden);
  const Scope outer(graph, "layers.3");
  const Scope inner(graph, "mlp");
  graph.linear(x, "up_proj", ffn, true);
  ASSERT_EQ(graph.parameters().size(), 3u);
  const Parameter& weight = graph.parameters()[1];
  EXPECT_EQ(weight.name, "layers.3.mlp.up_proj.weight");
  ASSERT_EQ(weight.pieces.size(), 1u);
  EXPECT_EQ(weight.pieces[0].source(), "layers.3.mlp.up_proj.weight");
  EXPECT_EQ(weight.pieces[0].source_shape(0), 12);
  EXPECT_EQ(weight.pieces[0].source_shape(1), 8);
  const Parameter& bias = graph.parameters()[2];
  EXPECT_EQ(bias.pieces[0].source(), "layers.3.mlp.up_proj.bias");
  EXPECT_EQ(bias.pieces[0].source_shape_size(), 1);
}

using Ranges = std::vector<std::pair<int64_t, int64_t>>;

Ranges ranges_of(const Parameter& parameter) {
  Ranges ranges;
  for (const program::Piece& piece : parameter.pieces) {
    const bool bias = parameter.role == program::BIAS;
    EXPECT_EQ(piece.source_shape(0), 24);
    EXPECT_EQ(piece.source_shape_size(), bias ? 1 : 2);
    EXPECT_EQ(bias ? piece.row_end() : piece.col_end(), bias ? 1 : 8);
    ranges.emplace_back(bias ? piece.col_begin() : piece.row_begin(),
                        bias ? piece.col_end() : piece.row_end());
  }
  return ranges;
}

// Uses each builder once. Passes, and the split among ranks, add the operators without a builder.
TEST(GraphTest, EveryOperatorThatAModelMayNameHasABuilder) {
  Graph g;
  const AxisSize hidden = {Axis::kHidden, 8, 1}, vocab = {Axis::kVocab, 64, 1};
  const AxisSize heads = {Axis::kHeads, 2, 4};
  Value x = g.embed("embed", vocab, hidden);
  Rope rope{.head_dim = 4, .rotary_dim = 4};
  for (const float frequency : {1.0f, 0.1f}) rope.table.add_inv_freq(frequency);
  const HeadNorm head_norm = {.eps = 1e-5f, .head_dim = 4};
  Value q = g.rope(g.head_norm(g.linear(x, "q", heads), "norm", head_norm), rope);
  q = g.position_scale(q, {.scales = {1}, .length = 8});
  const AttentionAttrs attrs{.heads = 2, .kv_heads = 2, .head_dim = 4, .scale = 0.5f};
  x = g.rms_norm(g.attention(q, q, q, attrs), "norm", 1e-5f);
  Routes routes = g.route(g.router(x, "router", 4), {.chosen = 2});
  routes.weights = g.expert_scale(routes.weights, routes, "scale", 4);
  x = g.combine(g.expert_linear(x, routes, {.count = 4, .name = "*.up"}, hidden), routes);
  x = g.layer_norm(g.add(x, g.mul(x, g.map(x, Function::kSilu))), "norm", 1e-5f);
  q = g.conv(q, "conv", {.taps = 3, .bias = true});
  const Value rate = g.decay(g.biased(g.linear(x, "a", {Axis::kHeads, 2, 1}), "dt"), "A_log");
  q = g.join_heads(g.head_linear(q, "a", {2, 4, 1, false, 4}),
                   g.head_linear(q, "b", {2, 4, 3, true, 3}), heads);
  x = g.linear(g.delta_rule(q, q, q, rate, rate, {2, 2, 4, 4, 1, 1e-6f}), "out", hidden);
  const Value before = g.lerp(x, g.shift(x), g.broadcast("mix", hidden, {1, 1, 8}));
  const Value mean = g.wkv(before, before, "decay", "first");
  q = g.linear(mean, "mean", heads);
  q = g.add(g.recurrence(q, q, q, q, LowRank{q, q}, {2, 2, 4, 4}), g.head_dot(q, q, q, q));
  x = g.linear(g.mul(q, g.expand_heads(rate, 4)), "mixed", hidden);
  x = g.linear(g.columns(g.linear(x, "wide", {Axis::kNone, 9, 1}), 2, 5), "part", hidden);
  g.top_candidates(g.head(g.select_rows(x), "head", vocab));
  const std::set<Op> compilers = {Op::kGated,         Op::kAddNorm,    Op::kCast,
                                  Op::kAllReduce,     Op::kAllGather,  Op::kRoundGroups,
                                  Op::kRopeAttention, Op::kGatedLinear};
  for (int i = 1; i < kOpCount; ++i) {
    const Op op = static_cast<Op>(i);
    EXPECT_EQ(count(g, op) > 0, !compilers.contains(op))
        << op_name(op) << ": give it a builder in models/graph/graph.h, and use it here";
  }
}

TEST(GraphTest, HeadNormsHaveOneWeightForAllHeadsOrOneForEachHead) {
  Graph g;
  const AxisSize hidden = {Axis::kHidden, 8, 1}, heads = {Axis::kHeads, 3, 4};
  const Value q = g.linear(g.embed("embed", {Axis::kVocab, 64, 1}, hidden), "q", heads);
  const Scope scope(g, "layers.0");
  const size_t before = g.parameters().size();
  g.head_norm(q, "one", {.head_dim = 4, .centred = true, .bias = true});
  g.head_norm(q, "rows", {.head_dim = 4, .by_head = true});
  g.head_norm(q, "norms.*", {.head_dim = 4, .by_head = true});
  const Parameter &one = g.parameters()[before], &bias = g.parameters()[before + 1],
                  &rows = g.parameters()[before + 2], &own = g.parameters()[before + 3];
  EXPECT_EQ(one.cols.columns(), 4);
  EXPECT_EQ(bias.pieces.at(0).source(), "layers.0.one.bias");
  EXPECT_EQ(rows.cols.axis, Axis::kHeads);
  EXPECT_EQ(rows.all_cols(), 12);
  EXPECT_EQ(rows.pieces.at(2).source(), "layers.0.rows.weight");
  EXPECT_EQ(rows.pieces.at(2).source_shape(0), 3);
  EXPECT_EQ(rows.pieces.at(2).row_begin(), 2);
  EXPECT_EQ(own.all_cols(), 12);
  EXPECT_EQ(own.pieces.at(2).source(), "layers.0.norms.2.weight");
  EXPECT_EQ(own.pieces.at(2).source_shape_size(), 1);
  EXPECT_EQ(own.pieces.at(2).row_begin(), 0);
}

TEST(GraphTest, PartsOfAFusedLinearAreRowsOfOneTensorWithTheirOwnNames) {
  Graph graph;
  const AxisSize hidden = {Axis::kHidden, 8, 1}, heads = {Axis::kHeads, 2, 4};
  const Value x = graph.embed("embed", {Axis::kVocab, 64, 1}, hidden);
  const Scope scope(graph, "layers.0");
  const FusedPart q = {.name = "q", .all_rows = 24, .rows = {{0, 8}}};
  const FusedPart k = {.name = "k", .all_rows = 24, .rows = {{8, 12}, {20, 24}}};
  graph.linear_part(x, "qkv", q, heads, true);
  const Value out = graph.linear_part(x, "qkv", k, heads, true);
  EXPECT_EQ(graph.info(out).axis.columns(), 8);
  ASSERT_EQ(graph.parameters().size(), 5u);
  const std::vector<Parameter>& parameters = graph.parameters();
  EXPECT_EQ(parameters[1].name, "layers.0.qkv.weight (q)");
  EXPECT_EQ(parameters[3].name, "layers.0.qkv.weight (k)");
  EXPECT_EQ(parameters[4].name, "layers.0.qkv.bias (k)");
  EXPECT_EQ(parameters[3].pieces[1].source(), "layers.0.qkv.weight");
  EXPECT_EQ(parameters[4].pieces[1].source(), "layers.0.qkv.bias");
  for (const int i : {1, 2}) EXPECT_EQ(ranges_of(parameters[i]), (Ranges{{0, 8}}));
  for (const int i : {3, 4}) EXPECT_EQ(ranges_of(parameters[i]), (Ranges{{8, 12}, {20, 24}}));
}

TEST(GraphTest, APartMayBeAMatrixOfAStack) {
  Graph graph;
  const AxisSize hidden = {Axis::kHidden, 8, 1}, ffn = {Axis::kFfn, 6, 1};
  const Value x = graph.embed("embed", {Axis::kVocab, 64, 1}, hidden);
  const FusedPart third = {.name = "2", .all_rows = 24, .rows = {{12, 18}}, .matrices = 4};
  graph.linear_part(x, "experts.up", third, ffn);
  const program::Piece& piece = graph.parameters()[1].pieces.at(0);
  EXPECT_EQ(std::vector<int64_t>(piece.source_shape().begin(), piece.source_shape().end()),
            (std::vector<int64_t>{4, 6, 8}));
  EXPECT_EQ(piece.row_begin(), 12);
  EXPECT_EQ(piece.row_end(), 18);
}

TEST(GraphTest, ExpertsAreSeparateTensorsOrMatricesOfAStack) {
  Graph g;
  const AxisSize hidden = {Axis::kHidden, 8, 1}, ffn = {Axis::kFfn, 6, 1};
  const Value x = g.embed("embed", {Axis::kVocab, 64, 1}, hidden);
  const Scope scope(g, "layers.0");
  const Routes routes = g.route(g.router(x, "gate", 3), {.chosen = 2}, "choice_bias");
  EXPECT_EQ(g.row_domains[g.info(routes.ids).rows].rows_each(), 2);
  EXPECT_EQ(g.info(routes.ids).dtype, DType::kI32);
  const size_t before = g.parameters().size();
  EXPECT_EQ(g.parameters()[before - 2].role, program::ROUTER);
  EXPECT_EQ(g.parameters()[before - 1].pieces[0].source(), "layers.0.choice_bias");
  g.expert_linear(x, routes, {.count = 3, .name = "experts.*.up"}, ffn);
  g.expert_linear(x, routes, {.count = 3, .name = "experts.both", .stack_rows = 12, .row_begin = 6},
                  ffn, true);
  const Parameter own = g.parameters()[before], stacked = g.parameters()[before + 1],
                  bias = g.parameters()[before + 2];
  EXPECT_EQ(own.name, "layers.0.experts.*.up.weight");
  EXPECT_EQ(own.pieces.at(2).source(), "layers.0.experts.2.up.weight");
  EXPECT_EQ(own.all_rows(), 18);
  EXPECT_EQ(stacked.name, "layers.0.experts.both (6)");
  EXPECT_EQ(stacked.pieces.at(2).source(), "layers.0.experts.both");
  EXPECT_EQ(stacked.pieces[2].row_begin(), 30);
  EXPECT_EQ(bias.pieces.at(1).source(), "layers.0.experts.both_bias");
  EXPECT_EQ(bias.all_cols(), 18);
}

// Routes to 2 and to 3 experts have different row domains; routes to one expert have the row domain
// of the tokens.
TEST(GraphTest, RoutesHaveARowDomainForEachNumberOfExperts) {
  Graph g;
  const Value x = g.embed("embed", {Axis::kVocab, 64, 1}, {Axis::kHidden, 8, 1});
  const Value scores = g.router(x, "gate", 4);
  const auto rows = [&](int64_t chosen) {
    return g.info(g.route(scores, {.chosen = chosen}).ids).rows;
  };
  EXPECT_EQ(rows(2), 2);
  EXPECT_EQ(rows(3), 3);
  EXPECT_EQ(rows(2), 2);
  EXPECT_EQ(rows(1), kTokenRows);
}

TEST(GraphTest, LayersOfQwen2MoeAreDenseIfTheConfigSaysSo) {
  const Graph graph = own_config("qwen2_moe").graph;
  EXPECT_EQ(count(graph, Op::kExpertLinear), 3);  // Gate, up and down, in layer 1 only.
  EXPECT_EQ(count(graph, Op::kCombine), 2);       // One for the experts, one for the shared expert.
}

TEST(GraphTest, BaichuanHasTheNodesOfLlamaOverAPackedMatrix) {
  const Graph graph = own_config("baichuan").graph;
  EXPECT_EQ(count(graph, Op::kLinear), 2 * 7 + 1);
  std::vector<std::string> packed;
  for (const Parameter& parameter : graph.parameters()) {
    const program::Piece& piece = parameter.pieces.at(0);
    if (piece.source() != "model.layers.1.self_attn.W_pack.weight") continue;
    EXPECT_EQ(piece.source_shape(0), 3 * 40);
    packed.push_back(fmt::format("{}:{}-{}", parameter.name, piece.row_begin(), piece.row_end()));
  }
  const std::string name = "model.layers.1.self_attn.W_pack.weight";
  EXPECT_EQ(packed, (std::vector<std::string>{name + " (q):0-40", name + " (k):40-80",
                                              name + " (v):80-120"}));
}

TEST(GraphTest, OneRotaryTableIsMadeForEqualAttributes) {
  EXPECT_EQ(count(own_config("qwen2").graph, Op::kRopeTable), 1);
  EXPECT_EQ(count(own_config("qwen2").graph, Op::kRope), 6);
}

TEST(GraphTest, ATiedHeadIsAParameterOfItsOwnThatReadsTheEmbedding) {
  const Graph graph = own_config("qwen2").graph;
  std::map<program::Role, Parameter> by_role;
  for (const Parameter& parameter : graph.parameters()) by_role[parameter.role] = parameter;
  const Parameter& head = by_role[program::HEAD_WEIGHT];
  EXPECT_EQ(head.pieces[0].source(), "model.embed_tokens.weight");
  EXPECT_NE(head.name, by_role[program::EMBEDDING].name);
  const Graph untied = own_config("llama").graph;
  for (const Parameter& parameter : untied.parameters()) by_role[parameter.role] = parameter;
  EXPECT_EQ(by_role[program::HEAD_WEIGHT].name, "lm_head.weight");
}

TEST(GraphTest, RowsAreSelectedBeforeTheLastNorm) {
  const Graph graph = own_config("llama").graph;
  const std::vector<Node>& nodes = graph.nodes();
  const size_t n = nodes.size();
  EXPECT_EQ(nodes[n - 4].op, Op::kSelectRows);
  EXPECT_EQ(nodes[n - 3].op, Op::kRmsNorm);
  EXPECT_EQ(nodes[n - 2].op, Op::kLinear);
  EXPECT_EQ(nodes[n - 1].op, Op::kTopCandidates);
}

TEST(GraphTest, BiasesAndNormsAreThoseOfTheFamily) {
  const auto biases = [](const std::string& name) {
    int found = 0;
    const Graph graph = own_config(name).graph;
    for (const Parameter& p : graph.parameters()) found += p.role == program::BIAS ? 1 : 0;
    return found;
  };
  EXPECT_EQ(biases("llama"), 2 * (4 + 3));
  EXPECT_EQ(biases("mistral"), 0);
  EXPECT_EQ(biases("qwen2"), 3 * 3);
  EXPECT_EQ(count(own_config("qwen3").graph, Op::kHeadNorm), 4);
  EXPECT_EQ(count(own_config("llama").graph, Op::kHeadNorm), 0);
}

TEST(GraphTest, AttentionKnowsEachQueryHeadsKvHeadAndEachLayersWindow) {
  std::vector<int64_t> windows;
  const Graph graph = own_config("qwen2").graph;
  for (const Node& node : graph.nodes()) {
    if (node.op != Op::kAttention) continue;
    const program::AttentionAttrs& attention = node.attributes.attention();
    windows.push_back(attention.window());
    const std::vector<int> map(attention.kv_head_of().begin(), attention.kv_head_of().end());
    EXPECT_EQ(map, (std::vector<int>{0, 0, 0, 1, 1, 1}));
    EXPECT_EQ(attention.state(), static_cast<int>(windows.size()) - 1);
  }
  EXPECT_EQ(windows, (std::vector<int64_t>{0, 5, 5}));
}

TEST(ModelsTest, EveryArchitectureHasANameAndAFunction) {
  for (const Architecture& architecture : architectures()) {
    EXPECT_FALSE(architecture.name.empty());
    EXPECT_NE(architecture.read, nullptr);
  }
}

}  // namespace
}  // namespace lockstep
