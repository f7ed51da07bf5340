// SPDX-License-Identifier: Apache-2.0
// The memory that the ranks of one host share. First comes a header. Then come two slots for each
// rank of the group, with the data that the rank sends. Last come the values that all ranks see.
// Ranks of other hosts have slots here, too: the rank of this host that receives their data writes
// it into these slots. Processes map one sealed memfd, threads use plain memory; the layout is the
// same.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/collectives/host/process.h"
#include "worker/collectives/hosts/call.h"

namespace lockstep {

inline constexpr int kMaxRegionRanks = 64;
// A slot holds 256 KiB, so that slot, source and destination of a chunk fit together in a core's L2
// cache.
inline constexpr int64_t kSlotBytes = 256 * 1024;

// Why a group has ended. The first cause is kept; the region is never used again.
enum class Failure : uint32_t { kNone, kAborted, kGone, kLeft, kDeadline, kMismatch, kDamaged };

// The end of a group, as one host sends it to another.
struct Goodbye {
  Failure failure = Failure::kAborted;  // Or kGone, kLeft.
  int64_t number = 0;                   // The rank that aborted the group, or was lost.

  bool operator==(const Goodbye&) const = default;
};

// A chunk that a rank sends, after the description of its call. A slot needs no checksum: this is
// memory of one machine, and its ECC protects it like all other memory of a step. (Frames over TCP
// have a checksum.) Readers compute sizes from their own arguments, and never read sizes here.
struct alignas(64) Slot {
  Call call;
  alignas(64) std::byte data[kSlotBytes];
};

struct RegionHeader {
  uint64_t magic = 0;
  uint64_t bytes = 0;
  uint64_t epoch = 0;
  int64_t ranks = 0;  // Ranks of this host; arrays below are indexed by 0 to ranks - 1.
  int64_t slots = 0;  // Ranks of the group; each has two slots.
  // Written by the first rank before any other attaches.
  int64_t numbers[kMaxRegionRanks];  // Ranks' numbers in the group, ascending.
  ProcessIdentity processes[kMaxRegionRanks];

  // The next three members are read in every call, and written only if a rank sleeps or fails. The
  // low 8 bits of `failure` are the Failure; the other bits are a rank's number in the group, for
  // messages (see Barrier::fail()).
  alignas(128) std::atomic<uint32_t> failure{0};
  std::atomic<uint32_t> sleepers{0};
  std::atomic<uint32_t> doorbell{0};  // The futex; changes when sleepers must check again.

  // 128 bytes each, since CPUs fetch lines in pairs.
  struct alignas(128) Rank {
    std::atomic<uint64_t> sequence{0};  // How often this rank has arrived.
    std::atomic<uint32_t> cpu{0};       // The CPU where it last arrived, plus 1; 0: unknown.
    std::atomic<uint32_t> left{0};
  };
  Rank at[kMaxRegionRanks];
};
static_assert(std::atomic<uint64_t>::is_always_lock_free);

struct RegionShape {
  int ranks = 1;  // Ranks of this host.
  uint64_t epoch = 0;
  int64_t shared_bytes = 0;
  std::vector<int> numbers = {};  // The group numbers of this host's ranks; empty: 0, 1, ...
  int slots = 0;                  // Ranks of the group; 0: all are on this host.
};

// Owns one mapping of a region and unmaps it at the end; peers keep theirs.
class Region {
 public:
  // A region in a memfd, allocated at once: a lack of memory is an error here and not a SIGBUS in a
  // step. The caller passes *fd on and closes it.
  static absl::StatusOr<std::shared_ptr<Region>> create(const RegionShape& shape, int* fd);
  // Maps a region that another process made; `fd` stays the caller's. kFailedPrecondition: `fd` is
  // not a region of this shape.
  static absl::StatusOr<std::shared_ptr<Region>> attach(int fd, const RegionShape& shape);
  // A region for threads of one process.
  static std::shared_ptr<Region> in_process(const RegionShape& shape);

  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;
  ~Region();

  RegionHeader& header() { return *static_cast<RegionHeader*>(memory_); }
  Slot& slot(int number, int buffer);  // `number`: the rank's, in the group.
  std::span<std::byte> shared();       // Begins on a page boundary.

 private:
  Region(void* memory, size_t bytes, int64_t shared_bytes, bool mapped);

  void* memory_;
  size_t bytes_;
  int64_t shared_bytes_;
  bool mapped_;
};

}  // namespace lockstep
