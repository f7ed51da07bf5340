// SPDX-License-Identifier: Apache-2.0
// Files of reference values: how they are read, and refused in one line.
#include "tools/verify/reference.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/status.h"
#include "tests/support/files/safetensors_writer.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;

const TestTensor kTokens = {.dtype = "I64", .shape = {3}, .values = {4, 0, 9}};
const TestTensor kMatrix = {.dtype = "F32", .shape = {3, 2}, .values = {1, 2, 3, 4, 5, 6}};

absl::StatusOr<Reference> open_with(const TestTensors& tensors) {
  static TempFolder folder;
  write_safetensors(folder.path() / "reference.safetensors", tensors);
  return Reference::open(folder.path() / "reference.safetensors");
}

TEST(ReferenceTest, ValuesAreFoundByTheRelevantPartOfTheirName) {
  const auto reference = open_with({{"tokens", kTokens},
                                    {"model.language_model.layers.0.mlp", kMatrix},
                                    {"transformer.h.1.ln (input)", kMatrix}});
  ASSERT_EQ(message_of(reference.status()), "");
  EXPECT_EQ(reference->tokens(), (std::vector<int32_t>{4, 0, 9}));
  const TensorInfo* mlp = reference->find("language_model.model.layers.0.mlp");
  ASSERT_NE(mlp, nullptr);
  EXPECT_EQ(*reference->read(*mlp), kMatrix.values);
  EXPECT_NE(reference->find("h.1.ln (input)"), nullptr);
  EXPECT_EQ(reference->find("h.1.ln"), nullptr);
  EXPECT_EQ(reference->find("tokens"), nullptr);
}

TEST(ReferenceTest, AnInvalidReferenceIsRefusedInOneLine) {
  EXPECT_THAT(message_of(open_with({{"a", kMatrix}}).status()),
              HasSubstr("must have a tensor \"tokens\""));
  EXPECT_THAT(message_of(open_with({{"tokens", kMatrix}}).status()),
              HasSubstr("tokens: must be I64 [1 or more], found F32 [3, 2]"));
  TestTensor negative = kTokens;
  negative.values[1] = -1;
  EXPECT_THAT(message_of(open_with({{"tokens", negative}}).status()),
              HasSubstr("must be ids of 0 or more, found -1"));
  TestTensor halves = kMatrix;
  halves.dtype = "BF16";
  EXPECT_THAT(message_of(open_with({{"tokens", kTokens}, {"a", halves}}).status()),
              HasSubstr("tensor a: must be F32, found BF16"));
  EXPECT_THAT(message_of(Reference::open("/none/of it").status()), HasSubstr("/none/of it"));
}

}  // namespace
}  // namespace lockstep
