// SPDX-License-Identifier: Apache-2.0
// The threads around ClusterCore, with fake streams and processes. Without gRPC, ThreadSanitizer
// sees all of the code.
#include "coordinator/cluster/remote_cluster.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <deque>
#include <set>
#include <thread>

#include "base/status.h"
#include "tests/coordinator/cluster/virtual_cluster.h"

namespace lockstep::testing {
namespace {

using ::testing::HasSubstr;

// Fake workers: a thread takes the messages that were sent, and answers them.
class FakeTransport final : public WorkerTransport {
 public:
  explicit FakeTransport(RemoteCluster* cluster) : cluster_(cluster), thread_([this] { run(); }) {}
  ~FakeTransport() override {
    {
      MutexLock lock(&mutex_);
      stopping_ = true;
      changed_.notify_all();
    }
    thread_.join();
  }

  void join(LinkId link) {
    cluster_->on_opened(link);
    cluster::WorkerMessage message;
    *message.mutable_hello() = VirtualCluster::default_hello();
    message.mutable_hello()->set_pid(static_cast<int32_t>(link));
    cluster_->on_message(link, std::move(message));
    MutexLock lock(&mutex_);
    open_.insert(link);
  }
  void hang_up(LinkId link) {
    {
      MutexLock lock(&mutex_);
      open_.erase(link);
    }
    cluster_->on_closed(link);
  }
  // While stalled, steps and fetches of logits get no answer.
  void stall(bool stalled = true) {
    MutexLock lock(&mutex_);
    stalled_ = stalled;
  }

  void send(const std::vector<LinkId>& links, const cluster::CoordinatorMessage& message) override {
    MutexLock lock(&mutex_);
    for (const LinkId link : links) mail_.emplace_back(link, message);
    changed_.notify_all();
  }
  void close(LinkId link, bool) override {
    MutexLock lock(&mutex_);
    open_.erase(link);
  }

 private:
  void run() {
    auto next_beat = std::chrono::steady_clock::now();
    while (true) {
      std::deque<std::pair<LinkId, cluster::CoordinatorMessage>> mail;
      std::set<LinkId> open;
      {
        MutexLock lock(&mutex_);
        while (!stopping_ && mail_.empty() && changed_.wait_until(&mutex_, next_beat)) {
        }
        if (stopping_) return;
        mail = std::exchange(mail_, {});
        open = open_;
      }
      for (const auto& [link, message] : mail) answer(link, message);
      if (std::chrono::steady_clock::now() < next_beat) continue;
      next_beat = std::chrono::steady_clock::now() + std::chrono::milliseconds(50);
      cluster::WorkerMessage heartbeat;
      heartbeat.mutable_heartbeat();
      for (const LinkId link : open) cluster_->on_message(link, heartbeat);
    }
  }

  void answer(LinkId link, const cluster::CoordinatorMessage& message) {
    cluster::WorkerMessage reply;
    reply.set_epoch(message.epoch());
    if (message.has_assignment()) {
      reply.mutable_ready()->set_pages(10);
    } else if (message.has_step()) {
      MutexLock lock(&mutex_);
      if (stalled_) return;
      reply.mutable_result()->set_step(message.step().step());
    } else if (message.has_logits()) {
      MutexLock lock(&mutex_);
      if (stalled_) return;
      reply.mutable_logits()->set_step(message.logits().step());
      reply.mutable_logits()->set_output(message.logits().output());
      reply.mutable_logits()->set_logits(std::string(64 * sizeof(float), '\0'));
    } else {
      return;
    }
    cluster_->on_message(link, std::move(reply));
  }

  RemoteCluster* const cluster_;
  Mutex mutex_;
  ConditionVariable changed_;
  std::deque<std::pair<LinkId, cluster::CoordinatorMessage>> mail_ ABSL_GUARDED_BY(mutex_);
  std::set<LinkId> open_ ABSL_GUARDED_BY(mutex_);
  bool stalled_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

// Long time limits for silent and stuck workers: other processes may delay this one.
ClusterCoreOptions patient_options() {
  ClusterCoreOptions options = VirtualCluster::default_options();
  options.silent_ms = options.stuck_ms = 600'000;
  return options;
}

class RemoteClusterTest : public ::testing::Test {
 protected:
  RemoteClusterTest() { cluster_.run(&transport_, nullptr); }
  ~RemoteClusterTest() override { cluster_.stop(); }

  std::unique_ptr<Group> form() {
    transport_.join(++last_link_);
    transport_.join(++last_link_);
    auto group = cluster_.form({});
    EXPECT_EQ(message_of(group.status()), "");
    return group.ok() ? std::move(*group) : nullptr;
  }
  static cluster::Step step(uint64_t number) {
    cluster::Step step;
    step.set_step(number);
    return step;
  }

  RemoteCluster cluster_{patient_options(), nullptr};
  FakeTransport transport_{&cluster_};
  LinkId last_link_ = 0;
};

TEST_F(RemoteClusterTest, AGroupRunsSteps) {
  const std::unique_ptr<Group> group = form();
  while (!cluster_.healthy()) std::this_thread::yield();  // Other processes may delay this one.
  for (uint64_t number = 1; number <= 300; ++number) {
    const auto results = group->run(step(number));
    ASSERT_EQ(message_of(results.status()), "");
    ASSERT_EQ(results->size(), 2u);
    EXPECT_EQ((*results)[1].step(), number);
  }
  ASSERT_EQ(message_of(group->ask_logits(300, 0)), "");
  const auto logits = group->receive_logits(INT64_MAX);
  ASSERT_EQ(message_of(logits.status()), "");
  EXPECT_EQ((*logits)->size(), 128u);
}

TEST_F(RemoteClusterTest, ARunningStepEndsWhenAWorkerIsLostAndTheNextGroupIsFormed) {
  for (int round = 0; round < 20; ++round) {
    std::unique_ptr<Group> group = form();
    std::thread killer([&] { transport_.hang_up(last_link_); });
    absl::Status status;
    for (uint64_t number = 1; status.ok(); ++number) status = group->run(step(number)).status();
    killer.join();
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
    EXPECT_THAT(message_of(status), HasSubstr("was lost"));
    EXPECT_EQ(group->run(step(1)).status(), status);
    transport_.hang_up(last_link_ - 1);
  }
}

TEST_F(RemoteClusterTest, AFetchOfLogitsEndsWhenAWorkerIsLostAndTheNextGroupIsFormed) {
  for (int round = 0; round < 20; ++round) {
    std::unique_ptr<Group> group = form();
    ASSERT_EQ(message_of(group->run(step(1)).status()), "");
    transport_.stall();
    ASSERT_EQ(message_of(group->ask_logits(1, 0)), "");
    const auto early = group->receive_logits(0);
    ASSERT_TRUE(early.ok() && !early->has_value());
    std::thread killer([&] { transport_.hang_up(last_link_); });
    const absl::Status status = group->receive_logits(INT64_MAX).status();
    killer.join();
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
    EXPECT_THAT(message_of(status), HasSubstr("was lost"));
    EXPECT_EQ(group->ask_logits(1, 0), status);
    transport_.stall(false);
    transport_.hang_up(last_link_ - 1);
  }
}

TEST_F(RemoteClusterTest, AnAbortFromAnotherThreadEndsAStep) {
  const std::unique_ptr<Group> group = form();
  transport_.stall();
  std::thread aborter([&] { group->abort(); });
  EXPECT_EQ(group->run(step(1)).status().code(), absl::StatusCode::kCancelled);
  aborter.join();
  EXPECT_FALSE(cluster_.healthy());
}

TEST_F(RemoteClusterTest, ShutdownEndsFormingAndSteps) {
  std::thread ender([&] { cluster_.shutdown(); });
  EXPECT_EQ(cluster_.form({}).status().code(), absl::StatusCode::kCancelled);
  ender.join();
  EXPECT_EQ(cluster_.form({}).status().code(), absl::StatusCode::kCancelled);
}

// Counts the requests to start and to kill processes.
class FakeProcesses final : public WorkerProcesses {
 public:
  void start(int) override { ++started; }
  void kill(int) override { ++killed; }
  std::atomic<int> started{0};
  std::atomic<int> killed{0};
};

TEST(RemoteClusterProcessesTest, WorkersAreStartedWithoutARequestForAGroup) {
  ClusterCoreOptions options = patient_options();
  options.launch = true;
  RemoteCluster cluster(options, nullptr);
  FakeTransport transport(&cluster);
  FakeProcesses processes;
  cluster.run(&transport, &processes);
  while (processes.started < 2) std::this_thread::yield();
  for (int death = 0; death < 5; ++death) {
    cluster.on_started(0, 100 + death);
    cluster.on_exited(0, {.how = "exit code 2"});
  }
  const absl::Status status = cluster.form({}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(message_of(status), HasSubstr("worker 0 died 5 times"));
  cluster.stop();
}

}  // namespace
}  // namespace lockstep::testing
