// SPDX-License-Identifier: Apache-2.0
#include "coordinator/api/grpc/reflection_guard.h"

#include <google/protobuf/message.h>
#include <grpc/grpc.h>
#include <grpcpp/server_context.h>

#include <atomic>
#include <string_view>

#include "base/status.h"
#include "coordinator/api/grpc/wire.h"

namespace lockstep {
namespace {

using grpc::experimental::InterceptionHookPoints;
using grpc::experimental::Interceptor;
using grpc::experimental::InterceptorBatchMethods;
using grpc::experimental::ServerRpcInfo;

constexpr size_t kMaxRequestBytes = 1024;
constexpr int kMaxCalls = 16;

class Guard final : public Interceptor {
 public:
  Guard(const ApiKeys* keys, std::shared_ptr<std::atomic<int>> calls,
        grpc::ServerContextBase* context)
      : keys_(keys), calls_(std::move(calls)), context_(context), number_(++*calls_) {}
  ~Guard() override { --*calls_; }
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;

  void Intercept(InterceptorBatchMethods* methods) override {
    if (methods->QueryInterceptionHookPoint(InterceptionHookPoints::POST_RECV_INITIAL_METADATA)) {
      end_unless(check_call());
    }
    if (methods->QueryInterceptionHookPoint(InterceptionHookPoints::POST_RECV_MESSAGE)) {
      auto* request = static_cast<google::protobuf::Message*>(methods->GetRecvMessage());
      if (request != nullptr) {
        end_unless(check_request(*request));
        if (ended_) request->Clear();  // The service still reads it, but has nothing to look up.
      }
    }
    methods->Proceed();
  }

 private:
  absl::Status check_call() const {
    RETURN_IF_ERROR(admit(keys_, *context_, /*counts=*/false).status());
    if (number_ <= kMaxCalls) return absl::OkStatus();
    return absl::ResourceExhaustedError(
        fmt::format("reflection: at most {} calls may be open at once; try again", kMaxCalls));
  }

  static absl::Status check_request(const google::protobuf::Message& request) {
    const size_t bytes = request.ByteSizeLong();
    if (bytes <= kMaxRequestBytes) return absl::OkStatus();
    return invalid_argument("reflection: a request must have at most {} bytes, found {}",
                            kMaxRequestBytes, bytes);
  }

  void end_unless(const absl::Status& status) {
    if (status.ok() || ended_) return;
    ended_ = true;
    grpc_call_cancel_with_status(context_->c_call(), static_cast<grpc_status_code>(status.code()),
                                 message_of(status).c_str(), nullptr);
  }

  const ApiKeys* const keys_;
  const std::shared_ptr<std::atomic<int>> calls_;
  grpc::ServerContextBase* const context_;
  const int number_;  // The number of open calls when this one began, including this one.
  bool ended_ = false;
};

class GuardFactory final : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
  explicit GuardFactory(const ApiKeys* keys) : keys_(keys) {}
  Interceptor* CreateServerInterceptor(ServerRpcInfo* info) override {
    if (!std::string_view(info->method()).starts_with("/grpc.reflection.")) return nullptr;
    return new Guard(keys_, calls_, info->server_context());
  }

 private:
  const ApiKeys* const keys_;
  const std::shared_ptr<std::atomic<int>> calls_ = std::make_shared<std::atomic<int>>(0);
};

}  // namespace

std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface> guard_reflection(
    const ApiKeys* keys) {
  return std::make_unique<GuardFactory>(keys);
}

}  // namespace lockstep
