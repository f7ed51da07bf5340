// SPDX-License-Identifier: Apache-2.0
// The memory that the ranks of one host share: a header, two slots a rank for what it sends, then
// values that all of them see.
// Processes map one sealed memfd, threads use plain memory; the layout is the same.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "absl/status/statusor.h"
#include "worker/collectives/process.h"

namespace lockstep {

inline constexpr int kMaxRegionRanks = 64;
// A slot holds 256 KiB: slot, source and destination of a chunk stay within a core's L2 together.
inline constexpr int64_t kSlotBytes = 256 * 1024;

// Why a group has ended. The first cause stays; a region is never used again after it.
enum class Failure : uint32_t { kNone, kAborted, kGone, kLeft, kDeadline, kMismatch };

// What a rank says of the call that it is in, beside its data, so that ranks which no longer agree
// notice it before they use a byte.
struct Call {
  enum Kind : uint64_t { kAllReduce = 1, kAllGather = 2 };
  uint64_t kind = 0;
  uint64_t epoch = 0;
  uint64_t number = 0;  // Of this collective, from 1.
  int64_t rows = 0;
  int64_t cols = 0;  // Of all ranks together.
  int64_t element_bytes = 0;
  uint64_t boundaries_hash = 0;
  int64_t place = -1;  // In the shared values' bytes, if it is there.

  bool operator==(const Call&) const = default;
};

// No checksum: this is memory of one machine, guarded by its own ECC like every other byte that a
// step touches, and sizes are taken from the reader's own arguments, never from here. TCP has one.
struct alignas(64) Slot {
  Call call;
  alignas(64) std::byte data[kSlotBytes];
};

struct RegionHeader {
  uint64_t magic = 0;
  uint64_t bytes = 0;
  uint64_t epoch = 0;
  int64_t ranks = 0;
  ProcessIdentity processes[kMaxRegionRanks];  // Written by rank 0 before any other rank attaches.

  // Read in every call, written only when somebody sleeps or fails.
  alignas(128) std::atomic<uint32_t> failure{0};  // Failure, and the rank that it names << 8.
  std::atomic<uint32_t> sleepers{0};
  std::atomic<uint32_t> bell{0};  // The futex: moves whenever sleepers are to look again.

  // 128 bytes each, since processors fetch lines in pairs.
  struct alignas(128) Rank {
    std::atomic<uint64_t> sequence{0};  // How often this rank has arrived.
    std::atomic<uint32_t> cpu{0};       // On which it was then, and 1; 0: unknown.
    std::atomic<uint32_t> left{0};
  };
  Rank at[kMaxRegionRanks];
};
static_assert(std::atomic<uint64_t>::is_always_lock_free);

// Owns one mapping of a region. The last owner's end unmaps it; peers keep theirs.
class Region {
 public:
  // A region of a memfd, all of it allocated at once: memory that is short is an error here and not
  // a SIGBUS in a step. *fd is the caller's to pass on and close.
  static absl::StatusOr<std::shared_ptr<Region>> create(int ranks, uint64_t epoch,
                                                        int64_t shared_bytes, int* fd);
  // Maps what another process made. Does not take `fd`. Refuses what is not such a region.
  static absl::StatusOr<std::shared_ptr<Region>> attach(int fd, int ranks, uint64_t epoch,
                                                        int64_t shared_bytes);
  // For threads of one process.
  static std::shared_ptr<Region> in_process(int ranks, uint64_t epoch, int64_t shared_bytes);

  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;
  ~Region();

  RegionHeader& header() { return *static_cast<RegionHeader*>(memory_); }
  Slot& slot(int rank, int buffer);
  std::span<std::byte> shared();  // Begins on a page.

 private:
  Region(void* memory, size_t bytes, int64_t shared_bytes, bool mapped);

  void* memory_;
  size_t bytes_;
  int64_t shared_bytes_;
  bool mapped_;
};

}  // namespace lockstep
