// SPDX-License-Identifier: Apache-2.0
// All JSON fields that a request may have, on each endpoint: the only place that lists them. The
// lists in docs/http.md are made from this table.
#pragma once

#include <span>
#include <string>

#include "absl/status/status.h"
#include "base/json.h"
#include "coordinator/openai/api_request.h"

namespace lockstep::openai {

struct Field {
  using Read = absl::Status (*)(const Field& field, const OrderedJson& value, ApiRequest* request);

  const char* name;
  unsigned endpoints;
  const char* grpc;  // The fields of GenerateRequest that it sets; "": only HTTP has it.
  Read read;         // A null field counts as not given.
  const char* note;  // If the field is refused: the reason, and what to use instead.
  // If the field is refused: JSON values, separated by commas, that are accepted because they ask
  // for nothing. "": an empty text, an empty list and false.
  const char* neutral = "";
};

enum class FieldKind { kServed, kRefused, kHarmless };
FieldKind kind_of(const Field& field);

// In the order in which they are read: if two fields set the same value, the second one wins.
std::span<const Field> fields();

// The lists of docs/http.md.
std::string served_fields_table();
std::string refused_fields_table();
std::string harmless_fields_table();

}  // namespace lockstep::openai
