// SPDX-License-Identifier: Apache-2.0
// Collectives between devices that reach each other's memory. The ranks are threads of this process
// or separate processes. If devices do not reach each other's memory, there is a fallback and a
// message that says why.
#include "worker/collectives/devices/direct.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <thread>

#include "tests/support/cluster/local_collectives.h"
#include "tests/support/devices/stream_device.h"
#include "tests/support/environment.h"
#include "tests/support/processes/child_process.h"
#include "tests/worker/collectives/checks.h"
#include "worker/collectives/devices/choice.h"
#include "worker/collectives/devices/staged.h"
#include "worker/collectives/host/rendezvous.h"
#include "worker/kernels/kernel.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr const char* kDirect = "; sums and small gathers in memory that GPUs share";

// The timeout for a missing rank; the trial of peer memory has half of it.
constexpr std::chrono::seconds kShort{4};

// Tests read the result right after the call, so each call also calls finish().
class Finished final : public Collective {
 public:
  Finished(Collective& inner, Device& device) : inner_(inner), device_(device) {}
  int rank() const override { return inner_.rank(); }
  int ranks() const override { return inner_.ranks(); }
  void abort() override { inner_.abort(); }
  Waited waited() const override { return inner_.waited(); }
  absl::Status all_reduce(float* data, int64_t rows, int64_t cols, int64_t stride) override {
    RETURN_IF_ERROR(inner_.all_reduce(data, rows, cols, stride));
    return finish();
  }
  absl::Status all_gather(const GatherArgs& args) override {
    RETURN_IF_ERROR(inner_.all_gather(args));
    return finish();
  }
  absl::Status finish() override {
    const absl::Status status = inner_.finish();
    device_.synchronize();
    return status;
  }

 private:
  Collective& inner_;
  Device& device_;
};

using Work = std::function<absl::Status(Collective&, Device&)>;

StreamOptions own_device(int rank) { return {.address = "gpu " + std::to_string(rank)}; }

struct Met {
  std::vector<absl::Status> results;
  std::vector<CollectiveChoice> choices;
};

// Runs `work` on every rank, each on its own thread, after the ranks have met.
Met meet(const std::vector<StreamOptions>& options, const Work& work,
         std::chrono::milliseconds timeout = kPatience) {
  const int ranks = static_cast<int>(options.size());
  Met met{std::vector<absl::Status>(options.size()), std::vector<CollectiveChoice>(options.size())};
  std::vector<std::unique_ptr<Device>> devices;  // Devices live until all ranks are done.
  devices.reserve(options.size());
  for (const StreamOptions& each : options) devices.push_back(stream_device(each));
  auto local = local_collectives(ranks);
  std::vector<std::thread> threads;
  threads.reserve(options.size());
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      const DeviceMeeting meeting{.timeout = timeout, .nccl = "off"};
      const auto collective =
          device_collective(std::move(local[rank]), *devices[rank], meeting, &met.choices[rank]);
      met.results[rank] =
          collective.ok() ? work(**collective, *devices[rank]) : collective.status();
    });
  }
  for (std::thread& thread : threads) thread.join();
  return met;
}

std::vector<StreamOptions> own_devices(int ranks) {
  std::vector<StreamOptions> options;
  options.reserve(static_cast<size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank) options.push_back(own_device(rank));
  return options;
}

absl::Status gather_and_reduce(Collective& collective, Device& device) {
  Finished finished(collective, device);
  const int ranks = collective.ranks();
  for (const int64_t rows : {1, 5, 64}) {
    RETURN_IF_ERROR(reduce_and_check(finished, rows, 33, rows % 3));
    RETURN_IF_ERROR(reduce_and_check(finished, rows, 64, 0));
    for (const int64_t size : {1, 2, 4}) {
      RETURN_IF_ERROR(gather_and_check(finished, {rows, even(ranks, 31), size, 2, false}));
      RETURN_IF_ERROR(gather_and_check(finished, {rows, even(ranks, 32), size, 0, true}));
    }
  }
  return absl::OkStatus();
}

TEST(DirectCollectiveTest, SumsHaveTheBitsOfAdditionsInRankOrder) {
  for (const int ranks : {2, 3, kMaxPeers}) {
    const Met met = meet(own_devices(ranks), gather_and_reduce);
    expect_ok(met.results);
    for (const CollectiveChoice& choice : met.choices) {
      EXPECT_THAT(choice.text, HasSubstr(kDirect));
      EXPECT_FALSE(choice.fell_back);
    }
  }
}

TEST(DirectCollectiveTest, ALargeGatherUsesTheFallbackAndALargeSumDoesNot) {
  expect_ok(meet(own_devices(3), [](Collective& collective, Device& device) -> absl::Status {
              Finished finished(collective, device);
              RETURN_IF_ERROR(gather_and_check(finished, {5, even(3, 400'000), 1, 0, false}));
              RETURN_IF_ERROR(reduce_and_check(finished, 3, 60'000, 1));
              return gather_and_check(finished, {5, even(3, 30), 1, 0, false});
            }).results);
}

// ExchangeNormTest checks the bits of the fused norm.
TEST(DirectCollectiveTest, ANormIsFusedWithASumThatIsNotSplitAmongRanks) {
  expect_ok(meet(own_devices(3), [](Collective& collective, Device& device) -> absl::Status {
              constexpr int64_t kCols = 1024;
              constexpr int64_t kRows = kMinSharedSumBytes / kCols / 4;
              std::vector<float> x(kRows * kCols), sum(x), norm(x), weight(kCols, 1);
              KernelArgs args;
              args.in[2] = {weight.data(), 1, kCols, kCols, DType::kF32};
              args.attrs = NormAttrs{};
              for (const int64_t rows : {int64_t{1}, kRows - 1, kRows, int64_t{0}}) {
                std::ranges::fill(sum, 1.0f);
                args.in[0] = {x.data(), rows, kCols, kCols, DType::kF32};
                args.in[1] = args.out[0] = {sum.data(), rows, kCols, kCols, DType::kF32};
                args.out[1] = {norm.data(), rows, kCols, kCols, DType::kF32};
                ASSIGN_OR_RETURN(const bool done, collective.reduce_add_norm(args));
                RETURN_IF_ERROR(collective.finish());
                device.synchronize();
                EXPECT_EQ(done, rows > 0 && rows < kRows) << rows;
                EXPECT_EQ(sum[0], done ? 3 : 1) << rows;
              }
              return absl::OkStatus();
            }).results);
}

TEST(DirectCollectiveTest, NoNormIsFusedWithASumThroughTheHost) {
  const auto device = stream_device();
  const auto collective = staged_collective(std::move(local_collectives(2)[0]), *device);
  EXPECT_FALSE(*collective->reduce_add_norm({}));
}

TEST(DirectCollectiveTest, AllRanksFallBackAndGiveTheSameReasonIfOneRankCannotReachAPeer) {
  struct Case {
    std::function<void(StreamOptions&)> spoil;
    std::string said;
  };
  for (const Case& c :
       {Case{[](StreamOptions& rank) { rank.refusal = "not between these"; },
             " (GPUs share no memory: rank 1: the memory of rank 0: not between these)"},
        Case{
            [](StreamOptions& rank) { rank.has_peers = false; },
            " (GPUs share no memory: rank 1: its device cannot reach the memory of other devices)"},
        Case{[](StreamOptions& rank) { rank.lies = true; },
             " (GPUs share no memory: rank 0: the ranks' sum must be 600, found "}}) {
    std::vector<StreamOptions> options = own_devices(3);
    c.spoil(options[1]);
    const Met met = meet(options, gather_and_reduce);
    expect_ok(met.results);
    for (const CollectiveChoice& choice : met.choices) {
      EXPECT_THAT(choice.text, HasSubstr(c.said));
      EXPECT_EQ(choice.text, met.choices[0].text);
    }
  }
}

TEST(DirectCollectiveTest, RanksThatShareAGpuUseTheHost) {
  std::vector<StreamOptions> options = own_devices(3);
  options[2].address = options[0].address;
  const Met met = meet(options, gather_and_reduce);
  expect_ok(met.results);
  EXPECT_THAT(met.choices[0].text, StartsWith("through the host: ranks 0 and 2 share a GPU"));
  EXPECT_THAT(met.choices[0].text, ::testing::Not(HasSubstr("memory")));
}

TEST(DirectCollectiveTest, TheEnvironmentSwitchesPeerMemoryOff) {
  const ScopedVariable off("LOCKSTEP_PEER_MEMORY", "off");
  const Met met = meet(own_devices(2), gather_and_reduce);
  expect_ok(met.results);
  EXPECT_THAT(met.choices[1].text, HasSubstr("rank 0: switched off by LOCKSTEP_PEER_MEMORY"));
}

TEST(DirectCollectiveTest, AnAbortFromAnotherThreadEndsTheWaitForAPeer) {
  const Met met = meet(own_devices(2), [](Collective& collective, Device&) -> absl::Status {
    if (collective.rank() == 1) return absl::OkStatus();
    std::vector<float> data(8);
    RETURN_IF_ERROR(collective.all_reduce(data.data(), 1, 8, 8));
    std::thread other([&] { collective.abort(); });
    const absl::Status status = collective.finish();
    other.join();
    EXPECT_EQ(collective.all_reduce(data.data(), 1, 8, 8), status);
    return status;
  });
  EXPECT_EQ(met.results[0].code(), absl::StatusCode::kAborted);
}

TEST(DirectCollectiveTest, AMissingPeerTimesOutAtTheDeadline) {
  const Met met = meet(
      own_devices(2),
      [](Collective& collective, Device&) -> absl::Status {
        if (collective.rank() == 1) return absl::OkStatus();
        std::vector<float> data(8);
        RETURN_IF_ERROR(collective.all_reduce(data.data(), 1, 8, 8));
        return collective.finish();
      },
      kShort);
  EXPECT_EQ(met.results[0].code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(message_of(met.results[0]), HasSubstr("for the GPU of rank 1"));
}

// --- Ranks that are processes.

std::unique_ptr<Child> start(int rank, int ranks, std::chrono::milliseconds timeout,
                             const Work& work) {
  static const std::string group = "direct-test-" + std::to_string(getpid());
  return std::make_unique<Child>([=]() -> absl::Status {
    ASSIGN_OR_RETURN(auto met, meet_in_shared_memory({.rank = rank,
                                                      .ranks = ranks,
                                                      .epoch = 1,
                                                      .group = group,
                                                      .secret = "secret",
                                                      .timeout = kPatience,
                                                      .collective_timeout = kPatience}));
    const std::unique_ptr<Device> device = stream_device(own_device(rank));
    CollectiveChoice choice;
    ASSIGN_OR_RETURN(
        const auto collective,
        device_collective(std::move(met), *device, {.timeout = timeout, .nccl = "off"}, &choice));
    if (choice.text.find(kDirect) == std::string::npos) return absl::UnknownError(choice.text);
    return work(*collective, *device);
  });
}

TEST(DirectCollectiveTest, ProcessesReachEachOthersMemory) {
  std::vector<std::unique_ptr<Child>> ranks;
  ranks.reserve(3);
  for (int rank = 0; rank < 3; ++rank) {
    ranks.push_back(start(rank, 3, kPatience, gather_and_reduce));
  }
  for (auto& rank : ranks) EXPECT_EQ(rank->result(), absl::OkStatus());
}

TEST(DirectCollectiveTest, AKilledProcessEndsTheOthersCalls) {
  std::vector<std::unique_ptr<Child>> ranks;
  ranks.reserve(3);
  for (int rank = 0; rank < 3; ++rank) {
    ranks.push_back(start(rank, 3, kShort, [](Collective& collective, Device& device) {
      Finished finished(collective, device);
      for (int call = 0; call < 1000; ++call) {
        if (call == 5 && collective.rank() == 2) kill(getpid(), SIGKILL);
        RETURN_IF_ERROR(reduce_and_check(finished, 1, 64, 0));
      }
      return absl::OkStatus();
    }));
  }
  for (const int rank : {0, 1}) {
    const absl::Status status = ranks[rank]->result();
    EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded) << status;
  }
}

}  // namespace
}  // namespace lockstep
