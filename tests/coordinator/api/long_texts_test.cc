// SPDX-License-Identifier: Apache-2.0
// Texts of megabytes delay only their senders: gRPC's threads stay free to answer health checks and
// the pings of workers and clients.
#include <grpcpp/generic/generic_stub.h>

#include <atomic>

#include "tests/support/processes/server.h"

namespace lockstep::testing {
namespace {

constexpr int kCallers = 40;
#ifdef __SANITIZE_ADDRESS__
constexpr size_t kTextBytes = 1'000'000;  // With AddressSanitizer: as slow as 4 MB without it.
#else
constexpr size_t kTextBytes = 4'000'000;
#endif

grpc::Status tokenize(const std::string& address, const std::string& text) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetMaxReceiveMessageSize(-1);
  const auto channel =
      grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
  grpc::ClientContext context;
  v1::TokenizeRequest request;
  request.set_text(text);
  v1::TokenizeResponse response;
  return v1::Generation::NewStub(channel)->Tokenize(&context, request, &response);
}

TEST(LongTextsTest, FortyLongTextsAtOnceLoseNeitherAWorkerNorAStream) {
  Server server({"--workers", "2"});
  const std::vector<pid_t> workers = server.workers();
  std::string text;
  while (text.size() < kTextBytes) text += "a ";
  std::atomic<int> busy = kCallers;
  std::vector<grpc::Status> answers(kCallers);
  std::vector<std::thread> callers;
  callers.reserve(kCallers);
  for (int i = 0; i < kCallers; ++i) {
    callers.emplace_back([&, i] {
      answers[i] = tokenize(server.address(), text);
      --busy;
    });
  }
  do {
    const Answered answer = server.generate(story(100, 1));
    EXPECT_TRUE(answer.status.ok()) << answer.status.error_message();
    EXPECT_EQ(answer.tokens.size(), 100u);
    EXPECT_TRUE(server.model().ready());
  } while (busy > 0);
  for (std::thread& caller : callers) caller.join();
  for (const grpc::Status& answer : answers) {
    EXPECT_TRUE(answer.ok() || answer.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED)
        << answer.error_message();
  }
  EXPECT_EQ(server.workers(), workers);
}

TEST(LongTextsTest, PromptsThatCannotFitAreRefusedWhileOthersStream) {
  Server server({"--workers", "2"});
  const std::vector<pid_t> workers = server.workers();
  v1::GenerateRequest request = story(10, 1);
  request.set_prompt(std::string(4'000'000, 'a'));
  std::atomic<int> invalid = 0;
  std::vector<std::thread> callers;
  callers.reserve(kCallers);
  for (int i = 0; i < kCallers; ++i) {
    callers.emplace_back([&] {
      const Answered answer = server.generate(request);
      // All texts together may be more than the server accepts from one network.
      EXPECT_TRUE(answer.status.error_code() == grpc::StatusCode::INVALID_ARGUMENT ||
                  answer.status.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED)
          << answer.status.error_message();
      if (answer.status.error_code() == grpc::StatusCode::INVALID_ARGUMENT) ++invalid;
    });
  }
  EXPECT_TRUE(server.generate(story(100, 1)).status.ok());
  for (std::thread& caller : callers) caller.join();
  EXPECT_GT(invalid, 0);
  EXPECT_EQ(server.workers(), workers);
}

}  // namespace
}  // namespace lockstep::testing
