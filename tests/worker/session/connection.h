// SPDX-License-Identifier: Apache-2.0
// A worker with its threads, whose coordinator is the test, and the messages that the worker sends.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>

#include "base/status.h"
#include "tests/support/cluster/fake_link.h"
#include "tests/support/steps.h"
#include "worker/session/session.h"

namespace lockstep {

// A name for the ranks' rendezvous that no other test process uses.
inline std::string group_name() {
  static int groups = 0;
  return fmt::format("session-test-{}-{}", getpid(), ++groups);
}

inline cluster::CoordinatorMessage assign(uint64_t epoch, program::Program program,
                                          const std::string& group = group_name()) {
  cluster::CoordinatorMessage message;
  message.set_epoch(epoch);
  cluster::Assignment& assignment = *message.mutable_assignment();
  for (int rank = 0; rank < static_cast<int>(program.ranks()); ++rank) {
    assignment.add_hosts("here");
    assignment.add_devices("cpu");
  }
  *assignment.mutable_program() = std::move(program);
  assignment.set_random_weights(true);
  assignment.set_max_pages(4);
  assignment.set_group(group);
  assignment.set_collective_timeout_ms(60'000);
  return message;
}

inline cluster::CoordinatorMessage start(uint64_t epoch, int64_t pages = 4) {
  cluster::CoordinatorMessage message;
  message.set_epoch(epoch);
  message.mutable_start()->set_pages(pages);
  return message;
}

inline cluster::CoordinatorMessage step(uint64_t epoch, uint64_t number) {
  cluster::CoordinatorMessage message;
  message.set_epoch(epoch);
  message.mutable_step()->set_step(number);
  add_rows(*message.mutable_step(), {3, 9}, 0, {0});
  return message;
}

inline cluster::CoordinatorMessage abort_of(uint64_t epoch) {
  cluster::CoordinatorMessage message;
  message.set_epoch(epoch);
  message.mutable_abort();
  return message;
}

// The CPU. The object outlives every worker that computes on it.
inline const Backend& processor() {
  static const Backend backend = cpu_backend();
  return backend;
}

// A worker's connection on its own threads. Weights that stay in memory may be passed to the next
// connection.
class Connection {
 public:
  explicit Connection(PersistentWorker* persistent)
      : thread_([this, persistent] {
          const WorkerProcessOptions options{
              .token = "secret", .threads = 1, .weight_cache = "off", .stop = stop_.get_token()};
          status_ = Session(options, processor(), persistent, link_).run();
        }) {
    EXPECT_TRUE(next().has_hello());
  }
  ~Connection() {
    if (thread_.joinable()) static_cast<void>(end());
  }

  FakeLink& link() { return link_; }
  void send(cluster::CoordinatorMessage message) { link_.send(std::move(message)); }
  void stop() { stop_.request_stop(); }

  // The next message except heartbeats.
  cluster::WorkerMessage next() {
    std::optional<cluster::WorkerMessage> message = link_.receive();
    EXPECT_TRUE(message.has_value()) << "the worker has ended";
    return message.value_or(cluster::WorkerMessage());
  }
  // The next message except load progress; *loaded: whether load progress came before it.
  cluster::WorkerMessage reply(bool* loaded = nullptr) {
    cluster::WorkerMessage message = next();
    if (loaded != nullptr) *loaded = message.has_progress();
    while (message.has_progress()) message = next();
    return message;
  }
  cluster::Heartbeat heartbeat_until(const std::function<bool(const cluster::WorkerMessage&)>& is) {
    std::optional<cluster::WorkerMessage> beat;
    do {
      beat = link_.heartbeat();
    } while (beat.has_value() && !is(*beat));
    EXPECT_TRUE(beat.has_value());
    return beat.value_or(cluster::WorkerMessage()).heartbeat();
  }
  void wait_until_it_waits() {
    heartbeat_until([](const auto& beat) { return beat.heartbeat().waiting(); });
  }
  cluster::Ready ready(cluster::CoordinatorMessage assignment, bool* loaded = nullptr) {
    send(std::move(assignment));
    const cluster::WorkerMessage message = reply(loaded);
    EXPECT_TRUE(message.has_ready()) << message.failure().message();
    return message.ready();
  }
  cluster::Failure failure(cluster::CoordinatorMessage message) {
    send(std::move(message));
    const cluster::WorkerMessage answer = reply();
    EXPECT_TRUE(answer.has_failure()) << answer.ShortDebugString();
    return answer.failure();
  }
  // Waits until the worker has ended.
  absl::Status join() {
    thread_.join();
    return status_;
  }
  absl::Status end() {
    link_.close();
    return join();
  }

 private:
  std::stop_source stop_;
  FakeLink link_;
  absl::Status status_;
  std::thread thread_;
};

}  // namespace lockstep
