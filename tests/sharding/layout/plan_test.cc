// SPDX-License-Identifier: Apache-2.0
#include "sharding/layout/plan.h"

#include <gtest/gtest.h>

#include <array>
#include <limits>
#include <numeric>

#include "base/status.h"
#include "sharding/cost.h"
#include "tests/sharding/test_models.h"

namespace lockstep {
namespace {

Plan plan_of(std::vector<int64_t> eighths, Strategy strategy = Strategy::kGather) {
  const int ranks = static_cast<int>(eighths.size());
  return {.ranks = ranks, .strategy = strategy, .eighths = std::move(eighths)};
}

TEST(PlanTest, EveryUnitOfEveryAxisIsCoveredExactlyOnce) {
  const AxisSize axes[] = {{Axis::kHeads, 5, 8},   {Axis::kHeads, 7, 16},  {Axis::kFfn, 124, 1},
                           {Axis::kFfn, 3, 1},     {Axis::kVocab, 307, 1}, {Axis::kVocab, 64, 1},
                           {Axis::kVocab, 320, 1}, {Axis::kHidden, 40, 1}, {Axis::kLatent, 18, 1}};
  for (int ranks : {1, 2, 3, 5, 7}) {
    const Plan even = plan_of(std::vector<int64_t>(ranks, 8));
    std::vector<int64_t> speeds(ranks, 8);
    speeds[0] = 1;
    for (const Plan& plan : {even, plan_of(speeds)}) {
      for (const AxisSize& axis : axes) {
        int64_t at = 0;
        for (int rank = 0; rank < ranks; ++rank) {
          const Range range = plan.columns(axis, rank);
          EXPECT_EQ(range.begin, at);
          EXPECT_LE(range.begin, range.end);
          EXPECT_EQ(range.begin % axis.unit, 0);
          at = range.end;
          if (axis.axis == Axis::kVocab && range.end != axis.count) {
            EXPECT_EQ(range.end % 64, 0) << "must end between blocks of 64 ids";
          }
          if (axis.count >= ranks && axis.axis != Axis::kVocab) {
            EXPECT_GT(range.size(), 0);
          }
        }
        EXPECT_EQ(at, axis.columns());
      }
    }
  }
}

TEST(PlanTest, KvHeadsCoverARanksQueryHeads) {
  struct Heads {
    int64_t heads, kv_heads;
    std::vector<Range> ranges;
  };
  const Heads cases[] = {
      {6, 3, {{0, 1}, {1, 2}, {2, 3}}},
      {6, 3, {{0, 1}, {0, 2}, {1, 2}, {2, 3}, {2, 3}}},  // Query heads per rank: 2, 1, 1, 1, 1.
      {6, 2, {{0, 1}, {0, 2}, {1, 2}}},  // 2 query heads per rank: one KV head is on two ranks.
      {7, 1, {{0, 1}, {0, 1}, {0, 1}, {0, 1}, {0, 1}, {0, 1}, {0, 1}}},
  };
  for (const Heads& c : cases) {
    const Plan plan = plan_of(std::vector<int64_t>(c.ranges.size(), 8));
    const int64_t group = c.heads / c.kv_heads;
    for (int rank = 0; rank < plan.ranks; ++rank) {
      const Range heads = plan.units({Axis::kHeads, c.heads, 8}, rank);
      const Range kv_heads = plan.units({Axis::kKvHeads, c.kv_heads, 8, c.heads}, rank);
      for (int64_t head = heads.begin; head < heads.end; ++head) {
        EXPECT_LE(kv_heads.begin, head / group);
        EXPECT_LT(head / group, kv_heads.end);
      }
      if (&c != &cases[1]) {
        EXPECT_EQ(kv_heads, c.ranges[rank]) << c.heads << " " << rank;
      }
    }
  }
}

TEST(PlanTest, EveryKvHeadIsOwnedByExactlyOneOfTheRanksThatHaveIt) {
  for (const std::vector<int64_t>& eighths :
       std::vector<std::vector<int64_t>>{{8, 8}, {8, 1, 8}, {1, 8, 1, 8}, {8, 8, 8, 8, 8}}) {
    const Plan plan = plan_of(eighths);
    for (const int64_t heads : {1, 2, 4, 6, 7, 12}) {
      for (int64_t kv_heads = 1; kv_heads <= heads; ++kv_heads) {
        if (heads % kv_heads != 0) continue;
        const AxisSize axis = {Axis::kKvHeads, kv_heads, 8, heads};
        int64_t at = 0;
        for (int rank = 0; rank < plan.ranks; ++rank) {
          const Range owned = plan.owned(axis, rank), held = plan.units(axis, rank);
          EXPECT_EQ(owned.begin, at);
          EXPECT_EQ(owned.begin, held.begin);
          EXPECT_LE(owned.end, held.end);
          at = owned.end;
        }
        EXPECT_EQ(at, kv_heads);
        EXPECT_EQ(plan.boundaries(axis).back(), axis.columns());
      }
    }
  }
}

TEST(PlanTest, SpeedsAreRoundedToEighthsOfTheFastest) {
  const Graph graph = model_graph("llama");
  CompileOptions options = options_for(3, Strategy::kGather);
  const auto plan_for = [&](std::array<double, 3> speeds) {
    for (int rank = 0; rank < 3; ++rank) options.workers[rank].speed = speeds[rank];
    return make_plan(graph, options);
  };
  EXPECT_EQ(plan_for({10.1, 9.9, 5.2})->eighths, (std::vector<int64_t>{8, 8, 4}));
  EXPECT_EQ(plan_for({100, 98, 0.001})->eighths, (std::vector<int64_t>{8, 8, 1}));
  EXPECT_EQ(plan_for({3, 0, 1})->eighths, (std::vector<int64_t>{8, 8, 8}));  // 0: unknown.
  for (const double wrong : {-1.0, std::numeric_limits<double>::quiet_NaN()}) {
    EXPECT_EQ(
        message_of(plan_for({1, 2, wrong}).status()),
        fmt::format("speed of rank 2: must be a finite number of 0 or more, found {}", wrong));
  }
}

TEST(PlanTest, PartsFollowSpeedAndAddUpToTheWhole) {
  EXPECT_EQ(apportion(7, std::vector<int64_t>{8, 8, 8}), (std::vector<int64_t>{3, 2, 2}));
  EXPECT_EQ(apportion(30, std::vector<int64_t>{8, 4, 3}), (std::vector<int64_t>{16, 8, 6}));
  EXPECT_EQ(apportion(4, std::vector<int64_t>{8, 1}), (std::vector<int64_t>{3, 1}));
  EXPECT_EQ(apportion(2, std::vector<int64_t>{8, 8, 8}), (std::vector<int64_t>{1, 1, 0}));
  EXPECT_EQ(apportion(0, std::vector<int64_t>{8, 8}), (std::vector<int64_t>{0, 0}));
}

TEST(PlanTest, MoreRanksThanQueryHeadsIsAnErrorOfOneLineWithAFix) {
  const absl::StatusOr<Plan> plan =
      make_plan(model_graph("llama"), options_for(7, Strategy::kGather));
  EXPECT_EQ(plan.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(message_of(plan.status()),
            "7 workers requested, but the model has 5 heads: use --workers 5 or fewer");
  EXPECT_FALSE(make_plan(model_graph("llama"), options_for(0, Strategy::kGather)).ok());
}

TEST(PlanTest, HiddenAndLatentAreSplitOnlyUnderGatherAndOneRankSplitsNothing) {
  for (Axis axis : {Axis::kHidden, Axis::kLatent}) {
    EXPECT_TRUE(plan_of({8, 8}).splits(axis));
    EXPECT_FALSE(plan_of({8, 8}, Strategy::kReduce).splits(axis));
  }
  for (Axis axis : {Axis::kHidden, Axis::kHeads, Axis::kFfn, Axis::kLatent, Axis::kVocab}) {
    EXPECT_FALSE(plan_of({8}).splits(axis));
  }
}

TEST(CostTest, RanksTogetherHoldEveryWeightOnceExceptCopiedOnes) {
  const Graph graph = model_graph("llama");  // Its KV heads are not shared.
  const auto total = [&](int ranks) {
    const CompileOptions options = options_for(ranks, Strategy::kGather);
    const absl::StatusOr<PlanTable> table = plan_table(graph, options, *compile(graph, options));
    EXPECT_EQ(table->rows.size(), static_cast<size_t>(ranks));
    int64_t bytes = 0, kv = 0;
    for (const PlanRow& row : table->rows) bytes += row.weight_bytes;
    for (const PlanRow& row : table->rows) kv += row.kv_bytes_per_token;
    EXPECT_EQ(kv, 2 * 2 * 40 * 4);  // Keys and values, layers, columns, float32.
    return bytes;
  };
  const int64_t norms = (2 * 2 + 1) * 40 * 4;  // On every rank.
  EXPECT_EQ(total(3), total(1) + 2 * norms);
}

// A key has 18 latent and 4 rotary columns. With the strategy `gather`, ranks send in each layer
// the 20 latent columns of q, the 18 of the key, the outputs of 6 heads, and the outputs of
// attention and of the MLP or the experts, each once. They also send the columns within MLPs and
// experts.
TEST(CostTest, LatentPagesHaveOnlyKeysAndGatherSendsLatentColumns) {
  const Graph graph = model_graph("deepseek_v3");
  constexpr int64_t kLayers = 3, kWidth = 48, kLowRanks = 20 + 18;
  // One dense MLP, and two layers with 3 routes and 2 shared experts of 13 columns.
  constexpr int64_t kMlps = 60 + 2 * (3 * 13 + 2 * 13);
  constexpr int64_t kGathered = kLayers * (6 * 9 + 2 * kWidth + kLowRanks) + kMlps;
  for (const int ranks : {2, 3}) {
    const auto table_of = [&](Strategy strategy) {
      const CompileOptions options = options_for(ranks, strategy);
      return *plan_table(graph, options, *compile(graph, options));
    };
    int64_t given = 0;
    const PlanTable gather = table_of(Strategy::kGather);
    for (const PlanRow& row : gather.rows) {
      EXPECT_EQ(row.kv_bytes_per_token, kLayers * (18 + 4) * 4);
      given += row.collective_bytes_per_token;
    }
    // Every rank also sends its addend of the token's embedding.
    EXPECT_EQ(given, 4 * (ranks * kWidth + kGathered));
    EXPECT_EQ(plan_hosts(gather, ranks)[0].sent_bytes_per_token,
              (ranks - 1) * gather.rows[0].collective_bytes_per_token);
    for (const PlanRow& row : table_of(Strategy::kReduce).rows) {
      EXPECT_EQ(row.columns[static_cast<size_t>(Axis::kLatent)], (Range{0, 20}));
      EXPECT_EQ(row.collective_bytes_per_token, 4 * (2 * kLayers + 1) * kWidth);
    }
  }
}

}  // namespace
}  // namespace lockstep
