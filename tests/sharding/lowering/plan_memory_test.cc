// SPDX-License-Identifier: Apache-2.0
// Memory plans of random graphs: no other value overwrites the bytes of a live value.
#include "sharding/lowering/plan_memory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "base/numbers/quantization.h"
#include "base/status.h"
#include "sharding/check.h"
#include "sharding/text.h"
#include "tests/sharding/test_models.h"

namespace lockstep {
namespace {

// A graph of element-wise operators, casts, linears, views and norms on random earlier values.
Graph random_graph(std::mt19937_64& random) {
  const auto pick = [&](int count) { return static_cast<int>(random() % count); };
  Graph g;
  std::vector<Value> values = {g.embed("embed", {Axis::kVocab, 64, 1}, {Axis::kNone, 8, 1})};
  const int steps = 5 + pick(30);
  for (int i = 0; i < steps; ++i) {
    const Value x = values[pick(static_cast<int>(values.size()))];
    const ValueInfo info = g.info(x);
    const Value y = values[pick(static_cast<int>(values.size()))];
    const std::string name = "w" + std::to_string(i);
    if (info.dtype != DType::kF32) continue;
    const bool alike =
        g.info(y).dtype == info.dtype && g.info(y).axis.columns() == info.axis.columns();
    switch (pick(7)) {
      case 0:
        values.push_back(g.linear(x, name, {Axis::kNone, 1 + pick(20), 1}));
        break;
      case 1: {
        const int64_t begin = pick(static_cast<int>(info.axis.columns()) + 1);
        const int64_t end = begin + pick(static_cast<int>(info.axis.columns() - begin) + 1);
        Node view{.op = Op::kColumns, .inputs = {x.id}};
        view.attributes.mutable_columns()->set_begin(begin);
        view.attributes.mutable_columns()->set_end(end);
        ValueInfo part = info;
        part.axis = {Axis::kNone, end - begin, 1};
        values.push_back(g.append(std::move(view), {part})[0]);
        break;
      }
      case 2:
        if (alike) values.push_back(g.add(x, y));
        break;
      case 3:
        if (alike) values.push_back(g.mul(x, y));
        break;
      case 4:
        if (info.axis.columns() > 0) values.push_back(g.rms_norm(x, name, 1e-6f));
        break;
      case 5: {
        ValueInfo half = info;
        half.dtype = DType::kBF16;
        values.push_back(g.append({.op = Op::kCast, .inputs = {x.id}}, {half})[0]);
        break;
      }
      default:
        values.push_back(g.map(x, Function::kSilu));
    }
  }
  Value last = values.back();
  for (size_t i = values.size(); g.info(last).dtype != DType::kF32;) last = values[--i];
  g.top_candidates(g.head(g.select_rows(last), "head", {Axis::kVocab, 64, 1}));
  return g;
}

// For every byte of the arena, remembers which value, row and column was written there last. A view
// has the bytes of its root, the value of which it shows columns. A reader must find the value that
// it expects.
void run_symbolically(const Graph& graph, const MemoryPlan& plan, const program::Limits& limits) {
  using Element = std::tuple<int, int64_t, int64_t>;  // Root value, row, column of the root.
  std::map<int64_t, Element> arena;                   // By address; negative: in shared memory.
  std::vector<std::pair<int, int64_t>> roots;         // By value: its root and first column there.
  const auto walk = [&](int value, auto visit) {
    const ValueInfo& info = graph.values()[value];
    const int64_t rows = info.rows == program::TOKENS ? limits.rows() : limits.outputs();
    const int64_t bytes = group_bytes(info.dtype);
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < info.axis.columns(); c += group_elements(info.dtype)) {
        const Placement& at = plan.placements[value];
        const int64_t byte = at.offset_bytes + row_bytes(info.dtype, r * at.stride + c);
        ASSERT_LE(byte + bytes, at.shared ? plan.shared_bytes : plan.arena_bytes);
        for (int64_t b = 0; b < bytes; ++b) {
          visit(at.shared ? -1 - byte - b : byte + b,
                Element{roots[value].first, r, (roots[value].second + c) * 8 + b});
        }
      }
    }
  };
  for (size_t i = 0; i < graph.values().size(); ++i) roots.emplace_back(static_cast<int>(i), 0);
  int last_logits = -1;
  for (const Node& node : graph.nodes()) {
    for (int input : node.inputs) {
      walk(input, [&](int64_t byte, Element element) {
        ASSERT_EQ(arena[byte], element) << node_text(graph, node) << " reads %" << input;
      });
    }
    if (node.op == Op::kTopCandidates) last_logits = node.inputs[0];
    for (int output : node.outputs) {
      if (node.op == Op::kColumns) {
        const auto [root, begin] = roots[node.inputs[0]];
        roots[output] = {root, begin + node.attributes.columns().begin()};
        continue;
      }
      walk(output, [&](int64_t byte, Element element) { arena[byte] = element; });
    }
  }
  walk(last_logits, [&](int64_t byte, Element element) { ASSERT_EQ(arena[byte], element); });
}

TEST(PlanMemoryTest, NoLiveValueIsOverwrittenInRandomGraphs) {
  program::Limits limits;
  limits.set_rows(3);
  limits.set_outputs(2);
  for (uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    const Graph graph = random_graph(random);
    ASSERT_TRUE(check_graph(graph).ok()) << message_of(check_graph(graph));
    run_symbolically(graph, plan_memory(graph, limits, 0), limits);
    if (testing::Test::HasFatalFailure()) FAIL() << graph_text(graph);
  }
}

TEST(PlanMemoryTest, NoLiveValueIsOverwrittenInModels) {
  for (const char* name : kModels) {
    for (const auto& [strategy, dtype] :
         {std::pair(Strategy::kGather, DType::kBF16), std::pair(Strategy::kReduce, DType::kBF16),
          std::pair(Strategy::kGather, DType::kQ8)}) {
      const CompileOptions options = options_for(3, strategy, dtype);
      const auto graphs = compile_graphs(model_graph(name), options);
      for (int rank = 0; rank < 3; ++rank) {
        const Graph& graph = (*graphs)[rank];
        run_symbolically(graph, plan_memory(graph, options.limits, rank), options.limits);
      }
    }
  }
}

std::vector<std::pair<const char*, DType>> models_in(std::initializer_list<DType> dtypes) {
  std::vector<std::pair<const char*, DType>> all;
  for (const char* name : kModels) {
    for (const DType dtype : dtypes) all.emplace_back(name, dtype);
  }
  return all;
}

// True if the value is a view of columns of another value, such as q in the result of a fused
// linear for q, k and v. Its memory is then a part of the other value's memory.
bool is_view(const Graph& graph, int value) {
  return std::any_of(graph.nodes().begin(), graph.nodes().end(), [&](const Node& node) {
    return node.op == Op::kColumns && node.outputs[0] == value;
  });
}

TEST(PlanMemoryTest, GatheredValuesAreSharedAndEachRanksPartIsAtItsPlace) {
  for (const auto& [name, dtype] : models_in({DType::kBF16, DType::kQ8})) {
    const CompileOptions options = options_for(3, Strategy::kGather, dtype);
    const auto graphs = compile_graphs(model_graph(name), options);
    const MemoryPlan first = plan_memory(graphs->front(), options.limits, 0);
    for (int rank = 0; rank < 3; ++rank) {
      const Graph& graph = (*graphs)[rank];
      const MemoryPlan plan = plan_memory(graph, options.limits, rank);
      EXPECT_EQ(plan.shared_bytes, first.shared_bytes);
      int gathers = 0;
      for (const Node& node : graph.nodes()) {
        if (node.op != Op::kAllGather) continue;
        ++gathers;
        const Placement& part = plan.placements[node.inputs[0]];
        const Placement& whole = plan.placements[node.outputs[0]];
        const int64_t begin = node.attributes.gather().boundaries(rank);
        const DType type = graph.values()[node.outputs[0]].dtype;
        EXPECT_TRUE(whole.shared);
        EXPECT_EQ(whole.offset_bytes, first.placements[node.outputs[0]].offset_bytes);
        if (!part.shared && is_view(graph, node.inputs[0])) continue;  // The gather moves it.
        EXPECT_TRUE(part.shared);
        EXPECT_EQ(part.stride, whole.stride);
        EXPECT_EQ(part.offset_bytes, whole.offset_bytes + row_bytes(type, begin));
      }
      EXPECT_GE(gathers, 4) << name;
    }
  }
}

using Bytes = std::set<int64_t>;
struct Stretch {  // The code from one collective to the next.
  Bytes read, written;
};

// The bytes of shared memory that kernels access in each stretch. No collective separates a step's
// end from the next step's beginning, so the two are one stretch.
std::vector<Stretch> shared_use(const Graph& graph, const MemoryPlan& plan, int64_t rows) {
  const auto note = [&](int value, Bytes& bytes) {
    const Placement& at = plan.placements[value];
    if (!at.shared) return;
    const ValueInfo& info = graph.values()[value];
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t i = 0; i < row_bytes(info.dtype, info.axis.columns()); ++i) {
        bytes.insert(at.offset_bytes + row * row_bytes(info.dtype, at.stride) + i);
      }
    }
  };
  std::vector<Stretch> stretches(1);
  for (const Node& node : graph.nodes()) {
    if (node.op == Op::kAllGather || node.op == Op::kAllReduce) {
      stretches.emplace_back();
      continue;
    }
    for (int input : node.inputs) note(input, stretches.back().read);
    if (node.op == Op::kColumns) continue;
    for (int output : node.outputs) note(output, stretches.back().written);
  }
  stretches.front().read.merge(stretches.back().read);
  stretches.front().written.merge(stretches.back().written);
  stretches.pop_back();
  return stretches;
}

TEST(PlanMemoryTest, NoRankWritesMemoryThatAnotherMayStillRead) {
  for (const auto& [name, dtype] : models_in({DType::kF32, DType::kQ8})) {
    const CompileOptions options = options_for(3, Strategy::kGather, dtype);
    const auto graphs = compile_graphs(model_graph(name), options);
    std::vector<std::vector<Stretch>> ranks;
    for (int rank = 0; rank < 3; ++rank) {
      const Graph& graph = (*graphs)[rank];
      const MemoryPlan plan = plan_memory(graph, options.limits, rank);
      ranks.push_back(shared_use(graph, plan, options.limits.rows()));
    }
    int64_t bytes_written = 0;
    for (int writer = 0; writer < 3; ++writer) {
      for (int reader = 0; reader < 3; ++reader) {
        for (size_t i = 0; i < ranks[writer].size(); ++i) {
          for (const int64_t byte : ranks[writer][i].written) {
            ++bytes_written;
            if (reader == writer) continue;
            ASSERT_FALSE(ranks[reader][i].read.contains(byte)) << name << ", stretch " << i;
          }
        }
      }
    }
    EXPECT_GT(bytes_written, 0);
  }
}

TEST(PlanMemoryTest, RopeAndGatedWorkInPlaceOnViewsOfFusedLinears) {
  const CompileOptions options = options_for(1, Strategy::kGather);
  const Graph graph = compile_graphs(model_graph("llama"), options)->front();
  const MemoryPlan plan = plan_memory(graph, options.limits, 0);
  for (const Node& node : graph.nodes()) {
    if (node.op != Op::kRope && node.op != Op::kGated) continue;
    const Placement &in = plan.placements[node.inputs[0]], &out = plan.placements[node.outputs[0]];
    EXPECT_EQ(in.offset_bytes, out.offset_bytes);
    EXPECT_EQ(in.stride, out.stride);
    EXPECT_GT(out.stride, graph.values()[node.outputs[0]].axis.columns());
  }
}

TEST(PlanMemoryTest, TheArenaDoesNotGrowWithLayers) {
  const auto arena = [](int adds) {
    Graph g;
    Value x = g.embed("embed", {Axis::kVocab, 64, 1}, {Axis::kHidden, 16, 1});
    for (int i = 0; i < adds; ++i) {
      x = g.add(x, g.rms_norm(x, "norm" + std::to_string(i), 1e-6f));
    }
    g.top_candidates(g.head(g.select_rows(x), "head", {Axis::kVocab, 64, 1}));
    return plan_memory(g, options_for(1, Strategy::kGather).limits, 0).arena_bytes;
  };
  EXPECT_EQ(arena(2), arena(40));
}

}  // namespace
}  // namespace lockstep
