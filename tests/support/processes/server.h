// SPDX-License-Identifier: Apache-2.0
// A `lockstep serve` process with a client's stub, for tests.
#pragma once

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "proto/generate.grpc.pb.h"
#include "tests/support/processes/process.h"

namespace lockstep::testing {

struct Answered {
  grpc::Status status;
  std::vector<int> tokens;
  std::string text;
  v1::FinishReason finish_reason = v1::FINISH_REASON_UNSPECIFIED;
};

class Server {
 public:
  explicit Server(std::vector<std::string> arguments = {}, const ProcessOptions& options = {})
      : process_(full(std::move(arguments)), options) {
    EXPECT_TRUE(process_.wait_for_err("ready;")) << process_.err();
    const std::string err = process_.err();
    address_ = named(err, "gRPC at ");
    http_address_ = named(err, "HTTP at ");
    admin_address_ = named(err, "admin at ");
    channel_ = grpc::CreateChannel(address_, grpc::InsecureChannelCredentials());
    stub_ = v1::Generation::NewStub(channel_);
  }

  Process& process() { return process_; }
  const std::string& address() const { return address_; }
  const std::string& http_address() const { return http_address_; }
  const std::string& admin_address() const { return admin_address_; }  // Empty: not requested.
  const std::shared_ptr<grpc::Channel>& channel() const { return channel_; }
  v1::Generation::Stub& stub() { return *stub_; }
  std::vector<pid_t> workers() const { return children_of(process_.pid()); }

  Answered generate(const v1::GenerateRequest& request) {
    grpc::ClientContext context;
    auto reader = stub_->Generate(&context, request);
    Answered answer;
    v1::GenerateResponse response;
    while (reader->Read(&response)) {
      answer.text += response.text();
      answer.tokens.insert(answer.tokens.end(), response.token_ids().begin(),
                           response.token_ids().end());
      if (response.finish_reason() != v1::FINISH_REASON_UNSPECIFIED) {
        answer.finish_reason = response.finish_reason();
      }
    }
    answer.status = reader->Finish();
    return answer;
  }

  v1::GetModelResponse model() {
    grpc::ClientContext context;
    v1::GetModelResponse response;
    const grpc::Status status = stub_->GetModel(&context, {}, &response);
    EXPECT_TRUE(status.ok()) << status.error_message() << process_.err();
    return response;
  }

  // Polls until wanted(model()) is true, for at most kPatience. Returns whether it became true.
  template <typename Wanted>
  bool eventually(const Wanted& wanted) {
    return becomes_true([&] { return wanted(model()); }, std::chrono::milliseconds(10));
  }

 private:
  static std::vector<std::string> full(std::vector<std::string> arguments) {
    std::vector<std::string> all = {lockstep_binary(), "serve",  "--grpc",
                                    "127.0.0.1:0",     "--http", "127.0.0.1:0"};
    all.insert(all.end(), arguments.begin(), arguments.end());
    return all;
  }

  // The text after the words, up to the comma; "" if they are missing.
  static std::string named(const std::string& line, const std::string& words) {
    const size_t at = line.find(words);
    if (at == std::string::npos) return "";
    return line.substr(at + words.size(), line.find(',', at) - at - words.size());
  }

  Process process_;
  std::string address_;
  std::string http_address_;
  std::string admin_address_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::Generation::Stub> stub_;
};

inline v1::GenerateRequest story(int max_tokens, uint64_t seed) {
  v1::GenerateRequest request;
  request.set_prompt("Once upon a time");
  request.set_max_tokens(max_tokens);
  request.set_seed(seed);
  request.set_ignore_eos(true);
  return request;
}

// A call with a long answer, whose first part has arrived. It keeps a draining server running until
// finish().
class LongCall {
 public:
  explicit LongCall(Server& server) {
    v1::GenerateRequest request = story(900, 1);
    request.set_n(8);
    reader_ = server.stub().Generate(&context_, request);
    EXPECT_TRUE(reader_->Read(&response_));
  }
  // Reads the answer to its end. Returns the call's status.
  grpc::Status finish() {
    while (reader_->Read(&response_)) {
    }
    return reader_->Finish();
  }

 private:
  grpc::ClientContext context_;
  v1::GenerateResponse response_;
  std::unique_ptr<grpc::ClientReader<v1::GenerateResponse>> reader_;
};

}  // namespace lockstep::testing
