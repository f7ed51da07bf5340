// SPDX-License-Identifier: Apache-2.0
// all_gather and all_reduce over slots. Every size is computed from the caller's own arguments;
// wrong values from a peer can make a call fail, but the call never reads or writes out of bounds.
#include "worker/collectives/host/shared_memory.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/status.h"

namespace lockstep {
namespace {

// From this size on each rank adds only a part of a chunk. The ranks then wait a second time, to
// share their sums, but that costs less than reading every slot completely.
constexpr int64_t kShareBytes = 32 * 1024;
constexpr int64_t kLineBytes = 64;

uint64_t hash(std::span<const int64_t> numbers) {
  uint64_t hash = 0xcbf29ce484222325ull;
  for (const int64_t number : numbers)
    hash = (hash ^ static_cast<uint64_t>(number)) * 0x100000001b3;
  return hash;
}

void check_gather(const GatherArgs& args, int rank, int ranks) {
  LOCKSTEP_CHECK(args.boundaries.size() == static_cast<size_t>(ranks) + 1);
  LOCKSTEP_CHECK(args.boundaries[0] == 0 && args.rows >= 0 && args.element_bytes > 0);
  for (int r = 0; r < ranks; ++r) LOCKSTEP_CHECK(args.boundaries[r] <= args.boundaries[r + 1]);
  const int64_t own = args.boundaries[rank + 1] - args.boundaries[rank];
  LOCKSTEP_CHECK(args.rows <= 1 || (args.out_stride >= args.boundaries[ranks] &&
                                    (own == 0 || args.in_stride >= own)));
}

}  // namespace

SharedMemoryCollective::SharedMemoryCollective(std::shared_ptr<Region> region, int host_index,
                                               std::chrono::nanoseconds timeout)
    : SharedMemoryCollective(std::move(region), host_index, timeout, {}, nullptr) {}

SharedMemoryCollective::SharedMemoryCollective(std::shared_ptr<Region> region, int host_index,
                                               std::chrono::nanoseconds timeout,
                                               std::span<const int> hosts,
                                               std::unique_ptr<TcpLinks> links)
    : region_(std::move(region)),
      shared_(region_->shared()),
      rank_(static_cast<int>(region_->header().numbers[host_index])),
      ranks_(static_cast<int>(region_->header().slots)),
      timeout_(timeout),
      links_(std::move(links)),
      slices_(ranks_),
      barrier_(region_->header(), host_index) {
  const std::vector<int> one_host(ranks_, 0);
  if (links_ == nullptr) hosts = one_host;
  LOCKSTEP_CHECK(static_cast<int>(hosts.size()) == ranks_);
  const std::vector<int> order = by_host(hosts);
  for (int i = 0; i < ranks_; ++i) {
    const int rank = order[i];
    const bool begins = i == 0 || hosts[order[i - 1]] != hosts[rank];
    slices_[rank].place = i;
    slices_[rank].host_begin = begins ? i : slices_[order[i - 1]].host_begin;
    slices_[rank].host_end =
        slices_[rank].host_begin + static_cast<int>(ranks_of_host(hosts, hosts[rank]).size());
  }
}

SharedMemoryCollective::~SharedMemoryCollective() {
  barrier_.leave();
  if (links_ != nullptr) links_->end({.failure = Failure::kLeft, .number = rank_});
}

void SharedMemoryCollective::abort() {
  barrier_.fail(Failure::kAborted, rank_);
  if (links_ != nullptr) links_->end(barrier_.goodbye());
}

Collective::Waited SharedMemoryCollective::waited() const {
  return {.wait_ns = wait_ns_.load(std::memory_order_relaxed),
          .transfer_ns = transfer_ns_.load(std::memory_order_relaxed)};
}

absl::Status SharedMemoryCollective::enter(Call call) {
  start_ = Barrier::Clock::now();
  call_wait_ns_ = 0;
  call.epoch = region_->header().epoch;
  call.number = call_.number + 1;
  call_ = call;
  return barrier_.failure();
}

absl::Status SharedMemoryCollective::leave(absl::Status status) {
  const int64_t total_ns = (Barrier::Clock::now() - start_).count();
  const auto add = [](std::atomic<int64_t>& counter, int64_t ns) {  // Only one thread writes it.
    counter.store(counter.load(std::memory_order_relaxed) + ns, std::memory_order_relaxed);
  };
  add(wait_ns_, call_wait_ns_);
  add(transfer_ns_, total_ns - call_wait_ns_);
  if (status.ok()) [[likely]] {
    return status;
  }
  if (links_ != nullptr) links_->end(barrier_.goodbye());  // Informs ranks of other hosts.
  return absl::Status(status.code(), fmt::format("{}, rank {} of {}: {}", describe(call_), rank_,
                                                 ranks_, message_of(status)));
}

absl::Status SharedMemoryCollective::arrive(TcpLinks::RowBytesOf out, TcpLinks::RowBytesOf in) {
  if (links_ != nullptr) {
    RETURN_IF_ERROR(links_->exchange(call_, out, in, barrier_, start_ + timeout_, &call_wait_ns_));
    for (const int rank : links_->senders()) {
      // In the second exchange of a chunk the call is the same and is not written again: a peer may
      // still read it.
      if (Call& theirs = slot(rank).call; theirs != call_) theirs = call_;
    }
  }
  barrier_.arrive();
  return absl::OkStatus();
}

absl::Status SharedMemoryCollective::wait_for_peers() {
  return barrier_.wait(start_ + timeout_, &call_wait_ns_);
}

absl::Status SharedMemoryCollective::check_calls() {
  for (int r = 0; r < ranks_; ++r) {
    const Call& other = slot(r).call;
    if (other == call_) [[likely]] {
      continue;
    }
    barrier_.fail(Failure::kMismatch, rank_);
    return absl::InternalError(fmt::format("rank {} {}", r, describe_other(other, call_)));
  }
  return absl::OkStatus();
}

// A piece of the data in a rank's slot.
RowBytes SharedMemoryCollective::slot_piece(int rank, int64_t begin, int64_t end) {
  return {.rows = {slot(rank).data, kSlotBytes, kSlotBytes}, .begin = begin, .bytes = end - begin};
}

absl::Status SharedMemoryCollective::all_gather(const GatherArgs& args) {
  check_gather(args, rank_, ranks_);
  const uint64_t place =
      reinterpret_cast<uintptr_t>(args.out) - reinterpret_cast<uintptr_t>(shared_.data());
  const bool in_place = place < shared_.size();
  absl::Status status = enter({.kind = Call::kAllGather,
                               .rows = args.rows,
                               .cols = args.boundaries[ranks_],
                               .element_bytes = args.element_bytes,
                               .boundaries_hash = hash(args.boundaries),
                               .place = in_place ? static_cast<int64_t>(place) : -1});
  if (status.ok()) {
    const int64_t bytes = args.rows * widest_part(args.boundaries) * args.element_bytes;
    status = in_place ? gather_in_place(args) : gather_chunks(args, bytes);
  }
  return leave(std::move(status));
}

absl::Status SharedMemoryCollective::gather_in_place(const GatherArgs& args) {
  place_own(args);
  slot(rank_).call = call_;
  const auto columns = [&args](int r) -> RowBytes {
    const int64_t bytes = (args.boundaries[r + 1] - args.boundaries[r]) * args.element_bytes;
    std::byte* first = static_cast<std::byte*>(args.out) + args.boundaries[r] * args.element_bytes;
    return {.rows = {first, bytes, args.out_stride * args.element_bytes},
            .bytes = args.rows * bytes};
  };
  RETURN_IF_ERROR(arrive([&](int) { return columns(rank_); }, columns));
  RETURN_IF_ERROR(wait_for_peers());
  RETURN_IF_ERROR(check_calls());
  buffer_ ^= 1;
  return absl::OkStatus();
}

absl::Status SharedMemoryCollective::gather_chunks(const GatherArgs& args, int64_t largest) {
  const auto columns = [&args](int r) {
    return (args.boundaries[r + 1] - args.boundaries[r]) * args.element_bytes;
  };
  const Rows own{const_cast<std::byte*>(static_cast<const std::byte*>(args.in)), columns(rank_),
                 args.in_stride * args.element_bytes};
  for (int64_t begin = 0; begin == 0 || begin < largest; begin += kSlotBytes) {
    const auto part = [&](int r) {  // A rank's bytes in this chunk.
      return std::clamp<int64_t>(args.rows * columns(r) - begin, 0, kSlotBytes);
    };
    const auto in_slot = [&](int r) { return slot_piece(r, 0, part(r)); };
    slot(rank_).call = call_;
    pack({own, begin, part(rank_)}, slot(rank_).data);
    RETURN_IF_ERROR(arrive([&](int) { return in_slot(rank_); }, in_slot));
    if (begin == 0) place_own(args);
    RETURN_IF_ERROR(wait_for_peers());
    RETURN_IF_ERROR(check_calls());
    for (int r = 0; r < ranks_; ++r) {
      if (r == rank_) continue;
      const Rows out{static_cast<std::byte*>(args.out) + args.boundaries[r] * args.element_bytes,
                     columns(r), args.out_stride * args.element_bytes};
      unpack(slot(r).data, {out, begin, part(r)});
    }
    buffer_ ^= 1;
  }
  return absl::OkStatus();
}

void SharedMemoryCollective::place_own(const GatherArgs& args) const {
  const int64_t first = args.boundaries[rank_] * args.element_bytes;
  const int64_t bytes = args.boundaries[rank_ + 1] * args.element_bytes - first;
  const std::byte* in = static_cast<const std::byte*>(args.in);
  std::byte* out = static_cast<std::byte*>(args.out) + first;
  if (bytes == 0) return;
  if (in == out) {
    LOCKSTEP_CHECK(args.rows <= 1 || args.in_stride == args.out_stride);
    return;
  }
  for (int64_t row = 0; row < args.rows; ++row) {
    std::memcpy(out + row * args.out_stride * args.element_bytes,
                in + row * args.in_stride * args.element_bytes, static_cast<size_t>(bytes));
  }
}

absl::Status SharedMemoryCollective::all_reduce(float* data, int64_t rows, int64_t cols,
                                                int64_t stride) {
  LOCKSTEP_CHECK(rows >= 0 && cols >= 0 && (rows <= 1 || stride >= cols));
  constexpr int64_t kFloat = sizeof(float);
  const Rows all{reinterpret_cast<std::byte*>(data), cols * kFloat, stride * kFloat};
  absl::Status status =
      enter({.kind = Call::kAllReduce, .rows = rows, .cols = cols, .element_bytes = kFloat});
  if (status.ok()) status = reduce_chunks(all, rows * cols * kFloat);
  return leave(std::move(status));
}

absl::Status SharedMemoryCollective::reduce_chunks(const Rows& rows, int64_t bytes) {
  const bool share = ranks_ > 2 && bytes >= kShareBytes;
  for (int64_t begin = 0; begin == 0 || begin < bytes; begin += kSlotBytes) {
    const RowBytes chunk{rows, begin, std::min(bytes - begin, kSlotBytes)};
    slot(rank_).call = call_;
    pack(chunk, slot(rank_).data);
    if (share) {
      RETURN_IF_ERROR(add_and_share_chunk(chunk));
    } else {
      RETURN_IF_ERROR(add_chunk(chunk));
    }
    buffer_ ^= 1;
  }
  return absl::OkStatus();
}

absl::Status SharedMemoryCollective::add_chunk(const RowBytes& chunk) {
  const auto in_slot = [&](int r) { return slot_piece(r, 0, chunk.bytes); };
  RETURN_IF_ERROR(arrive([&](int) { return in_slot(rank_); }, in_slot));
  RETURN_IF_ERROR(wait_for_peers());
  RETURN_IF_ERROR(check_calls());
  for_each_run(chunk, [&](std::byte* to, int64_t from, int64_t run) { add_slots(from, run, to); });
  return absl::OkStatus();
}

// Each rank adds one slice and leaves the sum in its own slot, where no other rank reads these
// bytes before the second wait. The rank then reads the sums of the other slices from the slots of
// the ranks that added them. The slices of one host's ranks are adjacent: before the first wait, a
// rank of another host sends only these slices of its chunk to that host.
absl::Status SharedMemoryCollective::add_and_share_chunk(const RowBytes& chunk) {
  const int64_t lines = (chunk.bytes + ranks_ * kLineBytes - 1) / (ranks_ * kLineBytes);
  const auto first = [&](int place) { return std::min(place * lines * kLineBytes, chunk.bytes); };
  const auto for_host_of = [&](int of, int to) {  // Rank `of` sends this to the host of `to`.
    return slot_piece(of, first(slices_[to].host_begin), first(slices_[to].host_end));
  };
  RETURN_IF_ERROR(arrive([&](int to) { return for_host_of(rank_, to); },
                         [&](int of) { return for_host_of(of, rank_); }));
  RETURN_IF_ERROR(wait_for_peers());
  RETURN_IF_ERROR(check_calls());
  const auto sum_of = [&](int r) {
    return slot_piece(r, first(slices_[r].place), first(slices_[r].place + 1));
  };
  const RowBytes own = sum_of(rank_);
  add_slots(own.begin, own.bytes, slot(rank_).data + own.begin);
  RETURN_IF_ERROR(arrive([&](int) { return own; }, sum_of));
  RETURN_IF_ERROR(wait_for_peers());
  for (int r = 0; r < ranks_; ++r) {
    const RowBytes sum = sum_of(r);
    unpack(slot(r).data + sum.begin, {chunk.rows, chunk.begin + sum.begin, sum.bytes});
  }
  return absl::OkStatus();
}

void SharedMemoryCollective::add_slots(int64_t begin, int64_t bytes, std::byte* out) {
  // Adds block by block, in rank order, so that the running sum stays in L1. A block of `out` is
  // written once, after that block of every slot has been read.
  constexpr int64_t kBlock = 1024;
  alignas(64) float sum[kBlock];
  float* target = reinterpret_cast<float*>(out);
  const int64_t count = bytes / static_cast<int64_t>(sizeof(float));
  const auto floats = [&](int r) { return reinterpret_cast<float*>(slot(r).data + begin); };
  for (int64_t start = 0; start < count; start += kBlock) {
    const int64_t n = std::min(kBlock, count - start);
    const float* before = floats(0) + start;
    for (int r = 1; r < ranks_; ++r) {
      const float* addend = floats(r) + start;
      float* after = r == ranks_ - 1 ? target + start : sum;
#ifndef __clang__
#pragma GCC ivdep  // `after` and each addend are disjoint or equal.
#endif
      for (int64_t i = 0; i < n; ++i) after[i] = before[i] + addend[i];
      before = sum;
    }
  }
}

}  // namespace lockstep
