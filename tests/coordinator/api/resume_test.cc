// SPDX-License-Identifier: Apache-2.0
// Resumable calls of the public port: after a call is gone its messages can be read again.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <thread>

#include "tests/coordinator/api/api_server.h"
#include "tests/support/patience.h"

namespace lockstep {
namespace {

v1::GenerateRequest story(const std::string& id, int32_t max_tokens = 20, int32_t n = 2) {
  v1::GenerateRequest request;
  request.set_prompt("Once upon a time");
  request.set_max_tokens(max_tokens);
  request.set_ignore_eos(true);
  request.set_seed(1);
  request.set_n(n);
  request.set_resumable(true);
  request.set_request_id(id);
  return request;
}

struct Read {
  std::vector<v1::GenerateResponse> messages;
  grpc::Status status;

  // The bytes of all messages.
  std::string bytes() const {
    std::string all;
    for (const v1::GenerateResponse& message : messages) all += message.SerializeAsString();
    return all;
  }
};

// Reads a call's messages, and hangs up after `messages` of them.
template <typename Reader>
Read read(Reader& reader, grpc::ClientContext& context, size_t messages = SIZE_MAX) {
  Read read;
  v1::GenerateResponse response;
  while (read.messages.size() < messages && reader.Read(&response)) {
    read.messages.push_back(response);
  }
  if (read.messages.size() == messages) context.TryCancel();
  read.status = reader.Finish();
  return read;
}

Read generate(ApiServer& server, const v1::GenerateRequest& request, size_t messages = SIZE_MAX) {
  grpc::ClientContext context;
  return read(*server.stub().Generate(&context, request), context, messages);
}

Read resume(ApiServer& server, const std::string& id, uint64_t from, size_t messages = SIZE_MAX) {
  v1::ResumeRequest request;
  request.set_request_id(id);
  request.set_from(from);
  grpc::ClientContext context;
  return read(*server.stub().Resume(&context, request), context, messages);
}

TEST(ResumeTest, ACallClosedAtAnyMessageIsCompletedByResume) {
  ApiServer server;
  const Read uncut = generate(server, story("uncut"));
  EXPECT_TRUE(uncut.status.ok()) << uncut.status.error_message();
  ASSERT_EQ(uncut.messages.size(), 40u);
  for (size_t i = 0; i < uncut.messages.size(); ++i) EXPECT_EQ(uncut.messages[i].offset(), i);
  for (size_t closed = 0; closed <= uncut.messages.size(); ++closed) {
    const std::string id = "closed-" + std::to_string(closed);
    Read first = closed == 0 ? Read{} : generate(server, story(id), closed);
    if (closed == 0) generate(server, story(id));
    const Read rest = resume(server, id, closed);
    EXPECT_TRUE(rest.status.ok()) << rest.status.error_message();
    first.messages.insert(first.messages.end(), rest.messages.begin(), rest.messages.end());
    for (v1::GenerateResponse& message : first.messages) message.set_request_id("uncut");
    // The cached tokens depend on earlier requests, the answer does not.
    for (v1::GenerateResponse& message : first.messages) {
      if (message.has_usage()) message.mutable_usage()->set_cached_tokens(0);
    }
    EXPECT_EQ(first.bytes(), uncut.bytes()) << closed;
  }
}

TEST(ResumeTest, ErrorsSayWhatIsWrong) {
  ApiServer server;
  generate(server, story("story"));
  EXPECT_EQ(generate(server, story("story")).status.error_code(), grpc::StatusCode::ALREADY_EXISTS);
  EXPECT_EQ(generate(server, story("a/b")).status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(generate(server, story("")).status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(resume(server, "nobody", 0).status.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(resume(server, "", 0).status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_TRUE(resume(server, "story", 40).status.ok());
  EXPECT_TRUE(resume(server, "story", 41).status.ok());
  EXPECT_EQ(resume(server, "story", 42).status.error_code(), grpc::StatusCode::OUT_OF_RANGE);
  EXPECT_EQ(resume(server, "story", UINT64_MAX).status.error_code(),
            grpc::StatusCode::OUT_OF_RANGE);
  v1::GenerateRequest drawn = story("");
  drawn.clear_request_id();
  const Read read = generate(server, drawn);
  ASSERT_FALSE(read.messages.empty());
  const std::string id = read.messages[0].request_id();
  EXPECT_GE(id.size(), 32u);
  EXPECT_EQ(resume(server, id, 0).bytes(), read.bytes());
}

grpc::StatusCode cancel(ApiServer& server, const std::string& id) {
  v1::CancelRequest request;
  request.set_request_id(id);
  v1::CancelResponse response;
  grpc::ClientContext context;
  return server.stub().Cancel(&context, request, &response).error_code();
}

TEST(ResumeTest, CancellingARequestEndsItForEveryReader) {
  ApiServer server;
  StepGate gate(server.cluster());
  Read whole;
  std::thread reader([&] { whole = generate(server, story("story", 1000)); });
  EXPECT_TRUE(becomes_true([&] { return server.engine().stats().running > 0; }));
  EXPECT_EQ(cancel(server, "story"), grpc::StatusCode::OK);
  gate.open();
  reader.join();
  EXPECT_TRUE(whole.status.ok()) << whole.status.error_message();
  ASSERT_FALSE(whole.messages.empty());
  EXPECT_EQ(whole.messages.back().finish_reason(), v1::CANCELLED);
  EXPECT_EQ(resume(server, "story", 0).bytes(), whole.bytes());
  EXPECT_EQ(cancel(server, "story"), grpc::StatusCode::OK) << "it has ended";
  EXPECT_EQ(cancel(server, "nobody"), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(cancel(server, ""), grpc::StatusCode::INVALID_ARGUMENT);
}

TEST(ResumeTest, AnExpiredStreamIsOutOfRange) {
  ApiServer server({}, 64, {.after_end_ms = 0});
  generate(server, story("story"), 1);
  EXPECT_TRUE(becomes_true([&] { return server.resumable().counts().streams == 0; }));
  const Read gone = resume(server, "story", 0);
  EXPECT_EQ(gone.status.error_code(), grpc::StatusCode::OUT_OF_RANGE);
  EXPECT_EQ(cancel(server, "story"), grpc::StatusCode::OUT_OF_RANGE);
  EXPECT_NE(gone.status.error_message().find("no longer kept"), std::string::npos);
}

TEST(ResumeTest, ReadersThatHangUpMakeRoomForOthersAndTheRequestRunsOn) {
  ApiServer server;
  StepGate gate(server.cluster());
  // The deadline ends a call, but not a request that has begun. So it is doubled until a request
  // begins in time.
  std::string id;
  for (int ms = 100; server.resumable().counts().streams == 0; ms *= 2) {
    id = fmt::format("within-{}-ms", ms);
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(ms));
    const auto reader = server.stub().Generate(&context, story(id));
    EXPECT_EQ(read(*reader, context).status.error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  }
  v1::ResumeRequest request;
  request.set_request_id(id);
  request.set_from(1000);
  for (int round = 0; round < 4; ++round) {
    for (size_t i = 0; i < kMaxLogReaders; ++i) {
      grpc::ClientContext gone;
      const auto waits = server.stub().Resume(&gone, request);
      gone.TryCancel();
      EXPECT_EQ(waits->Finish().error_code(), grpc::StatusCode::CANCELLED);
    }
  }
  gate.open();
  EXPECT_TRUE(becomes_true([&] { return resume(server, id, 0).messages.size() == 40; }));
}

TEST(ResumeTest, AResumerThatNeverReadsDelaysNoOther) {
  ApiServer server({}, /*pages=*/1024, {.max_bytes = 600 << 10});
  v1::ResumeRequest request;
  request.set_request_id("story");
  v1::GenerateRequest large = story("story", 600, 2);
  large.set_logprobs(20);
  generate(server, large, 1);
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  arguments.SetInt(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, 65535);
  const auto stub = v1::Generation::NewStub(server.new_channel(arguments));
  grpc::ClientContext context;
  const auto slow = stub->Resume(&context, request);
  slow->WaitForInitialMetadata();
  EXPECT_TRUE(becomes_true([&] { return server.engine().stats().running == 0; }));
  EXPECT_LE(server.resumable().counts().bytes, 600 << 10);
  v1::GenerateRequest other = story("other", 600, 2);
  other.set_logprobs(20);
  generate(server, other, 1);  // No memory is left for its stream: the stream "story" is removed.
  EXPECT_TRUE(becomes_true([&] {
    return resume(server, "story", 0).status.error_code() == grpc::StatusCode::OUT_OF_RANGE;
  }));
  const Read rest = read(*slow, context);
  EXPECT_EQ(rest.status.error_code(), grpc::StatusCode::OUT_OF_RANGE) << rest.messages.size();
  server.expect_alive();
}

TEST(ResumeTest, ClosingThePortEndsWaitingReaders) {
  ApiServer server;
  generate(server, story("story", 1000), 1);
  v1::ResumeRequest request;
  request.set_request_id("story");
  request.set_from(1);
  const auto stub = v1::Generation::NewStub(server.new_channel());
  grpc::ClientContext context;
  const auto reader = stub->Resume(&context, request);
  v1::GenerateResponse response;
  EXPECT_TRUE(reader->Read(&response));
  EXPECT_EQ(response.offset(), 1u);
  server.close();
  while (reader->Read(&response)) {
  }
  reader->Finish();
}

}  // namespace
}  // namespace lockstep
