// SPDX-License-Identifier: Apache-2.0
// A worker's connection over gRPC to a coordinator in the test.
#include "worker/session/grpc_link.h"

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "base/status.h"
#include "proto/cluster.grpc.pb.h"
#include "proto/handshake.h"
#include "tests/support/devices/late_device.h"
#include "tests/support/devices/wrapped_device.h"
#include "tests/support/files/temp_folder.h"
#include "tests/support/steps.h"
#include "tests/support/tiny_program.h"
#include "worker/session/session.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;
using CoordinatorStream =
    grpc::ServerReaderWriter<cluster::CoordinatorMessage, cluster::WorkerMessage>;

std::string metadata(const grpc::ServerContext& context, const char* key) {
  const auto found = context.client_metadata().find(key);
  if (found == context.client_metadata().end()) return "";
  return from_hex(std::string(found->second.data(), found->second.size())).value_or("");
}

// Answers challenges, and passes the streams of workers that know the token to serve().
class TestServer : public cluster::Cluster::Service {
 public:
  explicit TestServer(std::string token) : token_(std::move(token)) {}
  void begin() {
    grpc::ServerBuilder builder;
    builder.AddListeningPort(address(), grpc::InsecureServerCredentials());
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  void end() { server_->Shutdown(); }
  std::string address() const { return "unix:" + (folder_.path() / "coordinator").string(); }

  grpc::Status Challenge(grpc::ServerContext* context, const cluster::ChallengeRequest*,
                         cluster::ChallengeReply* reply) override {
    const std::lock_guard lock(mutex_);
    const std::string worker_nonce = metadata(*context, kNonceMetadata);
    EXPECT_EQ(worker_nonce.size(), kNonceBytes);
    EXPECT_TRUE(seen_.insert(worker_nonce).second) << "a nonce was sent twice";
    const std::string nonce = draw_nonce();
    worker_nonces_[nonce] = worker_nonce;
    reply->set_nonce(nonce);
    reply->set_proof(coordinator_proof(token_, worker_nonce, nonce));
    return grpc::Status::OK;
  }

  grpc::Status Join(grpc::ServerContext* context, CoordinatorStream* stream) override {
    {
      const std::lock_guard lock(mutex_);
      const std::string nonce = metadata(*context, kNonceMetadata);
      EXPECT_TRUE(worker_nonces_.contains(nonce)) << "not one of our challenges";
      EXPECT_EQ(metadata(*context, kWorkerNonceMetadata), worker_nonces_[nonce]);
      EXPECT_EQ(metadata(*context, kProofMetadata),
                worker_proof(token_, nonce, worker_nonces_[nonce]));
    }
    for (const auto& [key, value] : context->client_metadata()) {
      EXPECT_EQ(std::string(value.data(), value.size()).find("the token"), std::string::npos);
    }
    return serve(stream);
  }
  virtual grpc::Status serve(CoordinatorStream*) { return grpc::Status::OK; }

 private:
  const std::string token_;
  const TempFolder folder_;
  std::unique_ptr<grpc::Server> server_;
  std::mutex mutex_;
  std::map<std::string, std::string> worker_nonces_;  // By the server's nonce: joins may overlap.
  std::set<std::string> seen_;
};

constexpr char kToken[] = "the token";

// Forms a group with the one worker that connects, runs steps until go_on() returns false or the
// worker fails, and closes the stream.
class Coordinator final : public TestServer {
 public:
  explicit Coordinator(std::function<bool(int step)> go_on)
      : TestServer(kToken), go_on_(std::move(go_on)) {
    begin();
  }
  ~Coordinator() override { end(); }

  // Waits until the worker has hung up; returns the failure that the worker sent, or "".
  std::string failure() {
    end();
    return failure_;
  }

  grpc::Status serve(CoordinatorStream* stream) override {
    cluster::WorkerMessage message;
    cluster::CoordinatorMessage order;
    order.set_epoch(1);
    stream->Read(&message);
    EXPECT_TRUE(message.has_hello());
    EXPECT_EQ(message.SerializeAsString().find(kToken), std::string::npos);
    EXPECT_EQ(message.hello().protocol(), kProtocolVersion);
    assign(message.hello(), *order.mutable_assignment());
    stream->Write(order);
    if (!next(stream, &message)) return grpc::Status::OK;
    order.mutable_start()->set_pages(message.ready().pages());
    stream->Write(order);
    for (int number = 1; failure_.empty() && go_on_(number); ++number) {
      *order.mutable_step() = {};
      order.mutable_step()->set_step(number);
      add_rows(*order.mutable_step(), {3, 9}, 0, {0});
      stream->Write(order);
      if (!next(stream, &message)) break;
    }
    return grpc::Status::OK;
  }

 private:
  static void assign(const cluster::Hello& hello, cluster::Assignment& assignment) {
    *assignment.mutable_program() = layer_program();
    assignment.mutable_program()->set_numeric_class(hello.numeric_class());
    assignment.set_random_weights(true);
    assignment.set_max_pages(4);
    assignment.set_group("a-test-group");
    assignment.add_hosts(hello.host());
    assignment.add_devices(hello.device());
    assignment.set_collective_timeout_ms(10000);
  }
  bool next(CoordinatorStream* stream, cluster::WorkerMessage* message) {
    do {
      if (!stream->Read(message)) return false;
    } while (message->has_progress() || message->has_heartbeat());
    if (message->has_failure()) failure_ = message->failure().message();
    return true;
  }

  const std::function<bool(int step)> go_on_;
  std::string failure_;
};

// Runs a worker that dials `address`; returns how its session ended.
absl::Status run_session(const std::string& address, const std::string& token,
                         const Backend& backend) {
  const WorkerProcessOptions options{.token = token, .threads = 1, .weight_cache = "off"};
  PersistentWorker persistent;
  auto link = dial({.coordinator = address, .token = token}, {});
  if (!link.ok()) return link.status();
  return Session(options, backend, &persistent, **link).run();
}

class FaultyDevice final : public WrappedDevice {
 public:
  FaultyDevice() : WrappedDevice(std::move(late_backend().device)) {}
  const char* synchronize() override {
    const char* failure = WrappedDevice::synchronize();
    return fault.load() ? "an illegal address" : failure;
  }
  std::atomic<bool> fault{false};
};

// Runs a worker through three steps, and returns how its session ended. Its device fails in step
// `faulty_step` if there is such a step.
absl::Status run_worker(int faulty_step, std::string* failure) {
  auto device = std::make_unique<FaultyDevice>();
  FaultyDevice& faulty = *device;
  Backend backend = late_backend();
  // Each kernel is queued on the device in its arguments, so this device may replace the table's.
  backend.device = std::move(device);
  Coordinator coordinator([&](int step) {
    faulty.fault = step == faulty_step;
    return step <= 3;
  });
  absl::Status status = run_session(coordinator.address(), kToken, backend);
  *failure = coordinator.failure();
  faulty.fault = false;
  return status;
}

TEST(GrpcLinkTest, TheSessionEndsWithoutAnErrorWhenTheCoordinatorLeaves) {
  std::string failure;
  EXPECT_EQ(message_of(run_worker(0, &failure)), "");
  EXPECT_EQ(failure, "");
}

TEST(GrpcLinkTest, AWorkerWithAFailedDeviceReportsItAndEndsItsProcess) {
  std::string failure;
  const absl::Status status = run_worker(2, &failure);
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_EQ(message_of(status), "late device: an illegal address");
  EXPECT_EQ(failure, "rank 0: late device: an illegal address");
}

// --- The handshake.

TEST(GrpcLinkTest, ACoordinatorThatDoesNotKnowTheTokenIsRefused) {
  TestServer server("another token");
  server.begin();
  const absl::Status status = dial({.coordinator = server.address(), .token = kToken}, {}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(message_of(status),
            "the coordinator does not know this worker's join token: set LOCKSTEP_JOIN_TOKEN to "
            "the same value on both sides");
  server.end();
}

TEST(GrpcLinkTest, AnEmptyTokenIsProvedLikeAnyOther) {
  TestServer server("");
  server.begin();
  EXPECT_TRUE(dial({.coordinator = server.address()}, {}).ok());
  EXPECT_TRUE(absl::IsPermissionDenied(
      dial({.coordinator = server.address(), .token = kToken}, {}).status()));
  server.end();
}

// Answers of a coordinator that refuses a worker.
class RefusingServer final : public TestServer {
 public:
  RefusingServer(grpc::Status challenge, grpc::Status join)
      : TestServer(kToken), challenge_(std::move(challenge)), join_(std::move(join)) {
    begin();
  }
  ~RefusingServer() override { end(); }
  grpc::Status Challenge(grpc::ServerContext* context, const cluster::ChallengeRequest* request,
                         cluster::ChallengeReply* reply) override {
    if (!challenge_.ok()) return challenge_;
    return TestServer::Challenge(context, request, reply);
  }
  grpc::Status serve(CoordinatorStream*) override { return join_; }

 private:
  const grpc::Status challenge_, join_;
};

TEST(GrpcLinkTest, ARefusedJoinNamesTheTokensVariable) {
  for (const auto code : {grpc::StatusCode::UNAUTHENTICATED, grpc::StatusCode::PERMISSION_DENIED}) {
    const RefusingServer server(grpc::Status::OK, grpc::Status(code, "this worker is unknown"));
    const absl::Status status = run_session(server.address(), kToken, cpu_backend());
    EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied);
    EXPECT_THAT(message_of(status), HasSubstr("this worker is unknown: set LOCKSTEP_JOIN_TOKEN"));
  }
}

TEST(GrpcLinkTest, ACoordinatorOfAnotherVersionIsReportedAsSuch) {
  const RefusingServer server(grpc::Status(grpc::StatusCode::UNIMPLEMENTED, ""), grpc::Status::OK);
  const absl::Status status = dial({.coordinator = server.address(), .token = kToken}, {}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(message_of(status), HasSubstr("install one version on both sides"));
}

TEST(GrpcLinkTest, ABusyOrAbsentCoordinatorIsRetried) {
  for (const auto code : {grpc::StatusCode::RESOURCE_EXHAUSTED, grpc::StatusCode::UNAVAILABLE}) {
    const RefusingServer server(grpc::Status(code, "later"), grpc::Status::OK);
    EXPECT_TRUE(
        absl::IsUnavailable(dial({.coordinator = server.address(), .token = kToken}, {}).status()));
  }
  EXPECT_TRUE(absl::IsUnavailable(dial({.coordinator = "unix:/nowhere/at/all"}, {}).status()));
}

TEST(GrpcLinkTest, DiallingEndsWhenTheWorkerIsStopped) {
  std::stop_source stop;
  stop.request_stop();
  EXPECT_TRUE(
      absl::IsCancelled(dial({.coordinator = "unix:/nowhere/at/all"}, stop.get_token()).status()));
}

}  // namespace
}  // namespace lockstep
