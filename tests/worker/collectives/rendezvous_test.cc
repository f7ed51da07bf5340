// SPDX-License-Identifier: Apache-2.0
// Ranks in processes of their own: how they meet, whom they refuse, and how they lose one another.
#include "worker/collectives/rendezvous.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/status.h"
#include "tests/support/child_process.h"
#include "worker/collectives/process.h"

namespace lockstep {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;
using testing::IsEmpty;
using Clock = std::chrono::steady_clock;
namespace fs = std::filesystem;

int64_t ms_since(Clock::time_point start) {
  return std::chrono::duration_cast<milliseconds>(Clock::now() - start).count();
}

class RendezvousTest : public testing::Test {
 protected:
  RendezvousTest() {
    char path[] = "/tmp/lockstep-test-XXXXXX";
    folder_ = mkdtemp(path);
  }
  ~RendezvousTest() override { fs::remove_all(folder_); }

  MeetArgs args(int rank, int ranks) const {
    return {.rank = rank,
            .ranks = ranks,
            .epoch = 5,
            .group = "0123456789-abcdef",
            .token = "a secret",
            .timeout = milliseconds(15'000),
            .collective_timeout = std::chrono::seconds(15),
            .folder = folder_};
  }

  // A process that meets the others and runs `body`.
  std::unique_ptr<Child> start(MeetArgs args,
                               std::function<absl::Status(Collective&)> body = nullptr) const {
    return std::make_unique<Child>([args, body]() -> absl::Status {
      ASSIGN_OR_RETURN(const std::unique_ptr<Collective> group, meet_in_shared_memory(args));
      return body == nullptr ? absl::OkStatus() : body(*group);
    });
  }

  // A connection as a stranger makes it, once somebody listens.
  int connect_raw() const {
    sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
    const std::string path = folder_ + "/0123456789-abcdef-5";
    std::memcpy(address.sun_path, path.data(), path.size());
    const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    for (int i = 0; i < 2000; ++i) {
      if (connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0) return fd;
      usleep(1000);
    }
    ADD_FAILURE() << "nobody listens";
    return fd;
  }

  std::string folder_;
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
      if (all[c] != static_cast<float>(c / width + i)) return absl::DataLossError("wrong gather");
    }
  }
  std::vector<float> large(300'000, static_cast<float>(group.rank()));
  RETURN_IF_ERROR(group.all_reduce(large.data(), 3, 100'000, 100'000));
  const float want = static_cast<float>(parts * (parts - 1) / 2);
  return large[0] == want && large.back() == want ? absl::OkStatus()
                                                  : absl::DataLossError("wrong large sum");
}

TEST_F(RendezvousTest, ForkedRanksMeetAndComputeAndLeaveNothingBehind) {
  for (const int ranks : {1, 2, 3, 5, 7}) {
    std::vector<std::unique_ptr<Child>> children;
    for (int rank = ranks - 1; rank >= 0; --rank) {  // Rank 0 comes last.
      children.push_back(start(args(rank, ranks), mixed_work));
    }
    for (auto& child : children) EXPECT_EQ(child->result(), absl::OkStatus());
    EXPECT_THAT(std::vector<fs::path>(fs::directory_iterator(folder_), {}), IsEmpty());
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

TEST_F(RendezvousTest, AKilledRankIsNamedByTheOthersWithinASecond) {
  // Rank 2 dies once while the others wait for it, once while it waits for rank 0.
  for (const bool waiting : {false, true}) {
    const auto first = start(args(0, 3), [waiting](Collective& g) {
      if (waiting) sleep(1);
      return sum_for_ever(g);
    });
    const auto second = start(args(1, 3), sum_for_ever);
    const auto lost = start(args(2, 3), [waiting](Collective& g) {
      if (!waiting) pause();
      return sum_for_ever(g);
    });
    usleep(300'000);
    kill(lost->pid(), SIGKILL);
    if (waiting) usleep(700'000);
    const Clock::time_point killed = Clock::now();
    const std::string name = fmt::format("rank 2 (pid {}) is gone", lost->pid());
    for (const auto& survivor : {first.get(), second.get()}) {
      const absl::Status status = survivor->result();
      EXPECT_TRUE(absl::IsUnavailable(status)) << status;
      EXPECT_THAT(message_of(status), HasSubstr(name));
    }
    EXPECT_LT(ms_since(killed), 1000);
  }
}

TEST_F(RendezvousTest, AStoppedRankIsADeadlineAndFindsTheGroupEnded) {
  MeetArgs first = args(0, 2);
  first.collective_timeout = milliseconds(400);
  const auto stopped = start(args(1, 2), sum_for_ever);
  const auto group = meet_in_shared_memory(first);
  ASSERT_TRUE(group.ok()) << group.status();
  for (int i = 0; i < 100; ++i) ASSERT_EQ(sum_once(**group), absl::OkStatus());
  kill(stopped->pid(), SIGSTOP);
  const Clock::time_point start = Clock::now();
  const absl::Status status = sum_for_ever(**group);
  EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
  EXPECT_THAT(message_of(status),
              HasSubstr(fmt::format("have not come: rank 1 (pid {})", stopped->pid())));
  EXPECT_LT(ms_since(start), 2000);
  kill(stopped->pid(), SIGCONT);
  EXPECT_TRUE(absl::IsDeadlineExceeded(stopped->result()));
}

TEST_F(RendezvousTest, AnAbortReachesRanksThatSleepInOtherProcesses) {
  const auto other = start(args(1, 2), sum_once);
  const auto group = meet_in_shared_memory(args(0, 2));
  ASSERT_TRUE(group.ok()) << group.status();
  usleep(100'000);
  const Clock::time_point start = Clock::now();
  (*group)->abort();
  EXPECT_TRUE(absl::IsAborted(other->result()));
  EXPECT_LT(ms_since(start), 500);
}

TEST_F(RendezvousTest, WhoDoesNotBelongIsRefusedAndTheOthersMeet) {
  const auto host = start(args(0, 3), sum_once);
  const auto second = start(args(1, 3), sum_once);
  usleep(200'000);
  MeetArgs wrong = args(2, 3);
  wrong.token = "a secres";
  EXPECT_TRUE(absl::IsPermissionDenied(start(wrong)->result()));
  EXPECT_THAT(message_of(start(args(6, 7))->result()), HasSubstr("meets 3 ranks in epoch 5"));
  const absl::Status twice = start(args(1, 3))->result();
  EXPECT_TRUE(absl::IsAlreadyExists(twice)) << twice;
  EXPECT_THAT(message_of(twice), HasSubstr("rank 1 has come already"));
  EXPECT_TRUE(absl::IsAlreadyExists(start(args(0, 3))->result()));
  EXPECT_EQ(start(args(2, 3), sum_once)->result(), absl::OkStatus());
  EXPECT_EQ(host->result(), absl::OkStatus());
  EXPECT_EQ(second->result(), absl::OkStatus());
}

// The bytes of a caller's first message, written down a second time on purpose.
struct RawHello {
  char magic[8] = {'l', 'k', 's', 't', 'e', 'p', '-', 'm'};
  uint32_t version = 1, token_bytes = 8;
  int32_t rank = 0, ranks = 2;
  uint64_t epoch = 5;
  ProcessIdentity process;
  char token[256] = "a secret";
};

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
  EXPECT_THAT(answer_to(hello), HasSubstr("not 2 in epoch 4"));
  hello.epoch = 5;
  hello.version = 2;
  EXPECT_THAT(answer_to(hello), HasSubstr("version"));
  EXPECT_EQ(start(args(1, 2), sum_once)->result(), absl::OkStatus());
  EXPECT_EQ(host->result(), absl::OkStatus());
}

TEST_F(RendezvousTest, SilentAndBabblingStrangersDoNotHoldUpTheMeeting) {
  const auto host = start(args(0, 3), sum_once);
  std::vector<int> strangers;
  for (int i = 0; i < 100; ++i) {
    strangers.push_back(connect_raw());
    const std::string garbage(static_cast<size_t>(1 + i * i), static_cast<char>(i * 37));
    if (i % 3 != 0) send(strangers.back(), garbage.data(), garbage.size(), MSG_NOSIGNAL);
    if (i % 5 == 0) close(strangers.back());
  }
  const Clock::time_point started = Clock::now();
  const auto second = start(args(1, 3), sum_once);
  EXPECT_EQ(start(args(2, 3), sum_once)->result(), absl::OkStatus());
  EXPECT_EQ(second->result(), absl::OkStatus());
  EXPECT_EQ(host->result(), absl::OkStatus());
  EXPECT_LT(ms_since(started), 5000);
  for (size_t i = 0; i < strangers.size(); ++i) {
    if (i % 5 != 0) close(strangers[i]);
  }
}

TEST_F(RendezvousTest, ARankThatDiedInTheMeetingMayComeAgain) {
  const auto host = start(args(0, 3), sum_once);
  {
    const auto first_try = start(args(1, 3), sum_once);
    usleep(200'000);  // Its destruction kills it.
  }
  const auto again = start(args(1, 3), sum_once);
  EXPECT_EQ(start(args(2, 3), sum_once)->result(), absl::OkStatus());
  EXPECT_EQ(again->result(), absl::OkStatus());
  EXPECT_EQ(host->result(), absl::OkStatus());
}

TEST_F(RendezvousTest, ADeadlineNamesTheRanksThatNeverCame) {
  MeetArgs first = args(0, 4), third = args(2, 4);
  first.timeout = milliseconds(300);
  const auto other = start(third);
  const absl::Status status = meet_in_shared_memory(first).status();
  EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
  EXPECT_THAT(message_of(status), HasSubstr("did not come: 1, 3"));
  EXPECT_TRUE(absl::IsDeadlineExceeded(other->result(milliseconds(2000))));
  EXPECT_THAT(std::vector<fs::path>(fs::directory_iterator(folder_), {}), IsEmpty());
}

TEST_F(RendezvousTest, ACancelledMeetingEndsAtOnce) {
  for (const int rank : {0, 1}) {
    const auto child = std::make_unique<Child>([&]() -> absl::Status {
      std::atomic<bool> cancelled = false;
      MeetArgs alone = args(rank, 2);
      alone.cancelled = &cancelled;
      std::thread canceller([&] {
        usleep(100'000);
        cancelled = true;
      });
      const absl::Status status = meet_in_shared_memory(alone).status();
      canceller.join();
      return status;
    });
    EXPECT_TRUE(absl::IsCancelled(child->result(milliseconds(2000))));
  }
}

TEST_F(RendezvousTest, AStaleSocketFileIsReplaced) {
  {
    const auto killed = start(args(0, 2));
    close(connect_raw());
  }
  EXPECT_FALSE(fs::is_empty(folder_));
  const auto other = start(args(1, 2), sum_once);
  EXPECT_EQ(start(args(0, 2), sum_once)->result(), absl::OkStatus());
  EXPECT_EQ(other->result(), absl::OkStatus());
}

TEST_F(RendezvousTest, AFolderThatOthersCouldUseIsRefused) {
  MeetArgs bad = args(0, 2);
  const auto message = [&bad] { return message_of(meet_in_shared_memory(bad).status()); };
  bad.folder = folder_ + "/open";
  ASSERT_EQ(mkdir(bad.folder.c_str(), 0700), 0);
  ASSERT_EQ(chmod(bad.folder.c_str(), 0750), 0);
  EXPECT_THAT(message(), HasSubstr("with mode 750, wanted user"));
  bad.folder = folder_ + "/link";
  fs::create_directory_symlink(folder_, bad.folder);
  EXPECT_THAT(message(), HasSubstr("is no folder"));
  bad.folder = folder_ + "/none/such";
  EXPECT_THAT(message(), HasSubstr("cannot make the folder"));
  bad.folder = folder_ + "/" + std::string(90, 'x');
  EXPECT_THAT(message(), HasSubstr("Unix sockets allow 107: give a shorter folder"));
}

TEST_F(RendezvousTest, TheUsersRuntimeFolderIsTheOneToMeetIn) {
  std::vector<std::unique_ptr<Child>> children;
  for (const int rank : {0, 1}) {
    MeetArgs anywhere = args(rank, 2);
    anywhere.folder.clear();
    children.push_back(std::make_unique<Child>([anywhere, this]() -> absl::Status {
      setenv("XDG_RUNTIME_DIR", folder_.c_str(), 1);
      ASSIGN_OR_RETURN(const auto group, meet_in_shared_memory(anywhere));
      return sum_once(*group);
    }));
  }
  for (auto& child : children) EXPECT_EQ(child->result(), absl::OkStatus());
  EXPECT_EQ(fs::status(folder_ + "/lockstep").permissions(), fs::perms::owner_all);
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
  bad.token = "";
  EXPECT_EQ(code(bad), absl::StatusCode::kInvalidArgument);
}

TEST_F(RendezvousTest, WithNoFileDescriptorsLeftTheErrorSaysSo) {
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
