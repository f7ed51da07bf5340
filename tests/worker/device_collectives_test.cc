// SPDX-License-Identifier: Apache-2.0
// Collectives of devices, as far as they run without a GPU: by way of the host, by a library that
// behaves as NCCL does, and the choice between them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <barrier>
#include <climits>
#include <cstring>
#include <thread>

#include "base/status.h"
#include "tests/support/wrapped_device.h"
#include "worker/collectives/choice.h"
#include "worker/collectives/local.h"
#include "worker/collectives/nccl.h"
#include "worker/collectives/staged.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;

constexpr int kRanks = 3;

// --- A library of this process' own: ranks are threads, a device's memory is the host's. Calls in
// a group run when it ends, and every one answers "in progress" first.
namespace fake {

constexpr int kSuccess = 0, kInProgress = 7;

struct Part {
  const void* in = nullptr;
  size_t bytes = 0;
};
Part parts[kRanks];
std::barrier meeting(kRanks);
int sent_type = -1;
std::atomic<bool> dead{false};  // Nobody's work ever ends.
std::atomic<int> aborts{0};

struct Communicator {
  int rank = 0;
  int pending = 1;  // How often it is still in progress.
};
struct Queued {
  const void* in;
  void* out;
  size_t bytes;
  int root;
};
thread_local std::vector<Queued> group;
thread_local bool in_group = false;

Communicator& of(Nccl::Comm comm) { return *reinterpret_cast<Communicator*>(comm); }

int get_unique_id(Nccl::Id* id) {
  id->bytes[5] = 77;
  return kSuccess;
}
int init(Nccl::Comm* comm, int ranks, Nccl::Id id, int rank, Nccl::Config*) {
  if (ranks != kRanks || id.bytes[5] != 77) return 4;
  *comm = reinterpret_cast<Nccl::Comm>(new Communicator{.rank = rank});
  return kInProgress;
}
int async_error(Nccl::Comm comm, int* error) {
  const bool waits = dead || of(comm).pending-- > 0;
  *error = waits ? kInProgress : kSuccess;
  return kSuccess;
}
int abort(Nccl::Comm comm) {
  ++aborts;
  delete &of(comm);
  return kSuccess;
}
const char* error_text(int) { return "a fault of the library"; }

// What each rank gives, once all have.
void exchange(Nccl::Comm comm, const void* in, size_t bytes) {
  parts[of(comm).rank] = {in, bytes};
  meeting.arrive_and_wait();
}

int all_gather(const void* in, void* out, size_t count, int type, Nccl::Comm comm, void*) {
  sent_type = type;
  of(comm).pending = 1;
  exchange(comm, in, count);
  for (size_t r = 0; r < kRanks; ++r) {
    std::byte* to = static_cast<std::byte*>(out) + r * count;
    if (parts[r].in != to) std::memcpy(to, parts[r].in, count);
  }
  meeting.arrive_and_wait();
  return kInProgress;
}
int broadcast(const void* in, void* out, size_t count, int, int root, Nccl::Comm, void*) {
  if (!in_group) return 4;
  group.push_back({in, out, count, root});
  return kInProgress;
}
int all_reduce(const void* in, void* out, size_t count, int type, int operation, Nccl::Comm comm,
               void*) {
  if (type != 7 || operation != 0) return 4;
  of(comm).pending = 1;
  std::vector<float> own(count), sum(count);
  std::memcpy(own.data(), in, count * sizeof(float));
  exchange(comm, own.data(), count);
  for (const Part& part : parts) {
    for (size_t i = 0; i < count; ++i) sum[i] += static_cast<const float*>(part.in)[i];
  }
  meeting.arrive_and_wait();
  std::memcpy(out, sum.data(), count * sizeof(float));
  return kInProgress;
}
int group_start() {
  in_group = true;
  return kSuccess;
}
thread_local Nccl::Comm current = nullptr;
int group_end() {
  in_group = false;
  for (const Queued& call : std::exchange(group, {})) {
    exchange(current, call.in, call.bytes);
    const Part& part = parts[call.root];
    if (part.bytes != call.bytes) return 4;
    if (part.in != call.out) std::memcpy(call.out, part.in, call.bytes);
    meeting.arrive_and_wait();
  }
  of(current).pending = 1;
  return kInProgress;
}
int init_and_remember(Nccl::Comm* comm, int ranks, Nccl::Id id, int rank, Nccl::Config* config) {
  const int result = init(comm, ranks, id, rank, config);
  current = *comm;
  return result;
}

const Nccl kLibrary = {.version = 22809,
                       .get_unique_id = get_unique_id,
                       .init = init_and_remember,
                       .async_error = async_error,
                       .abort = abort,
                       .error_text = error_text,
                       .group_start = group_start,
                       .group_end = group_end,
                       .all_gather = all_gather,
                       .broadcast = broadcast,
                       .all_reduce = all_reduce};

}  // namespace fake

// --- What every rank does, on a thread of its own.

using Make = std::function<absl::StatusOr<std::unique_ptr<Collective>>(std::unique_ptr<Collective>,
                                                                       Device&)>;
using Work = std::function<void(Collective&)>;

void on_all_ranks(const Make& make, const Work& work) {
  auto met = local_collectives(kRanks);
  std::vector<std::thread> threads;
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

absl::StatusOr<std::unique_ptr<Collective>> by_nccl(std::unique_ptr<Collective> met,
                                                    Device& device) {
  return nccl_collective(fake::kLibrary, std::move(met), device, std::chrono::milliseconds(5000),
                         nullptr);
}

TEST(StagedCollectiveTest, GathersAndReducesByWayOfTheHost) {
  on_all_ranks([](std::unique_ptr<Collective> met,
                  Device& device) { return staged_collective(std::move(met), device); },
               gather_and_reduce);
}

TEST(StagedCollectiveTest, AloneItPlacesItsOwnColumns) {
  const std::unique_ptr<Device> device = host_device();
  const auto collective = staged_collective(single_collective(), *device);
  gather(*collective, {0, 9}, 4, 2);
  collective->abort();
  EXPECT_EQ(collective->all_reduce(nullptr, 0, 0, 0).code(), absl::StatusCode::kAborted);
}

TEST(NcclCollectiveTest, GathersEvenAndUnevenPartsAndReduces) {
  on_all_ranks(by_nccl, gather_and_reduce);
  EXPECT_EQ(fake::sent_type, 1);
}

TEST(NcclCollectiveTest, AnAbortFromAnotherThreadEndsTheWaitAndTheCommunicator) {
  fake::aborts = 0;
  on_all_ranks(by_nccl, [](Collective& collective) {
    fake::meeting.arrive_and_wait();
    fake::dead = true;
    std::thread other([&] { collective.abort(); });
    EXPECT_EQ(collective.finish().code(), absl::StatusCode::kAborted);
    other.join();
    EXPECT_EQ(collective.all_reduce(nullptr, 1, 1, 1).code(), absl::StatusCode::kAborted);
  });
  fake::dead = false;
  EXPECT_EQ(fake::aborts, kRanks);  // Once each.
}

TEST(NcclCollectiveTest, AStepHasADeadline) {
  on_all_ranks(
      [](std::unique_ptr<Collective> met, Device& device) {
        return nccl_collective(fake::kLibrary, std::move(met), device,
                               std::chrono::milliseconds(200), nullptr);
      },
      [](Collective& collective) {
        fake::meeting.arrive_and_wait();
        fake::dead = true;
        EXPECT_EQ(collective.finish().code(), absl::StatusCode::kDeadlineExceeded);
      });
  fake::dead = false;
}

TEST(NcclLibraryTest, AMissingLibraryIsOneLine) {
  const auto nccl = load_nccl("libnosuchnccl.so.2");
  EXPECT_EQ(nccl.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(message_of(nccl.status()), HasSubstr("libnosuchnccl.so.2"));
  EXPECT_EQ(message_of(nccl.status()).find('\n'), std::string::npos);
  EXPECT_EQ(message_of(load_nccl("off").status()), "switched off by LOCKSTEP_NCCL");
}

TEST(NcclLibraryTest, AnotherLibraryIsRefused) {
  EXPECT_THAT(message_of(load_nccl("libc.so.6").status()), HasSubstr("wanted NCCL 2.18.0"));
}

// Its memory is the host's.
class OwnDevice final : public WrappedDevice {
 public:
  explicit OwnDevice(std::string address)
      : WrappedDevice(host_device()), address_(std::move(address)) {}
  std::string address() const override { return address_; }

 private:
  const std::string address_;
};

TEST(DeviceCollectiveTest, WithoutALibraryAllGoByWayOfTheHostAndSaySo) {
  setenv("LOCKSTEP_NCCL", "off", 1);
  auto met = local_collectives(2);
  std::thread threads[2];
  std::string choices[2];
  for (int rank = 0; rank < 2; ++rank) {
    threads[rank] = std::thread([&, rank] {
      OwnDevice device("gpu " + std::to_string(rank));
      const auto collective = device_collective(std::move(met[rank]), device, {}, &choices[rank]);
      EXPECT_EQ(message_of(collective.status()), "");
    });
  }
  for (std::thread& thread : threads) thread.join();
  unsetenv("LOCKSTEP_NCCL");
  EXPECT_EQ(choices[0], "by way of the host: rank 0 has no NCCL (switched off by LOCKSTEP_NCCL)");
  EXPECT_EQ(choices[1], choices[0]);
}

TEST(DeviceCollectiveTest, AProcessorsRanksGoOnAsTheyMet) {
  const std::unique_ptr<Device> device = host_device();
  std::unique_ptr<Collective> met = single_collective();
  const Collective* before = met.get();
  std::string choice = "?";
  const auto collective = device_collective(std::move(met), *device, {}, &choice);
  ASSERT_EQ(message_of(collective.status()), "");
  EXPECT_EQ(collective->get(), before);
  EXPECT_EQ(choice, "");
}

}  // namespace
}  // namespace lockstep
