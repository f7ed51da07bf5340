// SPDX-License-Identifier: Apache-2.0
// Reads members of a part of tokenizer.json; every error begins with the part's name. Free
// functions, for any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"
#include "base/status.h"

namespace lockstep {

// The member `key`; a null value if it is missing or `object` is not an object. Lives as long as
// `object`.
const Json& member(const Json& object, std::string_view key);

// The member `key`, which must have the type in the function's name. `what` names the object in the
// error. If the member is missing or null: `fallback` if given, else an error.
absl::StatusOr<std::string> string_member(const Json& object, std::string_view key,
                                          std::string_view what,
                                          std::optional<std::string> fallback = std::nullopt);
absl::StatusOr<bool> bool_member(const Json& object, std::string_view key, std::string_view what,
                                 std::optional<bool> fallback);
absl::StatusOr<int64_t> int_member(const Json& object, std::string_view key, std::string_view what,
                                   int64_t low, int64_t high);

// The member, which must be a text of exactly one character.
absl::StatusOr<std::string> character_member(const Json& object, std::string_view key,
                                             std::string_view what);

// The member "type" of the part.
absl::StatusOr<std::string> type_member(const Json& object, std::string_view what);

}  // namespace lockstep
