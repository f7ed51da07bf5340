// SPDX-License-Identifier: Apache-2.0
// Messages as bytes: parsed on our threads, so that a malformed message gets a status that says so.
// (gRPC's generated methods parse on gRPC's threads and answer UNIMPLEMENTED.)
#pragma once

#include <google/protobuf/message.h>
#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "coordinator/api/api_keys.h"

namespace lockstep {

grpc::Status to_grpc(const absl::Status& status);

// The caller, who is admitted while this lives.
struct Caller {
  std::string client;              // The name of its key, or its connection's address.
  std::shared_ptr<Permit> permit;  // Null: no key is needed.

  // Called before the last message of the answer is sent.
  void end_permit() const {
    if (permit != nullptr) permit->end();
  }
};
// Reads the metadata "authorization"; see ApiKeys::admit(). `keys` may be null.
absl::StatusOr<Caller> admit(const ApiKeys* keys, const grpc::ServerContextBase& context,
                             bool counts = true);

// Parses the message and checks the limits of its fields. Empties `bytes`. kInvalidArgument, one
// line: the bytes are not such a message, its text is not UTF-8, or a field is outside its limits.
absl::Status parse(grpc::ByteBuffer* bytes, google::protobuf::Message* message);
grpc::ByteBuffer serialize(const google::protobuf::Message& message);

// From now on libprotobuf's messages about bad input are debug log lines: parse() reports the error
// to the caller.
void quieten_protobuf();

}  // namespace lockstep
