// SPDX-License-Identifier: Apache-2.0
// The caller of a gRPC call, and its message, checked against limits.h.
#pragma once

#include <google/protobuf/message.h>

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "coordinator/api/api_keys.h"
#include "coordinator/http/exchange.h"

namespace lockstep {

// A caller who was admitted. The request counts as running until end_permit(), or until the last
// copy of this object is destroyed.
struct Caller {
  std::string client;              // The name of its key, or its connection's address and port.
  std::shared_ptr<Permit> permit;  // Null: no key is needed.

  // Called before the last message of the answer is sent.
  void end_permit() const {
    if (permit != nullptr) permit->end();
  }
};
// Reads the metadata "authorization"; see ApiKeys::admit(). `keys` may be null.
absl::StatusOr<Caller> admit(const ApiKeys* keys, const http::Request& request, bool counts = true);

// Reads the one message of a whole request: see message_in() and parse(). Also kInvalidArgument: a
// field is outside its limits.
absl::Status read_message(const http::Request& request, google::protobuf::Message* message);

}  // namespace lockstep
