// SPDX-License-Identifier: Apache-2.0
// The standard reflection service, for tools like grpcurl.
#pragma once

#include <google/protobuf/descriptor.h>

#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "coordinator/http/exchange.h"

namespace grpc::reflection::v1alpha {
class ServerReflectionRequest;
class ServerReflectionResponse;
}  // namespace grpc::reflection::v1alpha

namespace lockstep {

// Used by any number of I/O threads; no method blocks. At most 16 calls are open at once, and a
// request has at most 1 KiB: protobuf looks a name up in time that grows with the square of its
// length.
class ReflectionService {
 public:
  static constexpr std::string_view kMethod =
      "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo";
  static constexpr int kMaxCalls = 16;
  static constexpr size_t kMaxRequestBytes = 1024;

  ReflectionService();

  // Answers a call of kMethod, whose body is streamed.
  void answer(const std::shared_ptr<http::Exchange>& exchange) const;
  // The answer to one of the call's requests.
  grpc::reflection::v1alpha::ServerReflectionResponse look_up(
      const grpc::reflection::v1alpha::ServerReflectionRequest& request) const;

 private:
  void add(const google::protobuf::FileDescriptor* file);
  absl::StatusOr<const google::protobuf::FileDescriptor*> find(
      const grpc::reflection::v1alpha::ServerReflectionRequest& request) const;

  // The public services' files and those that they import, by name.
  std::map<std::string, const google::protobuf::FileDescriptor*, std::less<>> files_;
  const std::shared_ptr<std::atomic<int>> calls_ = std::make_shared<std::atomic<int>>(0);
};

}  // namespace lockstep
