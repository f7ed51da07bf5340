// SPDX-License-Identifier: Apache-2.0
#include "base/field_error.h"

#include "absl/strings/cord.h"

namespace lockstep {
namespace {

constexpr char kField[] = "lockstep/field";

}  // namespace

absl::Status about_field(absl::Status status, std::string_view field) {
  status.SetPayload(kField, absl::Cord(std::string(field)));
  return status;
}

std::string field_of(const absl::Status& status) {
  const absl::optional<absl::Cord> field = status.GetPayload(kField);
  return field.has_value() ? std::string(*field) : std::string();
}

absl::Status with_field(const absl::Status& status, std::string_view field) {
  const std::string wrong = message_of(status).substr(field_of(status).size());
  absl::Status renamed(status.code(), std::string(field) + wrong);
  status.ForEachPayload(
      [&](absl::string_view url, const absl::Cord& payload) { renamed.SetPayload(url, payload); });
  return about_field(renamed, field);
}

}  // namespace lockstep
