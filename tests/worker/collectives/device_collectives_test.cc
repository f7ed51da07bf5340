// SPDX-License-Identifier: Apache-2.0
// Collectives of devices, as far as they run without a GPU: through the host, through a library
// that behaves like NCCL, and how ranks choose between the two.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <barrier>
#include <cstring>
#include <thread>

#include "base/status.h"
#include "tests/support/cluster/local_collectives.h"
#include "tests/support/devices/wrapped_device.h"
#include "tests/support/patience.h"
#include "worker/collectives/devices/choice.h"
#include "worker/collectives/devices/nccl.h"
#include "worker/collectives/devices/nccl_joining.h"
#include "worker/collectives/devices/staged.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr int kRanks = 3;

// --- A fake library, which is found like NCCL.

void behave(const char* how, int rank = -1) {
  static const auto set = reinterpret_cast<void (*)(const char*, int)>(
      dlsym(dlopen(LOCKSTEP_FAKE_NCCL, RTLD_NOW), "fakeNcclBehave"));
  set(how, rank);
}
int aborts() {
  static const auto get =
      reinterpret_cast<int (*)()>(dlsym(dlopen(LOCKSTEP_FAKE_NCCL, RTLD_NOW), "fakeNcclAborts"));
  return get();
}
bool stalls() {
  static const auto get =
      reinterpret_cast<int (*)()>(dlsym(dlopen(LOCKSTEP_FAKE_NCCL, RTLD_NOW), "fakeNcclStalls"));
  return get() != 0;
}
// Abandoned attempts to join return when the library behaves again.
void wait_for_left_joinings() {
  behave("");
  while (nccl_is_stuck()) std::this_thread::yield();
}
const Nccl& fake_nccl() {
  static const absl::StatusOr<Nccl> nccl = load_nccl(LOCKSTEP_FAKE_NCCL);
  return *nccl;
}

// --- The work of every rank, on its own thread.

using Make = std::function<absl::StatusOr<std::unique_ptr<Collective>>(std::unique_ptr<Collective>,
                                                                       Device&)>;
using Work = std::function<void(Collective&)>;

void on_all_ranks(const Make& make, const Work& work) {
  auto met = local_collectives(kRanks);
  std::vector<std::thread> threads;
  threads.reserve(kRanks);
  for (int rank = 0; rank < kRanks; ++rank) {
    threads.emplace_back([&, rank] {
      const std::unique_ptr<Device> device = host_device();
      const auto collective = make(std::move(met[rank]), *device);
      ASSERT_EQ(message_of(collective.status()), "");
      work(**collective);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

uint16_t element(int64_t row, int64_t col) { return static_cast<uint16_t>(row * 1000 + col); }

void gather(Collective& collective, std::vector<int64_t> boundaries, int64_t rows,
            int64_t padding) {
  const int64_t begin = boundaries[collective.rank()], end = boundaries[collective.rank() + 1];
  const int64_t total = boundaries.back(), in_stride = end - begin + padding;
  const int64_t out_stride = total + padding;
  std::vector<uint16_t> in(rows * in_stride + 1), out(rows * out_stride, 9999);
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t col = begin; col < end; ++col) {
      in[row * in_stride + col - begin] = element(row, col);
    }
  }
  ASSERT_EQ(message_of(collective.all_gather({.in = in.data(),
                                              .in_stride = in_stride,
                                              .out = out.data(),
                                              .out_stride = out_stride,
                                              .rows = rows,
                                              .boundaries = boundaries,
                                              .element_bytes = 2})),
            "");
  ASSERT_EQ(message_of(collective.finish()), "");
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t col = 0; col < out_stride; ++col) {
      const uint16_t wanted = col < total ? element(row, col) : 9999;
      ASSERT_EQ(out[row * out_stride + col], wanted) << row << " " << col;
    }
  }
}

void reduce(Collective& collective, int64_t rows, int64_t cols, int64_t stride) {
  std::vector<float> data(rows * stride, -1);
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t col = 0; col < cols; ++col) {
      data[row * stride + col] = static_cast<float>((collective.rank() + 1) * (row + col));
    }
  }
  ASSERT_EQ(message_of(collective.all_reduce(data.data(), rows, cols, stride)), "");
  ASSERT_EQ(message_of(collective.finish()), "");
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t col = 0; col < stride; ++col) {
      const float wanted = col < cols ? static_cast<float>(6 * (row + col)) : -1;
      ASSERT_EQ(data[row * stride + col], wanted) << row << " " << col;
    }
  }
}

void gather_and_reduce(Collective& collective) {
  for (const int64_t rows : {0, 1, 5}) {
    for (const int64_t padding : {0, 3}) {
      gather(collective, {0, 8, 16, 24}, rows, padding);
      gather(collective, {0, 1, 20, 24}, rows, padding);
      gather(collective, {0, 0, 24, 24}, rows, padding);
      reduce(collective, rows, 7, 7 + padding);
    }
  }
}

Make by_nccl(std::chrono::milliseconds timeout) {
  return [timeout](std::unique_ptr<Collective> met, Device& device) {
    std::string problem;
    auto collective = nccl_collective(fake_nccl(), met, device, timeout, nullptr, &problem);
    EXPECT_EQ(problem, "");
    return collective;
  };
}

TEST(StagedCollectiveTest, CollectivesThroughTheHostGatherAndReduce) {
  on_all_ranks([](std::unique_ptr<Collective> met,
                  Device& device) { return staged_collective(std::move(met), device); },
               gather_and_reduce);
}

TEST(StagedCollectiveTest, ASingleRankPlacesItsOwnColumns) {
  const std::unique_ptr<Device> device = host_device();
  const auto collective = staged_collective(single_collective(), *device);
  gather(*collective, {0, 9}, 4, 2);
  collective->abort();
  EXPECT_EQ(collective->all_reduce(nullptr, 0, 0, 0).code(), absl::StatusCode::kAborted);
}

TEST(NcclCollectiveTest, NcclGathersEvenAndUnevenPartsAndReduces) {
  on_all_ranks(by_nccl(kPatience), gather_and_reduce);
}

TEST(NcclCollectiveTest, AnAbortFromAnotherThreadEndsTheCallAndTheCommunicator) {
  aborts();
  on_all_ranks(by_nccl(kPatience), [](Collective& collective) {
    static std::barrier connected(kRanks);
    connected.arrive_and_wait();
    behave("stalls");
    std::thread other([&] { collective.abort(); });
    std::vector<float> data(3);
    EXPECT_EQ(collective.all_reduce(data.data(), 1, 3, 3).code(), absl::StatusCode::kAborted);
    other.join();
    EXPECT_EQ(collective.finish().code(), absl::StatusCode::kAborted);
    EXPECT_EQ(collective.all_reduce(nullptr, 1, 1, 1).code(), absl::StatusCode::kAborted);
  });
  behave("");
  EXPECT_EQ(aborts(), kRanks);  // Each rank has aborted its communicator.
}

TEST(NcclCollectiveTest, ACallHasADeadline) {
  aborts();
  on_all_ranks(by_nccl(std::chrono::seconds(2)), [](Collective& collective) {
    static std::barrier connected(kRanks);
    connected.arrive_and_wait();
    behave("stalls");
    std::vector<float> data(3);
    const absl::Status status = collective.all_reduce(data.data(), 1, 3, 3);
    EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
    EXPECT_EQ(collective.finish(), status);
  });
  behave("");
  EXPECT_EQ(aborts(), kRanks);
}

// A device whose memory is the host's. Its queued work does not finish while the library stalls.
class StallingDevice final : public WrappedDevice {
 public:
  StallingDevice() : WrappedDevice(host_device()) {}
  bool done() override { return !stalls(); }
};

TEST(NcclCollectiveTest, QueuedWorkHasADeadlineAndEndsOnAnAbort) {
  auto met = local_collectives(kRanks);
  std::vector<std::thread> threads;
  threads.reserve(kRanks);
  for (int rank = 0; rank < kRanks; ++rank) {
    threads.emplace_back([&, rank] {
      static std::barrier connected(kRanks);
      StallingDevice device;
      const auto collective = by_nccl(std::chrono::seconds(2))(std::move(met[rank]), device);
      ASSERT_EQ(message_of(collective.status()), "");
      reduce(**collective, 2, 5, 5);
      connected.arrive_and_wait();
      behave("stalls");
      if (rank == 0) (*collective)->abort();
      EXPECT_EQ((*collective)->finish().code(),
                rank == 0 ? absl::StatusCode::kAborted : absl::StatusCode::kDeadlineExceeded);
      connected.arrive_and_wait();
      behave("");
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(NcclCollectiveTest, AFaultInAStepEndsTheGroupAndIsNamedInOneLine) {
  on_all_ranks(by_nccl(std::chrono::seconds(2)), [](Collective& collective) {
    static std::barrier connected(kRanks);
    reduce(collective, 2, 5, 5);
    connected.arrive_and_wait();
    behave("calls fail", 1);
    connected.arrive_and_wait();
    std::vector<float> data(3);
    absl::Status status = collective.all_reduce(data.data(), 1, 3, 3);
    if (status.ok()) status = collective.finish();
    if (collective.rank() != 1) {
      EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
    } else {
      EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
      EXPECT_EQ(message_of(status), "NCCL: a fault of the library: no room in /dev/shm");
      EXPECT_EQ(collective.finish(), status);
    }
  });
  behave("");
}

// A device whose memory is the host's, with an address that a test chooses.
class OwnDevice final : public WrappedDevice {
 public:
  explicit OwnDevice(std::string address)
      : WrappedDevice(host_device()), address_(std::move(address)) {}
  std::string address() const override { return address_; }

 private:
  const std::string address_;
};

// Connects three ranks, which gather and reduce once, and returns the collective that each chose.
std::array<CollectiveChoice, kRanks> choices_of(const std::array<std::string, kRanks>& libraries,
                                                std::chrono::milliseconds timeout,
                                                const std::array<std::string, kRanks>& gpus = {
                                                    "gpu 0", "gpu 1", "gpu 2"}) {
  auto met = local_collectives(kRanks);
  std::vector<std::thread> threads;
  threads.reserve(kRanks);
  std::array<CollectiveChoice, kRanks> choices;
  for (int rank = 0; rank < kRanks; ++rank) {
    threads.emplace_back([&, rank] {
      OwnDevice device(gpus[rank]);
      const DeviceMeeting meeting{.timeout = timeout, .nccl = libraries[rank]};
      const auto collective =
          device_collective(std::move(met[rank]), device, meeting, &choices[rank]);
      ASSERT_EQ(message_of(collective.status()), "");
      gather_and_reduce(**collective);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return choices;
}

constexpr std::array<const char*, 3> kWell = {LOCKSTEP_FAKE_NCCL, LOCKSTEP_FAKE_NCCL,
                                              LOCKSTEP_FAKE_NCCL};

TEST(DeviceCollectiveTest, RanksWithTheirOwnGpusAndLibrariesUseNccl) {
  const auto choices = choices_of({kWell[0], kWell[1], kWell[2]}, kPatience);
  for (const CollectiveChoice& choice : choices) {
    EXPECT_EQ(choice.text, "between GPUs, by NCCL 2.28.9");
    EXPECT_FALSE(choice.fell_back);
  }
}

TEST(DeviceCollectiveTest, OneRankWithoutALibraryMakesAllRanksUseTheHostWithAWarning) {
  const auto choices = choices_of({kWell[0], "libnosuchnccl.so.2", kWell[2]}, kPatience);
  EXPECT_EQ(choices[0].text, "through the host: rank 1 has no NCCL");
  EXPECT_THAT(choices[1].text, StartsWith(choices[0].text + " (libnosuchnccl.so.2: "));
  EXPECT_THAT(choices[1].text, HasSubstr("pip install nvidia-nccl-cu13"));
  EXPECT_EQ(choices[2].text, choices[0].text);
  for (const CollectiveChoice& choice : choices) EXPECT_TRUE(choice.fell_back);
}

TEST(DeviceCollectiveTest, ALibraryThatIsSwitchedOffGivesNoWarning) {
  const auto choices = choices_of({kWell[0], "off", kWell[2]}, kPatience);
  EXPECT_EQ(choices[0].text, "through the host: rank 1 has NCCL switched off");
  EXPECT_EQ(choices[1].text, choices[0].text + " (switched off by LOCKSTEP_NCCL)");
  for (const CollectiveChoice& choice : choices) EXPECT_FALSE(choice.fell_back);
}

TEST(DeviceCollectiveTest, RanksThatShareAGpuUseTheHostWithoutAWarning) {
  const auto choices = choices_of({kWell[0], "libnosuchnccl.so.2", kWell[2]}, kPatience,
                                  {"gpu 0", "gpu 1", "gpu 1"});
  for (const CollectiveChoice& choice : choices) {
    EXPECT_THAT(choice.text, StartsWith("through the host: ranks 1 and 2 share a GPU"));
    EXPECT_FALSE(choice.fell_back);
  }
}

// NCCL cannot cancel a join that waits for its peers.
TEST(DeviceCollectiveTest, AProcessThatIsStuckInNcclDoesNotRetry) {
  behave("init stalls");
  aborts();
  auto choices = choices_of({kWell[0], kWell[1], kWell[2]}, std::chrono::seconds(1));
  EXPECT_THAT(choices[0].text, HasSubstr("failed, rank 0: waited"));
  behave("init stalls");
  choices = choices_of({kWell[0], kWell[1], kWell[2]}, kPatience);
  EXPECT_THAT(choices[2].text, HasSubstr("rank 0 still waits in NCCL for peers"));
  EXPECT_TRUE(choices[2].fell_back);
  wait_for_left_joinings();
  EXPECT_EQ(aborts(), kRanks);  // The abandoned joins are aborted after all.
  choices = choices_of({kWell[0], kWell[1], kWell[2]}, kPatience);
  EXPECT_EQ(choices[0].text, "between GPUs, by NCCL 2.28.9");
}

struct Fault {
  const char* how;
  int rank;
  std::string said;
};

TEST(DeviceCollectiveTest, AllRanksUseTheHostAndGiveTheSameReasonIfNcclFails) {
  const std::string words = "NCCL: a fault of the library: no room in /dev/shm";
  aborts();
  for (const Fault& fault :
       {Fault{"no id", 0, "rank 0: " + words}, Fault{"init fails", 1, "rank 1: " + words},
        Fault{"init stalls", -1, "rank 0: waited 0."}, Fault{"calls fail", 2, "rank 2: " + words},
        Fault{"stalls", -1, "rank 0: waited 0."},
        Fault{"lies", 1, "rank 1: NCCL gathered 257, but rank 0 gave 1"}}) {
    behave(fault.how, fault.rank);
    const std::string how = fault.how;
    // Only a library that stalls makes ranks time out; else the timeout may be longer.
    const std::chrono::seconds timeout(how.ends_with("stalls") ? 1 : 4);
    const auto choices = choices_of({kWell[0], kWell[1], kWell[2]}, timeout);
    for (const CollectiveChoice& choice : choices) {
      EXPECT_THAT(choice.text, StartsWith("through the host: NCCL 2.28.9 failed, " + fault.said));
      EXPECT_EQ(choice.text, choices[0].text);
      EXPECT_TRUE(choice.fell_back);
    }
    wait_for_left_joinings();
    // If a rank cannot join, there is no communicator to abort.
    EXPECT_EQ(aborts(), how == "no id" || how == "init fails" ? 0 : kRanks) << how;
  }
}

// Cancels during the library's join, or during its first call.
void expect_cancelled_while(const char* how) {
  behave(how);
  const std::atomic<bool> cancelled{true};
  auto met = local_collectives(kRanks);
  std::vector<std::thread> threads;
  threads.reserve(kRanks);
  for (int rank = 0; rank < kRanks; ++rank) {
    threads.emplace_back([&, rank] {
      OwnDevice device("gpu " + std::to_string(rank));
      CollectiveChoice choice;
      const DeviceMeeting meeting{
          .timeout = kPatience, .cancelled = &cancelled, .nccl = LOCKSTEP_FAKE_NCCL};
      const auto collective = device_collective(std::move(met[rank]), device, meeting, &choice);
      EXPECT_EQ(collective.status().code(), absl::StatusCode::kAborted);
    });
  }
  for (std::thread& thread : threads) thread.join();
  wait_for_left_joinings();
}

TEST(DeviceCollectiveTest, TheEndOfAnEpochEndsConnecting) {
  expect_cancelled_while("init stalls");
  expect_cancelled_while("stalls");
}

TEST(DeviceCollectiveTest, RanksOnCpusKeepTheCollectiveInWhichTheyMet) {
  const std::unique_ptr<Device> device = host_device();
  std::unique_ptr<Collective> met = single_collective();
  const Collective* before = met.get();
  CollectiveChoice choice{.text = "?"};
  const auto collective = device_collective(std::move(met), *device, {}, &choice);
  ASSERT_EQ(message_of(collective.status()), "");
  EXPECT_EQ(collective->get(), before);
  EXPECT_EQ(choice.text, "");
}

}  // namespace
}  // namespace lockstep
