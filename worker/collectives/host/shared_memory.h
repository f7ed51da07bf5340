// SPDX-License-Identifier: Apache-2.0
// Collectives through a region of shared memory: between processes of one host, threads of one
// process, and hosts that each have such a region.
//
// Each rank copies its part into its own slot, arrives, waits for the others and reads their slots.
// Slots are double-buffered, so one wait per chunk is enough. Before a rank writes the same buffer
// again, it has waited for all ranks in the next chunk, and each rank arrives there only after it
// has read the buffer. Chunks have kSlotBytes per rank. With N ranks and n bytes (n_r of rank r), a
// rank pays
//
//   all_gather                  1 wait per chunk   writes n_r            reads the other ranks' n_r
//   all_gather in shared()      1 wait             -                     -
//   all_reduce, N = 2 or small  1 wait per chunk   writes n              reads N n
//   all_reduce, else            2 waits per chunk  writes n + n / N      reads 2 n
//
// and copies its own columns to their place while the others arrive.
//
// If the group spans hosts, a rank sends each part that it writes here to one rank of each other
// host, too. That rank receives the part straight into its place in shared(), or into the sender's
// slot in that host's region, and only then arrives (routes.h, tcp_links.h). With H hosts, an
// all_reduce with 2 waits sends n / H and then n / N to each other host, and an all_reduce with 1
// wait sends n. Sums are in rank order either way.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "worker/collectives/collective.h"
#include "worker/collectives/host/barrier.h"
#include "worker/collectives/host/region.h"
#include "worker/collectives/hosts/tcp_links.h"
#include "worker/collectives/rows.h"

namespace lockstep {

// How long one collective may take before the group ends with an error.
inline constexpr std::chrono::seconds kCollectiveTimeout{30};

// After any error the group has ended on every rank: all later calls fail, with the first cause.
// Buffers of a failed call are undefined. The destructor informs peers that the rank has left.
class SharedMemoryCollective final : public Collective {
 public:
  // `host_index` is the rank's index among the ranks of the host.
  SharedMemoryCollective(std::shared_ptr<Region> region, int host_index,
                         std::chrono::nanoseconds timeout);
  // hosts[r] is the host of rank r of the group; `links` are for the routes of routes_of().
  SharedMemoryCollective(std::shared_ptr<Region> region, int host_index,
                         std::chrono::nanoseconds timeout, std::span<const int> hosts,
                         std::unique_ptr<TcpLinks> links);
  ~SharedMemoryCollective() override;

  int rank() const override { return rank_; }
  int ranks() const override { return ranks_; }
  absl::Status all_reduce(float* data, int64_t rows, int64_t cols, int64_t stride) override;
  absl::Status all_gather(const GatherArgs& args) override;
  std::span<std::byte> shared() override { return shared_; }
  void abort() override;
  Waited waited() const override;

 private:
  absl::Status reduce_chunks(const Rows& rows, int64_t bytes);
  absl::Status gather_in_place(const GatherArgs& args);
  absl::Status gather_chunks(const GatherArgs& args, int64_t largest);
  void place_own(const GatherArgs& args) const;
  absl::Status add_chunk(const RowBytes& chunk);
  absl::Status add_and_share_chunk(const RowBytes& chunk);
  // Writes the sum over ranks of the slots' bytes [begin, begin + bytes) to `out`, which may be
  // these bytes of one of the slots.
  void add_slots(int64_t begin, int64_t bytes, std::byte* out);

  // Begins a collective: fails if the group has ended, else starts the clock. leave() ends a
  // collective.
  absl::Status enter(Call call);
  absl::Status leave(absl::Status status);
  // Exchanges data with ranks of other hosts, then arrives at the barrier.
  absl::Status arrive(TcpLinks::RowBytesOf out, TcpLinks::RowBytesOf in);
  absl::Status wait_for_peers();
  absl::Status check_calls();
  Slot& slot(int rank) { return region_->slot(rank, buffer_); }
  RowBytes slot_piece(int rank, int64_t begin, int64_t end);

  const std::shared_ptr<Region> region_;
  const std::span<std::byte> shared_;
  const int rank_;
  const int ranks_;
  const std::chrono::nanoseconds timeout_;
  const std::unique_ptr<TcpLinks> links_;  // Null: all ranks are on this host.
  // For each rank: its index if ranks are ordered by host, and the range of its host's indices.
  struct Slice {
    int place, host_begin, host_end;
  };
  std::vector<Slice> slices_;
  Barrier barrier_;
  Call call_;
  int buffer_ = 0;
  Barrier::Clock::time_point start_;
  int64_t call_wait_ns_ = 0;
  std::atomic<int64_t> wait_ns_{0};
  std::atomic<int64_t> transfer_ns_{0};
};

}  // namespace lockstep
