// SPDX-License-Identifier: Apache-2.0
// The whole compiler: N ranks compute what the model's graph says. Programs are valid, and the same
// input always gives the same program.
#include "sharding/compile.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <ostream>

#include "base/source_dir.h"
#include "base/status.h"
#include "proto/print.h"
#include "proto/validate/validate.h"
#include "tests/sharding/test_models.h"

namespace lockstep {
namespace {

const naive::Sequence kSequence = {.tokens = {1, 60, 7, 33, 12, 63, 5, 8, 21, 2},
                                   .outputs = {0, 5, 9}};

struct Case {
  const char* model;
  Strategy strategy;
  DType dtype;
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.model; }

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (const char* model : kModels) {
    for (Strategy strategy : {Strategy::kGather, Strategy::kReduce}) {
      for (DType dtype : {DType::kF32, DType::kBF16}) cases.push_back({model, strategy, dtype});
    }
  }
  return cases;
}

float largest(const naive::Logits& logits) {
  float max = 0;
  for (const std::vector<float>& row : logits) {
    for (float value : row) max = std::max(max, std::abs(value));
  }
  return max;
}

void expect_near(const naive::Logits& found, const naive::Logits& wanted, float tolerance) {
  ASSERT_EQ(found.size(), wanted.size());
  for (size_t i = 0; i < found.size(); ++i) {
    ASSERT_EQ(found[i].size(), wanted[i].size());
    for (size_t j = 0; j < found[i].size(); ++j) {
      ASSERT_TRUE(std::abs(found[i][j] - wanted[i][j]) <= tolerance)
          << "output " << i << " id " << j << ": " << found[i][j] << " and " << wanted[i][j];
    }
  }
}

class EqualityTest : public testing::TestWithParam<Case> {};

// Under gather one rank computes each whole element, so no bit differs. Under reduce a sum has one
// part per rank, and each part is rounded to float32. So each of about ten sums may differ by a few
// units in the last place. If values are rounded to bfloat16, such a difference may change one
// rounding, which is 2^-8 of an element.
TEST_P(EqualityTest, AnyNumberOfRanksComputesTheModelsGraph) {
  const Case& c = GetParam();
  const Graph model = model_graph(c.model);
  const naive::Tensors tensors = random_tensors(model, 17);
  const auto one = compile_graphs(model, options_for(1, c.strategy, c.dtype));
  ASSERT_TRUE(one.ok()) << message_of(one.status());
  const naive::Logits wanted = naive::interpret(*one, tensors, kSequence);
  if (c.dtype == DType::kF32) {
    expect_near(wanted, naive::interpret(std::span(&model, 1), tensors, kSequence), 0);
  }
  const float relative = c.strategy == Strategy::kGather ? 0.0f
                         : c.dtype == DType::kF32        ? 2e-5f
                                                         : 2e-2f;
  for (int ranks : {1, 2, 3, 5}) {
    SCOPED_TRACE(ranks);
    CompileOptions options = options_for(ranks, c.strategy, c.dtype);
    const auto graphs = compile_graphs(model, options);
    ASSERT_TRUE(graphs.ok()) << message_of(graphs.status());
    const naive::Logits sharded = naive::interpret(*graphs, tensors, kSequence);
    expect_near(sharded, wanted, relative * largest(wanted));
    const auto programs = compile(model, options);
    ASSERT_TRUE(programs.ok()) << message_of(programs.status());
    expect_near(naive::interpret(*programs, tensors, kSequence), sharded, 0);
    for (int rank = 0; rank < ranks; ++rank) options.workers[rank].speed = rank + 1;
    const auto uneven = compile(model, options);
    ASSERT_TRUE(uneven.ok()) << message_of(uneven.status());
    expect_near(naive::interpret(*uneven, tensors, kSequence), wanted, relative * largest(wanted));
  }
}

INSTANTIATE_TEST_SUITE_P(Models, EqualityTest, testing::ValuesIn(all_cases()),
                         [](const auto& test) {
                           return fmt::format("{}_{}_{}", test.param.model,
                                              strategy_name(test.param.strategy),
                                              dtype_name(test.param.dtype));
                         });

// A model unlike any family: layers differ in the number and width of heads, values are narrower or
// wider than keys, and only every second layer norm has a bias.
Graph graph_of_uneven_layers() {
  Graph g;
  const AxisSize hidden{Axis::kHidden, 24}, vocab{Axis::kVocab, 150};
  Value x = g.embed("embed", vocab, hidden);
  struct Layer {
    int64_t heads, kv_heads, k_dim, v_dim;
  };
  int index = 0;
  for (const Layer& layer : {Layer{6, 2, 8, 4}, Layer{4, 4, 4, 8}, Layer{9, 3, 2, 2}}) {
    Scope scope(g, fmt::format("layers.{}", index));
    const Value normed = g.layer_norm(x, "norm", 1e-5f, index % 2 == 0);
    const auto project = [&](const char* name, Axis axis, int64_t count, int64_t unit) {
      const int64_t serves = axis == Axis::kKvHeads ? layer.heads : 0;
      return g.linear(normed, name, {axis, count, unit, serves});
    };
    const Value y = g.attention(project("q", Axis::kHeads, layer.heads, layer.k_dim),
                                project("k", Axis::kKvHeads, layer.kv_heads, layer.k_dim),
                                project("v", Axis::kKvHeads, layer.kv_heads, layer.v_dim),
                                {.heads = layer.heads,
                                 .kv_heads = layer.kv_heads,
                                 .head_dim = layer.k_dim,
                                 .v_dim = layer.v_dim,
                                 .scale = 0.4f,
                                 .state = index++});
    x = g.add(x, g.linear(y, "o", hidden));
  }
  g.top_candidates(g.head(g.select_rows(x), "head", vocab));
  return g;
}

TEST(CompileTest, LayersMayDifferInHeadsAndWidths) {
  const Graph model = graph_of_uneven_layers();
  const naive::Tensors tensors = random_tensors(model, 3);
  const naive::Logits wanted = naive::interpret(std::span(&model, 1), tensors, kSequence);
  for (const Strategy strategy : {Strategy::kGather, Strategy::kReduce}) {
    for (const int ranks : {1, 2, 3, 7}) {  // With 7, some ranks have no head in some layers.
      SCOPED_TRACE(ranks);
      const auto programs = compile(model, options_for(ranks, strategy));
      ASSERT_TRUE(programs.ok()) << message_of(programs.status());
      const float tolerance = strategy == Strategy::kGather ? 0.0f : 2e-5f * largest(wanted);
      expect_near(naive::interpret(*programs, tensors, kSequence), wanted, tolerance);
      EXPECT_EQ((*programs)[0].states(0).kv().v_dim(), 4);
      EXPECT_EQ((*programs)[0].states(1).kv().v_dim(), 8);
    }
  }
  EXPECT_FALSE(compile(model, options_for(10, Strategy::kGather)).ok());
}

TEST(CompileTest, ReadOnlyAttentionUsesTheStateOfTheLayerThatAppended) {
  Graph model;
  const AxisSize hidden{Axis::kHidden, 24}, heads{Axis::kHeads, 6, 4}, kv{Axis::kKvHeads, 2, 4, 6};
  Value x = model.embed("embed", {Axis::kVocab, 150}, hidden);
  const Value k = model.linear(x, "k", kv), v = model.linear(x, "v", kv);
  AttentionAttrs attrs = {.heads = 6, .kv_heads = 2, .head_dim = 4, .scale = 0.4f, .state = 7};
  for (const char* layer : {"0", "1"}) {
    const Scope scope(model, layer);
    x = model.add(
        x, model.linear(model.attention(model.linear(x, "q", heads), k, v, attrs), "o", hidden));
    attrs.read_only = true;
  }
  model.top_candidates(model.head(model.select_rows(x), "head", {Axis::kVocab, 150}));
  const naive::Tensors tensors = random_tensors(model, 3);
  const naive::Logits wanted = naive::interpret(std::span(&model, 1), tensors, kSequence);
  for (const int ranks : {1, 2, 5}) {
    const auto programs = compile(model, options_for(ranks, Strategy::kGather));
    ASSERT_TRUE(programs.ok()) << message_of(programs.status());
    expect_near(naive::interpret(*programs, tensors, kSequence), wanted, 0.0f);
    for (const program::Program& program : *programs) {
      EXPECT_EQ(message_of(validate(program)), "");
      ASSERT_EQ(program.states_size(), 1);
      EXPECT_EQ(program.states(0).name(), "layer.7");
    }
  }
}

TEST(CompileTest, TheSameInputGivesTheSameBytes) {
  for (const char* name : kModels) {
    const CompileOptions options = options_for(3, Strategy::kGather, DType::kBF16);
    const auto first = compile(model_graph(name), options);
    const auto second = compile(model_graph(name), options);
    for (size_t i = 0; i < first->size(); ++i) {
      EXPECT_EQ((*first)[i].SerializeAsString(), (*second)[i].SerializeAsString());
    }
  }
}

TEST(CompileTest, ProgramsAreValidForEveryNumberOfRanks) {
  const Graph model = model_graph("qwen3");
  for (int ranks = 1; ranks <= 7; ++ranks) {
    for (Strategy strategy : {Strategy::kGather, Strategy::kReduce}) {
      const auto programs = compile(model, options_for(ranks, strategy, DType::kBF16));
      ASSERT_TRUE(programs.ok()) << message_of(programs.status());
      for (const program::Program& program : *programs) {
        EXPECT_TRUE(validate(program).ok()) << message_of(validate(program));
        EXPECT_EQ(program.ranks(), ranks);
        EXPECT_EQ(program.vocab(), 307);
        EXPECT_EQ(program.hidden(), 24);
        EXPECT_EQ(program.numeric_class(), "f32.v1");
        EXPECT_EQ(program.states_size(), 2);
      }
    }
  }
}

TEST(CompileTest, ARankMayHaveNoColumnsOfAnAxis) {
  const Graph model = model_graph("yarn");  // Three columns of ffn and one block of ids.
  const auto programs = compile(model, options_for(5, Strategy::kGather));
  ASSERT_TRUE(programs.ok()) << message_of(programs.status());
  int without_ffn = 0;
  for (const program::Program& program : *programs) {
    for (const program::Weight& weight : program.weights()) {
      without_ffn += weight.name().find("gate_proj") != std::string::npos && weight.rows() == 0;
    }
  }
  EXPECT_EQ(without_ffn, 2);
}

TEST(CompileTest, EachRanksKvHeadsServeItsQueryHeads) {
  const auto programs = compile(model_graph("mistral"), options_for(5, Strategy::kReduce));
  ASSERT_TRUE(programs.ok());
  std::vector<std::vector<int>> maps;  // For the first layer; 6 heads share 3 KV heads.
  for (const program::Program& program : *programs) {
    for (const program::Instruction& instruction : program.instructions()) {
      if (instruction.op() != program::ATTENTION) continue;
      const auto& map = instruction.attributes().attention().kv_head_of();
      maps.emplace_back(map.begin(), map.end());
      break;
    }
  }
  EXPECT_EQ(maps, (std::vector<std::vector<int>>{{0, 0}, {0}, {0}, {0}, {0}}));
  const auto three = compile(model_graph("qwen2"), options_for(3, Strategy::kReduce));
  for (const program::Instruction& instruction : (*three)[1].instructions()) {
    if (instruction.op() != program::ATTENTION) continue;
    const auto& map = instruction.attributes().attention().kv_head_of();
    EXPECT_EQ(std::vector<int>(map.begin(), map.end()), (std::vector<int>{0, 1}));
  }
}

TEST(CompileTest, ProgramsNameTheNumericClassThatAllWorkersShare) {
  const auto class_of = [](std::vector<std::string> classes) {
    CompileOptions options = options_for(static_cast<int>(classes.size()), Strategy::kGather);
    for (size_t rank = 0; rank < classes.size(); ++rank) {
      options.workers[rank].numeric_class = classes[rank];
    }
    const auto programs = compile(model_graph("llama"), options);
    EXPECT_TRUE(programs.ok()) << message_of(programs.status());
    for (const program::Program& program : *programs) {
      EXPECT_EQ(program.numeric_class(), programs->front().numeric_class());
    }
    return programs->front().numeric_class();
  };
  EXPECT_EQ(class_of({"amx.v1"}), "amx.v1");
  EXPECT_EQ(class_of({"amx.v1", "amx.v1", "f32.v1"}), "f32.v1");
  EXPECT_EQ(class_of({"cuda.exact.v1", "cuda.exact.v1"}), "cuda.exact.v1");
}

TEST(CompileTest, WorkersWithoutACommonNumericClassAreRefusedByRankAndDevice) {
  CompileOptions options = options_for(3, Strategy::kGather);
  options.workers[2] = {.device = "cuda 01:00.0", .numeric_class = "cuda.exact.v1"};
  const absl::Status status = compile(model_graph("llama"), options).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(message_of(status),
            "rank 0 (cpu) computes in numeric class f32.v1, rank 2 (cuda 01:00.0) in "
            "cuda.exact.v1: give all workers the same --device");
}

// x += down_e(silu(up_e(x))) for each expert e. All experts are in one tensor, or each expert has
// its own tensors.
Graph experts_model(bool stacked) {
  constexpr int64_t kExperts = 3;
  const AxisSize vocab = {Axis::kVocab, 128, 1}, hidden = {Axis::kHidden, 12, 1},
                 ffn = {Axis::kFfn, 7, 1};
  Graph g;
  Value x = g.embed("embed", vocab, hidden);
  for (int64_t e = 0; e < kExperts; ++e) {
    const auto part = [&](Value in, const char* name, AxisSize out) {
      const int64_t rows = out.columns();
      if (!stacked) return g.linear(in, fmt::format("{}.{}", name, e), out);
      return g.linear_part(in, name,
                           {.name = std::to_string(e),
                            .all_rows = kExperts * rows,
                            .rows = {{e * rows, (e + 1) * rows}},
                            .matrices = kExperts},
                           out);
    };
    x = g.add(x, part(g.map(part(x, "up", ffn), Function::kSilu), "down", hidden));
  }
  g.top_candidates(g.head(g.select_rows(x), "head", vocab));
  return g;
}

TEST(CompileTest, ExpertsInOneTensorComputeTheSameAsInSeparateTensors) {
  const Graph stacked = experts_model(true), apart = experts_model(false);
  const naive::Tensors tensors = random_tensors(stacked, 23);
  naive::Tensors cut = tensors;
  for (const char* name : {"up", "down"}) {
    const naive::Tensor& all = tensors.at(std::string(name) + ".weight");
    ASSERT_EQ(all.shape.size(), 3u);
    const int64_t size = all.shape[1] * all.shape[2];
    for (int64_t e = 0; e < all.shape[0]; ++e) {
      const auto first = all.data.begin() + e * size;
      cut[fmt::format("{}.{}.weight", name, e)] = {.shape = {all.shape[1], all.shape[2]},
                                                   .data = {first, first + size}};
    }
  }
  for (const Strategy strategy : {Strategy::kGather, Strategy::kReduce}) {
    for (const int ranks : {1, 2, 3}) {
      const CompileOptions options = options_for(ranks, strategy);
      const auto one = compile(stacked, options), other = compile(apart, options);
      ASSERT_TRUE(one.ok()) << message_of(one.status());
      ASSERT_TRUE(other.ok()) << message_of(other.status());
      expect_near(naive::interpret(*one, tensors, kSequence),
                  naive::interpret(*other, cut, kSequence), 0);
    }
  }
}

TEST(CompileTest, LimitsOutOfRangeAreAUserError) {
  for (const char* field : {"rows", "outputs", "sequences", "context", "page_tokens"}) {
    CompileOptions options = options_for(1, Strategy::kGather);
    const auto* descriptor = program::Limits::descriptor()->FindFieldByName(field);
    options.limits.GetReflection()->SetInt64(&options.limits, descriptor, 0);
    const auto programs = compile(model_graph("llama"), options);
    EXPECT_EQ(programs.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_NE(message_of(programs.status()).find(std::string("limits.") + field),
              std::string::npos);
  }
}

TEST(CompileTest, EveryStageIsTracedInOrder) {
  CompileOptions options = options_for(2, Strategy::kGather, DType::kBF16);
  std::string stages;
  options.trace_rank = 1;
  options.trace = [&](const std::string& stage, const std::string& text) {
    stages += (stages.empty() ? "" : " ") + stage;
    EXPECT_FALSE(text.empty());
  };
  ASSERT_TRUE(compile(model_graph("llama"), options).ok());
  EXPECT_EQ(stages,
            "model drop_dead store_weights round_inputs split round_parts round_routed "
            "fuse_linears fuse_gated fuse_gated_linear fuse_add_norm fuse_rope fuse_casts program");
}

// Published models have up to 384 experts per layer. This program's recipes have 69,120 pieces.
TEST(CompileTest, SixtyLayersOf384ExpertsAreSplitInsideEachExpert) {
  Graph model;
  const AxisSize hidden = {Axis::kHidden, 7168, 1}, ffn = {Axis::kFfn, 2048, 1};
  Value x = model.embed("embed", {Axis::kVocab, 4096, 1}, hidden);
  for (int layer = 0; layer < 60; ++layer) {
    const Scope scope(model, "layers." + std::to_string(layer));
    const Routes routes = model.route(model.router(x, "gate", 384), {.chosen = 8});
    const auto linear = [&](Value from, const char* name, AxisSize out) {
      return model.expert_linear(from, routes, {.count = 384, .name = name}, out);
    };
    const Value inner =
        model.mul(model.map(linear(x, "*.gate", ffn), Function::kSilu), linear(x, "*.up", ffn));
    x = model.add(x, model.combine(linear(inner, "*.down", hidden), routes));
  }
  model.top_candidates(model.head(model.select_rows(x), "head", {Axis::kVocab, 4096, 1}));
  const auto programs = compile(model, options_for(3, Strategy::kGather, DType::kBF16));
  ASSERT_TRUE(programs.ok()) << message_of(programs.status());
  for (const program::Program& program : *programs) {
    int64_t pieces = 0;
    for (const program::Weight& weight : program.weights()) {
      pieces += weight.matrices() == 384 ? weight.pieces_size() : 0;
    }
    EXPECT_EQ(pieces, 60 * 3 * 384);
  }
}

// LOCKSTEP_REGENERATE=1 sharding_test --gtest_filter='*Golden*' writes the files again.
TEST(CompileTest, GoldenProgramsHaveNotChanged) {
  struct Golden {
    const char* model;
    int ranks, rank;
    Strategy strategy;
    DType dtype;
  };
  for (const Golden& g : {Golden{"yarn", 2, 1, Strategy::kGather, DType::kBF16},
                          Golden{"llama", 3, 2, Strategy::kReduce, DType::kF32}}) {
    const auto programs = compile(model_graph(g.model), options_for(g.ranks, g.strategy, g.dtype));
    ASSERT_TRUE(programs.ok());
    const std::string text = to_text((*programs)[g.rank]);
    const std::filesystem::path path =
        std::filesystem::path(LOCKSTEP_SOURCE_DIR) / "tests/data/programs" /
        fmt::format("{}_{}_{}_of_{}.txt", g.model, strategy_name(g.strategy), g.rank, g.ranks);
    if (std::getenv("LOCKSTEP_REGENERATE") != nullptr) std::ofstream(path) << text;
    std::ifstream file(path);
    const std::string golden{std::istreambuf_iterator<char>(file),
                             std::istreambuf_iterator<char>()};
    EXPECT_EQ(text, golden) << path;
  }
}

}  // namespace
}  // namespace lockstep
