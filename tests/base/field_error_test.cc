// SPDX-License-Identifier: Apache-2.0
#include "base/field_error.h"

#include <gtest/gtest.h>

#include "absl/strings/cord.h"

namespace lockstep {
namespace {

TEST(FieldErrorTest, AnErrorBeginsWithTheFieldAndItsPayloadIsTheField) {
  const absl::Status status = field_error("chat.tools[1]", "must be {}, found {}", 1, "a: b");
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(message_of(status), "chat.tools[1]: must be 1, found a: b");
  EXPECT_EQ(field_of(status), "chat.tools[1]");
  EXPECT_EQ(field_of(invalid_argument("chat: must be set")), "");
}

TEST(FieldErrorTest, RenamingTheFieldChangesNothingElse) {
  absl::Status status = absl::NotFoundError("n: gone");
  status.SetPayload("other", absl::Cord("kept"));
  const absl::Status renamed = with_field(about_field(status, "n"), "best_of");
  EXPECT_EQ(renamed.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(message_of(renamed), "best_of: gone");
  EXPECT_EQ(field_of(renamed), "best_of");
  EXPECT_EQ(renamed.GetPayload("other"), absl::Cord("kept"));
}

}  // namespace
}  // namespace lockstep
