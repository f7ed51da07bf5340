// SPDX-License-Identifier: Apache-2.0
// The second promise: logits have the same bits for any number of ranks and threads, any other
// sequences in the batch, any chunks of the prompt, any page size and instruction set. The models
// are small, with random weights and odd shapes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <random>

#include "base/status.h"
#include "base/system/cpu.h"
#include "tests/support/cluster/in_process_cluster.h"
#include "tests/support/environment.h"
#include "tests/support/files/safetensors_writer.h"
#include "tests/support/steps.h"
#include "tests/worker/bits/bits_families.h"
#include "tests/worker/bits/bits_shapes.h"
#include "worker/kernels/cpu/emulated/table.h"
#include "worker/kernels/find.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;

constexpr int kVocab = 307, kContext = 256, kPromptTokens = 149, kHidden = 72;

std::string config_json(const Shape& shape, const Kind& kind) {
  nlohmann::json config = {{"architectures", {"MistralForCausalLM"}},
                           {"model_type", "mistral"},
                           {"vocab_size", kVocab},
                           {"hidden_size", kHidden},
                           {"intermediate_size", shape.ffn},
                           {"num_hidden_layers", 2},
                           {"num_attention_heads", shape.heads},
                           {"num_key_value_heads", shape.kv_heads},
                           {"head_dim", shape.head_dim},
                           {"hidden_act", "silu"},
                           {"max_position_embeddings", kContext},
                           {"rms_norm_eps", 1e-5},
                           {"rope_theta", 10000.0},
                           {"tie_word_embeddings", false},
                           {"sliding_window", nullptr},
                           {"torch_dtype", kind.quantized ? "bfloat16" : kind.name}};
  if (shape.window > 0) config["sliding_window"] = shape.window;
  config.merge_patch(nlohmann::json::parse(shape.patch));
  return config.dump();
}

// One way to run a prompt. No way may change a bit.
struct Way {
  int ranks = 1;
  int threads = 1;
  int chunk = kPromptTokens;
  int others = 0;  // Other sequences in every step, besides the prompt.
  int page_tokens = 16;
  DType kv_dtype = DType::kNone;  // kNone: the weights' type.
  const char* isa = "";           // LOCKSTEP_ISA or kEmulated; empty: the best.
  std::vector<double> speeds = {};
  Strategy strategy = Strategy::kGather;
};

// AMX on a CPU without it: its kernels use emulated tiles; all other kernels are this machine's.
constexpr char kEmulated[] = "amx_emulated";

Backend emulated_backend() {
  static const std::vector<KernelEntry> kernels = [] {
    std::vector<KernelEntry> all(emulated_amx_kernels().begin(), emulated_amx_kernels().end());
    for (const KernelEntry& kernel : cpu_kernels()) {
      if (kernel.isa != Isa::kAmx && machine_runs(kernel.isa)) all.push_back(kernel);
    }
    return all;
  }();
  Backend backend = cpu_backend(Isa::kAmx);
  backend.kernels = kernels;
  return backend;
}

std::string way_text(const Way& way) {
  return std::to_string(way.ranks) + " ranks, " + std::to_string(way.threads) + " threads, chunk " +
         std::to_string(way.chunk) + ", " + std::to_string(way.others) + " others, page " +
         std::to_string(way.page_tokens) + ", isa " + way.isa + ", " + strategy_name(way.strategy);
}

std::vector<int32_t> prompt() {
  std::mt19937 random(11);
  std::vector<int32_t> ids(kPromptTokens + 3);
  for (int32_t& id : ids) id = static_cast<int32_t>(random() % kVocab);
  return ids;
}

// The pages of sequence `index`, scattered over the pool.
std::vector<int32_t> pages_of(int index, int page_tokens, int sequences) {
  std::vector<int32_t> pages(static_cast<size_t>(kContext / page_tokens));
  for (size_t i = 0; i < pages.size(); ++i) pages[i] = static_cast<int>(i) * sequences + index;
  return pages;
}

// The other sequences grow by two tokens per step.
void add_others(const Way& way, cluster::Step& step, int64_t number) {
  for (int other = 1; other <= way.others; ++other) {
    const auto token = static_cast<int32_t>((number * 31 + other * 7) % kVocab);
    add_rows_in_slot(step, other - 1, {token, 5}, number * 2,
                     pages_of(other, way.page_tokens, way.others + 1));
  }
}

// Returns the logits after every token of the prompt, and after three more tokens that are fed one
// by one. The sequence is the last of each step and longer than the others. If the model has
// prefixes, only this sequence has one. A prefix is computed in one step, whatever the chunk.
std::vector<float> run_prompt(Group& group, const Way& way) {
  const std::vector<int32_t> ids = prompt();
  std::vector<float> logits;
  int64_t number = 0;
  const int64_t prefix = group.info().prefix.any() ? 37 : 0;
  for (int64_t begin = 0; begin < static_cast<int64_t>(ids.size()); ++number) {
    int64_t end =
        begin >= kPromptTokens ? begin + 1 : std::min<int64_t>(begin + way.chunk, kPromptTokens);
    end = std::max(end, prefix);
    cluster::Step step;
    step.set_step(static_cast<uint64_t>(number) + 1);
    if (number < kContext / 2) add_others(way, step, number);
    const int first_row = step.tokens_size(), first_output = step.outputs_size();
    add_rows_in_slot(step, way.others, {ids.begin() + begin, ids.begin() + end}, begin,
                     pages_of(0, way.page_tokens, way.others + 1), false);
    cluster::StepSequence& sequence = *step.mutable_sequences(step.sequences_size() - 1);
    sequence.set_rope_length(kPromptTokens);
    sequence.set_prefix_rows(prefix);
    sequence.set_held_position(prefix / 2);
    for (int row = first_row; row < step.tokens_size(); ++row) {
      cluster::Output* output = step.add_outputs();
      output->set_row(row);
      output->set_want_logits(true);
    }
    const auto results = group.run(step);
    EXPECT_EQ(message_of(results.status()), "");
    if (!results.ok()) return {};
    for (int output = first_output; output < step.outputs_size(); ++output) {
      const std::vector<float> row = logits_of(*results, output);
      logits.insert(logits.end(), row.begin(), row.end());
    }
    begin = end;
  }
  return logits;
}

class BitsTest : public ::testing::TestWithParam<std::tuple<Shape, Kind>> {
 protected:
  void SetUp() override {
    write_test_file(folder_.path() / "config.json", config_json(shape(), kind()));
  }

  static const Shape& shape() { return std::get<0>(GetParam()); }
  static const Kind& kind() { return std::get<1>(GetParam()); }

  // The best instruction set whose bits are those of all other sets. AMX is not among them for
  // bfloat16 weights, which it computes in its own numeric class. Empty: the machine's best.
  static const char* common_isa() {
    const bool own = std::string_view(kind().name) == "bfloat16" && machine_runs(Isa::kAmx);
    return own ? isa_name(Isa::kAvx512Bf16) : "";
  }

  // The best kernel that this machine has for most linears.
  static std::string expected_kernel(const Way& way) {
    if (way.isa == std::string_view(kEmulated)) return kind().kernel + std::string(kEmulated);
    for (const KernelEntry& kernel : cpu_kernels()) {
      if (kernel.isa <= best_isa() && std::string_view(kernel.name).starts_with(kind().kernel)) {
        return kernel.name;
      }
    }
    return "none";
  }

  // True if the program rounds some rows before it gathers them. This needs a value of which each
  // rank has whole groups of 32 columns; with two ranks every shape has one.
  static bool rounds_parts(const Way& way) {
    return kind().quantized && kind().cut_rows && way.ranks == 2 &&
           way.strategy == Strategy::kGather;
  }

  std::vector<float> logits(const Way& way) {
    const bool emulated = way.isa == std::string_view(kEmulated);
    const ScopedVariable isa("LOCKSTEP_ISA", *way.isa != '\0' && !emulated
                                                 ? std::optional<std::string>(way.isa)
                                                 : std::nullopt);
    InProcessOptions options{.model = folder_.path(),
                             .ranks = way.ranks,
                             .threads = way.threads,
                             .strategy = way.strategy,
                             .speeds = way.speeds,
                             .kv_dtype = way.kv_dtype,
                             .quantize = kind().quantized ? kind().name : "",
                             .random_seed = 5,
                             .max_pages = (way.others + 1) * kContext / way.page_tokens};
    if (emulated) options.backend = emulated_backend;
    options.limits.set_rows(256);
    options.limits.set_outputs(256);
    options.limits.set_page_tokens(way.page_tokens);
    auto cluster = InProcessCluster::open(options);
    EXPECT_EQ(message_of(cluster.status()), "");
    auto group = (*cluster)->form({});
    EXPECT_EQ(message_of(group.status()), "");
    if (!group.ok()) return {};
    std::vector<float> logits = run_prompt(**group, way);
    EXPECT_THAT((*cluster)->profile(0), HasSubstr(expected_kernel(way)))
        << "the expected kernel did not run";
    if (rounds_parts(way)) {
      EXPECT_THAT((*cluster)->profile(0), HasSubstr("round_groups_"));
    }
    return logits;
  }

  void expect_same_bits(const std::vector<Way>& ways, const Way& as = {}) {
    const std::vector<float> alone = logits(as);
    ASSERT_EQ(alone.size(), size_t{(kPromptTokens + 3) * kVocab});
    const auto [min, max] = std::minmax_element(alone.begin(), alone.end());
    ASSERT_GT(*max - *min, 0.1f) << "logits that are all equal prove nothing";
    for (const Way& way : ways) {
      if (way.ranks > shape().heads) continue;
      const std::vector<float> other = logits(way);
      ASSERT_EQ(other.size(), alone.size()) << way_text(way);
      EXPECT_EQ(std::memcmp(other.data(), alone.data(), alone.size() * sizeof(float)), 0)
          << way_text(way);
    }
  }

  TempFolder folder_;
};

TEST_P(BitsTest, LogitsAreTheSameForAnyNumberOfRanksAndThreads) {
  expect_same_bits({{.threads = 2},
                    {.ranks = 2},
                    {.ranks = 2, .threads = 2},
                    {.ranks = 3},
                    {.ranks = 5},
                    {.ranks = 3, .speeds = {1, 2, 0.5}}});
}

TEST_P(BitsTest, LogitsAreTheSameAloneAndInABatch) {
  expect_same_bits({{.others = 17}, {.ranks = 2, .threads = 2, .chunk = 64, .others = 17}});
}

TEST_P(BitsTest, LogitsAreTheSameForAnyChunksOfThePrompt) {
  expect_same_bits({{.chunk = 1},
                    {.chunk = 7},
                    {.chunk = 64},
                    {.ranks = 2, .chunk = 7},
                    {.threads = 2, .chunk = 50},
                    {.ranks = 3, .chunk = 7, .others = 5}});
}

TEST_P(BitsTest, LogitsAreTheSameForAnyPageSize) {
  expect_same_bits(
      {{.page_tokens = 32}, {.page_tokens = 64}, {.ranks = 2, .chunk = 7, .page_tokens = 32}});
}

TEST_P(BitsTest, LogitsAreTheSameWithInt8Pages) {
  const Way int8 = {.kv_dtype = DType::kI8, .isa = common_isa()};
  std::vector<Way> ways = {
      {.threads = 2, .chunk = 7, .others = 5, .kv_dtype = DType::kI8, .isa = common_isa()},
      {.ranks = 2, .chunk = 64, .page_tokens = 32, .kv_dtype = DType::kI8, .isa = common_isa()},
      {.ranks = 3, .chunk = 1, .kv_dtype = DType::kI8, .isa = common_isa()},
      {.chunk = 50, .kv_dtype = DType::kI8, .isa = "portable"},
  };
  expect_same_bits(ways, int8);
  EXPECT_FALSE(logits(int8) == logits({}));
}

TEST_P(BitsTest, LogitsAreTheSameOnEveryInstructionSet) {
  std::vector<Way> ways;
  for (int i = 0; i < kIsaCount; ++i) {
    const Isa isa = static_cast<Isa>(i);
    if (!machine_runs(isa) || (isa == Isa::kAmx && *common_isa() != '\0')) continue;
    ways.push_back({.isa = isa_name(isa)});
    ways.push_back({.ranks = 2, .threads = 2, .chunk = 7, .others = 3, .isa = isa_name(isa)});
  }
  expect_same_bits(ways, {.isa = common_isa()});
}

TEST_P(BitsTest, LogitsOfTilesAreTheSameForAnyRowsThreadsAndRanks) {
  const std::string kernel = kind().kernel;
  if (kernel == "linear_f32_") GTEST_SKIP() << "tiles do not multiply float32";
  const bool own = kernel == "linear_bf16_";
  const Way tiles{.isa = kEmulated};
  // Steps of 1, 7 and more rows use vectors, part of a tile, and several tiles; more than 64 rows
  // use other loops.
  expect_same_bits({{.chunk = 1, .isa = kEmulated},
                    {.threads = 2, .chunk = 7, .others = 3, .isa = kEmulated},
                    {.threads = 2, .chunk = 60, .isa = kEmulated},
                    {.threads = 3, .chunk = 100, .isa = kEmulated},
                    {.ranks = 2, .chunk = 50, .others = 17, .isa = kEmulated}},
                   own ? tiles : Way{});
  if (own) {
    EXPECT_FALSE(logits(tiles) == logits({.isa = common_isa()}));
  }
}

TEST_P(BitsTest, LogitsOfTheReduceStrategyAreTheSameForAFixedNumberOfRanks) {
  if (!kind().cut_rows) GTEST_SKIP() << kind().name << " has a scale for the whole row";
  // A quantized row has enough groups of 32 columns to split them between two ranks.
  const Way reduce{.ranks = kind().quantized ? 2 : 3, .strategy = Strategy::kReduce};
  Way other = reduce;
  other.threads = 2;
  other.chunk = 7;
  other.others = 5;
  other.page_tokens = 32;
  expect_same_bits({other}, reduce);
  // The comparison is meaningful: sums over ranks round differently than sums over columns. With
  // bfloat16 weights the next linear rounds nearly all of the difference away.
  if (kind().name == std::string("float32")) {
    EXPECT_FALSE(logits(reduce) == logits({}));
  }
}

class FamilyBitsTest : public BitsTest {};

TEST_P(FamilyBitsTest, LogitsAreTheSameForAnyRanksThreadsChunksAndBatches) {
  expect_same_bits({{.ranks = 2, .threads = 2, .chunk = 64, .others = 5},
                    {.ranks = 3, .chunk = 7},
                    {.ranks = 5, .chunk = 50, .others = 3},
                    {.chunk = 1}});
}

std::string test_name(const ::testing::TestParamInfo<std::tuple<Shape, Kind>>& info) {
  return std::string(std::get<0>(info.param).name) + "_" + std::get<1>(info.param).name;
}

INSTANTIATE_TEST_SUITE_P(Shapes, BitsTest,
                         ::testing::Combine(::testing::ValuesIn(kShapes),
                                            ::testing::ValuesIn(kKinds)),
                         test_name);
INSTANTIATE_TEST_SUITE_P(Quantized, BitsTest,
                         ::testing::Combine(::testing::ValuesIn(kGroupShapes),
                                            ::testing::ValuesIn(kGroupKinds)),
                         test_name);

INSTANTIATE_TEST_SUITE_P(Families, FamilyBitsTest,
                         ::testing::Combine(::testing::ValuesIn(kFamilies),
                                            ::testing::ValuesIn(kFamilyKinds)),
                         test_name);

}  // namespace
}  // namespace lockstep
