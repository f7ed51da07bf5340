// SPDX-License-Identifier: Apache-2.0
// Memory of each rank's device that the devices of the host's other ranks read and write. In an
// exchange every rank writes its part into a slot of its own memory, sets a flag in every rank's
// memory, waits for every rank's flag in its own, and reads all slots. One kernel on each device
// does that (cuda/peers/exchange.cu), without the host and without a library.
//
// Exchanges use channels, one for each block of a kernel. Channels are independent, so blocks may
// run in any order. Exchange n of a channel uses slot n % 2, and one wait per exchange is enough. A
// rank sets flag n + 1 only after it has read all that it needs of exchange n. A rank that writes
// slot n % 2 again, for exchange n + 2, has seen flag n + 1 of every rank. For the same reason no
// rank is ahead by more than one exchange, so a rank that waits for flag n finds n or n + 1. Any
// other value is from an earlier group, since nothing is cleared while peers may write. Each group
// numbers its exchanges from a random number on (64 bits, which may wrap). No absl, no CUDA.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace lockstep {

struct KernelArgs;  // kernel.h

inline constexpr int kMaxPeers = 8;  // Ranks that exchange, this one included.
inline constexpr int kPeerChannels = 32;
inline constexpr int64_t kPeerSlotBytes = 16 << 10;

// A rank's memory, as laid out on its device.
struct PeerMemory {
  uint64_t next[kPeerChannels];  // The number of the channel's next exchange.
  uint32_t ended;                // 1: this group has given up, and sets no more flags.
  alignas(256) uint64_t flags[kPeerChannels][kMaxPeers];  // By peer: each peer writes its own.
  alignas(256) std::byte slots[2][kPeerChannels][kPeerSlotBytes];
};
// Drivers share memory in pieces of 2 MiB.
inline constexpr int64_t kPeerMemoryBytes = 2 << 20;
static_assert(sizeof(PeerMemory) <= kPeerMemoryBytes);

// Values of PeerGroup::ended, the reason why exchanges have ended: the first one is kept. kPeerLate
// + r: the wait for rank r timed out.
inline constexpr uint32_t kPeersMeet = 0, kPeersAborted = 1, kPeerLate = 2;

// The ranks that exchange. A kernel waits for a flag for at most `patience_ns`, or until it sees
// that *ended is no longer kPeersMeet. The kernel then ends without a result, like all later
// kernels. *ended is in host memory that the device sees.
struct PeerGroup {
  PeerMemory* memory[kMaxPeers] = {};  // By rank, as this rank's device sees it.
  int rank = 0;
  int ranks = 0;
  uint64_t patience_ns = 0;
  uint32_t* ended = nullptr;
};

// Rows of float32 on each rank, which are replaced by their sums in rank order, 0 + 1 + 2 ...
struct PeerSum {
  std::byte* data = nullptr;
  int64_t stride = 0;  // In bytes, like all strides in this file.
  int64_t row_bytes = 0;
  int64_t rows = 0;
};
// From this size on, two exchanges move fewer bytes than one, since each rank adds only a part.
inline constexpr int64_t kMinSharedSumBytes = 256 << 10;

// Columns of all ranks side by side; those of rank r are bytes [boundaries[r], boundaries[r + 1])
// of a row of `to`. This rank's columns may be there already.
struct PeerGather {
  const std::byte* from = nullptr;
  int64_t from_stride = 0;
  std::byte* to = nullptr;
  int64_t to_stride = 0;
  int64_t rows = 0;
  int64_t boundaries[kMaxPeers + 1] = {};
};

// How other ranks reach a device's PeerMemory. Plain bytes, for peers of one host.
struct PeerHandle {
  std::byte driver[64] = {};  // The driver's handle for other processes.
  uint64_t process = 0;       // A random number of the process; within it `address` suffices.
  void* address = nullptr;
  int32_t device = 0;
};

// The functions that a device must support. Errors are static texts, or one line in `problem`; a
// failed call does no harm to the device. For one thread at a time.
class PeerAccess {
 public:
  virtual ~PeerAccess() = default;
  // This device's own memory, all zeros before its first use. It exists as long as the device:
  // peers may be late. Null on an error; `problem` says why.
  virtual PeerMemory* own(PeerHandle* handle, std::string* problem) = 0;
  // Maps another rank's memory. Null on an error. Call close() when no queued work uses the memory.
  virtual PeerMemory* open(const PeerHandle& peer, std::string* problem) = 0;
  virtual void close(const PeerHandle& peer, PeerMemory* memory) = 0;
  // Queues the exchange. All ranks make the same calls in the same order and with the same sizes.
  // The rows of a sum may have any size: the kernel cuts them into pieces that fit a slot.
  virtual const char* all_reduce(const PeerGroup& group, const PeerSum& sum) = 0;
  virtual const char* all_gather(const PeerGroup& group, const PeerGather& gather) = 0;
  // all_reduce of in[1], then the kernel add_norm with these arguments, in one kernel and with the
  // same bits.
  virtual const char* reduce_add_norm(const PeerGroup& group, const KernelArgs& args) = 0;
};

}  // namespace lockstep
