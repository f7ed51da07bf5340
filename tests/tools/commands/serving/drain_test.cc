// SPDX-License-Identifier: Apache-2.0
// The end of `lockstep serve` as its clients see it: SIGTERM under load.
#include <csignal>

#include "tests/support/network/http2_client.h"
#include "tests/support/processes/server.h"

namespace lockstep::testing {
namespace {

// A call of which one message has been read.
class OpenCall {
 public:
  OpenCall(Server& server, const v1::GenerateRequest& request)
      : reader_(server.stub().Generate(&context_, request)) {
    EXPECT_TRUE(read());
  }
  bool read() {
    v1::GenerateResponse response;
    if (!reader_->Read(&response)) return false;
    tokens_ += response.token_ids_size();
    return true;
  }
  grpc::Status finish() {
    while (read()) {
    }
    return reader_->Finish();
  }
  int tokens() const { return tokens_; }

 private:
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReader<v1::GenerateResponse>> reader_;
  int tokens_ = 0;
};

// The answer is larger than a connection's buffers, so it stays in flight until the test reads it.
v1::GenerateRequest long_story(int choices) {
  v1::GenerateRequest request = story(900, 1);
  request.set_n(choices);
  return request;
}

TEST(DrainTest, SigtermFinishesStreamsAndRefusesNewOnes) {
  Server server({"--workers", "2"});
  OpenCall held(server, long_story(8));
  server.process().signal(SIGTERM);
  EXPECT_TRUE(server.eventually([](const auto& model) { return !model.ready(); }));
  const Answered refused = server.generate(story(5, 1));
  EXPECT_EQ(refused.status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_NE(refused.status.error_message().find("draining"), std::string::npos)
      << refused.status.error_message();
  const grpc::Status status = held.finish();
  EXPECT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(held.tokens(), 8 * 900);
  EXPECT_EQ(server.process().wait(), 0) << server.process().err();
}

// A client with a connection to a server that drains would be refused until the last answer's end,
// although another server may be ready.
TEST(DrainTest, SigtermSendsClientsOfGrpcToAnotherServer) {
  Server server({"--workers", "2"});
  OpenCall held(server, long_story(8));
  Http2Client idle(server.address());
  EXPECT_EQ(idle.wait(idle.get("/")).status, 200);
  server.process().signal(SIGTERM);
  idle.wait_until_closed();
  EXPECT_TRUE(idle.is_going_away());
  const grpc::Status status = held.finish();
  EXPECT_TRUE(status.ok()) << status.error_message();
}

TEST(DrainTest, SighupAlsoDrains) {
  Server server({"--workers", "2"});
  OpenCall held(server, long_story(1));
  server.process().signal(SIGHUP);
  const grpc::Status status = held.finish();
  EXPECT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(held.tokens(), 900);
  EXPECT_EQ(server.process().wait(), 0) << server.process().err();
}

TEST(DrainTest, StreamsCutOffByTheDeadlineAreCancelled) {
  Server server({"--drain-seconds", "0"});
  OpenCall call(server, long_story(64));
  server.process().signal(SIGTERM);
  const grpc::Status status = call.finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::CANCELLED) << status.error_message();
  EXPECT_EQ(server.process().wait(), 0) << server.process().err();
}

TEST(DrainTest, ASecondSignalEndsTheDrainAtOnce) {
  Server server;
  OpenCall call(server, long_story(64));
  server.process().signal(SIGTERM);
  EXPECT_TRUE(server.eventually([](const auto& model) { return !model.ready(); }));
  server.process().signal(SIGTERM);
  const grpc::Status status = call.finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::CANCELLED) << status.error_message();
  EXPECT_EQ(server.process().wait(), 0) << server.process().err();
}

// Operators may send these signals by habit: other programs write statistics or reopen their log.
TEST(DrainTest, SignalsWithoutAMeaningAreIgnoredWithALogLine) {
  Server server({"--workers", "2"});
  OpenCall call(server, long_story(1));
  const std::vector<pid_t> workers = server.workers();
  for (const int signal : {SIGUSR1, SIGUSR2, SIGALRM}) {
    server.process().signal(signal);
    for (const pid_t worker : workers) kill(worker, signal);
  }
  for (const char* name : {"SIGUSR1", "SIGUSR2", "SIGALRM"}) {
    EXPECT_TRUE(server.process().wait_for_err(std::string(name) + " is ignored"))
        << server.process().err();
  }
  EXPECT_TRUE(call.finish().ok());
  EXPECT_EQ(call.tokens(), 900);
  EXPECT_EQ(server.workers(), workers) << "no worker was lost";
  server.process().signal(SIGTERM);
  EXPECT_EQ(server.process().wait(), 0) << server.process().err();
}

TEST(DrainTest, SigtermWithoutRequestsEndsAtOnce) {
  Server server({"--workers", "2"});
  const std::vector<pid_t> workers = server.workers();
  server.process().signal(SIGTERM);
  EXPECT_EQ(server.process().wait(), 0) << server.process().err();
  for (const pid_t worker : workers) EXPECT_FALSE(is_alive(worker));
}

}  // namespace
}  // namespace lockstep::testing
