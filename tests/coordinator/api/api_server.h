// SPDX-License-Identifier: Apache-2.0
// The public port in this process, in front of the real engine and workers that do no arithmetic. A
// test may hold back their steps.
#pragma once

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "coordinator/api/grpc/public_server.h"
#include "proto/generate.grpc.pb.h"
#include "tests/support/cluster/fake_cluster.h"

namespace lockstep {

class ApiServer {
 public:
  explicit ApiServer(const EngineOptions& options = {}, int64_t pages = 64,
                     const ResumableOptions& resumable_options = {}, const ApiKeys* keys = nullptr)
      : resumable_(resumable_options) {
    auto model = Model::open({});
    EXPECT_TRUE(model.ok()) << model.status();
    model_ = *std::move(model);
    FakeModel fake;
    fake.vocab = model_->config().vocab_size;
    fake.pages = pages;
    fake.page_tokens = 16;
    fake.max_context = model_->max_context();
    cluster_ = std::make_unique<FakeCluster>(fake);
    engine_ = std::make_unique<Engine>(cluster_.get(), model_->tokenizer(), options);
    EXPECT_TRUE(engine_->wait_ready().ok());
    auto server = PublicServer::start(
        {.model = model_.get(), .engine = engine_.get(), .keys = keys, .resumable = &resumable_},
        &pool_, {.address = "127.0.0.1:0"});
    EXPECT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    channel_ = new_channel();
    stub_ = v1::Generation::NewStub(channel_);
  }

  const Model& model() const { return *model_; }
  FakeCluster& cluster() { return *cluster_; }
  Engine& engine() { return *engine_; }
  ResumableStreams& resumable() { return resumable_; }
  const std::string& address() const { return server_->address(); }
  v1::Generation::Stub& stub() { return *stub_; }
  // Ends the public port; the engine continues.
  void close() { server_.reset(); }

  // Opens a new connection, which no other channel uses.
  std::shared_ptr<grpc::Channel> new_channel(grpc::ChannelArguments arguments = {}) const {
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    return grpc::CreateCustomChannel(address(), grpc::InsecureChannelCredentials(), arguments);
  }
  // Checks that a new client is served.
  void expect_alive() const {
    grpc::ClientContext context;
    v1::GetModelResponse response;
    const grpc::Status status =
        v1::Generation::NewStub(new_channel())->GetModel(&context, {}, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
  }
  struct Answer {
    grpc::Status status;
    std::string bytes;  // All messages, concatenated.
  };
  // Sends bytes as the method's message, valid or not.
  Answer call(const std::string& path, const std::string& bytes,
              const std::string& authorization = "") const {
    grpc::GenericStub stub(channel_);
    grpc::CompletionQueue queue;
    grpc::ClientContext context;
    if (!authorization.empty()) context.AddMetadata("authorization", authorization);
    const auto call = stub.PrepareCall(&context, path, &queue);
    call->StartCall(nullptr);
    next(&queue);
    const grpc::Slice slice(bytes);
    call->WriteLast(grpc::ByteBuffer(&slice, 1), grpc::WriteOptions(), nullptr);
    next(&queue);
    Answer answer;
    for (grpc::ByteBuffer message; call->Read(&message, nullptr), next(&queue);) {
      grpc::Slice whole;
      EXPECT_TRUE(message.DumpToSingleSlice(&whole).ok());
      answer.bytes.append(reinterpret_cast<const char*>(whole.begin()), whole.size());
    }
    call->Finish(&answer.status, nullptr);
    next(&queue);
    return answer;
  }

 private:
  static bool next(grpc::CompletionQueue* queue) {
    void* tag = nullptr;
    bool ok = false;
    EXPECT_TRUE(queue->Next(&tag, &ok));
    return ok;
  }

  ResumableStreams resumable_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<FakeCluster> cluster_;
  std::unique_ptr<Engine> engine_;
  TaskPool pool_{TaskPoolOptions{}};
  std::unique_ptr<PublicServer> server_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::Generation::Stub> stub_;
};

}  // namespace lockstep
