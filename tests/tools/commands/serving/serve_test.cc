// SPDX-License-Identifier: Apache-2.0
// `lockstep serve` as its clients see it: real processes, real gRPC.
#include <atomic>
#include <csignal>
#include <filesystem>
#include <tuple>

#include "tests/support/processes/server.h"

namespace lockstep::testing {
namespace {

TEST(ServeTest, SixtyFourStreamsGiveTheTokensOfEachAlone) {
  Server server({"--workers", "2"});
  std::vector<Answered> together(64);
  std::vector<std::thread> clients;
  clients.reserve(together.size());
  for (int i = 0; i < 64; ++i) {
    clients.emplace_back([&, i] { together[i] = server.generate(story(1 + (i * 7) % 90, i)); });
  }
  for (std::thread& client : clients) client.join();
  for (int i = 0; i < 64; ++i) {
    ASSERT_TRUE(together[i].status.ok()) << together[i].status.error_message();
    EXPECT_EQ(together[i].tokens.size(), static_cast<size_t>(1 + (i * 7) % 90));
    if (i % 9 != 0) continue;
    const Answered alone = server.generate(story(1 + (i * 7) % 90, i));
    EXPECT_EQ(together[i].tokens, alone.tokens) << "stream " << i;
    EXPECT_EQ(together[i].text, alone.text) << "stream " << i;
  }
  EXPECT_TRUE(server.eventually([](const v1::GetModelResponse& model) {
    return model.running() == 0 && model.pages_free() == model.pages_total();
  }));
}

TEST(ServeTest, ClosedStreamsFreeTheirPages) {
  Server server({"--workers", "2", "--max-running", "8"});
  std::vector<std::thread> clients;
  clients.reserve(40);
  for (int i = 0; i < 40; ++i) {
    clients.emplace_back([&, i] {
      grpc::ClientContext context;
      auto reader = server.stub().Generate(&context, story(900, i));
      v1::GenerateResponse response;
      for (int tokens = 0; tokens < i % 5 && reader->Read(&response);) {
        tokens += response.token_ids_size();
      }
      context.TryCancel();
      reader->Finish();
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_TRUE(server.eventually([](const v1::GetModelResponse& model) {
    return model.running() == 0 && model.waiting() == 0 &&
           model.pages_free() == model.pages_total();
  })) << server.model().DebugString();
  EXPECT_TRUE(server.generate(story(5, 1)).status.ok());
}

TEST(ServeTest, BadRequestsAreInvalidArgument) {
  Server server;
  const auto refused = [&](const v1::GenerateRequest& request, const std::string& named) {
    const Answered answer = server.generate(request);
    EXPECT_EQ(answer.status.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << named;
    EXPECT_NE(answer.status.error_message().find(named), std::string::npos)
        << answer.status.error_message();
  };
  refused({}, "prompt");
  refused(story(-1, 1), "max_tokens");
  v1::GenerateRequest request = story(1, 1);
  request.set_n(1000);
  refused(request, "n:");
  request = story(1, 1);
  request.add_stop("");
  refused(request, "stop");
  request = {};
  for (int i = 0; i < 2000; ++i) request.mutable_prompt_ids()->add_ids(5);
  refused(request, "context");
  request = {};
  request.mutable_prompt_ids()->add_ids(1 << 20);
  refused(request, "prompt_ids");
  EXPECT_TRUE(server.generate(story(3, 1)).status.ok());
}

TEST(ServeTest, TheServerTokenizesAndDescribesTheModel) {
  Server server;
  grpc::ClientContext tokenize_context;
  v1::TokenizeRequest tokenize;
  tokenize.set_text("Once upon a time");
  v1::TokenizeResponse ids;
  ASSERT_TRUE(server.stub().Tokenize(&tokenize_context, tokenize, &ids).ok());
  ASSERT_GT(ids.ids_size(), 1);
  grpc::ClientContext detokenize_context;
  v1::DetokenizeRequest detokenize;
  *detokenize.mutable_ids() = ids.ids();
  v1::DetokenizeResponse text;
  ASSERT_TRUE(server.stub().Detokenize(&detokenize_context, detokenize, &text).ok());
  EXPECT_EQ(text.text(), "Once upon a time");
  const v1::GetModelResponse model = server.model();
  EXPECT_EQ(model.name(), "demo");
  EXPECT_EQ(model.architecture(), "LlamaForCausalLM");
  EXPECT_TRUE(model.ready());
  EXPECT_GT(model.weight_bytes(), 1000000);
}

TEST(ServeTest, ATakenPortIsAnErrorOfOneLine) {
  Server server;
  for (const auto& [flag, address, other] :
       {std::tuple("--grpc", server.address(), "--http"),
        std::tuple("--http", server.http_address(), "--grpc")}) {
    const ProcessResult second = run_lockstep({"serve", flag, address, other, "127.0.0.1:0"});
    EXPECT_EQ(second.code, 2);
    EXPECT_NE(second.err.find(address + ": "), std::string::npos) << second.err;
    EXPECT_NE(second.err.find("in use"), std::string::npos) << second.err;
  }
}

TEST(ServeTest, CtrlCStopsEverythingThatTheServerStarted) {
  Server server({"--workers", "3"});
  const std::vector<pid_t> workers = server.workers();
  ASSERT_EQ(workers.size(), 3u);
  server.process().signal(SIGINT);
  EXPECT_EQ(server.process().wait(), 0) << server.process().err();
  for (const pid_t worker : workers) EXPECT_FALSE(is_alive(worker));
}

TEST(ServeTest, WorkersDieWithAKilledCoordinator) {
  Server server({"--workers", "2"});
  const std::vector<pid_t> workers = server.workers();
  server.process().signal(SIGKILL);
  server.process().wait();
  for (const pid_t worker : workers) EXPECT_TRUE(becomes_true([&] { return !is_alive(worker); }));
}

// Some variables name an option of both the server and workers, others an option of workers only.
TEST(ServeTest, TheVariablesOfTheServerDoNotReachItsWorkers) {
  Server server({"--workers", "2"}, {.input = "",
                                     .environment = {{"LOCKSTEP_COORDINATOR", "nonsense"},
                                                     {"LOCKSTEP_DATA_LISTEN", "nonsense"},
                                                     {"LOCKSTEP_HEALTH", "nonsense"},
                                                     {"LOCKSTEP_INSECURE", "http,grpc"},
                                                     {"LOCKSTEP_LOG_FORMAT", "json"},
                                                     {"LOCKSTEP_PROCESSORS", "nonsense"},
                                                     {"LOCKSTEP_RANK", "7"},
                                                     {"LOCKSTEP_SPARE", "true"},
                                                     {"LOCKSTEP_SPEED", "nonsense"}}});
  EXPECT_TRUE(server.generate(story(5, 1)).status.ok());
}

// A file that is opened later, such as a checkpoint, would get descriptor 2, and log lines would be
// written to it.
TEST(ServeTest, ClosedStandardDescriptorsAreOpenedFirst) {
  const std::string command =
      lockstep_binary() + " serve --grpc off --http 127.0.0.1:0 <&- >&- 2>&-";
  const Process server({"/bin/sh", "-c", "exec " + command});
  ASSERT_TRUE(becomes_true([&] { return !children_of(server.pid()).empty(); }));
  for (const pid_t process : {server.pid(), children_of(server.pid())[0]}) {
    for (const char* descriptor : {"0", "1", "2"}) {
      std::error_code error;
      const std::string path = "/proc/" + std::to_string(process) + "/fd/" + descriptor;
      EXPECT_EQ(std::filesystem::read_symlink(path, error), "/dev/null") << error.message();
    }
  }
}

}  // namespace
}  // namespace lockstep::testing
