// SPDX-License-Identifier: Apache-2.0
// all_gather and all_reduce over slots. Every size is computed from the caller's own arguments; a
// peer's words can make a call fail, never read or write out of bounds.
#include "worker/collectives/shared_memory.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/status.h"

namespace lockstep {
namespace {

// From here on a chunk is added by all ranks together: the second wait costs less than the reads.
constexpr int64_t kShareBytes = 32 * 1024;
constexpr int64_t kLineBytes = 64;

// Calls body(piece of a row, its place in the packed bytes, length) over [begin, begin + bytes).
template <typename Body>
void for_each_run(int64_t row_bytes, int64_t stride_bytes, int64_t begin, int64_t bytes,
                  const Body& body) {
  if (bytes == 0) return;
  if (row_bytes == stride_bytes) {
    body(begin, int64_t{0}, bytes);
    return;
  }
  int64_t row = begin / row_bytes;
  int64_t offset = begin - row * row_bytes;
  for (int64_t done = 0; done < bytes; ++row, offset = 0) {
    const int64_t run = std::min(row_bytes - offset, bytes - done);
    body(row * stride_bytes + offset, done, run);
    done += run;
  }
}

uint64_t hash(std::span<const int64_t> numbers) {
  uint64_t hash = 0xcbf29ce484222325ull;
  for (const int64_t number : numbers)
    hash = (hash ^ static_cast<uint64_t>(number)) * 0x100000001b3;
  return hash;
}

std::string describe(const Call& call) {
  return fmt::format("{} {} of {} x {} elements of {} bytes in epoch {}",
                     call.kind == Call::kAllReduce   ? "all_reduce"
                     : call.kind == Call::kAllGather ? "all_gather"
                                                     : "unknown call",
                     call.number, call.rows, call.cols, call.element_bytes, call.epoch);
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

SharedMemoryCollective::SharedMemoryCollective(std::shared_ptr<Region> region, int rank,
                                               std::chrono::nanoseconds timeout)
    : region_(std::move(region)),
      shared_(region_->shared()),
      rank_(rank),
      ranks_(static_cast<int>(region_->header().ranks)),
      timeout_(timeout),
      barrier_(region_->header(), rank) {}

SharedMemoryCollective::~SharedMemoryCollective() { barrier_.leave(); }

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
  const auto add = [](std::atomic<int64_t>& counter, int64_t ns) {  // One writer.
    counter.store(counter.load(std::memory_order_relaxed) + ns, std::memory_order_relaxed);
  };
  add(wait_ns_, call_wait_ns_);
  add(transfer_ns_, total_ns - call_wait_ns_);
  if (status.ok()) [[likely]] {
    return status;
  }
  return absl::Status(status.code(), fmt::format("{}, rank {} of {}: {}", describe(call_), rank_,
                                                 ranks_, message_of(status)));
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
    return absl::InternalError(fmt::format("rank {} called {}{}", r, describe(other),
                                           other.boundaries_hash != call_.boundaries_hash
                                               ? " with other boundaries"
                                           : other.place != call_.place ? " at another place"
                                                                        : ""));
  }
  return absl::OkStatus();
}

void SharedMemoryCollective::pack(const Rows& rows, int64_t begin, int64_t bytes,
                                  std::byte* packed) {
  for_each_run(rows.row_bytes, rows.stride_bytes, begin, bytes,
               [&](int64_t from, int64_t to, int64_t run) {
                 std::memcpy(packed + to, rows.data + from, static_cast<size_t>(run));
               });
}

void SharedMemoryCollective::unpack(const std::byte* packed, int64_t begin, int64_t bytes,
                                    const Rows& rows) {
  for_each_run(rows.row_bytes, rows.stride_bytes, begin, bytes,
               [&](int64_t to, int64_t from, int64_t run) {
                 std::memcpy(rows.data + to, packed + from, static_cast<size_t>(run));
               });
}

absl::Status SharedMemoryCollective::all_gather(const GatherArgs& args) {
  check_gather(args, rank_, ranks_);
  int64_t widest = 0;
  for (int r = 0; r < ranks_; ++r) {
    widest = std::max(widest, args.boundaries[r + 1] - args.boundaries[r]);
  }
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
    status = in_place ? gather_in_place(args)
                      : gather_chunks(args, args.rows * widest * args.element_bytes);
  }
  return leave(std::move(status));
}

absl::Status SharedMemoryCollective::gather_in_place(const GatherArgs& args) {
  place_own(args);
  slot(rank_).call = call_;
  barrier_.arrive();
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
  const auto part = [&](int r, int64_t begin) {  // Of a rank's bytes, in the chunk from `begin`.
    return std::clamp<int64_t>(args.rows * columns(r) - begin, 0, kSlotBytes);
  };
  for (int64_t begin = 0; begin == 0 || begin < largest; begin += kSlotBytes) {
    slot(rank_).call = call_;
    pack(own, begin, part(rank_, begin), slot(rank_).data);
    barrier_.arrive();
    if (begin == 0) place_own(args);
    RETURN_IF_ERROR(wait_for_peers());
    RETURN_IF_ERROR(check_calls());
    for (int r = 0; r < ranks_; ++r) {
      if (r == rank_) continue;
      const Rows out{static_cast<std::byte*>(args.out) + args.boundaries[r] * args.element_bytes,
                     columns(r), args.out_stride * args.element_bytes};
      unpack(slot(r).data, begin, part(r, begin), out);
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
    const int64_t chunk = std::min(bytes - begin, kSlotBytes);
    slot(rank_).call = call_;
    pack(rows, begin, chunk, slot(rank_).data);
    barrier_.arrive();
    RETURN_IF_ERROR(wait_for_peers());
    RETURN_IF_ERROR(check_calls());
    if (share) {
      RETURN_IF_ERROR(add_and_share_chunk(rows, begin, chunk));
    } else {
      add_chunk(rows, begin, chunk);
    }
    buffer_ ^= 1;
  }
  return absl::OkStatus();
}

void SharedMemoryCollective::add_chunk(const Rows& rows, int64_t begin, int64_t bytes) {
  for_each_run(
      rows.row_bytes, rows.stride_bytes, begin, bytes,
      [&](int64_t to, int64_t from, int64_t run) { add_slots(from, run, rows.data + to); });
}

// Each rank adds one slice, leaves it in its own slot, where nobody else reads these bytes before
// the second wait, and takes the other slices from theirs.
absl::Status SharedMemoryCollective::add_and_share_chunk(const Rows& rows, int64_t begin,
                                                         int64_t bytes) {
  const int64_t lines = (bytes + ranks_ * kLineBytes - 1) / (ranks_ * kLineBytes);
  const auto first = [&](int r) { return std::min(r * lines * kLineBytes, bytes); };
  const int64_t own = first(rank_);
  add_slots(own, first(rank_ + 1) - own, slot(rank_).data + own);
  barrier_.arrive();
  RETURN_IF_ERROR(wait_for_peers());
  for (int r = 0; r < ranks_; ++r) {
    unpack(slot(r).data + first(r), begin + first(r), first(r + 1) - first(r), rows);
  }
  return absl::OkStatus();
}

void SharedMemoryCollective::add_slots(int64_t begin, int64_t bytes, std::byte* out) {
  // In blocks, so that the running sum stays in L1 and `out` is written once, after every slot has
  // been read there. The order is the ranks', whatever the block.
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
#pragma GCC ivdep  // `after` is apart from both or the very same.
      for (int64_t i = 0; i < n; ++i) after[i] = before[i] + addend[i];
      before = sum;
    }
  }
}

}  // namespace lockstep
