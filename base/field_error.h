// SPDX-License-Identifier: Apache-2.0
// Errors about one field of a request. The field is kept next to the text, so that a port with
// another name for the field can put that name into the error.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "base/status.h"

namespace lockstep {

// Marks an error whose text begins with "<field>: ". A field is a path: chat.messages[0].role.
absl::Status about_field(absl::Status status, std::string_view field);
// kInvalidArgument: "<field>: <what is wrong>".
template <typename... Args>
absl::Status field_error(std::string_view field, fmt::format_string<Args...> format,
                         Args&&... args) {
  const std::string wrong = fmt::format(format, std::forward<Args>(args)...);
  return about_field(invalid_argument("{}: {}", field, wrong), field);
}

// The field that an error is about; "": not known.
std::string field_of(const absl::Status& status);
// The same error with another name for its field.
absl::Status with_field(const absl::Status& status, std::string_view field);

}  // namespace lockstep
