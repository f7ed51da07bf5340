// SPDX-License-Identifier: Apache-2.0
// Every bound of what callers send, in one table: the checks, the comments of proto/generate.proto
// (a test compares them) and the fuzzer read it.
#pragma once

#include <google/protobuf/message.h>

#include <cstdint>
#include <span>
#include <string>

#include "absl/status/status.h"

namespace lockstep {

// Of one message on the wire; gRPC refuses more (RESOURCE_EXHAUSTED).
constexpr int64_t kMaxMessageBytes = 4 << 20;
// A prompt of more bytes per token of the context cannot fit, and is refused before it is
// tokenized. No text comes near it: English has about 4 bytes per token.
constexpr int64_t kPromptBytesPerToken = 64;

// What of a field is bounded.
enum class Measure {
  kValue,  // Each number; of a map, each value.
  kCount,  // Entries.
  kBytes,  // Of each string.
};

struct FieldLimit {
  const char* message;  // "GenerateRequest"
  const char* field;
  Measure measure;
  int64_t min;
  int64_t max;
  bool min_included = true;
};

std::span<const FieldLimit> field_limits();
// "0 to 100", "above 0, up to 1", "up to 16 entries", "1 to 4096 bytes".
std::string describe(const FieldLimit& limit);
// Checks the fields that are set, those of messages in the message included. kInvalidArgument, one
// line: the field, what was wanted, what was found.
absl::Status check_limits(const google::protobuf::Message& message);

}  // namespace lockstep
