// SPDX-License-Identifier: Apache-2.0
// A client of grpc.health.v1.Health, such as a kubelet's probe.
#pragma once

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>

#include "tests/support/patience.h"

namespace lockstep::testing {

// One call on a connection of its own. Its answers are given as words, such as "SERVING".
class HealthCall {
 public:
  // `more`: bytes after the field with the service's name; they may be invalid.
  HealthCall(const std::string& address, const std::string& method, const std::string& service,
             const std::string& more = "") {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    stub_ = std::make_unique<grpc::GenericStub>(
        grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments));
    context_.set_deadline(std::chrono::system_clock::now() + kPatience);
    call_ = stub_->PrepareCall(&context_, method, &queue_);
    call_->StartCall(nullptr);
    next();
    std::string request;  // Field 1.
    if (!service.empty()) {
      request = "\x0a" + std::string(1, static_cast<char>(service.size())) + service;
    }
    const grpc::Slice slice(request + more);
    call_->WriteLast(grpc::ByteBuffer(&slice, 1), grpc::WriteOptions(), nullptr);
    next();
  }
  ~HealthCall() {
    if (!finished_) {
      context_.TryCancel();
      finish();
    }
  }
  HealthCall(const HealthCall&) = delete;
  HealthCall& operator=(const HealthCall&) = delete;

  // Waits for the next answer. After the last one it returns "end", or the call's error.
  std::string next_answer() {
    grpc::ByteBuffer message;
    call_->Read(&message, nullptr);
    if (!next()) {
      const grpc::Status status = finish();
      return status.ok() ? "end" : "error " + std::to_string(status.error_code());
    }
    grpc::Slice whole;
    EXPECT_TRUE(message.DumpToSingleSlice(&whole).ok());
    const std::string bytes(reinterpret_cast<const char*>(whole.begin()), whole.size());
    if (bytes == "\x08\x01") return "SERVING";
    if (bytes == "\x08\x02") return "NOT_SERVING";
    return bytes == "\x08\x03" ? "SERVICE_UNKNOWN" : "unknown bytes";
  }

 private:
  bool next() {
    void* tag = nullptr;
    bool ok = false;
    EXPECT_TRUE(queue_.Next(&tag, &ok));
    return ok;
  }
  grpc::Status finish() {
    grpc::Status status;
    call_->Finish(&status, nullptr);
    next();
    finished_ = true;
    return status;
  }

  std::unique_ptr<grpc::GenericStub> stub_;
  grpc::CompletionQueue queue_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> call_;
  bool finished_ = false;
};

// "SERVING", "NOT_SERVING", or "error N" with gRPC's code.
inline std::string health_of(const std::string& address, const std::string& service) {
  return HealthCall(address, "/grpc.health.v1.Health/Check", service).next_answer();
}

// The answers of Watch: the first when the call begins, then one for each change.
class HealthWatch : public HealthCall {
 public:
  HealthWatch(const std::string& address, const std::string& service)
      : HealthCall(address, "/grpc.health.v1.Health/Watch", service) {}
};

}  // namespace lockstep::testing
