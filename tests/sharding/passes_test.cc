// SPDX-License-Identifier: Apache-2.0
// Each pass on its own, on graphs made for it.
#include "sharding/passes/passes.h"

#include <gtest/gtest.h>

#include "base/status.h"
#include "sharding/check.h"
#include "sharding/text.h"
#include "tests/sharding/test_models.h"

namespace lockstep {
namespace {

constexpr AxisSize kHidden = {Axis::kHidden, 16, 1};
constexpr AxisSize kFfn = {Axis::kFfn, 24, 1};
constexpr AxisSize kVocab = {Axis::kVocab, 128, 1};

struct Fixture {
  Graph graph;
  Value x = graph.embed("embed", kVocab, kHidden);
  void finish(Value y) { graph.top_candidates(graph.head(graph.select_rows(y), "head", kVocab)); }
};

std::string ops(const Graph& graph) {
  EXPECT_TRUE(check_graph(graph).ok()) << message_of(check_graph(graph));
  std::string text;
  for (const Node& node : graph.nodes())
    text += (text.empty() ? "" : " ") + std::string(op_name(node.op));
  return text;
}

TEST(DropDeadTest, LeavesOutWhatNothingReadsAndItsParameters) {
  Fixture f;
  f.graph.map(f.graph.linear(f.x, "unused", kFfn), Function::kSilu);
  f.finish(f.x);
  const Graph graph = drop_dead(f.graph, {});
  EXPECT_EQ(ops(graph), "embed select_rows linear top_candidates");
  EXPECT_EQ(graph.parameters().size(), 2u);
}

TEST(DropDeadTest, KeepsAttentionForItsState) {
  const Graph graph = drop_dead(model_graph("llama"), {});
  EXPECT_EQ(count_ops(graph, Op::kAttention), 2);
}

TEST(StoreWeightsTest, MatricesFollowTheCallerAndVectorsAreFloat32) {
  const CompileOptions options{.weight_dtype = [](const std::string& source, program::Role role) {
    if (role == program::EMBEDDING || role == program::HEAD_WEIGHT) return DType::kF16;
    return source.find("down_proj") != std::string::npos ? DType::kF32 : DType::kBF16;
  }};
  const Graph graph = store_weights(model_graph("llama"), options);
  for (const Parameter& p : graph.parameters()) {
    const bool wide = p.role == program::NORM || p.role == program::BIAS ||
                      p.role == program::HEAD_WEIGHT || p.name.find("down") != std::string::npos;
    // Rows of an embedding are only copied: float16 may stay.
    const DType matrix = p.role == program::EMBEDDING ? DType::kF16 : DType::kBF16;
    EXPECT_EQ(p.dtype, wide ? DType::kF32 : matrix) << p.name;
  }
}

TEST(RoundInputsTest, CastsAValueOnceAndLeavesItsOtherReadersExact) {
  Fixture f;
  const Value a = f.graph.linear(f.x, "a", kHidden);
  const Value b = f.graph.linear(f.x, "b", kHidden);
  f.finish(f.graph.add(f.x, f.graph.add(a, b)));
  const CompileOptions options = options_for(1, Strategy::kGather, DType::kBF16);
  const Graph graph = round_inputs(store_weights(f.graph, options), options);
  EXPECT_EQ(ops(graph), "embed cast linear linear add add select_rows cast linear top_candidates");
  EXPECT_EQ(graph.nodes()[5].inputs[0], graph.nodes()[0].outputs[0]);
}

TEST(RoundInputsTest, Float32WeightsNeedNoCast) {
  const CompileOptions options = options_for(1, Strategy::kGather);
  const Graph graph = round_inputs(store_weights(model_graph("llama"), options), options);
  EXPECT_EQ(count_ops(graph, Op::kCast), 0);
}

TEST(FuseLinearsTest, LinearsOfOneInputBecomeOneWithViews) {
  Fixture f;
  const Value a = f.graph.linear(f.x, "a", kHidden, true);
  const Value b = f.graph.linear(f.x, "b", kHidden, true);
  f.finish(f.graph.add(a, b));
  const Graph graph = fuse_linears(f.graph, {});
  EXPECT_EQ(ops(graph), "embed linear columns columns add select_rows linear top_candidates");
  const Node& fused = graph.nodes()[1];
  const Parameter& weight = graph.parameters()[fused.parameters[0]];
  ASSERT_EQ(weight.pieces.size(), 2u);
  EXPECT_EQ(weight.rows.columns(), 32);
  EXPECT_EQ(weight.pieces[1].source(), "b.weight");
  EXPECT_EQ(graph.parameters()[fused.parameters[1]].pieces[1].source(), "b.bias");
  EXPECT_EQ(node_text(graph, graph.nodes()[3]),
            "%3 = columns(%1) {16:32} : f32 [tokens, hidden 16]");
}

TEST(FuseLinearsTest, DifferentTypesOrABiasOnOneSideStayApart) {
  Fixture f;
  const Value a = f.graph.linear(f.x, "a", kHidden, true);
  const Value b = f.graph.linear(f.x, "b", kHidden, false);
  f.finish(f.graph.add(a, b));
  EXPECT_EQ(count_ops(fuse_linears(f.graph, {}), Op::kColumns), 0);
  Fixture g;
  const Value c = g.graph.linear(g.x, "c", kHidden);
  g.finish(g.graph.add(c, g.graph.linear(g.x, "d", kHidden)));
  CompileOptions options;
  options.weight_dtype = [](const std::string& source, program::Role) {
    return source == "c.weight" ? DType::kBF16 : DType::kF32;
  };
  EXPECT_EQ(count_ops(fuse_linears(store_weights(g.graph, options), {}), Op::kColumns), 0);
}

TEST(FuseLinearsTest, TheHeadStaysByItself) {
  Fixture f;
  const Value rows = f.graph.select_rows(f.x);
  f.graph.linear(rows, "a", kHidden);
  f.graph.top_candidates(f.graph.head(rows, "head", kVocab));
  EXPECT_EQ(count_ops(fuse_linears(f.graph, {}), Op::kColumns), 0);
}

TEST(FuseGatedTest, SiluOnEitherSideOfAProductIsTakenIn) {
  for (bool first : {true, false}) {
    Fixture f;
    const Value gate = f.graph.map(f.x, Function::kSilu);
    const Value up = f.graph.rms_norm(f.x, "norm", 1e-6f);
    f.finish(first ? f.graph.mul(gate, up) : f.graph.mul(up, gate));
    const Graph graph = fuse_gated(f.graph, {});
    EXPECT_EQ(ops(graph), "embed rms_norm gated select_rows linear top_candidates");
    EXPECT_EQ(graph.nodes()[2].inputs, (std::vector<int>{0, 1}));
  }
}

TEST(FuseGatedTest, ASiluWithAnotherReaderStays) {
  Fixture f;
  const Value gate = f.graph.map(f.x, Function::kSilu);
  f.finish(f.graph.add(gate, f.graph.mul(gate, f.x)));
  EXPECT_EQ(count_ops(fuse_gated(f.graph, {}), Op::kGated), 0);
}

TEST(FuseAddNormTest, ASumAndItsFirstNormBecomeOne) {
  Fixture f;
  const Value sum = f.graph.add(f.x, f.graph.map(f.x, Function::kSilu));
  const Value a = f.graph.rms_norm(sum, "a", 1e-5f);
  const Value b = f.graph.rms_norm(sum, "b", 1e-6f);
  f.finish(f.graph.add(sum, f.graph.mul(a, b)));
  const Graph graph = fuse_add_norm(f.graph, {});
  EXPECT_EQ(ops(graph), "embed map add_norm rms_norm mul add select_rows linear top_candidates");
  EXPECT_FLOAT_EQ(graph.nodes()[2].attributes.norm().eps(), 1e-5f);
  EXPECT_EQ(graph.nodes()[3].inputs[0], graph.nodes()[2].outputs[0]);
}

TEST(CheckTest, ABrokenGraphIsNamedByItsNode) {
  Fixture f;
  Graph shapes = f.graph;
  shapes.append({.op = Op::kAdd, .inputs = {0, 0}}, {{.name = "y", .axis = kFfn}});
  EXPECT_EQ(message_of(check_graph(shapes)),
            "%1 = add(%0, %0) : f32 [tokens, ffn 24]: columns of an output must be 16, found 24");
  Graph order = f.graph;
  order.append({.op = Op::kAdd, .inputs = {1, 1}}, {{.name = "y", .axis = kHidden}});
  EXPECT_NE(message_of(check_graph(order)).find("made before"), std::string::npos);
  Graph rows = f.graph;
  rows.append({.op = Op::kMap, .inputs = {0}},
              {{.name = "y", .rows = program::OUTPUTS, .axis = kHidden}});
  EXPECT_NE(message_of(check_graph(rows)).find("rows"), std::string::npos);
  Graph pieces = f.graph;
  pieces.linear(f.x, "a", kFfn);
  Parameter wrong = pieces.parameters()[1];
  wrong.pieces.clear();
  pieces.add_parameter(wrong);
  EXPECT_NE(message_of(check_graph(pieces)).find("pieces"), std::string::npos);
}

TEST(TextTest, GraphsPrintAsLinesAndAsAPicture) {
  Fixture f;
  f.finish(f.graph.linear(f.x, "a", kFfn));
  EXPECT_EQ(graph_text(f.graph),
            "%0 = embed(embed.weight f32 [128, 16]) {vocab_begin 0} : f32 [tokens, hidden 16]\n"
            "%1 = linear(%0, a.weight f32 [24, 16]) : f32 [tokens, ffn 24]\n"
            "%2 = select_rows(%1) : f32 [outputs, ffn 24]\n"
            "%3 = linear(%2, head.weight f32 [128, 24]) : f32 [outputs, vocab 128]\n"
            "top_candidates(%3) {vocab_begin 0}\n");
  const std::string dot = graph_dot(f.graph);
  EXPECT_EQ(dot.substr(0, 8), "digraph ");
  EXPECT_NE(dot.find("n0 -> n1 [label=\"f32 [tokens, hidden 16]\"];"), std::string::npos);
}

}  // namespace
}  // namespace lockstep
