// SPDX-License-Identifier: Apache-2.0
// The search for a value's counterpart among the modules of another implementation.
#include "tools/verify/counterparts.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/status.h"
#include "tests/support/files/safetensors_writer.h"

namespace lockstep {
namespace {

constexpr AxisSize kHidden = {Axis::kHidden, 8, 1}, kHeads = {Axis::kHeads, 2, 4};

// A model with one layer, in which one matrix has the rows of q and v.
Graph fused_model() {
  Graph g;
  Value x = g.embed("model.embed_tokens", {Axis::kVocab, 64, 1}, kHidden);
  {
    Scope scope(g, "model.layers.0");
    const Value normed = g.rms_norm(x, "norm", 1e-5f);
    const FusedPart q = {.name = "q", .all_rows = 16, .rows = {{0, 4}, {8, 12}}};
    const FusedPart v = {.name = "v", .all_rows = 16, .rows = {{4, 8}, {12, 16}}};
    const Value product =
        g.mul(g.linear_part(normed, "qv", q, kHeads), g.linear_part(normed, "qv", v, kHeads));
    x = g.add(x, g.linear(product, "o_proj", kHidden));
  }
  g.top_candidates(g.head(g.select_rows(x), "lm_head", {Axis::kVocab, 64, 1}));
  return g;
}

class CounterpartsTest : public testing::Test {
 protected:
  // The counterparts in a reference that has matrices with these names and widths.
  std::map<std::string, Counterpart> find(const std::map<std::string, int64_t>& widths) {
    TestTensors tensors = {{"tokens", {.dtype = "I64", .shape = {1}, .values = {1}}}};
    for (const auto& [name, cols] : widths) {
      tensors[name] = {.dtype = "F32", .shape = {1, cols}, .values = std::vector<float>(cols)};
    }
    write_safetensors(folder_.path() / "r.safetensors", tensors);
    auto reference = Reference::open(folder_.path() / "r.safetensors");
    EXPECT_EQ(message_of(reference.status()), "");
    reference_ = std::make_unique<Reference>(std::move(*reference));
    return find_counterparts(model_, *reference_);
  }

  static std::string runs(const Counterpart& counterpart) {
    std::string text;
    for (const Counterpart::Run& run : counterpart.runs) {
      text +=
          run.tensor->name + "[" + std::to_string(run.begin) + ":" + std::to_string(run.end) + "] ";
    }
    return text;
  }

  TempFolder folder_;
  Graph model_ = fused_model();
  std::unique_ptr<Reference> reference_;
};

TEST_F(CounterpartsTest, PartsOfAFusedMatrixAreColumnsOfItsModulesOutput) {
  const auto found = find({{"model.layers.0.qv", 16}});
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(runs(found.at("model.layers.0.qv.q")),
            "model.layers.0.qv[0:4] model.layers.0.qv[8:12] ");
  EXPECT_EQ(runs(found.at("model.layers.0.qv.v")),
            "model.layers.0.qv[4:8] model.layers.0.qv[12:16] ");
}

TEST_F(CounterpartsTest, AModulesInputIsTheValueThatItsLinearReads) {
  const auto found = find(
      {{"model.layers.0.o_proj (input)", 8}, {"model.layers.0.qv (input)", 8}, {"logits", 64}});
  EXPECT_EQ(found.at("model.layers.0.mul").name, "model.layers.0.o_proj (input)");
  EXPECT_EQ(found.at("model.layers.0.norm").name, "model.layers.0.qv (input)");
  EXPECT_EQ(found.at("lm_head").name, "logits");
}

TEST_F(CounterpartsTest, TheLastSumOfALayerIsTheLayersOutput) {
  EXPECT_EQ(find({{"model.layers.0", 8}}).at("model.layers.0.add").name, "model.layers.0");
  EXPECT_TRUE(find({{"model.layers.1", 8}}).empty());
}

TEST_F(CounterpartsTest, ALinearWithABiasThatItsModuleLacksIsAnotherValue) {
  Graph g;
  const Value x = g.embed("embed", {Axis::kVocab, 64, 1}, kHidden);
  g.biased(g.linear(x, "in_proj", kHidden), "dt_bias");
  model_ = std::move(g);
  EXPECT_FALSE(find({{"in_proj", 8}}).contains("in_proj"));
  EXPECT_TRUE(find({{"in_proj (input)", 8}}).contains("embed"));
}

TEST_F(CounterpartsTest, AMatrixOfAnotherWidthIsNoCounterpart) {
  EXPECT_TRUE(find({{"model.layers.0.o_proj", 9}, {"model.layers.0.qv", 12}}).empty());
}

}  // namespace
}  // namespace lockstep
