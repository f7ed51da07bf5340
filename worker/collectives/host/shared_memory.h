// SPDX-License-Identifier: Apache-2.0
// Collectives through a region of shared memory, between processes of one host and between threads
// of one process alike; and between hosts, each with such a region.
//
// Each rank copies its part into a slot of its own, arrives, waits for the others and reads their
// slots. Slots are double-buffered: who writes a buffer again has waited once since, and no rank
// arrives there before it has read, so one wait a chunk is enough. Payloads go in chunks of
// kSlotBytes a rank. With N ranks and n bytes (n_r of rank r), a rank pays
//
//   all_gather                  1 wait a chunk    writes n_r            reads the other ranks' n_r
//   all_gather in shared()      1 wait            -                     -
//   all_reduce, N = 2 or small  1 wait a chunk    writes n              reads N n
//   all_reduce, else            2 waits a chunk   writes n + n / N      reads 2 n
//
// and copies its own columns to their place while the others arrive.
//
// Where the group spans hosts, a part that a rank writes here goes to each other host as well, to
// one rank, which receives it straight to its place in shared() or into the sender's slot there,
// and arrives only then (routes.h, tcp_links.h). An all_reduce of 2 waits sends n / H and then n /
// N to each of the other H - 1 hosts, one of 1 wait sends n. Sums are in rank order either way.
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

// How long one collective may take before it ends the group.
inline constexpr std::chrono::seconds kCollectiveTimeout{30};

// After any error the group has ended on every rank: all later calls fail, with the first cause.
// Buffers of a failed call hold anything. Its destruction tells the peers that the rank has left.
class SharedMemoryCollective final : public Collective {
 public:
  // `place` is the rank's among those of the host.
  SharedMemoryCollective(std::shared_ptr<Region> region, int place,
                         std::chrono::nanoseconds timeout);
  // hosts[r] tells the host of rank r of the group; `links` are as routes_of() says.
  SharedMemoryCollective(std::shared_ptr<Region> region, int place,
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
  // Adds the slots' bytes [begin, begin + bytes) into `out`, which may be a slot's same bytes.
  void add_slots(int64_t begin, int64_t bytes, std::byte* out);

  // The frame of every collective: refuses an ended group, starts the clock; and back.
  absl::Status enter(Call call);
  absl::Status leave(absl::Status status);
  // Sends and receives what goes between hosts, then arrives.
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
  const std::unique_ptr<TcpLinks> links_;  // Null: all ranks are here.
  // Where the ranks are in the order of hosts, and where each one's host begins and ends there.
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
