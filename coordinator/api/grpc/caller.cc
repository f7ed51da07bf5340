// SPDX-License-Identifier: Apache-2.0
#include "coordinator/api/grpc/caller.h"

#include <utility>

#include "base/status.h"
#include "coordinator/api/key_gate.h"
#include "coordinator/api/limits.h"
#include "coordinator/http/grpc/wire.h"

namespace lockstep {

absl::StatusOr<Caller> admit(const ApiKeys* keys, const http::Request& request, bool counts) {
  if (keys == nullptr) return Caller{.client = request.peer, .permit = nullptr};
  ASSIGN_OR_RETURN(std::unique_ptr<ApiKeys::KeyPermit> permit,
                   admit_by_key(*keys, request, counts));
  Caller caller = {.client = permit->name(), .permit = nullptr};
  caller.permit = std::move(permit);
  return caller;
}

absl::Status read_message(const http::Request& request, google::protobuf::Message* message) {
  ASSIGN_OR_RETURN(const std::string_view bytes, message_in(request, kMaxMessageBytes));
  RETURN_IF_ERROR(parse(bytes, message));
  return check_limits(*message);
}

}  // namespace lockstep
