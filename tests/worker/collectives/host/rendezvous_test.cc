// SPDX-License-Identifier: Apache-2.0
// Ranks in separate processes: how they meet, which processes they refuse, and how they detect lost
// ranks.
#include "worker/collectives/host/rendezvous.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstring>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/status.h"
#include "tests/support/environment.h"
#include "tests/support/processes/child_process.h"
#include "worker/collectives/host/process.h"

namespace lockstep {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;
using Clock = std::chrono::steady_clock;

// The bytes of a peer's first message, deliberately written down a second time.
struct RawHello {
  char magic[8] = {'l', 'k', 's', 't', 'e', 'p', '-', 'm'};
  uint32_t version = 2, secret_bytes = 8;
  int32_t rank = 0, ranks = 2;
  uint64_t epoch = 5;
  ProcessIdentity process;
  char secret[256] = "a secret";
};

class RendezvousTest : public ::testing::Test {
 protected:
  MeetArgs args(int rank, int ranks) const {
    return {.rank = rank,
            .ranks = ranks,
            .epoch = 5,
            .group = group_,
            .secret = "a secret",
            .timeout = kPatience,
            .collective_timeout = kPatience};
  }

  // Starts a process that meets the other ranks and runs `body`.
  std::unique_ptr<Child> start(
      const MeetArgs& args, const std::function<absl::Status(Collective&)>& body = nullptr) const {
    return std::make_unique<Child>([args, body]() -> absl::Status {
      ASSIGN_OR_RETURN(const std::unique_ptr<Collective> group, meet_in_shared_memory(args));
      return body == nullptr ? absl::OkStatus() : body(*group);
    });
  }

  // Connects as a stranger would, after a rank has started to listen.
  int connect_raw() const {
    sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
    const std::string name = fmt::format("lockstep-{}-5-0", group_);
    std::memcpy(address.sun_path + 1, name.data(), name.size());
    const auto bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
    const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    while (connect(fd, reinterpret_cast<sockaddr*>(&address), bytes) != 0) usleep(1000);
    return fd;
  }
  // Connects as a rank, sends the rank's Hello, and sends nothing more.
  int join_raw(int rank, int ranks) const {
    const int fd = connect_raw();
    const RawHello hello{.rank = rank, .ranks = ranks};
    EXPECT_EQ(send(fd, &hello, sizeof(hello), MSG_NOSIGNAL), ssize_t{sizeof(hello)});
    return fd;
  }

  // A name that no other process of the machine uses.
  const std::string group_ = fmt::format(
      "test-{}-{}", getpid(),
      std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now().time_since_epoch())
          .count());
};

absl::Status sum_once(Collective& group) {
  float ones[2] = {1.0f, 1.0f};
  RETURN_IF_ERROR(group.all_reduce(ones, 1, 2, 2));
  return ones[0] == static_cast<float>(group.ranks()) ? absl::OkStatus()
                                                      : absl::DataLossError("wrong sum");
}

absl::Status sum_for_ever(Collective& group) {
  for (;;) RETURN_IF_ERROR(sum_once(group));
}

absl::Status mixed_work(Collective& group) {
  const int64_t parts = group.ranks(), width = 1000;
  std::vector<int64_t> boundaries;
  for (int64_t r = 0; r <= parts; ++r) boundaries.push_back(r * width);
  for (int i = 0; i < 200; ++i) {
    RETURN_IF_ERROR(sum_once(group));
    const std::vector<float> own(width, static_cast<float>(group.rank() + i));
    std::vector<float> all(width * parts);
    RETURN_IF_ERROR(group.all_gather(
        {own.data(), width, all.data(), width * parts, 1, boundaries, sizeof(float)}));
    for (int64_t c = 0; c < width * parts; ++c) {
      const int64_t want = i + c / width;
      if (all[c] != static_cast<float>(want)) return absl::DataLossError("wrong gather");
    }
  }
  std::vector<float> large(300'000, static_cast<float>(group.rank()));
  RETURN_IF_ERROR(group.all_reduce(large.data(), 3, 100'000, 100'000));
  const int64_t sum = parts * (parts - 1) / 2;
  const auto want = static_cast<float>(sum);
  return large[0] == want && large.back() == want ? absl::OkStatus()
                                                  : absl::DataLossError("wrong large sum");
}

TEST_F(RendezvousTest, ForkedRanksMeetAndCompute) {
  for (const int ranks : {1, 2, 3, 5, 7}) {
    std::vector<std::unique_ptr<Child>> children;
    for (int rank = ranks - 1; rank >= 0; --rank) {  // Rank 0 is the last.
      children.push_back(start(args(rank, ranks), mixed_work));
    }
    for (auto& child : children) EXPECT_EQ(child->result(), absl::OkStatus());
  }
}

TEST_F(RendezvousTest, TheMemoryIsASealedMemfdAndNotInDevShm) {
  const auto other = start(args(1, 2), sum_once);
  const auto group = meet_in_shared_memory(args(0, 2));
  ASSERT_TRUE(group.ok()) << group.status();
  std::ifstream maps("/proc/self/maps");
  const std::string text((std::istreambuf_iterator<char>(maps)), {});
  EXPECT_THAT(text, HasSubstr("/memfd:lockstep"));
  EXPECT_EQ(sum_once(**group), absl::OkStatus());
  EXPECT_EQ(other->result(), absl::OkStatus());
}

TEST_F(RendezvousTest, AKilledRankIsNamedByTheOthers) {
  // Rank 2 dies while the others wait for it, and then while it waits for rank 0.
  for (const bool waiting : {false, true}) {
    Flag met, go;
    const auto first = start(args(0, 3), [=](Collective& g) {
      if (waiting) go.wait();
      return sum_for_ever(g);
    });
    const auto second = start(args(1, 3), sum_for_ever);
    const auto lost = start(args(2, 3), [=](Collective& g) mutable {
      met.set();
      if (!waiting) pause();
      return sum_for_ever(g);
    });
    met.wait();
    while (!is_asleep(lost->pid())) usleep(1000);
    kill(lost->pid(), SIGKILL);
    go.set();
    const std::string name = fmt::format("rank 2 (pid {}) is gone", lost->pid());
    for (const auto& survivor : {first.get(), second.get()}) {
      const absl::Status status = survivor->result();
      EXPECT_TRUE(absl::IsUnavailable(status)) << status;
      EXPECT_THAT(message_of(status), HasSubstr(name));
    }
  }
}

TEST_F(RendezvousTest, AStoppedRankCausesADeadlineAndFindsTheGroupEnded) {
  MeetArgs first = args(0, 2);
  first.collective_timeout = milliseconds(3000);  // A rank that runs is never so late.
  const auto stopped = start(args(1, 2), sum_for_ever);
  const auto group = meet_in_shared_memory(first);
  ASSERT_TRUE(group.ok()) << group.status();
  for (int i = 0; i < 10; ++i) ASSERT_EQ(sum_once(**group), absl::OkStatus());
  kill(stopped->pid(), SIGSTOP);
  const absl::Status status = sum_for_ever(**group);
  EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
  EXPECT_THAT(message_of(status),
              HasSubstr(fmt::format("have not arrived: rank 1 (pid {})", stopped->pid())));
  kill(stopped->pid(), SIGCONT);
  EXPECT_TRUE(absl::IsDeadlineExceeded(stopped->result()));
}

TEST_F(RendezvousTest, AnAbortReachesRanksThatSleepInOtherProcesses) {
  Flag met;
  const auto other = start(args(1, 2), [=](Collective& g) mutable {
    met.set();
    return sum_once(g);
  });
  const auto group = meet_in_shared_memory(args(0, 2));
  ASSERT_TRUE(group.ok()) << group.status();
  met.wait();
  while (!is_asleep(other->pid())) usleep(1000);
  (*group)->abort();
  EXPECT_TRUE(absl::IsAborted(other->result()));
}

TEST_F(RendezvousTest, ProcessesThatDoNotBelongToTheGroupAreRefusedAndTheRanksMeet) {
  const auto first = start(args(0, 3), sum_once);
  const int early = join_raw(1, 3);
  MeetArgs wrong = args(2, 3);
  wrong.secret = "a secres";
  EXPECT_TRUE(absl::IsPermissionDenied(start(wrong)->result()));
  EXPECT_THAT(message_of(start(args(6, 7))->result()), HasSubstr("expects 3 ranks in epoch 5"));
  const absl::Status twice = start(args(1, 3))->result();
  EXPECT_TRUE(absl::IsAlreadyExists(twice)) << twice;
  EXPECT_THAT(message_of(twice), HasSubstr("rank 1 has already joined"));
  EXPECT_TRUE(absl::IsAlreadyExists(start(args(0, 3))->result()));
  close(early);
  const auto second = start(args(1, 3), sum_once);
  EXPECT_EQ(start(args(2, 3), sum_once)->result(), absl::OkStatus());
  EXPECT_EQ(first->result(), absl::OkStatus());
  EXPECT_EQ(second->result(), absl::OkStatus());
}

TEST_F(RendezvousTest, ProcessesOfOtherUsersAreDroppedAndTheRanksMeet) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can start a process of another user";
  const auto first = start(args(0, 2), sum_once);
  Child stranger([this]() -> absl::Status {
    if (setuid(65534) != 0) return absl::UnknownError("no other user");
    const int fd = connect_raw();
    const RawHello hello{.rank = 1};  // All of its fields are right.
    (void)send(fd, &hello, sizeof(hello), MSG_NOSIGNAL);
    char answer[256];
    return recv(fd, answer, sizeof(answer), 0) <= 0 ? absl::OkStatus()
                                                    : absl::DataLossError("it was answered");
  });
  EXPECT_EQ(stranger.result(), absl::OkStatus());
  EXPECT_EQ(start(args(1, 2), sum_once)->result(), absl::OkStatus());
  EXPECT_EQ(first->result(), absl::OkStatus());
}

TEST_F(RendezvousTest, RanksOutOfRangeAndOtherEpochsAreRefused) {
  const auto host = start(args(0, 2), sum_once);
  const auto answer_to = [this](const RawHello& hello) {
    const int fd = connect_raw();
    EXPECT_EQ(send(fd, &hello, sizeof(hello), MSG_NOSIGNAL), ssize_t{sizeof(hello)});
    char answer[256] = {};
    EXPECT_EQ(recv(fd, answer, sizeof(answer), 0), 256);
    close(fd);
    return std::string(answer + 16);
  };
  RawHello hello;
  for (const int rank : {-1, 0, 2, 1 << 30}) {
    hello.rank = rank;
    EXPECT_THAT(answer_to(hello), HasSubstr(fmt::format("no rank {} in a group of 2", rank)));
  }
  hello.rank = 1;
  hello.epoch = 4;
  EXPECT_THAT(answer_to(hello), HasSubstr("found 2 in epoch 4"));
  hello.epoch = 5;
  hello.version = 3;
  EXPECT_THAT(answer_to(hello), HasSubstr("version"));
  EXPECT_EQ(start(args(1, 2), sum_once)->result(), absl::OkStatus());
  EXPECT_EQ(host->result(), absl::OkStatus());
}

TEST_F(RendezvousTest, RanksMeetDespiteStrangersThatAreSilentOrSendGarbage) {
  const auto host = start(args(0, 3), sum_once);
  std::vector<int> strangers;
  for (int i = 0; i < 100; ++i) {
    strangers.push_back(connect_raw());
    const std::string garbage(static_cast<size_t>(1 + i * i), static_cast<char>(i * 37));
    if (i % 3 != 0) send(strangers.back(), garbage.data(), garbage.size(), MSG_NOSIGNAL);
    if (i % 5 == 0) close(strangers.back());
  }
  const auto second = start(args(1, 3), sum_once);
  EXPECT_EQ(start(args(2, 3), sum_once)->result(), absl::OkStatus());
  EXPECT_EQ(second->result(), absl::OkStatus());
  EXPECT_EQ(host->result(), absl::OkStatus());
  for (size_t i = 0; i < strangers.size(); ++i) {
    if (i % 5 != 0) close(strangers[i]);
  }
}

TEST_F(RendezvousTest, ARankThatDiedInTheMeetingMayRejoin) {
  const auto first = start(args(0, 3), sum_once);
  close(join_raw(1, 3));
  const auto again = start(args(1, 3), sum_once);
  EXPECT_EQ(start(args(2, 3), sum_once)->result(), absl::OkStatus());
  EXPECT_EQ(again->result(), absl::OkStatus());
  EXPECT_EQ(first->result(), absl::OkStatus());
}

TEST_F(RendezvousTest, ADeadlineNamesTheRanksThatNeverArrived) {
  Child first([this]() -> absl::Status {
    MeetArgs meeting = args(0, 4);
    // Rank 0's clock stands still until rank 2 has sent its Hello. After ten more readings the
    // clock shows that the timeout is over; by then rank 0 has received the Hello.
    std::atomic<bool> sent = false;
    int looks = 0;
    meeting.now = [&] {
      if (sent) ++looks;
      return Clock::time_point() + (looks > 10 ? meeting.timeout : milliseconds(0));
    };
    std::string answer(256, '\0');
    std::thread third([&] {
      const int fd = join_raw(2, 4);
      sent = true;
      recv(fd, answer.data(), answer.size(), 0);
      close(fd);
    });
    const absl::Status status = meet_in_shared_memory(meeting).status();
    third.join();
    if (answer.find("did not come: 1, 3") == std::string::npos) {
      return absl::DataLossError("rank 2 was not sent the missing ranks");
    }
    return status;
  });
  const absl::Status status = first.result();
  EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
  EXPECT_THAT(message_of(status), HasSubstr("did not come: 1, 3"));
}

TEST_F(RendezvousTest, ACancelledMeetingEnds) {
  for (const int rank : {0, 1}) {
    Child child([&]() -> absl::Status {
      std::atomic<bool> cancelled = false;
      MeetArgs alone = args(rank, 2);
      alone.cancelled = &cancelled;
      int looks = 0;
      alone.now = [&] {  // Cancels after the rank has begun to wait.
        cancelled = ++looks > 3;
        return Clock::now();
      };
      return meet_in_shared_memory(alone).status();
    });
    EXPECT_TRUE(absl::IsCancelled(child.result()));
  }
}

TEST_F(RendezvousTest, AKilledRank0DoesNotBlockTheNext) {
  {
    const auto killed = start(args(0, 2));
    close(connect_raw());
  }
  const auto other = start(args(1, 2), sum_once);
  EXPECT_EQ(start(args(0, 2), sum_once)->result(), absl::OkStatus());
  EXPECT_EQ(other->result(), absl::OkStatus());
}

TEST_F(RendezvousTest, NoFolderIsNeededToMeet) {
  std::vector<std::unique_ptr<Child>> children;
  for (const int rank : {0, 1}) {
    children.push_back(std::make_unique<Child>([rank, this]() -> absl::Status {
      const ScopedVariable runtime("XDG_RUNTIME_DIR", "/nowhere/at/all");
      const ScopedVariable temporary("TMPDIR", "/nowhere/at/all");
      ASSIGN_OR_RETURN(const auto group, meet_in_shared_memory(args(rank, 2)));
      return sum_once(*group);
    }));
  }
  for (auto& child : children) EXPECT_EQ(child->result(), absl::OkStatus());
}

TEST_F(RendezvousTest, BadArgumentsAreRefused) {
  const auto code = [](const MeetArgs& args) {
    return meet_in_shared_memory(args).status().code();
  };
  for (const char* group :
       {"", "short", "Upper-case", "../../etc/passwd", "nul\0nulnul", "a b c d e"}) {
    MeetArgs bad = args(0, 2);
    bad.group = group;
    EXPECT_EQ(code(bad), absl::StatusCode::kInvalidArgument) << group;
  }
  for (const auto& [rank, ranks] : {std::pair(2, 2), {-1, 2}, {0, 0}, {0, 1000}}) {
    EXPECT_EQ(code(args(rank, ranks)), absl::StatusCode::kInvalidArgument);
  }
  MeetArgs bad = args(0, 2);
  bad.secret = "";
  EXPECT_EQ(code(bad), absl::StatusCode::kInvalidArgument);
}

TEST_F(RendezvousTest, TheErrorSaysThatNoFileDescriptorsAreLeft) {
  Child child([this]() -> absl::Status {
    const rlimit none{.rlim_cur = 3, .rlim_max = 3};
    setrlimit(RLIMIT_NOFILE, &none);
    return meet_in_shared_memory(args(0, 2)).status();
  });
  const absl::Status status = child.result();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_THAT(message_of(status), HasSubstr("Too many open files"));
}

}  // namespace
}  // namespace lockstep
