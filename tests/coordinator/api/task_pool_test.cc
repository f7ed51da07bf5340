// SPDX-License-Identifier: Apache-2.0
// The order of tasks, which tasks are refused, and that no task waits forever. Tasks that wait for
// the test block the threads, so the order does not depend on time.
#include "coordinator/api/task_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "base/status.h"
#include "base/system/clock.h"

namespace lockstep {
namespace {

constexpr int64_t kLong = TaskPool::kLongBytes + 1;

class Gate {
 public:
  void open() {
    MutexLock lock(&mutex_);
    open_ = true;
    changed_.notify_all();
  }
  void pass() {
    MutexLock lock(&mutex_);
    ++arrived_;
    changed_.notify_all();
    while (!open_) changed_.wait(&mutex_);
  }
  void wait_for_arrivals(int count) {
    MutexLock lock(&mutex_);
    while (arrived_ < count) changed_.wait(&mutex_);
  }

 private:
  Mutex mutex_;
  ConditionVariable changed_;
  bool open_ ABSL_GUARDED_BY(mutex_) = false;
  int arrived_ ABSL_GUARDED_BY(mutex_) = 0;
};

// The names of the tasks that ran, in order.
class Record {
 public:
  std::function<void()> task(const std::string& name) {
    return [this, name] {
      MutexLock lock(&mutex_);
      names_.push_back(name);
      changed_.notify_all();
    };
  }
  std::vector<std::string> wait_for(size_t count) {
    MutexLock lock(&mutex_);
    while (names_.size() < count) changed_.wait(&mutex_);
    return names_;
  }

 private:
  Mutex mutex_;
  ConditionVariable changed_;
  std::vector<std::string> names_ ABSL_GUARDED_BY(mutex_);
};

// A pool with one thread for all tasks and one for short tasks. The gate blocks both.
struct BlockedPool {
  explicit BlockedPool(TaskPoolOptions options = {.threads = 1}) : pool(options) {
    hold(kLong);
    gate.wait_for_arrivals(1);
    hold(0);
    gate.wait_for_arrivals(2);
  }
  ~BlockedPool() { gate.open(); }
  void hold(int64_t bytes) {
    EXPECT_TRUE(pool.submit("holder", bytes, [this] { gate.pass(); }).ok());
  }
  absl::Status submit(const std::string& client, int64_t bytes, const std::string& name) {
    return pool.submit(client, bytes, record.task(name));
  }

  Gate gate;
  Record record;
  TaskPool pool;
};

TEST(TaskPoolTest, LongTasksOfOneClientLetOthersPass) {
  BlockedPool blocked;
  for (int i = 0; i < 3; ++i)
    EXPECT_TRUE(blocked.submit("much", kLong, "m" + std::to_string(i)).ok());
  EXPECT_TRUE(blocked.submit("little", kLong, "little").ok());
  blocked.gate.open();
  EXPECT_THAT(blocked.record.wait_for(4), testing::ElementsAre("m0", "little", "m1", "m2"));
}

TEST(TaskPoolTest, LongTasksThatNeverEndBlockNoOtherNetwork) {
  Gate gate;
  Record record;
  TaskPool pool({.threads = 2});
  const auto block = [&](const std::string& client) {
    EXPECT_TRUE(pool.submit(client, kLong, [&] { gate.pass(); }).ok());
  };
  for (int i = 0; i < 4; ++i) block("much");
  gate.wait_for_arrivals(2);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(pool.submit("b", kLong, record.task("b")).ok());
  EXPECT_EQ(record.wait_for(3).size(), 3u);
  block("third");
  gate.wait_for_arrivals(3);
  gate.open();
}

TEST(TaskPoolTest, AWaitingTaskRunsAtItsDeadline) {
  BlockedPool blocked;
  const int64_t soon = steady_now_ms() + 20;
  const auto submit = [&](int64_t bytes, const std::string& name, int64_t deadline_ms) {
    EXPECT_TRUE(blocked.pool.submit("a", bytes, blocked.record.task(name), deadline_ms).ok());
  };
  submit(kLong, "long", 0);
  submit(0, "much later", soon + 3'600'000);
  submit(0, "second", soon + 1);
  submit(kLong, "first", soon);
  EXPECT_THAT(blocked.record.wait_for(2), testing::ElementsAre("first", "second"));
  EXPECT_GE(steady_now_ms(), soon + 1);
  blocked.gate.open();
  EXPECT_EQ(blocked.record.wait_for(4).size(), 4u);
}

TEST(TaskPoolTest, AShortTaskPassesLongOnesThatCameBefore) {
  Gate gate;
  Record record;
  TaskPool pool({.threads = 1});
  EXPECT_TRUE(pool.submit("a", kLong, [&] { gate.pass(); }).ok());
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(pool.submit("a", kLong, record.task("long")).ok());
  EXPECT_TRUE(pool.submit("b", 10, record.task("short")).ok());
  EXPECT_EQ(record.wait_for(1)[0], "short");  // A long task blocks the thread for long ones.
  gate.open();
}

TEST(TaskPoolTest, TasksOfOneClientRunInTheirOrder) {
  std::vector<std::string> wanted;
  BlockedPool blocked;
  for (int i = 0; i < 20; ++i) {
    wanted.push_back(std::to_string(i));
    EXPECT_TRUE(blocked.submit("a", kLong, wanted.back()).ok());
  }
  blocked.gate.open();
  EXPECT_EQ(blocked.record.wait_for(20), wanted);
}

TEST(TaskPoolTest, OneClientMayHaveHalfOfThePoolAndAllClientsAllOfIt) {
  BlockedPool blocked({.threads = 1, .max_tasks = 12, .max_bytes = 1 << 20});
  for (int i = 0; i < 6; ++i) EXPECT_TRUE(blocked.submit("a", 1, "a").ok());
  const absl::Status seventh = blocked.submit("a", 1, "a");
  EXPECT_EQ(seventh.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_NE(message_of(seventh).find("this client"), std::string::npos) << seventh;
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(blocked.submit("b", 1, "b").ok());
  EXPECT_EQ(blocked.submit("c", 1, "c").code(), absl::StatusCode::kResourceExhausted);
  blocked.gate.open();
  blocked.record.wait_for(10);
}

TEST(TaskPoolTest, ShortAndLongTasksOfOneClientCountTogether) {
  BlockedPool blocked({.threads = 1, .max_tasks = 12});
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(blocked.submit("a", 1, "a").ok());
    EXPECT_TRUE(blocked.submit("a", kLong, "a").ok());
  }
  EXPECT_EQ(blocked.submit("a", 1, "a").code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(blocked.submit("a", kLong, "a").code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(blocked.submit("b", 1, "b").ok());
  blocked.gate.open();
  blocked.record.wait_for(7);
}

// Without API keys each connection is a client, and one host may open thousands.
TEST(TaskPoolTest, ConnectionsOfOneNetworkLeaveRoomForOthers) {
  BlockedPool blocked({.threads = 1, .max_tasks = 24});
  int taken = 0;
  while (blocked.submit("10.0.0.1:" + std::to_string(taken), 1, "much").ok()) ++taken;
  EXPECT_EQ(taken, 21);
  EXPECT_TRUE(blocked.submit("10.0.0.2:1", 1, "other").ok());
  blocked.gate.open();
  blocked.record.wait_for(22);
}

TEST(TaskPoolTest, NetworksShareTheThreadsHoweverManyClientsTheyHave) {
  BlockedPool blocked;
  for (int i = 0; i < 3; ++i) {
    const std::string name = std::to_string(i);
    EXPECT_TRUE(blocked.submit("10.0.0.1:" + name, kLong, "much" + name).ok());
  }
  EXPECT_TRUE(blocked.submit("10.0.0.2:1", kLong, "other").ok());
  EXPECT_TRUE(blocked.submit("10.0.0.2:1", kLong, "more").ok());
  blocked.gate.open();
  EXPECT_THAT(blocked.record.wait_for(5),
              testing::ElementsAre("much0", "other", "much1", "more", "much2"));
}

TEST(TaskPoolTest, ClientsOfANetworkShareTheNetworksPart) {
  BlockedPool blocked;
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(blocked.submit("10.0.0.1:1", kLong, "much" + std::to_string(i)).ok());
  }
  EXPECT_TRUE(blocked.submit("10.0.0.1:2", kLong, "little").ok());
  blocked.gate.open();
  EXPECT_THAT(blocked.record.wait_for(4),
              testing::ElementsAre("much0", "little", "much1", "much2"));
}

TEST(TaskPoolTest, BytesAreBoundedAndFreeAgainWhenATaskHasRun) {
  BlockedPool blocked({.threads = 1, .max_tasks = 100, .max_bytes = 1000 + 2 * kLong});
  EXPECT_TRUE(blocked.submit("a", 600, "first").ok());
  EXPECT_EQ(blocked.submit("a", kLong, "too much").code(), absl::StatusCode::kResourceExhausted);
  blocked.gate.open();
  blocked.record.wait_for(1);
  while (!blocked.submit("a", kLong, "second").ok()) std::this_thread::yield();
  EXPECT_THAT(blocked.record.wait_for(2), testing::ElementsAre("first", "second"));
}

TEST(TaskPoolTest, LongTextsLeaveRoomForShortOnes) {
  BlockedPool blocked({.threads = 1, .max_tasks = 100, .max_bytes = 20 * kLong});
  int taken = 1;  // Counts the long task that blocks a thread.
  for (int client = 0; client < 40; ++client) {
    taken += blocked.submit(std::to_string(client), kLong, "long").ok() ? 1 : 0;
  }
  EXPECT_EQ(taken, 15);
  for (int client = 0; client < 4; ++client) {
    EXPECT_TRUE(blocked.submit("s" + std::to_string(client), TaskPool::kLongBytes, "short").ok());
  }
  blocked.gate.open();
  blocked.record.wait_for(18);
}

TEST(TaskPoolTest, ShortTextsOfOneClientLeaveRoomForThoseOfOthers) {
  BlockedPool blocked({.threads = 1, .max_tasks = 1000, .max_bytes = 20 * kLong});
  int taken = 0;
  while (blocked.submit("much", TaskPool::kLongBytes, "m").ok()) ++taken;
  EXPECT_EQ(taken, 5);
  EXPECT_TRUE(blocked.submit("little", 1000, "l").ok());
  EXPECT_TRUE(blocked.submit("little", kLong, "l").ok());
  blocked.gate.open();
  blocked.record.wait_for(7);
}

TEST(TaskPoolTest, AcceptedTasksRunBeforeThePoolEnds) {
  Record record;
  {
    TaskPool pool({.threads = 3});
    for (int i = 0; i < 500; ++i) {
      const std::string client = std::to_string(i % 7);
      EXPECT_TRUE(pool.submit(client, i % 2 == 0 ? 1 : kLong, record.task(client)).ok());
    }
  }
  EXPECT_EQ(record.wait_for(500).size(), 500u);
}

}  // namespace
}  // namespace lockstep
