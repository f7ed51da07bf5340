// SPDX-License-Identifier: Apache-2.0
// For every value of a rank's program, value_parts() names the value of the model of which it is a
// part.
#include "sharding/layout/value_parts.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "base/status.h"
#include "tests/sharding/test_models.h"

namespace lockstep {
namespace {

constexpr int kRanks = 3;

class ValuePartsTest : public testing::TestWithParam<const char*> {
 protected:
  void compile_for(Strategy strategy) {
    const Graph model = model_graph(GetParam());
    const CompileOptions options = options_for(kRanks, strategy);
    const auto programs = compile(model, options);
    ASSERT_EQ(message_of(programs.status()), "");
    const auto parts = value_parts(model, options);
    ASSERT_EQ(message_of(parts.status()), "");
    programs_ = *programs;
    parts_ = *parts;
    ASSERT_EQ(parts_.size(), programs_.size());
  }

  std::vector<program::Program> programs_;
  std::vector<ValueParts> parts_;
};

TEST_P(ValuePartsTest, EveryValueHasItsOwnNameAndAPartOfItsWidth) {
  for (const Strategy strategy : {Strategy::kGather, Strategy::kReduce}) {
    compile_for(strategy);
    for (int rank = 0; rank < kRanks; ++rank) {
      std::set<std::string> names;
      for (const program::Value& value : programs_[rank].values()) {
        EXPECT_TRUE(names.insert(value.name()).second) << value.name();
        const auto found = parts_[rank].find(value.name());
        if (found == parts_[rank].end()) {  // A result of fused linears.
          EXPECT_NE(value.name().find('+'), std::string::npos) << value.name();
          continue;
        }
        const ValuePart& part = found->second;
        EXPECT_EQ(part.columns.size(), value.cols()) << value.name();
        EXPECT_LE(part.columns.end, part.all_columns) << value.name();
        if (part.layout.kind == LayoutKind::kSplit) continue;
        EXPECT_EQ(part.columns, (Range{0, part.all_columns})) << value.name();
      }
    }
  }
}

TEST_P(ValuePartsTest, TheRanksPartsOfASplitValueCoverIt) {
  compile_for(Strategy::kGather);
  int split = 0;
  for (const auto& [name, first] : parts_[0]) {
    if (first.layout.kind != LayoutKind::kSplit) continue;
    ++split;
    int64_t end = 0;
    for (const ValueParts& rank : parts_) {
      const ValuePart& part = rank.at(name);
      EXPECT_EQ(part.layout, first.layout) << name;
      EXPECT_LE(part.columns.begin, end) << name;  // KV heads may be copies.
      end = std::max(end, part.columns.end);
    }
    EXPECT_EQ(end, first.all_columns) << name;
  }
  EXPECT_GT(split, 0);
}

INSTANTIATE_TEST_SUITE_P(Models, ValuePartsTest, testing::ValuesIn(kModels),
                         [](const auto& test) { return std::string(test.param); });

}  // namespace
}  // namespace lockstep
