// SPDX-License-Identifier: Apache-2.0
#include "coordinator/api/grpc/wire.h"

#include <google/protobuf/stubs/logging.h>
#include <grpcpp/support/proto_buffer_reader.h>
#include <spdlog/spdlog.h>

#include "base/sockets/address.h"
#include "base/status.h"
#include "coordinator/api/limits.h"

namespace lockstep {

grpc::Status to_grpc(const absl::Status& status) {
  return {static_cast<grpc::StatusCode>(status.code()), message_of(status)};
}

absl::StatusOr<Caller> admit(const ApiKeys* keys, const grpc::ServerContextBase& context,
                             bool counts) {
  if (keys == nullptr) return Caller{.client = address_of_grpc_peer(context.peer())};
  const auto found = context.client_metadata().find("authorization");
  const bool given = found != context.client_metadata().end();
  ASSIGN_OR_RETURN(std::unique_ptr<ApiKeys::KeyPermit> permit,
                   keys->admit(given ? std::string_view(found->second.data(), found->second.size())
                                     : std::string_view(),
                               counts));
  Caller caller = {.client = permit->name()};
  caller.permit = std::move(permit);
  return caller;
}

absl::Status parse(grpc::ByteBuffer* bytes, google::protobuf::Message* message) {
  const size_t size = bytes->Length();
  bool parsed = true;
  if (size > 0) {
    grpc::ProtoBufferReader reader(bytes);
    parsed = reader.status().ok() && message->ParseFromZeroCopyStream(&reader);
  }
  bytes->Clear();
  if (parsed) return check_limits(*message);
  return invalid_argument(
      "{}: must be a protobuf message of lockstep.v1 with text in UTF-8, found {} bytes that are "
      "not one",
      message->GetDescriptor()->name(), size);
}

grpc::ByteBuffer serialize(const google::protobuf::Message& message) {
  const grpc::Slice bytes(message.ByteSizeLong());
  message.SerializeWithCachedSizesToArray(const_cast<uint8_t*>(bytes.begin()));
  return {&bytes, 1};
}

void quieten_protobuf() {
  google::protobuf::SetLogHandler(
      [](google::protobuf::LogLevel, const char*, int, const std::string& message) {
        spdlog::debug("protobuf: {}", message);
      });
}

}  // namespace lockstep
