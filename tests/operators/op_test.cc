// SPDX-License-Identifier: Apache-2.0
#include "operators/op.h"

#include <gtest/gtest.h>

#include <set>

#include "base/dtype.h"

namespace lockstep {
namespace {

TEST(OpTest, EveryOperatorHasANameOfItsOwnThatLeadsBack) {
  std::set<std::string_view> names;
  for (int i = 0; i < kOpCount; ++i) {
    const Op op = static_cast<Op>(i);
    EXPECT_TRUE(names.insert(op_name(op)).second) << op_name(op);
    EXPECT_EQ(find_op(op_name(op)), op);
  }
  EXPECT_EQ(op_name(Op::kColumns), "columns");
}

TEST(OpTest, UnknownNamesAndNumbersAreNoOperator) {
  EXPECT_FALSE(find_op("softmax"));
  EXPECT_EQ(op_name(static_cast<Op>(200)), "?");
}

TEST(DTypeTest, NamesAndSizesAgree) {
  EXPECT_EQ(dtype_bytes(DType::kBF16), 2);
  EXPECT_EQ(dtype_bytes(DType::kNone), 0);
  EXPECT_STREQ(dtype_name(DType::kF16), "float16");
}

}  // namespace
}  // namespace lockstep
