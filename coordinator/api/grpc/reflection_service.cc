// SPDX-License-Identifier: Apache-2.0
#include "coordinator/api/grpc/reflection_service.h"

#include <google/protobuf/descriptor.pb.h>

#include <atomic>
#include <set>
#include <utility>

#include "base/status.h"
#include "coordinator/http/grpc/wire.h"
#include "proto/generate.pb.h"
#include "proto/health.pb.h"
#include "proto/reflection.pb.h"

namespace lockstep {
namespace {

using google::protobuf::DescriptorPool;
using google::protobuf::FileDescriptor;
using grpc::reflection::v1alpha::FileDescriptorResponse;
using grpc::reflection::v1alpha::ServerReflectionRequest;
using grpc::reflection::v1alpha::ServerReflectionResponse;

constexpr size_t kMaxUnreadBytes = 1 << 20;  // More than all files together.

// An open call, which counts for kMaxCalls until it ends. Used by its I/O thread.
class ReflectionCall {
 public:
  ReflectionCall(const ReflectionService* service, std::shared_ptr<std::atomic<int>> calls)
      : service_(service), calls_(std::move(calls)), number_(++*calls_) {}
  ~ReflectionCall() { --*calls_; }
  ReflectionCall(const ReflectionCall&) = delete;
  ReflectionCall& operator=(const ReflectionCall&) = delete;

  absl::Status check_room() const {
    if (number_ <= ReflectionService::kMaxCalls) return absl::OkStatus();
    return resource_exhausted("reflection: at most {} calls may be open at once; try again",
                              ReflectionService::kMaxCalls);
  }

  void receive(std::string_view bytes, bool is_last) {
    if (is_over_) return;
    in_ += bytes;
    std::string_view left = in_;
    while (status_.ok()) {
      const auto message = take_message(&left, ReflectionService::kMaxRequestBytes);
      status_ = message.ok() ? absl::OkStatus() : too_long(message.status());
      if (!message.ok() || !message->has_value()) break;
      status_ = answer(**message);
    }
    in_ = std::string(left);
    is_over_ = is_last || !status_.ok();
  }
  // Moves the answers so far to `bytes`. True: there will be no more.
  bool take(std::string* bytes) {
    bytes->append(out_);
    out_.clear();
    return is_over_;
  }
  const absl::Status& status() const { return status_; }

 private:
  static absl::Status too_long(const absl::Status& status) {
    return status.code() == absl::StatusCode::kResourceExhausted
               ? invalid_argument("reflection, {}", message_of(status))
               : status;
  }
  absl::Status answer(std::string_view bytes) {
    ServerReflectionRequest request;
    RETURN_IF_ERROR(parse(bytes, &request));
    append_message(service_->look_up(request), &out_);
    if (out_.size() <= kMaxUnreadBytes) return absl::OkStatus();
    return resource_exhausted("reflection: the answers were not read");
  }

  const ReflectionService* const service_;
  const std::shared_ptr<std::atomic<int>> calls_;
  const int number_;  // The number of open calls when this one began, including this one.
  std::string in_;
  std::string out_;
  absl::Status status_;
  bool is_over_ = false;
};

class ReflectionSource final : public http::BodySource {
 public:
  explicit ReflectionSource(std::shared_ptr<ReflectionCall> call) : call_(std::move(call)) {}
  State read(std::string* bytes) override {
    return call_->take(bytes) ? State::kEnd : State::kMore;
  }
  http::Headers trailers() const override { return trailers_of(call_->status()); }

 private:
  const std::shared_ptr<ReflectionCall> call_;
};

// The file and those that it imports, each once, as tools expect them.
void append(const FileDescriptor* file, std::set<const FileDescriptor*>* seen,
            FileDescriptorResponse* response) {
  if (!seen->insert(file).second) return;
  google::protobuf::FileDescriptorProto proto;
  file->CopyTo(&proto);
  proto.SerializeToString(response->add_file_descriptor_proto());
  for (int i = 0; i < file->dependency_count(); ++i) append(file->dependency(i), seen, response);
}

}  // namespace

ReflectionService::ReflectionService() {
  add(v1::GenerateRequest::descriptor()->file());
  add(grpc::health::v1::HealthCheckRequest::descriptor()->file());
  add(ServerReflectionRequest::descriptor()->file());
}

void ReflectionService::add(const FileDescriptor* file) {
  files_.emplace(file->name(), file);
  for (int i = 0; i < file->dependency_count(); ++i) add(file->dependency(i));
}

void ReflectionService::answer(const std::shared_ptr<http::Exchange>& exchange) const {
  auto call = std::make_shared<ReflectionCall>(this, calls_);
  const absl::Status room = call->check_room();
  if (!room.ok()) return fail(exchange, room);
  exchange->on_body([call, wake = exchange->waker()](std::string_view bytes, bool is_last) {
    call->receive(bytes, is_last);
    wake();
  });
  exchange->stream(answer_head(), std::make_unique<ReflectionSource>(std::move(call)));
}

absl::StatusOr<const FileDescriptor*> ReflectionService::find(
    const ServerReflectionRequest& request) const {
  using Request = ServerReflectionRequest::MessageRequestCase;
  const FileDescriptor* file = nullptr;
  switch (request.message_request_case()) {
    case Request::kFileByFilename: {
      const auto known = files_.find(request.file_by_filename());
      file = known == files_.end() ? nullptr : known->second;
      break;
    }
    case Request::kFileContainingSymbol:
      file = DescriptorPool::generated_pool()->FindFileContainingSymbol(
          request.file_containing_symbol());
      break;
    default:
      return absl::UnimplementedError("this server has no extensions");
  }
  if (file != nullptr && files_.contains(file->name())) return file;
  return absl::NotFoundError("this server has no such file or symbol");
}

ServerReflectionResponse ReflectionService::look_up(const ServerReflectionRequest& request) const {
  ServerReflectionResponse response;
  response.set_valid_host(request.host());
  *response.mutable_original_request() = request;
  if (request.message_request_case() == ServerReflectionRequest::kListServices) {
    for (const auto& [name, file] : files_) {
      for (int i = 0; i < file->service_count(); ++i) {
        response.mutable_list_services_response()->add_service()->set_name(
            file->service(i)->full_name());
      }
    }
    return response;
  }
  const absl::StatusOr<const FileDescriptor*> file = find(request);
  if (file.ok()) {
    std::set<const FileDescriptor*> seen;
    append(*file, &seen, response.mutable_file_descriptor_response());
  } else {
    response.mutable_error_response()->set_error_code(static_cast<int>(file.status().code()));
    response.mutable_error_response()->set_error_message(message_of(file.status()));
  }
  return response;
}

}  // namespace lockstep
