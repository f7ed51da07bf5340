// SPDX-License-Identifier: Apache-2.0
// All limits of what callers send, in one table. The checks and the fuzzer read it, and a test
// compares it with the comments of proto/generate.proto.
#pragma once

#include <google/protobuf/message.h>

#include <cstdint>
#include <span>
#include <string>

#include "absl/status/status.h"

namespace lockstep {

// The limit of one message on the wire; gRPC refuses larger ones (RESOURCE_EXHAUSTED).
constexpr int64_t kMaxMessageBytes = 4 << 20;
// A text with this many bytes, or more, for each token of the context is refused as too long before
// it is tokenized. No usual text comes near this: English has about 4 bytes per token.
constexpr int64_t kPromptBytesPerToken = 64;

// The property of a field that is limited.
enum class Measure {
  kValue,  // Each number, or each value of a map.
  kCount,  // The number of entries.
  kBytes,  // The size of each string.
};

// The maxima of all messages of a chat together: while a prompt is rendered, each call takes about
// 600 bytes of memory, even if the client sent it in only five bytes.
constexpr int64_t kMaxToolCalls = 1 << 14;
constexpr int64_t kMaxContentParts = 1 << 15;

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
// Checks the fields that are set, also those of inner messages. kInvalidArgument, one line: the
// field, what it must be, what was found.
absl::Status check_limits(const google::protobuf::Message& message);

}  // namespace lockstep
