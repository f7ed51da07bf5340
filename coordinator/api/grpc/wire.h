// SPDX-License-Identifier: Apache-2.0
// Messages as bytes: parsed by us, on threads of ours, so that what is malformed gets a status that
// says so. (gRPC's generated methods parse on gRPC's threads and answer UNIMPLEMENTED.)
#pragma once

#include <google/protobuf/message.h>
#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "coordinator/api/api_keys.h"

namespace lockstep {

grpc::Status to_grpc(const absl::Status& status);

// Who calls. It may, while this lives.
struct Caller {
  std::string client;          // The name of its key, or its connection.
  std::shared_ptr<Pass> pass;  // Null: no key is wanted.

  // Before the last of its answer.
  void end_pass() const {
    if (pass != nullptr) pass->end();
  }
};
// By the metadata "authorization"; see ApiKeys::admit(). `keys` may be null.
absl::StatusOr<Caller> admit(const ApiKeys* keys, const grpc::ServerContextBase& context,
                             bool counts = true);

// Parses and checks the limits of its fields. Empties `bytes`. kInvalidArgument, one line: the
// bytes are no such message, its text is not UTF-8, or a field is out of its limits.
absl::Status parse(grpc::ByteBuffer* bytes, google::protobuf::Message* message);
grpc::ByteBuffer serialize(const google::protobuf::Message& message);

// From now on libprotobuf's complaints about messages are debug lines: parse() says what is wrong,
// to the caller.
void quieten_protobuf();

}  // namespace lockstep
