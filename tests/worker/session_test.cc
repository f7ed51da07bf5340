// SPDX-License-Identifier: Apache-2.0
// A worker's connection, as a coordinator of the test's own sees it.
#include "worker/session.h"

#include <gtest/gtest.h>

#include <functional>

#include "absl/time/clock.h"
#include "base/status.h"
#include "tests/support/late_device.h"
#include "tests/support/steps.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tiny_program.h"
#include "tests/support/wrapped_device.h"

namespace lockstep {
namespace {

using CoordinatorStream =
    grpc::ServerReaderWriter<cluster::CoordinatorMessage, cluster::WorkerMessage>;

// Forms a group of the one worker that comes, runs steps until `go_on` wants no more or the worker
// fails, and closes the stream.
class Coordinator final : public cluster::Cluster::Service {
 public:
  explicit Coordinator(std::function<bool(int step)> go_on) : go_on_(std::move(go_on)) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort(address(), grpc::InsecureServerCredentials());
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  ~Coordinator() override { server_->Shutdown(); }

  std::string address() const { return "unix:" + (folder_.path() / "coordinator").string(); }
  // What the worker said of its failure, if it did, once it has hung up.
  std::string failure() {
    server_->Shutdown();
    return failure_;
  }

  grpc::Status Join(grpc::ServerContext*, CoordinatorStream* stream) override {
    cluster::WorkerMessage message;
    cluster::CoordinatorMessage order;
    order.set_epoch(1);
    stream->Read(&message);  // Hello.
    cluster::Assignment& assignment = *order.mutable_assignment();
    *assignment.mutable_program() = layer_program();
    assignment.mutable_program()->set_numeric_class(message.hello().numeric_class());
    assignment.set_random_weights(true);
    assignment.set_max_pages(4);
    assignment.set_group("a-test-group");
    assignment.set_collective_timeout_ms(10000);
    stream->Write(order);
    do {
      if (!stream->Read(&message)) return grpc::Status::OK;
      failure_ = message.failure().message();
    } while (message.has_progress());
    order.mutable_start()->set_pages(message.ready().pages());
    stream->Write(order);
    for (int number = 1; failure_.empty() && go_on_(number); ++number) {
      *order.mutable_step() = {};
      order.mutable_step()->set_step(number);
      add_rows(*order.mutable_step(), {3, 9}, 0, {0});
      stream->Write(order);
      absl::SleepFor(absl::Milliseconds(50));  // Slow to listen: an answer has to wait for it.
      if (!stream->Read(&message)) break;
      failure_ = message.failure().message();
    }
    return grpc::Status::OK;
  }

 private:
  const std::function<bool(int step)> go_on_;
  const TempFolder folder_;
  std::unique_ptr<grpc::Server> server_;
  std::string failure_;
};

class FaultyDevice final : public WrappedDevice {
 public:
  FaultyDevice() : WrappedDevice(std::move(late_backend().device)) {}
  const char* synchronize() override {
    const char* failure = WrappedDevice::synchronize();
    return fault.load() ? "an illegal address" : failure;
  }
  std::atomic<bool> fault{false};
};

// What became of a worker on a device that fails in step `faulty_step`, if in any.
absl::Status run_worker(int faulty_step, std::string* failure) {
  auto device = std::make_unique<FaultyDevice>();
  FaultyDevice& faulty = *device;
  Backend backend = late_backend();
  // Kernels are queued where their own device is.
  backend.device = std::move(device);
  Coordinator coordinator([&](int step) {
    faulty.fault = step == faulty_step;
    return step <= 3;
  });
  KeptWorker kept;
  const WorkerMainOptions options{.coordinator = coordinator.address()};
  absl::Status status = Session(options, backend, &kept).run();
  *failure = coordinator.failure();
  faulty.fault = false;
  return status;
}

TEST(SessionTest, EndsWellWhenTheCoordinatorGoes) {
  std::string failure;
  EXPECT_EQ(message_of(run_worker(0, &failure)), "");
  EXPECT_EQ(failure, "");
}

TEST(SessionTest, AWorkerWhoseDeviceFailedSaysSoAndEndsItsProcess) {
  std::string failure;
  const absl::Status status = run_worker(2, &failure);
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_EQ(message_of(status), "late device: an illegal address");
  EXPECT_EQ(failure, "rank 0: late device: an illegal address");
}

}  // namespace
}  // namespace lockstep
