// SPDX-License-Identifier: Apache-2.0
// Devices that exchange values, driven from one thread: over the shim on every machine, and as two
// queues of a GPU if there is one.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "tests/support/devices/stream_device.h"
#include "worker/kernels/kernel.h"
#include "worker/kernels/peer_memory.h"

namespace lockstep {

inline constexpr uint64_t kFirst = 0xfedc'ba98'7654'3210;
inline constexpr int64_t kFloat = sizeof(float);

enum class Kind { kStream, kGpu };

// Ranks, each on its own device, that know each other's memory.
class Ranks {
 public:
  Ranks(Kind kind, int ranks, std::chrono::nanoseconds patience, uint64_t first = kFirst)
      : devices_(static_cast<size_t>(ranks)), groups_(devices_.size()) {
    std::string problem;
    for (int r = 0; r < ranks; ++r) {
      devices_[r] = kind == Kind::kGpu ? open_cuda_device(0, &problem)
                                       : stream_device({.seed = static_cast<uint32_t>(100 + r)});
      PeerHandle handle;
      PeerMemory* const memory = access(r).own(&handle, &problem);
      EXPECT_NE(memory, nullptr) << problem;
      for (PeerGroup& group : groups_) group.memory[r] = memory;
      words_.emplace_back(device(r), kFloat);
      std::memset(words_.back().data(), 0, sizeof(uint32_t));
    }
    for (int r = 0; r < ranks; ++r) {
      groups_[r].rank = r;
      groups_[r].ranks = ranks;
      groups_[r].patience_ns = static_cast<uint64_t>(patience.count());
      groups_[r].ended = reinterpret_cast<uint32_t*>(words_[r].data());
      load_kernels(r);
      set_next(r, first);
    }
  }
  ~Ranks() { synchronize(); }

  Device& device(int rank) { return *devices_[static_cast<size_t>(rank)]; }
  PeerAccess& access(int rank) { return *device(rank).peer_access(); }
  PeerGroup& group(int rank) { return groups_[static_cast<size_t>(rank)]; }
  int count() const { return static_cast<int>(devices_.size()); }
  void synchronize() {
    for (const auto& device : devices_) EXPECT_EQ(device->synchronize(), nullptr);
  }
  // Returns a copy of the rank's memory up to the slots.
  std::unique_ptr<PeerMemory> seen(int rank) {
    auto memory = std::make_unique<PeerMemory>();
    device(rank).copy_out(memory.get(), reinterpret_cast<std::byte*>(group(rank).memory[rank]),
                          offsetof(PeerMemory, slots));
    EXPECT_EQ(device(rank).synchronize(), nullptr);
    return memory;
  }
  // The last flag that rank 0 wrote into rank 1's memory.
  uint64_t raised() { return seen(1)->flags[0][0]; }
  void set_next(int rank, uint64_t first) {
    const std::vector<uint64_t> numbers(kPeerChannels, first);
    device(rank).copy_in(reinterpret_cast<std::byte*>(group(rank).memory[rank]), numbers.data(),
                         sizeof(PeerMemory::next));
    EXPECT_EQ(device(rank).synchronize(), nullptr);
  }
  void set_flags(int rank, uint64_t number) {
    const std::vector<uint64_t> flags(kPeerChannels * kMaxPeers, number);
    device(rank).copy_in(
        reinterpret_cast<std::byte*>(group(rank).memory[rank]) + offsetof(PeerMemory, flags),
        flags.data(), sizeof(PeerMemory::flags));
    EXPECT_EQ(device(rank).synchronize(), nullptr);
  }
  void reduce(int rank, std::byte* data, int64_t rows, int64_t cols, int64_t stride) {
    const char* failure = access(rank).all_reduce(
        group(rank),
        {.data = data, .stride = stride * kFloat, .row_bytes = cols * kFloat, .rows = rows});
    EXPECT_EQ(failure, nullptr);
  }

 private:
  // Runs the kernels of sums once without peers. The first launch of a kernel may wait until the
  // GPU's running work has ended, and in a test that work includes kernels that wait for this rank.
  void load_kernels(int rank) {
    PeerGroup alone = groups_[static_cast<size_t>(rank)];
    alone.memory[0] = alone.memory[rank];
    alone.rank = 0;
    alone.ranks = 1;
    const DeviceMemory memory(device(rank), 64);
    for (const int64_t bytes : {16, 4}) {
      access(rank).all_reduce(
          alone, {.data = memory.data(), .stride = bytes, .row_bytes = bytes, .rows = 1});
      KernelArgs args;
      for (TensorView* view : {&args.in[0], &args.in[1], &args.in[2], &args.out[0], &args.out[1]}) {
        *view = {memory.data(), 1, bytes / kFloat, bytes / kFloat, DType::kF32};
      }
      args.attrs = NormAttrs{};
      args.queue = device(rank).queue();
      access(rank).reduce_add_norm(alone, args);
    }
    EXPECT_EQ(device(rank).synchronize(), nullptr);
  }

  std::vector<std::unique_ptr<Device>> devices_;
  std::vector<PeerGroup> groups_;
  std::vector<StagingMemory> words_;
};

// Sizes and signs differ widely, so that another order of additions gives other bits.
inline std::vector<float> addends(int rank, int64_t count) {
  std::minstd_rand random(static_cast<uint32_t>(77 + 13 * rank + count));
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) {
    const float mantissa = 1.0f + static_cast<float>(random() % 8'388'608) / 8'388'608.0f;
    value = std::ldexp(mantissa, static_cast<int>(random() % 40) - 20);
    if (random() % 2 == 0) value = -value;
    if (random() % 50 == 0) value = std::copysign(0.0f, value);
  }
  return values;
}

class ExchangeTest : public testing::TestWithParam<Kind> {
 protected:
  void SetUp() override {
    std::string problem;
    if (GetParam() == Kind::kGpu && open_cuda_device(0, &problem) == nullptr) {
      GTEST_SKIP() << problem;
    }
  }
  // The maximum number of ranks that may run at the same time.
  int max_ranks() const { return GetParam() == Kind::kGpu ? 2 : kMaxPeers; }
};

}  // namespace lockstep
