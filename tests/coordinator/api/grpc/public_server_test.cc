// SPDX-License-Identifier: Apache-2.0
// The public port with well-behaved and with malicious callers.
#include "coordinator/api/grpc/public_server.h"

#include <gtest/gtest.h>

#include <fstream>
#include <random>
#include <thread>

#include "tests/coordinator/api/api_server.h"
#include "tests/support/files/temp_folder.h"
#include "tests/support/patience.h"

namespace lockstep {
namespace {

const std::string kGeneration = "/lockstep.v1.Generation/";
const std::string kReflection = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo";
const std::string kListServices("\x3a\x00", 2);

v1::GenerateRequest story(int32_t max_tokens) {
  v1::GenerateRequest request;
  request.set_prompt("Once upon a time");
  request.set_max_tokens(max_tokens);
  request.set_ignore_eos(true);
  return request;
}

// A call that has sent one message and stays open. `is_last`: the call sends no second message.
class OpenCall {
 public:
  OpenCall(const std::shared_ptr<grpc::Channel>& channel, const std::string& path,
           const std::string& bytes, const std::string& authorization = "", bool is_last = false)
      : stub_(channel) {
    if (!authorization.empty()) context_.AddMetadata("authorization", authorization);
    call_ = stub_.PrepareCall(&context_, path, &queue_);
    call_->StartCall(nullptr);
    next();
    const grpc::Slice slice(bytes);
    const grpc::WriteOptions options =
        is_last ? grpc::WriteOptions().set_last_message() : grpc::WriteOptions();
    call_->Write(grpc::ByteBuffer(&slice, 1), options, nullptr);
    next();
  }
  void read() {
    call_->Read(&answer_, nullptr);
    next();
  }
  ~OpenCall() {
    context_.TryCancel();
    call_->Finish(&status_, nullptr);
    next();
  }

 private:
  void next() {
    void* tag = nullptr;
    bool ok = false;
    EXPECT_TRUE(queue_.Next(&tag, &ok));
  }

  grpc::GenericStub stub_;
  grpc::CompletionQueue queue_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> call_;
  grpc::ByteBuffer answer_;
  grpc::Status status_;
};

TEST(PublicServerTest, MalformedMessagesAndTextThatIsNotUtf8AreInvalidArgument) {
  const ApiServer server;
  const std::string not_utf8 = "\x0a\x03\xff\xfe\xfd";
  const std::string cut_short = "\x0a\x7f";
  const std::string no_field = "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff";
  ::testing::internal::CaptureStderr();
  for (const std::string method : {"Generate", "Resume", "Tokenize", "Detokenize", "GetModel"}) {
    for (const std::string& bytes : {not_utf8, cut_short, no_field}) {
      const bool has_text = method != "Detokenize" && method != "GetModel";
      if (bytes == not_utf8 && !has_text) continue;
      const grpc::Status status = server.call(kGeneration + method, bytes).status;
      EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << method;
      EXPECT_NE(status.error_message().find("must be a protobuf message"), std::string::npos)
          << method << ": " << status.error_message();
      EXPECT_EQ(status.error_message().find('\n'), std::string::npos);
    }
  }
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");  // There is no log line per call.
}

TEST(PublicServerTest, UnknownFieldsAreIgnored) {
  const ApiServer server;
  const std::string unknown =
      "\xc2\x3e\x03"
      "abc";  // Field 1000, three bytes.
  EXPECT_TRUE(server.call(kGeneration + "GetModel", unknown).status.ok());
  EXPECT_TRUE(
      server.call(kGeneration + "Generate", story(2).SerializeAsString() + unknown).status.ok());
}

TEST(PublicServerTest, MessagesAboveTheLimitAreResourceExhausted) {
  const ApiServer server;
  for (const char* method : {"Generate", "Tokenize"}) {
    const grpc::Status status = server.call(kGeneration + method, std::string(5 << 20, 'a')).status;
    EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED) << method;
  }
}

// A gzip stream of 1 MB can expand to 1 GB.
TEST(PublicServerTest, CompressedMessagesAreRefused) {
  ApiServer server;
  v1::TokenizeRequest request;
  request.set_text(std::string(1 << 20, 'a'));
  for (const auto algorithm : {GRPC_COMPRESS_GZIP, GRPC_COMPRESS_DEFLATE}) {
    grpc::ClientContext context;
    context.set_compression_algorithm(algorithm);
    v1::TokenizeResponse response;
    const grpc::Status status = server.stub().Tokenize(&context, request, &response);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::UNIMPLEMENTED) << status.error_message();
  }
  server.expect_alive();
}

TEST(PublicServerTest, HealthAndReflectionAnswerAndUnknownMethodsAreUnimplemented) {
  const ApiServer server;
  EXPECT_EQ(server.call("/grpc.health.v1.Health/Check", "").bytes, "\x08\x01");
  const auto services = server.call(kReflection, kListServices);
  EXPECT_NE(services.bytes.find("lockstep.v1.Generation"), std::string::npos);
  for (const char* path : {"/lockstep.v1.Generation/NoSuch", "/no.such.Service/Method"}) {
    EXPECT_EQ(server.call(path, "").status.error_code(), grpc::StatusCode::UNIMPLEMENTED) << path;
  }
}

TEST(PublicServerTest, ReflectionRefusesLongNames) {
  const ApiServer server;
  std::string name;
  while (name.size() < 200'000) name += "a.";
  const std::string varint = {'\xc0', '\x9a', '\x0c'};                   // The varint 200,000.
  const auto answer = server.call(kReflection, "\x22" + varint + name);  // A lookup by symbol.
  EXPECT_EQ(answer.status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_NE(
      answer.status.error_message().find("a message: must have at most 1024 bytes, found 200004"),
      std::string::npos)
      << answer.status.error_message();
  EXPECT_EQ(answer.bytes, "");
}

TEST(PublicServerTest, ReflectionAllows16CallsAtOnce) {
  const ApiServer server;
  std::vector<std::unique_ptr<OpenCall>> calls;
  for (int i = 0; i < 16; ++i) {
    calls.push_back(std::make_unique<OpenCall>(server.new_channel(), kReflection, kListServices));
    calls.back()->read();
  }
  EXPECT_EQ(server.call(kReflection, kListServices).status.error_code(),
            grpc::StatusCode::RESOURCE_EXHAUSTED);
  calls.clear();
  while (!server.call(kReflection, kListServices).status.ok()) std::this_thread::yield();
}

TEST(PublicServerTest, ReflectionNeedsAKeyIfCallsDo) {
  const TempFolder folder;
  std::ofstream(folder.path() / "keys") << "alice sk-0123456789abcdef\n";
  const auto keys = ApiKeys::load(folder.path() / "keys");
  ASSERT_TRUE(keys.ok()) << keys.status();
  const ApiServer server({}, /*pages=*/64, {}, keys->get());
  const auto answer = server.call(kReflection, kListServices);
  EXPECT_EQ(answer.status.error_code(), grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(answer.bytes, "");
  const auto known = server.call(kReflection, kListServices, "Bearer sk-0123456789abcdef");
  EXPECT_NE(known.bytes.find("lockstep.v1.Generation"), std::string::npos);
}

// The server keeps a whole answer until the client reads it.
TEST(PublicServerTest, UnreadAnswersOfAKeyAreBounded) {
  const TempFolder folder;
  std::ofstream(folder.path() / "keys") << "alice sk-0123456789abcdef\nbob sk-fedcba9876543210\n";
  const auto keys = ApiKeys::load(folder.path() / "keys");
  ASSERT_TRUE(keys.ok()) << keys.status();
  const ApiServer server({}, /*pages=*/64, {}, keys->get());
  v1::DetokenizeRequest request;
  for (int i = 0; i < 1 << 18; ++i) request.add_ids(0);  // Id 0 is "<|story|>": 2.4 MB of text.
  request.set_keep_special(true);
  const std::string bytes = request.SerializeAsString();
  const auto code_for = [&](const std::string& key) {
    return server.call(kGeneration + "Detokenize", bytes, "Bearer " + key).status.error_code();
  };
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  arguments.SetInt(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, 65535);
  const auto channel = server.new_channel(arguments);
  std::vector<std::unique_ptr<OpenCall>> calls;
  for (int i = 0; i < 64; ++i) {
    calls.push_back(std::make_unique<OpenCall>(channel, kGeneration + "Detokenize", bytes,
                                               "Bearer sk-0123456789abcdef",
                                               /*is_last=*/true));
  }
  EXPECT_TRUE(becomes_true(
      [&] { return code_for("sk-0123456789abcdef") == grpc::StatusCode::RESOURCE_EXHAUSTED; }));
  EXPECT_EQ(code_for("sk-fedcba9876543210"), grpc::StatusCode::OK);
  calls.clear();
  EXPECT_TRUE(
      becomes_true([&] { return code_for("sk-0123456789abcdef") == grpc::StatusCode::OK; }));
}

TEST(PublicServerTest, DetokenizeRefusesIdsOutsideTheVocabulary) {
  ApiServer server;
  for (const int32_t id : {-1, 3072}) {
    grpc::ClientContext context;
    v1::DetokenizeRequest request;
    request.add_ids(id);
    v1::DetokenizeResponse response;
    const grpc::Status status = server.stub().Detokenize(&context, request, &response);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
    EXPECT_EQ(status.error_message(),
              "ids: must be token ids of 0 to 3071, found " + std::to_string(id));
  }
}

TEST(PublicServerTest, GenerateStreamsEachTokenOnceAndReportsItsEnd) {
  ApiServer server;
  v1::GenerateRequest request = story(20);
  request.set_n(3);
  request.set_logprobs(2);
  grpc::ClientContext context;
  const auto reader = server.stub().Generate(&context, request);
  int tokens[3] = {};
  int ends[3] = {};
  for (v1::GenerateResponse response; reader->Read(&response);) {
    tokens[response.index()] += response.token_ids_size();
    EXPECT_EQ(response.logprobs_size(), response.token_ids_size());
    if (response.finish_reason() == v1::FINISH_REASON_UNSPECIFIED) continue;
    ++ends[response.index()];
    EXPECT_EQ(response.finish_reason(), v1::LENGTH);
    EXPECT_EQ(response.usage().completion_tokens(), 20);
  }
  EXPECT_TRUE(reader->Finish().ok());
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(tokens[i], 20);
    EXPECT_EQ(ends[i], 1);
  }
}

TEST(PublicServerTest, EachTokenHasItsBytesAndPromptIdsAreSentOnce) {
  ApiServer server;
  v1::GenerateRequest request = story(20);
  request.set_n(2);
  request.set_logprobs(0);
  request.set_prompt_logprobs(0);
  request.set_return_prompt_ids(true);
  grpc::ClientContext context;
  const auto reader = server.stub().Generate(&context, request);
  std::vector<int32_t> prompt, scored;
  std::string text[2], bytes[2];
  for (v1::GenerateResponse response; reader->Read(&response);) {
    prompt.insert(prompt.end(), response.prompt_ids().begin(), response.prompt_ids().end());
    for (const v1::TokenLogprobs& token : response.prompt_logprobs()) {
      scored.push_back(token.chosen().id());
    }
    text[response.index()] += response.text();
    for (const v1::TokenLogprobs& token : response.logprobs()) {
      if (server.model().tokenizer()->is_special(token.chosen().id())) continue;
      bytes[response.index()] += token.chosen().bytes();
    }
  }
  EXPECT_TRUE(reader->Finish().ok());
  EXPECT_EQ(prompt, *server.model().tokenizer()->encode(request.prompt()));
  EXPECT_EQ(prompt, scored);
  for (int i = 0; i < 2; ++i) {
    if (text[i].find("\xEF\xBF\xBD") != std::string::npos) continue;
    EXPECT_EQ(bytes[i], text[i]);
  }
}

TEST(PublicServerTest, TheContextIsLimitedByTheKvPages) {
  const ApiServer server({}, /*pages=*/10);
  v1::GetModelResponse model;
  const auto answer = server.call(kGeneration + "GetModel", "");
  ASSERT_TRUE(model.ParseFromString(answer.bytes));
  EXPECT_EQ(model.context_length(), 160);
  const ApiServer roomy({}, /*pages=*/1000);
  ASSERT_TRUE(model.ParseFromString(roomy.call(kGeneration + "GetModel", "").bytes));
  EXPECT_EQ(model.context_length(), roomy.model().max_context());
}

// The status shows that the request was not read: its bytes are not a message.
TEST(PublicServerTest, AFullQueueRefusesRequestsUnread) {
  const ApiServer server(EngineOptions{.max_waiting = {}});
  const grpc::Status status = server.call(kGeneration + "Generate", "\x0a\x7f").status;
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_NE(status.error_message().find("queue is full"), std::string::npos);
}

// HTTP/2's flow-control windows bound what is sent before the client reads, and the engine bounds
// what the stream keeps.
TEST(PublicServerTest, AReaderThatNeverReadsIsCutOffWithTheReason) {
  ApiServer server(EngineOptions{.max_unread_bytes = 4096}, /*pages=*/1024);
  v1::GenerateRequest request = story(1000);
  request.set_n(8);
  request.set_logprobs(20);
  grpc::ChannelArguments arguments;  // The client receives 64 KiB ahead of its reader.
  arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  arguments.SetInt(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, 65535);
  const auto stub = v1::Generation::NewStub(server.new_channel(arguments));
  grpc::ClientContext context;
  const auto reader = stub->Generate(&context, request);
  const auto has_run = [&] {
    const EngineStats stats = server.engine().stats();
    return stats.completion_tokens > 0 && stats.running == 0;
  };
  while (!has_run()) std::this_thread::yield();
  for (v1::GenerateResponse response; reader->Read(&response);) {
    EXPECT_NE(response.finish_reason(), v1::LENGTH);
  }
  const grpc::Status status = reader->Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED) << status.error_message();
  EXPECT_NE(status.error_message().find("too slow"), std::string::npos) << status.error_message();
}

TEST(PublicServerTest, CallsCancelledAtAnyMomentLeakNothing) {
  ApiServer server;
  std::vector<std::thread> clients;
  for (int c = 0; c < 4; ++c) {
    clients.emplace_back([&server, c] {
      std::mt19937 random(c);
      const auto stub = v1::Generation::NewStub(server.new_channel());
      for (int i = 0; i < 125; ++i) {
        v1::GenerateRequest request = story(200);
        request.set_n(1 + random() % 3);
        grpc::ClientContext context;
        const auto reader = stub->Generate(&context, request);
        v1::GenerateResponse response;
        for (uint32_t reads = random() % 4; reads > 0; --reads) reader->Read(&response);
        context.TryCancel();
        reader->Finish();
      }
    });
  }
  for (std::thread& client : clients) client.join();
  const auto is_empty = [&] {
    const EngineStats stats = server.engine().stats();
    return stats.running == 0 && stats.waiting == 0 && stats.pages_free == stats.group.pages;
  };
  while (!is_empty()) std::this_thread::yield();
  EXPECT_TRUE(server.cluster().broken_rules().empty());
  server.expect_alive();
}

TEST(PublicServerTest, ClosingThePortEndsOpenCalls) {
  ApiServer server;
  server.cluster().set_hook([](const cluster::Step&) {
    std::this_thread::yield();
    return absl::OkStatus();
  });
  const auto stub = v1::Generation::NewStub(server.new_channel());
  grpc::ClientContext context;
  const auto reader = stub->Generate(&context, story(1000));
  v1::GenerateResponse response;
  EXPECT_TRUE(reader->Read(&response));
  server.close();
  while (reader->Read(&response)) {
  }
  reader->Finish();
}

}  // namespace
}  // namespace lockstep
