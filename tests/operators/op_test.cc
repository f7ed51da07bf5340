// SPDX-License-Identifier: Apache-2.0
#include "operators/op.h"

#include <gtest/gtest.h>

#include <cctype>
#include <set>
#include <string>

#include "base/numbers/dtype.h"

namespace lockstep {
namespace {

TEST(OpTest, EveryOperatorHasItsOwnName) {
  std::set<std::string_view> names;
  for (int i = 0; i < kOpCount; ++i) {
    const Op op = static_cast<Op>(i);
    EXPECT_TRUE(names.insert(op_name(op)).second) << op_name(op);
  }
  EXPECT_EQ(op_name(Op::kColumns), "columns");
}

// "kLayerNorm" and "LAYER_NORM" become "layer_norm".
std::string word_of(std::string_view spelling) {
  const bool is_constant = spelling.starts_with('k');
  std::string word;
  for (const char c : spelling.substr(is_constant ? 1 : 0)) {
    if (is_constant && !word.empty() && std::isupper(c) != 0) word += '_';
    word += static_cast<char>(std::tolower(c));
  }
  return word;
}

TEST(OpTest, EveryOperatorIsSpelledTheSameEverywhere) {
#define LOCKSTEP_OP(number, constant, message, word) \
  EXPECT_EQ(word_of(#constant), #word);              \
  EXPECT_EQ(word_of(#message), (number) == 0 ? "no_op" : #word);
#include "operators/ops.inc"
}

TEST(OpTest, AnUnknownNumberHasNoOperatorName) { EXPECT_EQ(op_name(static_cast<Op>(200)), "?"); }

TEST(DTypeTest, NamesAndSizesAgree) {
  EXPECT_EQ(dtype_bytes(DType::kBF16), 2);
  EXPECT_EQ(dtype_bytes(DType::kNone), 0);
  EXPECT_STREQ(dtype_name(DType::kF16), "float16");
}

}  // namespace
}  // namespace lockstep
