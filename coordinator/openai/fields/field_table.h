// SPDX-License-Identifier: Apache-2.0
// Every JSON field that a request may have, on each endpoint: the only place that knows them. The
// lists in docs/http.md are made from it.
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
  const char* grpc;  // GenerateRequest's field that it becomes; "": the HTTP interface's own.
  Read read;         // A field that is null counts as not given.
  const char* note;  // Of one that is refused: why, and what to use instead.
  // Of one that is refused: JSON values, with commas between them, that ask for nothing. "": an
  // empty text, an empty list and false.
  const char* neutral = "";
};

enum class FieldKind { kServed, kRefused, kHarmless };
FieldKind kind_of(const Field& field);

// In the order in which they are read: of two that become the same, the second one wins.
std::span<const Field> fields();

// The lists of docs/http.md.
std::string served_fields_table();
std::string refused_fields_table();
std::string harmless_fields_table();

}  // namespace lockstep::openai
