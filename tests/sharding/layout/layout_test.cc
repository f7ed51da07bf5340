// SPDX-License-Identifier: Apache-2.0
// The layout rules one by one, and what they give for whole models: how many collectives there are,
// and where.
#include "sharding/layout/layout.h"

#include <gtest/gtest.h>

#include <array>

#include "base/status.h"
#include "sharding/layout/cut.h"
#include "sharding/layout/split.h"
#include "tests/sharding/test_models.h"

namespace lockstep {
namespace {

constexpr AxisSize kHidden = {Axis::kHidden, 16, 1};
constexpr AxisSize kFfn = {Axis::kFfn, 24, 1};
constexpr AxisSize kVocab = {Axis::kVocab, 128, 1};

Plan two_ranks(Strategy strategy) { return {.ranks = 2, .strategy = strategy, .eighths = {8, 8}}; }

Decision decide_last(const Graph& graph, std::vector<Layout> inputs, Strategy strategy) {
  const absl::StatusOr<Decision> decision =
      decide(graph, graph.nodes().back(), inputs, two_ranks(strategy));
  EXPECT_TRUE(decision.ok()) << message_of(decision.status());
  return *decision;
}

struct Fixture {
  Graph graph;
  Value x = graph.embed("embed", kVocab, kHidden);
};

TEST(LayoutTest, AnEmbeddingOverASplitVocabularyIsPartial) {
  const Fixture f;
  const Decision decision = decide_last(f.graph, {}, Strategy::kGather);
  EXPECT_EQ(decision.outputs, std::vector<Layout>{kPartialLayout});
  EXPECT_EQ(decision.parameters, std::vector<ParameterCut>{ParameterCut::kRows});
}

TEST(LayoutTest, ALinearOfAWholeValueIsSplitLikeItsOutputAxis) {
  Fixture f;
  f.graph.linear(f.x, "up", kFfn, true);
  const Decision decision = decide_last(f.graph, {kWholeLayout}, Strategy::kReduce);
  EXPECT_EQ(decision.outputs[0], split_over(Axis::kFfn));
  EXPECT_EQ(decision.parameters,
            (std::vector<ParameterCut>{ParameterCut::kRows, ParameterCut::kCols}));
}

TEST(LayoutTest, ALinearOfASplitValueIsPartialUnderReduceAndGathersUnderGather) {
  Fixture f;
  const Value up = f.graph.linear(f.x, "up", kFfn);
  f.graph.linear(up, "down", kHidden, true);
  const Decision reduce = decide_last(f.graph, {split_over(Axis::kFfn)}, Strategy::kReduce);
  EXPECT_EQ(reduce.inputs[0], split_over(Axis::kFfn));
  EXPECT_EQ(reduce.outputs[0], kPartialLayout);
  EXPECT_EQ(reduce.parameters,
            (std::vector<ParameterCut>{ParameterCut::kCols, ParameterCut::kFirstRank}));
  const Decision gather = decide_last(f.graph, {split_over(Axis::kFfn)}, Strategy::kGather);
  EXPECT_EQ(gather.inputs[0], kWholeLayout);
  EXPECT_EQ(gather.outputs[0], split_over(Axis::kHidden));
}

// Every rank has the whole scores and the whole routes.
TEST(LayoutTest, AnExpertsLinearIsSplitLikeALinearAndIdsAreWhole) {
  Fixture f;
  const Routes routes = f.graph.route(f.graph.router(f.x, "gate", 5), {.chosen = 2});
  EXPECT_EQ(decide_last(f.graph, {kWholeLayout}, Strategy::kGather).outputs,
            std::vector<Layout>(2, kWholeLayout));
  const Experts up = {.count = 5, .name = "*.up"}, down = {.count = 5, .name = "*.down"};
  const Value h = f.graph.expert_linear(f.x, routes, up, kFfn, true);
  const Decision first = decide_last(f.graph, {kWholeLayout, kWholeLayout}, Strategy::kReduce);
  EXPECT_EQ(first.outputs[0], split_over(Axis::kFfn));
  EXPECT_EQ(first.parameters,
            (std::vector<ParameterCut>{ParameterCut::kRows, ParameterCut::kCols}));
  f.graph.expert_linear(h, routes, down, kHidden, true);
  const std::vector<Layout> inputs = {split_over(Axis::kFfn), kWholeLayout};
  const Decision reduce = decide_last(f.graph, inputs, Strategy::kReduce);
  EXPECT_EQ(reduce.inputs, inputs);
  EXPECT_EQ(reduce.outputs[0], kPartialLayout);
  EXPECT_EQ(reduce.parameters,
            (std::vector<ParameterCut>{ParameterCut::kCols, ParameterCut::kFirstRank}));
  const Decision gather = decide_last(f.graph, inputs, Strategy::kGather);
  EXPECT_EQ(gather.inputs[0], kWholeLayout);
  EXPECT_EQ(gather.outputs[0], split_over(Axis::kHidden));
}

TEST(LayoutTest, ACombinationKeepsTheLayoutOfItsRoutes) {
  Fixture f;
  const Routes routes = f.graph.route(f.graph.router(f.x, "gate", 5), {.chosen = 2});
  f.graph.combine(f.graph.expert_linear(f.x, routes, {.count = 5, .name = "*.up"}, kFfn), routes);
  for (const Layout layout : {kWholeLayout, kPartialLayout, split_over(Axis::kFfn)}) {
    const Decision decision = decide_last(f.graph, {layout, kWholeLayout}, Strategy::kReduce);
    EXPECT_EQ(decision.inputs[0], layout);
    EXPECT_EQ(decision.outputs[0], layout);
  }
}

// Rank 1's part of three experts of 24 rows: 12 of each.
TEST(SplitPiecesTest, EachExpertIsSplitInAStackAndInSeparateTensors) {
  Fixture f;
  const Routes routes = f.graph.route(f.graph.router(f.x, "gate", 3), {.chosen = 2});
  f.graph.expert_linear(f.x, routes, {.count = 3, .name = "experts.*.up"}, kFfn, true);
  f.graph.expert_linear(f.x, routes, {.count = 3, .name = "up", .stack_rows = 48, .row_begin = 24},
                        kFfn, true);
  f.graph.expert_linear(
      f.x, routes,
      {.count = 3, .name = "turned", .stack_rows = 48, .row_begin = 24, .transposed = true}, kFfn);
  const absl::StatusOr<Graph> local = split(f.graph, two_ranks(Strategy::kGather), 1);
  ASSERT_TRUE(local.ok());
  const auto parameter = [&](const std::string& name) {
    for (const Parameter& p : local->parameters()) {
      if (p.name == name) return p;
    }
    ADD_FAILURE() << name;
    return Parameter();
  };
  const auto text = [](const Parameter& p) {
    std::string all;
    for (const program::Piece& piece : p.pieces) {
      all += fmt::format("{}[{}:{}, {}:{}] ", piece.source(), piece.row_begin(), piece.row_end(),
                         piece.col_begin(), piece.col_end());
    }
    return all;
  };
  const Parameter own = parameter("experts.*.up.weight");
  EXPECT_EQ(own.all_rows(), 36);
  EXPECT_EQ(text(own),
            "experts.0.up.weight[12:24, 0:16] experts.1.up.weight[12:24, 0:16] "
            "experts.2.up.weight[12:24, 0:16] ");
  EXPECT_EQ(text(parameter("experts.*.up.bias")),
            "experts.0.up.bias[0:1, 12:24] experts.1.up.bias[0:1, 12:24] "
            "experts.2.up.bias[0:1, 12:24] ");
  EXPECT_EQ(text(parameter("up (24)")), "up[36:48, 0:16] up[84:96, 0:16] up[132:144, 0:16] ");
  EXPECT_EQ(text(parameter("up_bias (24)")),
            "up_bias[0:1, 36:48] up_bias[1:2, 36:48] up_bias[2:3, 36:48] ");
  EXPECT_EQ(text(parameter("turned (24)")),
            "turned[0:16, 36:48] turned[16:32, 36:48] turned[32:48, 36:48] ");
  EXPECT_EQ(parameter("gate.weight").rows.columns(), 3);
}

// A parameter of three matrices that are one piece. A pass may merge pieces this way.
TEST(SplitPiecesTest, APieceOfSeveralMatricesIsSplitInsideEachMatrix) {
  Parameter whole{.name = "w", .role = program::LINEAR_WEIGHT, .rows = kFfn, .cols = kHidden};
  whole.matrices = 3;
  program::Piece piece;
  piece.set_source("w");
  piece.set_row_end(72);
  piece.set_col_end(16);
  whole.pieces = {piece};
  const Parameter part = cut_rows(whole, {4, 9});
  ASSERT_EQ(part.pieces.size(), 3u);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(part.pieces[i].row_begin(), 24 * i + 4);
    EXPECT_EQ(part.pieces[i].row_end(), 24 * i + 9);
  }
}

TEST(LayoutTest, NormsAndNonLinearFunctionsNeedWholeValuesInsteadOfPartials) {
  Fixture f;
  f.graph.map(f.x, Function::kSilu);
  EXPECT_EQ(decide_last(f.graph, {kPartialLayout}, Strategy::kReduce).inputs[0], kWholeLayout);
  f.graph.rms_norm(f.x, "norm", 1e-6f);
  EXPECT_EQ(decide_last(f.graph, {kPartialLayout}, Strategy::kReduce).inputs[0], kWholeLayout);
  EXPECT_EQ(decide_last(f.graph, {split_over(Axis::kHidden)}, Strategy::kGather).inputs[0],
            kWholeLayout);
  f.graph.append({.op = Op::kCast, .inputs = {f.x.id}},
                 {{.name = "cast", .dtype = DType::kBF16, .axis = kHidden}});
  EXPECT_EQ(decide_last(f.graph, {kPartialLayout}, Strategy::kReduce).inputs[0], kWholeLayout);
}

TEST(LayoutTest, NonLinearFunctionsKeepASplit) {
  Fixture f;
  f.graph.map(f.x, Function::kSilu);
  EXPECT_EQ(decide_last(f.graph, {split_over(Axis::kFfn)}, Strategy::kReduce).outputs[0],
            split_over(Axis::kFfn));
}

TEST(LayoutTest, AWeightForEachHeadIsSplitWithTheHeads) {
  for (const bool by_head : {false, true}) {
    Fixture f;
    f.graph.head_norm(f.graph.linear(f.x, "q", {Axis::kHeads, 4, 4}), "norm",
                      {.head_dim = 4, .by_head = by_head});
    EXPECT_EQ(decide_last(f.graph, {split_over(Axis::kHeads)}, Strategy::kReduce).parameters[0],
              by_head ? ParameterCut::kCols : ParameterCut::kWhole);
  }
}

TEST(LayoutTest, ASumOfPartialsIsPartialAndAnyOtherMixIsWhole) {
  Fixture f;
  f.graph.add(f.x, f.x);
  EXPECT_EQ(decide_last(f.graph, {kPartialLayout, kPartialLayout}, Strategy::kReduce).outputs[0],
            kPartialLayout);
  const Decision mixed = decide_last(f.graph, {kWholeLayout, kPartialLayout}, Strategy::kReduce);
  EXPECT_EQ(mixed.inputs, std::vector<Layout>(2, kWholeLayout));
  const Decision split = decide_last(
      f.graph, {split_over(Axis::kHidden), split_over(Axis::kHidden)}, Strategy::kGather);
  EXPECT_EQ(split.outputs[0], split_over(Axis::kHidden));
  f.graph.mul(f.x, f.x);
  EXPECT_EQ(decide_last(f.graph, {kPartialLayout, kPartialLayout}, Strategy::kReduce).inputs[0],
            kWholeLayout);
}

TEST(LayoutTest, AnOperatorWithoutARuleIsAnErrorThatNamesIt) {
  Fixture f;
  f.graph.append({.op = Op::kAllReduce, .inputs = {f.x.id}}, {{.name = "sum", .axis = kHidden}});
  const absl::StatusOr<Graph> graph = split(f.graph, two_ranks(Strategy::kGather), 0);
  EXPECT_EQ(graph.status().code(), absl::StatusCode::kInternal);
  EXPECT_EQ(message_of(graph.status()), "no layout rule for all_reduce");
}

TEST(LayoutTest, WholeLogitsOnSeveralRanksAreAnError) {
  Fixture f;
  f.graph.top_candidates(f.graph.select_rows(f.x));
  EXPECT_FALSE(decide(f.graph, f.graph.nodes().back(), std::vector<Layout>{kWholeLayout},
                      two_ranks(Strategy::kGather))
                   .ok());
}

TEST(SplitTest, GatherHasFourGathersPerLayerOrThreeIfParallelAndOneReduce) {
  for (const char* name : kModels) {
    const Graph model = model_graph(name);
    const int layers = count_layers(model);
    const int gathers = (is_parallel(name) ? 3 : 4) + (norms_all_heads(name) ? 2 : 0);
    // More gathers: before the down linears of shared experts, and before norms of low-rank values.
    const int more = shared_experts(model) + low_ranks(model);
    for (int ranks : {2, 3, 5}) {
      const auto graphs = compile_graphs(model, options_for(ranks, Strategy::kGather));
      ASSERT_TRUE(graphs.ok()) << message_of(graphs.status());
      for (const Graph& graph : *graphs) {
        EXPECT_EQ(count_ops(graph, Op::kAllGather), gathers * layers + more) << name;
        EXPECT_EQ(count_ops(graph, Op::kAllReduce), 1) << name;
      }
    }
  }
}

TEST(SplitTest, ReduceHasTwoReducesPerLayerOrOneIfParallelAndOneForTheEmbedding) {
  for (const char* name : kModels) {
    const Graph model = model_graph(name);
    const int layers = count_layers(model), norms = group_norms(model);
    const int sums = is_parallel(name) ? 1 : 2;
    for (int ranks : {2, 3, 5}) {
      const auto graphs = compile_graphs(model, options_for(ranks, Strategy::kReduce));
      ASSERT_TRUE(graphs.ok()) << message_of(graphs.status());
      for (const Graph& graph : *graphs) {
        // A norm over several heads and the linear after it need whole rows: a gather replaces
        // that linear's sum.
        const int gathers = norms_all_heads(name) ? 2 * layers : norms;
        EXPECT_EQ(count_ops(graph, Op::kAllGather), gathers) << name;
        EXPECT_EQ(count_ops(graph, Op::kAllReduce), sums * layers + 1 - norms) << name;
      }
    }
  }
}

// Query heads 0-2 use the first KV head, 3-5 the second. Rank 1 has query heads 2-3 and so both KV
// heads, but gives only the first one to the gather; rank 2 gives the second.
TEST(SplitTest, ACopiedKvHeadIsGatheredOnceAndEveryRankTakesItsOwnHeads) {
  const AxisSize q_axis = {Axis::kHeads, 6, 4}, kv_axis = {Axis::kKvHeads, 2, 4, 6};
  Graph model;
  const Value x = model.embed("embed", kVocab, kHidden);
  const Value q = model.linear(x, "q", q_axis), v = model.linear(x, "v", kv_axis);
  const Value k = model.rms_norm(model.linear(x, "k", kv_axis), "norm", 1e-6f);
  model.attention(q, k, v, {.heads = 6, .kv_heads = 2, .head_dim = 4, .scale = 1});
  const std::array<Range, 3> given = {{{0, 0}, {0, 4}, {0, 4}}}, taken = {{{0, 4}, {0, 8}, {4, 8}}};
  for (int rank = 0; rank < 3; ++rank) {
    const absl::StatusOr<Graph> local = split(model, {.ranks = 3, .eighths = {8, 8, 8}}, rank);
    ASSERT_TRUE(local.ok()) << message_of(local.status());
    std::vector<Range> views;
    for (const Node& node : local->nodes()) {
      if (node.op != Op::kColumns) continue;
      views.push_back({node.attributes.columns().begin(), node.attributes.columns().end()});
    }
    EXPECT_EQ(views, (std::vector<Range>{given[rank], taken[rank]})) << rank;
    EXPECT_EQ(count_ops(*local, Op::kAllGather), 1);
  }
}

TEST(SplitTest, OneRankHasNoCollectives) {
  for (const char* name : kModels) {
    for (Strategy strategy : {Strategy::kGather, Strategy::kReduce}) {
      const auto graphs = compile_graphs(model_graph(name), options_for(1, strategy));
      ASSERT_TRUE(graphs.ok());
      EXPECT_EQ(count_ops((*graphs)[0], Op::kAllGather) + count_ops((*graphs)[0], Op::kAllReduce),
                0);
    }
  }
}

TEST(SplitTest, ParallelResidualReducesOnce) {
  Graph graph;
  const Value x = graph.embed("embed", kVocab, kHidden);
  const Value n = graph.rms_norm(x, "norm", 1e-6f);
  const Value a = graph.linear(graph.linear(n, "a.up", kFfn), "a.down", kHidden);
  const Value b = graph.linear(graph.linear(n, "b.up", kFfn), "b.down", kHidden);
  const Value sum = graph.add(x, graph.add(a, b));
  graph.top_candidates(
      graph.head(graph.rms_norm(graph.select_rows(sum), "last", 1e-6f), "head", kVocab));
  const absl::StatusOr<Graph> local = split(graph, two_ranks(Strategy::kReduce), 1);
  ASSERT_TRUE(local.ok());
  EXPECT_EQ(count_ops(*local, Op::kAllReduce), 2);  // The embedding, and both branches together.
}

TEST(SplitTest, ACollectiveIsDirectlyBeforeItsFirstReader) {
  const auto graphs = compile_graphs(model_graph("qwen2"), options_for(3, Strategy::kGather));
  const Graph& graph = graphs->front();
  for (size_t i = 0; i < graph.nodes().size(); ++i) {
    const Node& node = graph.nodes()[i];
    if (node.op != Op::kAllGather && node.op != Op::kAllReduce) continue;
    const std::vector<int>& readers = graph.nodes()[i + 1].inputs;
    EXPECT_NE(std::find(readers.begin(), readers.end(), node.outputs[0]), readers.end());
  }
}

TEST(SplitTest, Bfloat16InputsAreGatheredAsBfloat16) {
  const auto graphs =
      compile_graphs(model_graph("llama"), options_for(2, Strategy::kGather, DType::kBF16));
  int halves = 0, floats = 0;
  for (const Node& node : graphs->front().nodes()) {
    if (node.op != Op::kAllGather) continue;
    const bool half = graphs->front().values()[node.outputs[0]].dtype == DType::kBF16;
    (half ? halves : floats) += 1;
  }
  EXPECT_EQ(halves, 4);  // Before o_proj and down_proj in two layers;
  EXPECT_EQ(floats, 4);  // after them the residual stream is float32.
}

TEST(SplitTest, ABiasOnAPartialIsAddedByRankZero) {
  const auto graphs = compile_graphs(model_graph("llama"), options_for(3, Strategy::kReduce));
  for (size_t rank = 0; rank < graphs->size(); ++rank) {
    int biases = 0;
    for (const Parameter& parameter : (*graphs)[rank].parameters()) {
      const std::string& name = parameter.name;
      biases += name.find("o_proj.bias") != std::string::npos ||
                name.find("down_proj.bias") != std::string::npos;
    }
    EXPECT_EQ(biases, rank == 0 ? 4 : 0);
  }
}

TEST(SplitTest, ExactlyOneRankWithIdsBeginsAtZero) {
  const Graph model = model_graph("qwen3");  // 307 ids are 5 blocks for 7 ranks.
  const auto programs = compile(model, options_for(7, Strategy::kGather));
  ASSERT_TRUE(programs.ok()) << message_of(programs.status());
  int first = 0, empty = 0;
  for (const program::Program& program : *programs) {
    const program::Instruction& embed = program.instructions(0);
    ASSERT_EQ(embed.op(), program::EMBED);
    first += embed.attributes().embed().vocab_begin() == 0;
    empty += program.weights(embed.inputs(0).weight()).rows() == 0;
  }
  EXPECT_EQ(first, 1);
  EXPECT_EQ(empty, 2);
}

program::Piece piece(const char* source, Range rows, Range cols, bool transpose = false) {
  program::Piece result;
  result.set_source(source);
  result.set_row_begin(rows.begin);
  result.set_row_end(rows.end);
  result.set_col_begin(cols.begin);
  result.set_col_end(cols.end);
  result.set_transpose(transpose);
  return result;
}

std::string show(const Parameter& parameter) {
  std::string text = fmt::format("{}x{}:", parameter.rows.columns(), parameter.cols.columns());
  for (const program::Piece& p : parameter.pieces) {
    text += fmt::format(" {}[{}:{}, {}:{}]", p.source(), p.row_begin(), p.row_end(), p.col_begin(),
                        p.col_end());
  }
  return text;
}

TEST(SplitPiecesTest, RowsAreSplitAcrossPiecesAndColumnsInEachPiece) {
  const Parameter parameter{
      .name = "w",
      .role = program::LINEAR_WEIGHT,
      .rows = {Axis::kFfn, 10, 1},
      .cols = {Axis::kHidden, 4, 2},
      .pieces = {piece("a", {10, 14}, {0, 8}), piece("t", {8, 16}, {3, 9}, true)}};
  EXPECT_EQ(show(cut_rows(parameter, {2, 7})), "5x8: a[12:14, 0:8] t[8:16, 3:6]");
  EXPECT_EQ(show(cut_rows(parameter, {4, 10})), "6x8: t[8:16, 3:9]");
  EXPECT_EQ(show(cut_cols(parameter, {1, 3})), "10x4: a[10:14, 2:6] t[10:14, 3:9]");
  EXPECT_EQ(show(cut_rows(parameter, {5, 5})), "0x8:");
  EXPECT_EQ(show(cut_cols(parameter, {0, 0})), "10x0: a[10:14, 0:0] t[8:8, 3:9]");
  EXPECT_EQ(show(cut_rows(cut_rows(parameter, {2, 9}), {1, 6})), show(cut_rows(parameter, {3, 8})));
}

TEST(SplitPiecesTest, PiecesOfARowAreSideBySide) {
  const Parameter bias{.name = "b",
                       .role = program::BIAS,
                       .rows = {Axis::kNone, 1, 1},
                       .cols = {Axis::kHeads, 5, 2},
                       .pieces = {piece("a", {0, 1}, {0, 4}), piece("b", {0, 1}, {2, 8})}};
  EXPECT_EQ(show(cut_cols(bias, {1, 4})), "1x6: a[0:1, 2:4] b[0:1, 2:6]");
}

}  // namespace
}  // namespace lockstep
