// SPDX-License-Identifier: Apache-2.0
// Each pass alone, on graphs made for it.
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

TEST(DropDeadTest, UnreadNodesAndTheirParametersAreDropped) {
  Fixture f;
  f.graph.map(f.graph.linear(f.x, "unused", kFfn), Function::kSilu);
  f.finish(f.x);
  const Graph graph = drop_dead(f.graph, {});
  EXPECT_EQ(ops(graph), "embed select_rows linear top_candidates");
  EXPECT_EQ(graph.parameters().size(), 2u);
}

TEST(DropDeadTest, AttentionIsKeptForItsState) {
  const Graph graph = drop_dead(model_graph("llama"), {});
  EXPECT_EQ(count_ops(graph, Op::kAttention), 2);
}

TEST(StoreWeightsTest, MatricesHaveTheRequestedTypeAndVectorsAreFloat32) {
  const CompileOptions options{.weight_dtype = [](const std::string& source, program::Role role) {
    if (role == program::EMBEDDING || role == program::HEAD_WEIGHT) return DType::kF16;
    return source.find("down_proj") != std::string::npos ? DType::kF32 : DType::kBF16;
  }};
  const Graph graph = store_weights(model_graph("llama"), options);
  for (const Parameter& p : graph.parameters()) {
    const bool wide = p.role == program::NORM || p.role == program::BIAS ||
                      p.role == program::HEAD_WEIGHT || p.name.find("down") != std::string::npos;
    // Embedding rows are only copied: they may stay float16.
    const DType matrix = p.role == program::EMBEDDING ? DType::kF16 : DType::kBF16;
    EXPECT_EQ(p.dtype, wide ? DType::kF32 : matrix) << p.name;
  }
}

TEST(RoundInputsTest, AValueIsCastOnceAndItsOtherReadersStayExact) {
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

TEST(FuseLinearsTest, LinearsOfOneInputBecomeOneLinearWithViews) {
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
            "%3 = columns(%1) {begin 16 end 32} : f32 [tokens, hidden 16]");
}

TEST(FuseLinearsTest, LinearsWithDifferentTypesOrBiasesStaySeparate) {
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

TEST(FuseLinearsTest, TheHeadStaysSeparate) {
  Fixture f;
  const Value rows = f.graph.select_rows(f.x);
  f.graph.linear(rows, "a", kHidden);
  f.graph.top_candidates(f.graph.head(rows, "head", kVocab));
  EXPECT_EQ(count_ops(fuse_linears(f.graph, {}), Op::kColumns), 0);
}

TEST(FuseGatedTest, SiluOnEitherSideOfAProductIsFused) {
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

TEST(FuseGatedTest, ASiluWithAnotherReaderIsNotFused) {
  Fixture f;
  const Value gate = f.graph.map(f.x, Function::kSilu);
  f.finish(f.graph.add(gate, f.graph.mul(gate, f.x)));
  EXPECT_EQ(count_ops(fuse_gated(f.graph, {}), Op::kGated), 0);
}

TEST(FuseAddNormTest, ASumAndItsFirstNormBecomeOneOperator) {
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

CompileOptions on_gpus(DType dtype) {
  CompileOptions options = options_for(1, Strategy::kGather, dtype);
  options.workers[0].numeric_class = "cuda.exact.v1@sm_90x132.plain";
  return options;
}

TEST(RoundInputsTest, LinearsOverCodesTakeRoundedRowsOnGpus) {
  Fixture f;
  f.finish(f.graph.linear(f.x, "a", kHidden));
  const CompileOptions gpus = on_gpus(DType::kQ8), cpus = options_for(1, Strategy::kGather);
  const Graph stored = store_weights(f.graph, gpus);
  EXPECT_EQ(ops(round_inputs(stored, gpus)),
            "embed cast linear select_rows cast linear top_candidates");
  EXPECT_EQ(ops(round_inputs(stored, cpus)), "embed linear select_rows linear top_candidates");
}

// The graph after the passes that make casts and fuse them.
Graph with_fused_casts(const Graph& graph, const CompileOptions& options) {
  return fuse_casts(fuse_add_norm(round_inputs(store_weights(graph, options), options), options),
                    options);
}

TEST(FuseCastsTest, AValueIsWrittenRoundedIfAllItsReadersRoundIt) {
  Fixture f;
  const Value sum = f.graph.add(f.x, f.graph.map(f.x, Function::kSilu));
  const Value normed = f.graph.rms_norm(sum, "norm", 1e-5f);
  f.finish(f.graph.add(sum, f.graph.linear(normed, "a", kHidden)));
  const CompileOptions gpus = on_gpus(DType::kBF16);
  const Graph graph = with_fused_casts(f.graph, gpus);
  EXPECT_EQ(ops(graph), "embed map add_norm linear add select_rows cast linear top_candidates");
  const Node& norm = graph.nodes()[2];
  EXPECT_EQ(graph.values()[norm.outputs[0]].dtype, DType::kF32)
      << "the residual stream stays float32";
  EXPECT_EQ(graph.values()[norm.outputs[1]].dtype, DType::kBF16);
  EXPECT_EQ(graph.values()[norm.outputs[1]].name.find(".bf16") == std::string::npos, false);
  EXPECT_EQ(graph.nodes()[3].inputs[0], norm.outputs[1]);
}

TEST(FuseCastsTest, AValueWithOtherReadersOrAKernelThatCannotRoundKeepsItsCast) {
  Fixture f;  // a shares its input with the sum; b's input is a linear's output.
  const Value normed = f.graph.rms_norm(f.x, "norm", 1e-5f);
  const Value a = f.graph.linear(normed, "a", kHidden);
  f.finish(f.graph.add(normed, f.graph.linear(a, "b", kHidden)));
  const CompileOptions gpus = on_gpus(DType::kBF16);
  EXPECT_EQ(ops(with_fused_casts(f.graph, gpus)),
            "embed rms_norm cast linear cast linear add select_rows cast linear top_candidates");
}

TEST(FuseCastsTest, CpusKeepTheirCasts) {
  const CompileOptions cpus = options_for(1, Strategy::kGather, DType::kBF16);
  const auto graphs = compile_graphs(model_graph("llama"), cpus);
  for (const ValueInfo& value : graphs->front().values()) {
    const Op maker = graphs->front().nodes()[value.node].op;
    EXPECT_EQ(value.dtype == DType::kBF16, maker == Op::kCast) << value.name;
  }
}

struct Gated {
  Fixture f;
  Value gate, up;

  explicit Gated(bool up_first = false) {
    const auto half = [&](const char* name) { return f.graph.linear(f.x, name, kFfn, true); };
    if (up_first) up = half("up");
    gate = half("gate");
    if (!up_first) up = half("up");
  }
  Graph fused(const CompileOptions& options) {
    const Value product = f.graph.mul(up, f.graph.map(gate, Function::kSilu));
    f.finish(f.graph.linear(product, "down", kHidden));
    const Graph stored = store_weights(f.graph, options);
    return fuse_gated_linear(fuse_gated(fuse_linears(stored, options), options), options);
  }
};

TEST(FuseGatedLinearTest, GateUpAndTheirProductBecomeOneOperator) {
  for (const bool up_first : {false, true}) {
    const Graph graph = Gated(up_first).fused(on_gpus(DType::kQ8));
    EXPECT_EQ(ops(graph), "embed gated_linear linear select_rows linear top_candidates");
    const Node& node = graph.nodes()[1];
    EXPECT_EQ(node.attributes.map().function(), program::SILU);
    EXPECT_EQ(graph.values()[node.outputs[0]].axis.columns(), 24);
    for (const int id : node.parameters) {
      const Parameter& parameter = graph.parameters()[id];
      EXPECT_TRUE(parameter.paired);
      ASSERT_EQ(parameter.pieces.size(), 2u);
      EXPECT_EQ(parameter.pieces[0].source().substr(0, 4), "gate");
      EXPECT_EQ(parameter.pieces[1].source().substr(0, 2), "up");
    }
  }
}

TEST(FuseGatedLinearTest, FusionNeedsAGpuAndNoFloat32WeightsAndNoOtherReader) {
  const CompileOptions gpus = on_gpus(DType::kBF16);
  EXPECT_EQ(
      count_ops(Gated().fused(options_for(1, Strategy::kGather, DType::kBF16)), Op::kGatedLinear),
      0);
  EXPECT_EQ(count_ops(Gated().fused(on_gpus(DType::kF32)), Op::kGatedLinear), 0);
  Gated read;  // Its gate has another reader.
  read.f.graph.top_candidates(read.gate);
  EXPECT_EQ(count_ops(read.fused(gpus), Op::kGatedLinear), 0);
  Gated third;  // A third linear also reads x.
  third.f.finish(third.f.graph.linear(third.f.x, "third", kFfn, true));
  EXPECT_EQ(count_ops(third.fused(gpus), Op::kGatedLinear), 0);
}

struct RotatedModel {
  Fixture f;
  Value q, k, v;
  AttentionAttrs attrs = {.heads = 4, .kv_heads = 4, .head_dim = 4, .scale = 0.5f};

  RotatedModel(bool same_table, bool same_columns) {
    const auto heads = [&](const char* name) {
      return f.graph.linear(f.x, name, {Axis::kHeads, 4, 4});
    };
    Rope rope{.head_dim = 4, .rotary_dim = 4}, other = rope;
    for (const float frequency : {1.0f, 0.1f}) rope.table.add_inv_freq(frequency);
    other.table = rope.table;
    if (!same_table) other.table.set_factor(2);
    other.interleaved = !same_columns;
    q = f.graph.rope(heads("q"), rope);
    k = f.graph.rope(heads("k"), other);
    v = heads("v");
  }
  Graph fused(const CompileOptions& options) {
    f.finish(f.graph.linear(f.graph.attention(q, k, v, attrs), "o", kHidden));
    return fuse_rope(f.graph, options);
  }
};

TEST(FuseRopeTest, TwoRopesOfOneTableAreFusedWithAttention) {
  const CompileOptions gpus = on_gpus(DType::kF32);
  const Graph graph = RotatedModel(true, true).fused(gpus);
  EXPECT_EQ(ops(graph),
            "embed linear rope_table linear linear rope_attention linear select_rows linear "
            "top_candidates");
  const Node& fused = graph.nodes()[5];
  EXPECT_EQ(fused.attributes.attention().rotary_dim(), 4);
  std::vector<int> makers;  // The nodes of q, k, v and the table.
  for (const int input : fused.inputs) makers.push_back(graph.values()[input].node);
  EXPECT_EQ(makers, (std::vector<int>{1, 3, 4, 2}));
  EXPECT_EQ(count_ops(RotatedModel(true, true).fused(options_for(1, Strategy::kGather)), Op::kRope),
            2)
      << "on CPUs";
}

TEST(FuseRopeTest, OtherTablesColumnsOrReadersPreventRopeFusion) {
  const CompileOptions gpus = on_gpus(DType::kF32);
  EXPECT_EQ(count_ops(RotatedModel(false, true).fused(gpus), Op::kRope), 2);
  EXPECT_EQ(count_ops(RotatedModel(true, false).fused(gpus), Op::kRope), 2);
  RotatedModel shared(true, true);  // A second attention reads the keys.
  shared.f.graph.attention(shared.q, shared.k, shared.v, shared.attrs);
  EXPECT_EQ(count_ops(shared.fused(gpus), Op::kRopeAttention), 0);
}

TEST(CheckTest, TheErrorOfABrokenGraphShowsItsNode) {
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
