// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/engine/clients.h"

#include <fmt/format.h>
#include <grpcpp/grpcpp.h>

#include <latch>
#include <memory>
#include <vector>

#include "proto/generate.grpc.pb.h"

namespace lockstep::bench {
namespace {

constexpr int kStreamsPerConnection = 64;

class Reader final : public grpc::ClientReadReactor<v1::GenerateResponse> {
 public:
  Reader(v1::Generation::Stub& stub, const v1::GenerateRequest& request, Timeline& timeline,
         std::latch& done)
      : timeline_(timeline), done_(done) {
    stub.async()->Generate(&context_, &request, this);
    StartRead(&response_);
    StartCall();
  }

  void OnReadDone(bool ok) override {
    if (!ok) return;
    timeline_.tokens += response_.token_ids_size();
    StartRead(&response_);
  }
  void OnDone(const grpc::Status& status) override {
    if (!status.ok() && timeline_.failures++ == 0) {
      fmt::print(stderr, "engine_bench: a client's call ended: {}\n", status.error_message());
    }
    done_.count_down();
  }

 private:
  Timeline& timeline_;
  std::latch& done_;
  grpc::ClientContext context_;
  v1::GenerateResponse response_;
};

}  // namespace

void run_clients(const std::string& address, const v1::GenerateRequest& request, int streams,
                 Timeline& timeline) {
  std::latch done(streams);
  std::vector<std::unique_ptr<v1::Generation::Stub>> stubs;
  std::vector<std::unique_ptr<Reader>> readers;
  for (int i = 0; i < streams; ++i) {
    if (i % kStreamsPerConnection == 0) {
      grpc::ChannelArguments arguments;
      arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
      stubs.push_back(v1::Generation::NewStub(
          grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments)));
    }
    readers.push_back(std::make_unique<Reader>(*stubs.back(), request, timeline, done));
  }
  done.wait();
}

}  // namespace lockstep::bench
