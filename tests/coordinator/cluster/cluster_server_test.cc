// SPDX-License-Identifier: Apache-2.0
// The port where workers join, over real sockets: which workers join, and the cost of refusing
// others.
#include "coordinator/cluster/cluster_server.h"

#include <gmock/gmock.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/status.h"
#include "coordinator/http/grpc/wire.h"
#include "proto/cluster.grpc.pb.h"
#include "proto/handshake.h"
#include "tests/support/files/temp_folder.h"
#include "tests/support/network/http2.h"
#include "tests/support/network/http2_client.h"
#include "tests/support/network/socket.h"

namespace lockstep {
namespace {

namespace http2 = testing::http2;
using ::testing::HasSubstr;

constexpr int64_t kMiB = 1 << 20;

// Records its events, and lets a test wait for one.
class RecordingListener final : public LinkListener {
 public:
  void on_opened(LinkId link) override { add(fmt::format("opened {}", link)); }
  void on_message(LinkId link, cluster::WorkerMessage message) override {
    add(fmt::format("message {} {}", link, message.epoch()));
  }
  void on_closed(LinkId link) override { add(fmt::format("closed {}", link)); }

  void wait_for(const std::string& event) {
    MutexLock lock(&mutex_);
    while (std::find(events_.begin(), events_.end(), event) == events_.end()) {
      changed_.wait(&mutex_);
    }
  }
  std::vector<std::string> events() {
    MutexLock lock(&mutex_);
    return events_;
  }

 private:
  void add(std::string event) {
    MutexLock lock(&mutex_);
    events_.push_back(std::move(event));
    changed_.notify_all();
  }

  Mutex mutex_;
  ConditionVariable changed_;
  std::vector<std::string> events_ ABSL_GUARDED_BY(mutex_);
};

int64_t resident_bytes() {
  std::ifstream status("/proc/self/status");
  std::string word;
  while (status >> word) {
    if (word != "VmRSS:") continue;
    int64_t kib = 0;
    status >> kib;
    return kib << 10;
  }
  return 0;
}

// A worker that the test plays.
using Stream = grpc::ClientReaderWriter<cluster::WorkerMessage, cluster::CoordinatorMessage>;
struct Join {
  grpc::ClientContext context;
  std::unique_ptr<Stream> stream;
};

class ClusterServerTest : public ::testing::Test {
 protected:
  ClusterServerTest() {
    auto server = ClusterServer::start(
        {.address = "127.0.0.1:0", .token = "sesame", .max_message_bytes = 1 << 20}, &listener_);
    EXPECT_EQ(message_of(server.status()), "");
    server_ = std::move(*server);
    connect();
  }

  // Makes a new connection for the next calls.
  void connect() {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    channel_ = grpc::CreateCustomChannel(server_->address(), grpc::InsecureChannelCredentials(),
                                         arguments);
    stub_ = cluster::Cluster::NewStub(channel_);
  }

  cluster::ChallengeReply challenge() {
    grpc::ClientContext context;
    context.AddMetadata(kNonceMetadata, to_hex(nonce_));
    cluster::ChallengeReply reply;
    const grpc::Status status = stub_->Challenge(&context, {}, &reply);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return reply;
  }
  std::string proof(const cluster::ChallengeReply& reply, const std::string& token = "sesame") {
    return to_hex(worker_proof(token, reply.nonce(), nonce_));
  }
  std::unique_ptr<Join> join(const cluster::ChallengeReply& reply, const std::string& proof) {
    auto join = std::make_unique<Join>();
    join->context.AddMetadata(kNonceMetadata, to_hex(reply.nonce()));
    join->context.AddMetadata(kWorkerNonceMetadata, to_hex(nonce_));
    if (!proof.empty()) join->context.AddMetadata(kProofMetadata, proof);
    join->stream = stub_->Join(&join->context);
    return join;
  }
  std::unique_ptr<Join> join() {
    const cluster::ChallengeReply reply = challenge();
    return join(reply, proof(reply));
  }
  // The head of a Join call, with a new proof.
  http2::Headers join_head() {
    const cluster::ChallengeReply reply = challenge();
    return {{"content-type", "application/grpc"},
            {"te", "trailers"},
            {kNonceMetadata, to_hex(reply.nonce())},
            {kWorkerNonceMetadata, to_hex(nonce_)},
            {kProofMetadata, proof(reply)}};
  }
  static cluster::WorkerMessage message(uint64_t epoch) {
    cluster::WorkerMessage message;
    message.set_epoch(epoch);
    return message;
  }
  // Epoch 3.
  static cluster::WorkerMessage large_message(size_t bytes) {
    cluster::WorkerMessage large = message(3);
    large.mutable_logits()->set_logits(std::string(bytes, 'x'));
    return large;
  }

  const std::string nonce_ = draw_nonce();
  RecordingListener listener_;
  std::unique_ptr<ClusterServer> server_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<cluster::Cluster::Stub> stub_;
};

TEST_F(ClusterServerTest, AWorkerThatKnowsTheTokenJoinsAndMessagesGoBothWays) {
  const cluster::ChallengeReply reply = challenge();
  EXPECT_EQ(reply.proof(), coordinator_proof("sesame", nonce_, reply.nonce()));
  const auto worker = join(reply, proof(reply));
  ASSERT_TRUE(worker->stream->Write(message(7)));
  listener_.wait_for("message 1 7");
  cluster::CoordinatorMessage out;
  for (uint64_t epoch = 1; epoch <= 100; ++epoch) {
    out.set_epoch(epoch);
    server_->send({1}, out);
  }
  for (uint64_t epoch = 1; epoch <= 100; ++epoch) {
    ASSERT_TRUE(worker->stream->Read(&out));
    EXPECT_EQ(out.epoch(), epoch);
  }
  worker->stream->WritesDone();
  EXPECT_TRUE(worker->stream->Finish().ok());
  listener_.wait_for("closed 1");
}

TEST_F(ClusterServerTest, AWorkerWithAnotherTokenIsRefused) {
  const cluster::ChallengeReply reply = challenge();
  const auto worker = join(reply, proof(reply, "open"));
  const grpc::Status status = worker->stream->Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_THAT(status.error_message(), HasSubstr("join token"));
  EXPECT_TRUE(listener_.events().empty());
}

TEST_F(ClusterServerTest, AWorkerWithoutAProofIsRefused) {
  const auto worker = join(challenge(), "");
  EXPECT_EQ(worker->stream->Finish().error_code(), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_TRUE(listener_.events().empty());
}

TEST_F(ClusterServerTest, AReplayedNonceIsRefused) {
  const cluster::ChallengeReply reply = challenge();
  const auto worker = join(reply, proof(reply));
  ASSERT_TRUE(worker->stream->Write(message(1)));
  listener_.wait_for("message 1 1");
  const auto replay = join(reply, proof(reply));
  EXPECT_EQ(replay->stream->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(listener_.events().size(), 2u);
  worker->context.TryCancel();
}

// Challenge needs no token. A new challenge used to close an old one, so that a flood of challenges
// kept workers out.
TEST_F(ClusterServerTest, ManyChallengesInvalidateNoOlderOne) {
  const cluster::ChallengeReply oldest = challenge();
  for (int i = 0; i < 200; ++i) {
    if (i % 3 == 0) connect();
    challenge();
  }
  const auto worker = join(oldest, proof(oldest));
  ASSERT_TRUE(worker->stream->Write(message(1)));
  listener_.wait_for("message 1 1");
  worker->context.TryCancel();
}

// A call that sends a message, or nothing, and waits for its end.
class EndedCall {
 public:
  EndedCall(const std::shared_ptr<grpc::Channel>& channel, const char* method,
            const grpc::ByteBuffer* message)
      : stub_(channel), stream_(stub_.PrepareCall(&context_, method, &queue_)) {
    int tag = 0;
    stream_->StartCall(&tag);
    next();
    if (message != nullptr) {
      stream_->Write(*message, &tag);
      next();
    }
    stream_->Finish(&status_, &tag);
    next();
  }
  ~EndedCall() {
    queue_.Shutdown();
    EXPECT_FALSE(next());
  }

  const grpc::Status& status() const { return status_; }

 private:
  bool next() {
    void* done = nullptr;
    bool ok = false;
    return queue_.Next(&done, &ok);
  }

  grpc::GenericStub stub_;
  grpc::CompletionQueue queue_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> stream_;
  grpc::Status status_;
};

TEST_F(ClusterServerTest, AMessageOf600MegabytesBeforeTheTokenTakesNoMemory) {
  const grpc::Slice megabyte(std::string(kMiB, 'x'));
  const std::vector<grpc::Slice> slices(600, megabyte);  // All share the same bytes.
  const grpc::ByteBuffer message(slices.data(), slices.size());
  for (const char* method :
       {"/lockstep.cluster.Cluster/Join", "/lockstep.cluster.Cluster/Challenge", "/none/Such"}) {
    const int64_t before = resident_bytes();
    const EndedCall call(channel_, method, &message);
    EXPECT_FALSE(call.status().ok()) << method;
    EXPECT_LT(resident_bytes() - before, 100 * kMiB) << method;
  }
  EXPECT_TRUE(listener_.events().empty());
}

TEST_F(ClusterServerTest, NoOtherServiceIsServedOnThePort) {
  for (const char* method : {"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
                             "/grpc.health.v1.Health/Check", "/lockstep.v1.Generation/Generate"}) {
    const EndedCall call(channel_, method, nullptr);
    EXPECT_EQ(call.status().error_code(), grpc::StatusCode::UNIMPLEMENTED) << method;
  }
}

TEST_F(ClusterServerTest, AWorkersMessageBeyondTheLimitEndsItsStream) {
  const auto worker = join();
  cluster::WorkerMessage large;
  large.mutable_logits()->set_logits(std::string(2 * kMiB, 'x'));
  worker->stream->Write(large);
  listener_.wait_for("closed 1");
  EXPECT_FALSE(worker->stream->Finish().ok());
}

// A worker's stream over the test's own HTTP/2 client, which can send any bytes.
struct RawJoin {
  explicit RawJoin(const std::string& address, const http2::Headers& head)
      : client(address), stream(client.post("/lockstep.cluster.Cluster/Join", "", false, head)) {}
  void send(std::string_view bytes) { client.send_body(stream, bytes, /*is_last=*/false); }
  std::string status() { return client.wait(stream).trailers["grpc-status"]; }

  testing::Http2Client client;
  int32_t stream;
};

std::string framed(const cluster::WorkerMessage& message) {
  std::string bytes;
  append_message(message, &bytes);
  return bytes;
}

TEST_F(ClusterServerTest, AMessageIsWholeHoweverItsBytesArrive) {
  RawJoin worker(server_->address(), join_head());
  std::string bytes = framed(message(1)) + framed(message(2)) + framed(large_message(40'000));
  for (size_t at = 0; at < 20; ++at) worker.send(bytes.substr(at, 1));
  worker.send(std::string_view(bytes).substr(20));
  worker.send(framed(message(4)));
  listener_.wait_for("message 1 4");
  EXPECT_EQ(listener_.events(), (std::vector<std::string>{"opened 1", "message 1 1", "message 1 2",
                                                          "message 1 3", "message 1 4"}));
}

TEST_F(ClusterServerTest, BytesThatAreNoMessageEndTheirStreamWithTheReason) {
  const std::pair<std::string, const char*> cases[] = {
      {std::string("\0\0\0\0\3\377\377\377", 8), "3"},  // Not a message.
      {std::string("\1\0\0\0\0", 5), "12"},             // Compressed.
      {std::string("\0\1\0\0\0", 5), "8"}};             // Too large.
  LinkId link = 0;
  for (const auto& [bytes, status] : cases) {
    ++link;
    RawJoin worker(server_->address(), join_head());
    worker.send(framed(message(1)));
    listener_.wait_for(fmt::format("message {} 1", link));
    worker.send(bytes + framed(message(2)));
    EXPECT_EQ(worker.status(), status);
    listener_.wait_for(fmt::format("closed {}", link));
    EXPECT_EQ(listener_.events().back(), fmt::format("closed {}", link));
  }
}

TEST_F(ClusterServerTest, AStreamThatEndsWithinAMessageEndsWithAnError) {
  RawJoin worker(server_->address(), join_head());
  worker.client.send_body(worker.stream, framed(message(1)).substr(0, 6), /*is_last=*/true);
  EXPECT_EQ(worker.status(), "3");
  listener_.wait_for("closed 1");
}

TEST_F(ClusterServerTest, AStreamIsClosedOnceHoweverItEnds) {
  RawJoin reset(server_->address(), join_head());
  listener_.wait_for("opened 1");
  RawJoin ended(server_->address(), join_head());
  listener_.wait_for("opened 2");
  auto gone = std::make_unique<RawJoin>(server_->address(), join_head());
  listener_.wait_for("opened 3");
  reset.client.reset(reset.stream);
  listener_.wait_for("closed 1");
  ended.client.send_body(ended.stream, "", /*is_last=*/true);
  EXPECT_EQ(ended.status(), "0");
  gone.reset();
  listener_.wait_for("closed 3");
  server_->close(1, /*after_sending=*/false);
  server_->close(2, /*after_sending=*/true);
  server_->send({1, 2, 3}, {});
  server_.reset();
  EXPECT_EQ(listener_.events().size(), 6U);
}

TEST_F(ClusterServerTest, TheServerSaysGoodbyeWhenItEnds) {
  RawJoin worker(server_->address(), join_head());
  listener_.wait_for("opened 1");
  server_.reset();
  EXPECT_EQ(worker.status(), "14");  // UNAVAILABLE: another try may help.
  worker.client.wait_until_closed();
  EXPECT_TRUE(worker.client.is_going_away());
}

TEST_F(ClusterServerTest, MessagesSentBeforeAStreamIsClosedArrive) {
  const auto worker = join();
  ASSERT_TRUE(worker->stream->Write(message(1)));
  listener_.wait_for("message 1 1");
  cluster::CoordinatorMessage refusal;
  refusal.mutable_refusal()->set_reason("no");
  server_->send({1}, refusal);
  server_->close(1, /*after_sending=*/true);
  cluster::CoordinatorMessage received;
  ASSERT_TRUE(worker->stream->Read(&received));
  EXPECT_EQ(received.refusal().reason(), "no");
  EXPECT_FALSE(worker->stream->Read(&received));
  EXPECT_TRUE(worker->stream->Finish().ok());
}

TEST_F(ClusterServerTest, AStreamThatIsCutEndsThoughItsPeerReadsNothing) {
  const auto worker = join();
  ASSERT_TRUE(worker->stream->Write(message(1)));
  listener_.wait_for("message 1 1");
  cluster::CoordinatorMessage large;
  large.mutable_assignment()->set_checkpoint(std::string(16 * kMiB, 'x'));
  server_->send({1}, large);
  server_->close(1, /*after_sending=*/false);
  listener_.wait_for("closed 1");
  worker->context.TryCancel();
}

TEST_F(ClusterServerTest, TheServerEndsWithStreamsOpen) {
  const auto worker = join();
  ASSERT_TRUE(worker->stream->Write(message(1)));
  listener_.wait_for("message 1 1");
  server_.reset();
  EXPECT_FALSE(worker->stream->Finish().ok());
  EXPECT_EQ(listener_.events().back(), "closed 1");
}

class FewDescriptors {
 public:
  FewDescriptors() {
    getrlimit(RLIMIT_NOFILE, &before_);
    const rlimit few = {.rlim_cur = 512, .rlim_max = before_.rlim_max};
    EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  }
  ~FewDescriptors() { setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_ = {};
};

TEST_F(ClusterServerTest, AWorkersMessagesPassWhileStrangersSendFramesWithoutEnd) {
  const auto worker = join();
  const std::string update = http2::frame(http2::kWindowUpdate, 0, 0, http2::big_endian(1, 4));
  std::string frames;
  while (frames.size() < 1 << 16) frames += update;
  std::atomic<bool> stop{false};
  std::vector<std::thread> strangers;
  strangers.reserve(3);
  for (int i = 0; i < 3; ++i) {
    strangers.emplace_back([&] {
      const testing::Socket stranger(server_->address());
      stranger.send(http2::preface());
      while (!stop && stranger.send(frames)) {
      }
    });
  }
  for (uint64_t epoch = 1; epoch <= 200; ++epoch) {
    ASSERT_TRUE(worker->stream->Write(message(epoch)));
    listener_.wait_for(fmt::format("message 1 {}", epoch));
  }
  const auto newcomer = join();
  ASSERT_TRUE(newcomer->stream->Write(message(1)));
  listener_.wait_for("message 2 1");
  stop = true;
  worker->context.TryCancel();
  newcomer->context.TryCancel();
  for (std::thread& stranger : strangers) stranger.join();
}

// With this many descriptors, the port accepts 64 connections.
class CrowdedClusterServerTest : FewDescriptors, public ClusterServerTest {};

TEST_F(CrowdedClusterServerTest, SilentConnectionsKeepNoWorkerOut) {
  const auto worker = join();
  ASSERT_TRUE(worker->stream->Write(message(1)));
  listener_.wait_for("message 1 1");
  std::vector<testing::Socket> strangers;
  strangers.reserve(150);
  for (int i = 0; i < 150; ++i) strangers.emplace_back(server_->address());
  connect();
  const auto newcomer = join();
  ASSERT_TRUE(newcomer->stream->Write(message(2)));
  listener_.wait_for("message 2 2");
  ASSERT_TRUE(worker->stream->Write(message(3)));
  listener_.wait_for("message 1 3");
  worker->context.TryCancel();
  newcomer->context.TryCancel();
}

TEST(ClusterServerAddressTest, ATakenPortIsAnErrorThatNamesIt) {
  RecordingListener listener;
  const auto first = ClusterServer::start({.address = "127.0.0.1:0", .token = "sesame"}, &listener);
  ASSERT_EQ(message_of(first.status()), "");
  const auto second =
      ClusterServer::start({.address = (*first)->address(), .token = "sesame"}, &listener);
  EXPECT_EQ(second.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(message_of(second.status()), HasSubstr((*first)->address()));
}

TEST(ClusterServerAddressTest, AUnixSocketServesAsWell) {
  RecordingListener listener;
  const TempFolder folder;
  const auto server = ClusterServer::start(
      {.address = "unix:" + (folder.path() / "cluster").string(), .token = "sesame"}, &listener);
  ASSERT_EQ(message_of(server.status()), "");
  const auto stub = cluster::Cluster::NewStub(
      grpc::CreateChannel((*server)->address(), grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  context.AddMetadata(kNonceMetadata, to_hex(draw_nonce()));
  cluster::ChallengeReply reply;
  EXPECT_TRUE(stub->Challenge(&context, {}, &reply).ok());
  EXPECT_EQ(reply.nonce().size(), kNonceBytes);
}

}  // namespace
}  // namespace lockstep
