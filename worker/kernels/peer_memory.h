// SPDX-License-Identifier: Apache-2.0
// Memory of each rank's device that the devices of the host's other ranks read and write. An
// exchange: every rank writes its part into a slot of its own memory, raises a flag in everybody's,
// waits for everybody's flag in its own, and reads all slots. One kernel on each device does it
// (cuda/exchange.cu), no host and no library.
//
// Exchanges go over channels, one for each block of a kernel. A channel knows nothing of the
// others, so blocks may run in any order. Exchange n of a channel uses slot n % 2, and one wait is
// enough: whoever writes slot n % 2 again, for n + 2, has seen everybody's flag n + 1, which a rank
// raises only once it has read all that it wants of n. For the same reason nobody is ahead by more
// than one exchange, so that a rank that waits for flag n finds n or n + 1. Anything else is of an
// earlier group: each numbers its exchanges from a random number on (64 bits, which may wrap), and
// nothing is cleared while peers may write. No absl, no CUDA.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace lockstep {

struct KernelArgs;  // kernel.h

inline constexpr int kMaxPeers = 8;  // Ranks that exchange, this one included.
inline constexpr int kPeerChannels = 32;
inline constexpr int64_t kPeerSlotBytes = 16 << 10;

// A rank's memory, as it lies on its device.
struct PeerMemory {
  uint64_t next[kPeerChannels];  // The number of the channel's next exchange.
  uint32_t ended;                // 1: this group has given up, and raises no flag any more.
  alignas(256) uint64_t flags[kPeerChannels][kMaxPeers];  // By peer, who writes it.
  alignas(256) std::byte slots[2][kPeerChannels][kPeerSlotBytes];
};
// Drivers share memory in pieces of 2 MiB.
inline constexpr int64_t kPeerMemoryBytes = 2 << 20;
static_assert(sizeof(PeerMemory) <= kPeerMemoryBytes);

// Why exchanges are over, in memory of the host that the device sees: whoever comes first writes
// it. kPeerLate + r: nobody waits any longer for rank r.
inline constexpr uint32_t kPeersMeet = 0, kPeersAborted = 1, kPeerLate = 2;

// The ranks that exchange. A kernel waits for a flag for at most `patience_ns`, and for a moment
// once *ended is not kPeersMeet; it then leaves without a result, and so do all after it.
struct PeerGroup {
  PeerMemory* memory[kMaxPeers] = {};  // By rank, as this rank's device sees it.
  int rank = 0;
  int ranks = 0;
  uint64_t patience_ns = 0;
  uint32_t* ended = nullptr;
};

// Rows of float32 on each rank, to be replaced by their sums in rank order, 0 + 1 + 2 ...
struct PeerSum {
  std::byte* data = nullptr;
  int64_t stride = 0;  // Bytes, as all below.
  int64_t row_bytes = 0;
  int64_t rows = 0;
};
// Two exchanges instead of one, in which each rank adds a part, move fewer bytes from here on.
inline constexpr int64_t kMinSharedSumBytes = 256 << 10;

// Columns of all ranks side by side; those of rank r are bytes [boundaries[r], boundaries[r + 1])
// of a row of `to`. This rank's may be there already.
struct PeerGather {
  const std::byte* from = nullptr;
  int64_t from_stride = 0;
  std::byte* to = nullptr;
  int64_t to_stride = 0;
  int64_t rows = 0;
  int64_t boundaries[kMaxPeers + 1] = {};
};

// Tells others how to reach a device's PeerMemory. Plain bytes, for peers of one host.
struct PeerHandle {
  std::byte driver[64] = {};  // What the driver makes of it for other processes.
  uint64_t process = 0;       // A random number of the process; in it `address` will do.
  void* address = nullptr;
  int32_t device = 0;
};

// What a device must be able to do. Texts are static, or set to one line; calls may fail without
// harm to the device. One thread at a time.
class PeerAccess {
 public:
  virtual ~PeerAccess() = default;
  // This device's own, all zeros before its first use. It stays as long as the device: peers may
  // be late. Null, and why.
  virtual PeerMemory* own(PeerHandle* handle, std::string* problem) = 0;
  // Another's. Null, and why. To be closed by this device once nothing that is queued uses it.
  virtual PeerMemory* open(const PeerHandle& peer, std::string* problem) = 0;
  virtual void close(const PeerHandle& peer, PeerMemory* memory) = 0;
  // Queued. All ranks call the same in the same order, with the same sizes; sums may be of any.
  virtual const char* all_reduce(const PeerGroup& group, const PeerSum& sum) = 0;
  virtual const char* all_gather(const PeerGroup& group, const PeerGather& gather) = 0;
  // all_reduce of in[1], then the kernel add_norm with these arguments, in one kernel and with the
  // same bits.
  virtual const char* reduce_add_norm(const PeerGroup& group, const KernelArgs& args) = 0;
};

}  // namespace lockstep
