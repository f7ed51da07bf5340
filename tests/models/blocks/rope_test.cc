// SPDX-License-Identifier: Apache-2.0
// Compares the frequencies of every kind of rotary scaling with those that transformers 5 computes.
#include "models/blocks/rope.h"

#include <gtest/gtest.h>

#include <cmath>
#include <ostream>
#include <vector>

#include "proto/attributes.h"
#include "tests/support/reference/on_matrices.h"

namespace lockstep {
namespace {

struct Reference {
  const char* name;
  const char* config;
  std::vector<double> inv_freq;
  double factor;
};
void PrintTo(const Reference& reference, std::ostream* out) { *out << reference.name; }

const Reference kReferences[] = {
// clang-format off
#include "tests/models/blocks/rope_tables.inc"
    // clang-format on
};

absl::StatusOr<RopeConfig> parse(const std::string& text) {
  ASSIGN_OR_RETURN(const Json json, parse_json(text, "config"));
  return parse_rope(json, {.head_dim = json.value("head_dim", 16),
                           .max_positions = json.value("max_position_embeddings", 4096)});
}

class RopeKindTest : public testing::TestWithParam<Reference> {};

TEST_P(RopeKindTest, AKindHasTheFrequenciesOfTheReference) {
  const absl::StatusOr<RopeConfig> rope = parse(GetParam().config);
  ASSERT_TRUE(rope.ok()) << message_of(rope.status());
  const program::RopeTableAttrs& table = rope->rope.table;
  ASSERT_EQ(table.inv_freq_size(), static_cast<int>(GetParam().inv_freq.size()));
  for (int i = 0; i < table.inv_freq_size(); ++i) {
    // The reference computes in float32, so a few units in the last place may differ.
    EXPECT_NEAR(table.inv_freq(i), GetParam().inv_freq[i], 2e-6 * GetParam().inv_freq[i]) << i;
  }
  EXPECT_NEAR(table.factor(), GetParam().factor, 1e-6);
}

INSTANTIATE_TEST_SUITE_P(Kinds, RopeKindTest, testing::ValuesIn(kReferences),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(RopeTest, DynamicScalingComputesFrequenciesForEachPosition) {
  const absl::StatusOr<RopeConfig> rope = parse(
      R"({"max_position_embeddings": 4096,
          "rope_scaling": {"rope_type": "dynamic", "factor": 4}})");
  ASSERT_TRUE(rope.ok());
  EXPECT_EQ(rope->reach, 4);
  program::Attributes attributes;
  *attributes.mutable_rope_table() = rope->rope.table;
  const std::vector<int32_t> tokens(8192);
  naive::Matrix table(std::ssize(tokens), 16);
  naive::run_operator(
      Op::kRopeTable,
      {.inputs = {}, .attrs = bind_attributes(attributes), .tokens = tokens, .output_rows = {}},
      std::span(&table, 1));
  // The last line of rope_tables.py: transformers' frequencies at length 8192.
  const double kAt8192[] = {1,
                            0.251273751,
                            0.0631385073,
                            0.0158650484,
                            0.0039864704,
                            0.0010016954,
                            0.000251699792,
                            6.32455485e-05};
  for (int i = 0; i < 8; ++i) {
    // An angle of up to 8191 radians is off by up to 5e-4 if its frequency is a float32.
    EXPECT_NEAR(table.at(8191, i), std::cos(8191 * kAt8192[i]), 1e-3) << i;
    EXPECT_NEAR(table.at(8191, 8 + i), std::sin(8191 * kAt8192[i]), 1e-3) << i;
    const double plain = 4095 * rope->rope.table.inv_freq(i);
    EXPECT_NEAR(table.at(4095, i), std::cos(plain), 1e-3) << "as the reference up to 4096";
  }
}

}  // namespace
}  // namespace lockstep
