// SPDX-License-Identifier: Apache-2.0
// Quantized weights from the table of schemes through plans and passes to programs.
#include "sharding/scheme.h"

#include <gtest/gtest.h>

#include <set>

#include "base/numbers/quantization.h"
#include "base/status.h"
#include "proto/validate/validate.h"
#include "sharding/cost.h"
#include "sharding/layout/plan.h"
#include "tests/sharding/test_models.h"

namespace lockstep {
namespace {

CompileOptions options_for_scheme(const char* name, int ranks, Strategy strategy) {
  const Scheme* scheme = find_scheme(name);
  EXPECT_NE(scheme, nullptr) << name;
  CompileOptions options = options_for(ranks, strategy);
  options.weight_dtype = [scheme](const std::string&, program::Role role) {
    return scheme->kind_of(role);
  };
  return options;
}

// A model that is large enough to split groups of 32: 4 heads of 32 columns, 300 columns of ffn
// (the last group is short), 64 of hidden.
Graph wide_model() {
  const AxisSize hidden{Axis::kHidden, 64, 1}, vocab{Axis::kVocab, 192, 1};
  const AxisSize heads{Axis::kHeads, 4, 32}, kv_heads{Axis::kKvHeads, 2, 32, 4};
  const AxisSize ffn{Axis::kFfn, 300, 1};
  Graph g;
  g.model = "wide";
  const Value x = g.embed("embed", vocab, hidden);
  const Value q = g.linear(x, "q", heads), k = g.linear(x, "k", kv_heads);
  const AttentionAttrs attrs{.heads = 4, .kv_heads = 2, .head_dim = 32, .scale = 0.2f};
  const Value mixed = g.attention(q, k, g.linear(x, "v", kv_heads), attrs);
  const Value y = g.add(x, g.linear(mixed, "o", hidden));
  const Value up = g.mul(g.map(g.linear(y, "gate", ffn), Function::kSilu), g.linear(y, "up", ffn));
  const Value z = g.add(y, g.linear(up, "down", hidden));
  g.top_candidates(g.head(g.select_rows(z), "head", vocab));
  return g;
}

const naive::Sequence kSequence = {.tokens = {3, 17, 101, 64, 5, 190}, .outputs = {1, 5}};

float largest_difference(const naive::Logits& a, const naive::Logits& b) {
  float max = 0;
  EXPECT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    for (size_t j = 0; j < a[i].size(); ++j) {
      max = std::max(max, std::abs(a[i][j] - b[i][j]));
    }
  }
  return max;
}

TEST(SchemeTest, NamesAreUniqueAndFindTheirSchemes) {
  std::set<std::string_view> names;
  for (const Scheme& scheme : schemes()) {
    EXPECT_TRUE(names.insert(scheme.name).second);
    EXPECT_EQ(find_scheme(scheme.name), &scheme);
    for (const program::Role role : {program::LINEAR_WEIGHT, program::HEAD_WEIGHT}) {
      EXPECT_TRUE(quantization(scheme.kind_of(role)).has_value()) << scheme.name;
    }
    EXPECT_EQ(scheme.kind_of(program::NORM), DType::kF32);
    EXPECT_EQ(scheme.kind_of(program::BIAS), DType::kF32);
    // A tied model has one matrix for its embedding and its head.
    EXPECT_EQ(scheme.head, scheme.embedding) << scheme.name;
  }
  EXPECT_EQ(find_scheme("q5"), nullptr);
}

TEST(SchemeTest, ASchemesNameBeginsWithTheTypeOfItsLinears) {
  for (const Scheme& scheme : schemes()) {
    const std::string kind = dtype_name(scheme.linear);
    EXPECT_EQ(std::string(scheme.name).substr(0, kind.size()), kind);
  }
}

TEST(SchemeTest, LinearsOverCodesTakeFloat32) {
  const auto graphs = compile_graphs(wide_model(), options_for_scheme("q4", 1, Strategy::kGather));
  EXPECT_EQ(count_ops(graphs->at(0), Op::kCast), 0);
}

// The bytes that all ranks together send to gather one token's values.
int64_t gathered_bytes(const Graph& model, const CompileOptions& options) {
  int64_t bytes = 0;
  const auto programs = compile(model, options);
  for (const program::Program& program : *programs) {
    for (const program::Instruction& instruction : program.instructions()) {
      if (instruction.op() != program::ALL_GATHER) continue;
      const program::Value& part = program.values(instruction.inputs(0).value());
      bytes += row_bytes(static_cast<DType>(part.dtype()), part.cols());
    }
  }
  return bytes;
}

TEST(RoundPartsTest, PartsOfAttentionAndFfnAreGatheredAsCodes) {
  // Between layers the residual stream stays float32: 64 columns, twice.
  const int64_t stream = 2 * 64 * 4;
  for (const int ranks : {2, 3, 4}) {
    for (const char* scheme : {"q8", "q4", "q4m"}) {
      CompileOptions options = options_for_scheme(scheme, ranks, Strategy::kGather);
      // The 4 heads have one group of 32 columns each; the 300 columns of ffn have 10 groups, the
      // last one short.
      EXPECT_EQ(gathered_bytes(wide_model(), options), stream + (4 + 10) * 36) << scheme;
      int64_t planned = 0;
      const auto table = plan_table(wide_model(), options, *compile(wide_model(), options));
      for (const PlanRow& row : table->rows) planned += row.collective_bytes_per_token;
      EXPECT_EQ(planned, stream + (4 + 10) * 36 + ranks * 64 * 4)
          << "including the embedding's sum";
      const auto graphs = compile_graphs(wide_model(), options);
      for (const Graph& graph : *graphs) {
        EXPECT_EQ(count_ops(graph, Op::kRoundGroups), 2);
        EXPECT_EQ(count_ops(graph, Op::kAllGather), 4);
      }
      for (WorkerFacts& worker : options.workers) worker.device = "cuda 0000:01:00.0";
      EXPECT_EQ(gathered_bytes(wide_model(), options), stream + (128 + 300) * 4) << "on GPUs";
    }
  }
}

TEST(RoundPartsTest, OnlyGatheredValuesWithGroupsAreRounded) {
  const auto rounded = [](const CompileOptions& options) {
    int found = 0;
    const auto graphs = compile_graphs(wide_model(), options);
    for (const Graph& graph : *graphs) {
      found += count_ops(graph, Op::kRoundGroups);
    }
    return found;
  };
  EXPECT_EQ(rounded(options_for_scheme("q8", 1, Strategy::kGather)), 0);  // Nothing is gathered.
  EXPECT_EQ(rounded(options_for_scheme("q8c", 2, Strategy::kGather)), 0);
  EXPECT_EQ(rounded(options_for_scheme("q8", 2, Strategy::kReduce)), 0);
  EXPECT_EQ(rounded(options_for(2, Strategy::kGather)), 0);
  EXPECT_EQ(rounded(options_for(2, Strategy::kGather, DType::kBF16)), 0);
}

TEST(RoundPartsTest, APartWithoutWholeGroupsStaysFloat32) {
  // 5 heads of 8 columns; 124 columns of ffn have enough groups for 3 ranks, but not for 5.
  const auto rounded = [](int ranks) {
    const CompileOptions options = options_for(ranks, Strategy::kGather, DType::kQ8);
    const auto graphs = compile_graphs(model_graph("llama"), options);
    return count_ops(graphs->front(), Op::kRoundGroups);
  };
  EXPECT_EQ(rounded(3), 2);  // One in each layer.
  EXPECT_EQ(rounded(5), 0);
}

TEST(RoundPartsTest, AValueWithAnotherReaderStaysFloat32) {
  for (const bool also_mapped : {false, true}) {
    const AxisSize hidden{Axis::kHidden, 64, 1}, vocab{Axis::kVocab, 192, 1};
    Graph g;
    const Value x = g.linear(g.embed("embed", vocab, hidden), "in", hidden);
    const Value y = g.linear(x, "a", hidden), z = g.linear(x, "b", hidden);
    const Value both = g.rms_norm(g.add(y, z), "norm", 1e-5f);
    const Value out = also_mapped ? g.add(g.rms_norm(x, "other", 1e-5f), both) : both;
    g.top_candidates(g.head(g.select_rows(out), "head", vocab));
    const auto graphs = compile_graphs(g, options_for(2, Strategy::kGather, DType::kQ8));
    ASSERT_TRUE(graphs.ok()) << message_of(graphs.status());
    EXPECT_EQ(count_ops(graphs->at(0), Op::kRoundGroups), also_mapped ? 0 : 1);
  }
}

TEST(RoundPartsTest, LinearsWithDifferentRoundingsReadFloat32) {
  for (const DType other : {DType::kQ8, DType::kQ4, DType::kF32}) {
    const AxisSize hidden{Axis::kHidden, 64, 1}, vocab{Axis::kVocab, 192, 1};
    Graph g;
    const Value x = g.linear(g.embed("embed", vocab, hidden), "in", hidden);
    const Value y = g.add(g.linear(x, "a", hidden), g.linear(x, "b", hidden));
    g.top_candidates(g.head(g.select_rows(g.rms_norm(y, "norm", 1e-5f)), "head", vocab));
    CompileOptions options = options_for(2, Strategy::kGather);
    options.weight_dtype = [other](const std::string& source, program::Role) {
      return source == "b.weight" ? other : DType::kQ8;
    };
    const auto graphs = compile_graphs(g, options);
    EXPECT_EQ(count_ops(graphs->at(0), Op::kRoundGroups), other == DType::kQ8 ? 1 : 0);
  }
}

// A model with 8 experts, 2 for each token, and 128 columns of ffn.
Graph routed_model() {
  const AxisSize hidden{Axis::kHidden, 64, 1}, vocab{Axis::kVocab, 192, 1};
  const AxisSize ffn{Axis::kFfn, 128, 1};
  Graph g;
  const Value x = g.embed("embed", vocab, hidden);
  const Routes routes = g.route(g.router(x, "gate", 8), {.chosen = 2});
  const auto linear = [&](Value from, const char* name, AxisSize out) {
    return g.expert_linear(from, routes, {.count = 8, .name = name}, out);
  };
  const Value up = g.mul(g.map(linear(x, "*.gate", ffn), Function::kSilu), linear(x, "*.up", ffn));
  const Value y = g.add(x, g.combine(linear(up, "*.down", hidden), routes));
  g.top_candidates(g.head(g.select_rows(y), "head", vocab));
  return g;
}

TEST(RoundRoutedTest, ARowOfSeveralRoutesIsRoundedOnceForGateAndUp) {
  const auto rounded = [](const CompileOptions& options) {
    const auto graphs = compile_graphs(routed_model(), options);
    EXPECT_TRUE(graphs.ok()) << message_of(graphs.status());
    return count_ops(graphs->front(), Op::kRoundGroups);
  };
  for (const char* scheme : {"q8", "q4", "q4m"}) {
    EXPECT_EQ(rounded(options_for_scheme(scheme, 1, Strategy::kGather)), 1) << scheme;
    EXPECT_EQ(rounded(options_for_scheme(scheme, 2, Strategy::kReduce)), 1) << scheme;
    // Each rank also rounds its part of down's input before the gather.
    EXPECT_EQ(rounded(options_for_scheme(scheme, 2, Strategy::kGather)), 2) << scheme;
  }
  EXPECT_EQ(rounded(options_for_scheme("q8c", 1, Strategy::kGather)), 0);
  EXPECT_EQ(rounded(options_for(1, Strategy::kGather, DType::kBF16)), 0);
  CompileOptions on_gpus = options_for_scheme("q8", 1, Strategy::kGather);
  for (WorkerFacts& worker : on_gpus.workers) worker.device = "cuda 0000:01:00.0";
  EXPECT_EQ(rounded(on_gpus), 0);
}

TEST(SchemeTest, ARemovedNameSaysWhichOneToUse) {
  EXPECT_EQ(no_such_scheme("q4mg64"), "that scheme was removed: use q4m");
  EXPECT_EQ(no_such_scheme("q5"), "must be one of q8, q4, q4m, q8c");
  for (const char* name : {"q8g128", "q4a16", "q4g64", "q4g128", "q4mg64", "q4mg128"}) {
    EXPECT_EQ(find_scheme(name), nullptr) << name;
    const std::string message = no_such_scheme(name);
    EXPECT_NE(find_scheme(message.substr(message.rfind(' ') + 1)), nullptr) << message;
  }
}

TEST(SchemeTest, GatherComputesTheSameOnAnyNumberOfRanks) {
  const Graph model = wide_model();
  const naive::Tensors tensors = random_tensors(model, 5);
  for (const Scheme& scheme : schemes()) {
    const auto logits = [&](int ranks) {
      const auto programs =
          compile(model, options_for_scheme(scheme.name.data(), ranks, Strategy::kGather));
      EXPECT_TRUE(programs.ok()) << message_of(programs.status());
      return naive::interpret(*programs, tensors, kSequence);
    };
    const naive::Logits one = logits(1);
    for (const int ranks : {2, 3, 4}) {
      EXPECT_EQ(largest_difference(logits(ranks), one), 0) << scheme.name << " " << ranks;
    }
  }
}

// Matrices are split between groups, so ranks have the codes of the unsplit matrix. Only sums are
// rounded differently.
TEST(SchemeTest, ReduceSplitsBetweenGroupsSoCodesAreThoseOfTheWhole) {
  const Graph model = wide_model();
  const naive::Tensors tensors = random_tensors(model, 6);
  for (const char* scheme : {"q8", "q4", "q4m"}) {
    const auto logits = [&](int ranks) {
      const auto programs = compile(model, options_for_scheme(scheme, ranks, Strategy::kReduce));
      EXPECT_TRUE(programs.ok()) << message_of(programs.status());
      return naive::interpret(*programs, tensors, kSequence);
    };
    EXPECT_LE(largest_difference(logits(2), logits(1)), 2e-5f) << scheme;
  }
}

TEST(SchemeTest, UnderReducePartsAreMultiplesOfTheGroup) {
  const auto plan = make_plan(wide_model(), options_for_scheme("q4", 2, Strategy::kReduce));
  ASSERT_TRUE(plan.ok()) << message_of(plan.status());
  EXPECT_EQ(plan->boundaries({Axis::kFfn, 300, 1}), (std::vector<int64_t>{0, 160, 300}));
  EXPECT_EQ(plan->boundaries({Axis::kHeads, 4, 32}), (std::vector<int64_t>{0, 64, 128}));
}

TEST(SchemeTest, UnderGatherPartsAreMultiplesOfTheGroupIfEveryRankGetsAGroup) {
  const auto ffn_of = [](const char* scheme, int ranks, const char* device = "cpu") {
    CompileOptions options = options_for_scheme(scheme, ranks, Strategy::kGather);
    for (WorkerFacts& worker : options.workers) worker.device = device;
    return make_plan(wide_model(), options)->boundaries({Axis::kFfn, 300, 1});
  };
  EXPECT_EQ(ffn_of("q4", 2), (std::vector<int64_t>{0, 160, 300}));
  EXPECT_EQ(ffn_of("q8", 4), (std::vector<int64_t>{0, 96, 192, 256, 300}));
  EXPECT_EQ(ffn_of("q8c", 2), (std::vector<int64_t>{0, 150, 300}));
  EXPECT_EQ(ffn_of("q4", 2, "cuda 0000:01:00.0"), (std::vector<int64_t>{0, 150, 300}));
  // The 124 columns are 4 groups, too few for 5 ranks, so the boundaries may split groups.
  const auto few = make_plan(model_graph("llama"), options_for(5, Strategy::kGather, DType::kQ8));
  EXPECT_EQ(few->boundaries({Axis::kFfn, 124, 1}), (std::vector<int64_t>{0, 25, 50, 75, 100, 124}));
}

TEST(SchemeTest, ReduceOverFewerGroupsThanRanksIsAnErrorThatNamesGather) {
  const auto plan = make_plan(wide_model(), options_for_scheme("q8c", 2, Strategy::kReduce));
  EXPECT_EQ(plan.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(message_of(plan.status()),
            "--strategy reduce splits the 128 columns of heads over 2 workers, but q8c weights "
            "have groups of 128, which are never split: use --strategy gather");
  EXPECT_TRUE(compile(wide_model(), options_for_scheme("q8c", 1, Strategy::kReduce)).ok());
}

TEST(SchemeTest, PlansCountCodesAndScales) {
  const Graph model = wide_model();
  const auto bytes = [&](const char* scheme) {
    const CompileOptions options = options_for_scheme(scheme, 1, Strategy::kGather);
    return plan_table(model, options, *compile(model, options))->rows[0].weight_bytes;
  };
  // The embedding and the head have 192 rows of 64 codes and 2 scales each.
  const int64_t ends = 2 * 192 * (64 + 4);
  // q, k, v, gate, up: rows of 64. o: 64 rows of 128. down: 64 rows of 300; the tenth group is
  // short.
  const int64_t rows = 128 + 64 + 64 + 300 + 300;
  EXPECT_EQ(bytes("q8"), ends + rows * (64 + 4) + 64 * (128 + 8) + 64 * (300 + 20));
  EXPECT_EQ(bytes("q4"), ends + rows * (32 + 4) + 64 * (64 + 8) + 64 * (150 + 20));
}

TEST(SchemeTest, ProgramsThatSplitAGroupAreRefused) {
  auto programs = compile(wide_model(), options_for_scheme("q4", 2, Strategy::kReduce));
  program::Program& program = programs->at(0);
  for (program::Weight& weight : *program.mutable_weights()) {
    if (weight.name().find("down") == std::string::npos) continue;
    weight.mutable_pieces(0)->set_col_begin(weight.pieces(0).col_begin() + 2);
    weight.mutable_pieces(0)->set_col_end(weight.pieces(0).col_end() + 2);
  }
  EXPECT_NE(message_of(validate(program)).find("whole groups of q4"), std::string::npos)
      << message_of(validate(program));
}

TEST(SchemeTest, RowsWithOneScaleWhoseSumsCouldOverflowAreRefused) {
  auto programs = compile(wide_model(), options_for_scheme("q8c", 1, Strategy::kGather));
  for (program::Weight& weight : *programs->at(0).mutable_weights()) {
    if (weight.dtype() == program::Q8C) weight.set_cols((1 << 17) + 1);
  }
  EXPECT_NE(message_of(validate(programs->at(0))).find("where a row has one scale, found 131073"),
            std::string::npos)
      << message_of(validate(programs->at(0)));
}

TEST(SchemeTest, NormsAndBiasesOfProgramsAreNeverQuantized) {
  auto programs = compile(model_graph("qwen2"), options_for(1, Strategy::kGather));
  program::Program& program = programs->at(0);
  for (const program::Role role : {program::NORM, program::BIAS}) {
    program::Program changed = program;
    for (program::Weight& weight : *changed.mutable_weights()) {
      if (weight.role() == role) weight.set_dtype(program::Q8);
    }
    EXPECT_NE(message_of(validate(changed)).find("dtype must be float32"), std::string::npos);
  }
}

}  // namespace
}  // namespace lockstep
