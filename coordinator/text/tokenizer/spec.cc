// SPDX-License-Identifier: Apache-2.0
// Calls the readers of base/json, and puts the part's name before their errors.
#include "coordinator/text/tokenizer/spec.h"

#include <utility>

#include "coordinator/text/unicode/unicode.h"

namespace lockstep {
namespace {

template <typename Value>
absl::StatusOr<Value> in_part(std::string_view what, absl::StatusOr<Value> value) {
  if (value.ok()) return value;
  return invalid_argument("{}: {}", what, message_of(value.status()));
}

}  // namespace

const Json& member(const Json& object, std::string_view key) {
  static const Json kNull;
  if (!object.is_object()) return kNull;
  const auto found = object.find(key);
  return found == object.end() ? kNull : *found;
}

absl::StatusOr<std::string> string_member(const Json& object, std::string_view key,
                                          std::string_view what,
                                          std::optional<std::string> fallback) {
  return in_part(what, get_string(object, key, std::move(fallback)));
}

absl::StatusOr<bool> bool_member(const Json& object, std::string_view key, std::string_view what,
                                 std::optional<bool> fallback) {
  return in_part(what, get_bool(object, key, fallback));
}

absl::StatusOr<int64_t> int_member(const Json& object, std::string_view key, std::string_view what,
                                   int64_t low, int64_t high) {
  ASSIGN_OR_RETURN(const int64_t number, in_part(what, get_int(object, key)));
  if (number < low || number > high) {
    return invalid_argument("{}: {}: must be {} to {}, found {}", what, key, low, high, number);
  }
  return number;
}

absl::StatusOr<std::string> character_member(const Json& object, std::string_view key,
                                             std::string_view what) {
  ASSIGN_OR_RETURN(std::string text, string_member(object, key, what));
  if (text.empty() || code_point_at(text, 0).bytes != text.size()) {
    return invalid_argument("{}: {}: must be one character, found \"{}\"", what, key,
                            printable(text));
  }
  return text;
}

absl::StatusOr<std::string> type_member(const Json& object, std::string_view what) {
  return string_member(object, "type", what);
}

}  // namespace lockstep
