// SPDX-License-Identifier: Apache-2.0
// The communicator is blocking: with a non-blocking one, NCCL starts a thread for each call. A call
// waits only for peers, so a watchdog aborts the communicator if a call takes too long. Joining
// cannot be aborted, since there is no communicator yet: a separate thread joins, and is abandoned
// if its call does not return in time.
#include "worker/collectives/devices/nccl.h"

#include <algorithm>
#include <numeric>
#include <thread>
#include <utility>
#include <vector>

#include "base/status.h"
#include "worker/collectives/devices/nccl_joining.h"
#include "worker/collectives/outcome.h"
#include "worker/collectives/share.h"
#include "worker/collectives/watchdog.h"

namespace lockstep {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kSuccess = 0, kInProgress = 7;
constexpr int kUint8 = 1, kFloat32 = 7;  // NCCL's types.
constexpr int kSum = 0;

class NcclCollective final : public Collective {
 public:
  NcclCollective(const Nccl& nccl, std::unique_ptr<Collective> met, Device& device,
                 std::chrono::nanoseconds timeout, const std::atomic<bool>* cancelled)
      : nccl_(nccl),
        met_(std::move(met)),
        device_(device),
        timeout_(timeout),
        connect_by_(Clock::now() + timeout / 2),
        watchdog_([this] { end_communicator(); }, cancelled) {}
  ~NcclCollective() override { end_communicator(); }

  // Returns the same on all ranks: "", or one line that says why they cannot use NCCL.
  absl::StatusOr<std::string> connect();
  std::unique_ptr<Collective> give_back() { return std::move(met_); }

  int rank() const override { return met_->rank(); }
  int ranks() const override { return met_->ranks(); }
  absl::Status all_reduce(float* data, int64_t rows, int64_t cols, int64_t stride) override;
  absl::Status all_gather(const GatherArgs& args) override;
  absl::Status finish() override;
  void abort() override {
    watchdog_.abort();
    met_->abort();
  }
  Waited waited() const override { return {.wait_ns = wait_ns_.load(), .transfer_ns = 0}; }

 private:
  absl::Status try_out(const Nccl::Id& id);
  absl::Status join(const Nccl::Id& id);
  absl::Status try_gather();
  absl::Status gather_parts(const GatherArgs& args, std::byte* out);
  absl::Status reserve(int64_t bytes);
  // Waits until the device has done all queued work, and polls the communicator meanwhile.
  absl::Status settle();
  Clock::time_point deadline() const { return std::min(connect_by_, Clock::now() + timeout_); }
  absl::Status late(Clock::time_point since) {
    return fail(absl::DeadlineExceededError(
        fmt::format("waited {:.1f} s for its peers' GPUs",
                    std::chrono::duration<double>(Clock::now() - since).count())));
  }
  absl::Status ended() {
    return fail(absl::AbortedError(fmt::format("aborted on rank {}", rank())));
  }

  // Makes a call of NCCL that queues work and may wait for peers.
  template <typename Function>
  absl::Status call(const Function& function) {
    if (watchdog_.aborted()) return ended();
    const Clock::time_point begin = Clock::now();
    watchdog_.begin(deadline());
    const int result = function(comm_.load());
    const Watchdog::Verdict verdict = watchdog_.over();
    wait_ns_ += std::chrono::nanoseconds(Clock::now() - begin).count();
    if (verdict == Watchdog::Verdict::kAborted) return ended();
    if (verdict == Watchdog::Verdict::kLate) return late(begin);
    return result == kSuccess || result == kInProgress ? absl::OkStatus() : fail(error_of(result));
  }
  // NCCL's text for `result` and its last error, cut off at the end of the first line.
  absl::Status error_of(int result) const {
    const char* met_with = nccl_.last_error(comm_.load());
    std::string text = fmt::format("NCCL: {}", nccl_.error_text(result));
    if (met_with != nullptr && met_with[0] != 0) text += fmt::format(": {}", met_with);
    return absl::UnavailableError(text.substr(0, text.find('\n')));
  }
  // Ends the communicator; the first reason is kept.
  absl::Status fail(absl::Status reason) {
    if (failure_.ok()) failure_ = std::move(reason);
    end_communicator();
    return failure_;
  }
  // Called by the watchdog's thread, too, while a call is running.
  void end_communicator() {
    if (const Nccl::Comm comm = comm_.exchange(nullptr); comm != nullptr) nccl_.abort(comm);
  }

  const Nccl nccl_;
  std::unique_ptr<Collective> met_;
  Device& device_;
  const std::chrono::nanoseconds timeout_;
  Clock::time_point connect_by_;
  std::atomic<Nccl::Comm> comm_{nullptr};
  std::vector<RowCopy> unpacked_;
  DeviceMemory packed_;  // A matrix of several rows, stored rank by rank.
  StagingMemory trial_;  // Used while ranks connect.
  std::atomic<int64_t> wait_ns_{0};
  absl::Status failure_;
  Watchdog watchdog_;  // Destroyed first.
};

// Only a timeout shows that a peer is missing. This call waits for the others for at most half of
// `timeout_`. Afterwards the ranks share their outcomes. A rank that failed at once waits for the
// others' outcomes for up to all of `timeout_`, so it is still there when they report.
absl::StatusOr<std::string> NcclCollective::connect() {
  Nccl::Id own_id;
  const int result = rank() == 0 ? nccl_.get_unique_id(&own_id) : kSuccess;
  if (result != kSuccess) own_id = {};  // All ranks take part, whether or not rank 0 got an id.
  ASSIGN_OR_RETURN(const std::vector<Nccl::Id> ids, share(*met_, own_id));
  const absl::Status own = result == kSuccess ? try_out(ids[0]) : error_of(result);
  if (own.code() == absl::StatusCode::kAborted) return own;
  ASSIGN_OR_RETURN(std::string problem, share_outcome(*met_, own));
  connect_by_ = Clock::time_point::max();
  watchdog_.forget_cancelled();
  return problem;
}

absl::Status NcclCollective::try_out(const Nccl::Id& id) {
  if (id.bytes == Nccl::Id().bytes) {
    return absl::DeadlineExceededError("rank 0 got no communicator id");
  }
  RETURN_IF_ERROR(join(id));
  const absl::Status status = try_gather();
  // Waits, since the trial's memory is about to be freed or reused.
  const char* failure = device_.synchronize();
  if (status.ok() && failure != nullptr) return fail(absl::UnavailableError(failure));
  return status;
}

absl::Status NcclCollective::join(const Nccl::Id& id) {
  const Clock::time_point begin = Clock::now();
  const std::shared_ptr<NcclJoining> joining =
      NcclJoining::start(nccl_, ranks(), id, rank(), device_);
  int result = kSuccess;
  Nccl::Comm comm = nullptr;
  while (!joining->wait(&result, &comm)) {
    const bool aborted = watchdog_.aborted();
    if (!aborted && Clock::now() < connect_by_) continue;
    joining->leave();
    return aborted ? ended() : late(begin);
  }
  comm_.store(comm);
  return result == kSuccess ? absl::OkStatus() : fail(error_of(result));
}

// NCCL connects at its first call: here a gather, in which element i must arrive as i.
absl::Status NcclCollective::try_gather() {
  constexpr int64_t kNumbers = 1024, kBytes = kNumbers * sizeof(int32_t);
  const int64_t total = ranks() * kNumbers;
  RETURN_IF_ERROR(reserve(ranks() * kBytes));
  if (trial_.data() == nullptr) trial_ = StagingMemory(device_, ranks() * kBytes);
  if (trial_.data() == nullptr) {
    return fail(
        resource_exhausted("the system refused {} bytes of locked memory", ranks() * kBytes));
  }
  auto* numbers = reinterpret_cast<int32_t*>(trial_.data());
  std::iota(numbers, numbers + total, 0);
  std::byte* own = packed_.data() + rank() * kBytes;
  device_.clear(packed_.data(), ranks() * kBytes);
  device_.copy_in(own, trial_.data() + rank() * kBytes, kBytes);
  std::vector<int64_t> boundaries;
  for (int r = 0; r <= ranks(); ++r) boundaries.push_back(r * kNumbers);
  const GatherArgs args{.in = own, .rows = 1, .boundaries = boundaries, .element_bytes = 4};
  RETURN_IF_ERROR(gather_parts(args, packed_.data()));
  RETURN_IF_ERROR(finish());
  device_.copy_out(trial_.data(), packed_.data(), ranks() * kBytes);
  RETURN_IF_ERROR(finish());
  for (int64_t i = 0; i < total; ++i) {
    if (numbers[i] == i) continue;
    return fail(absl::UnavailableError(
        fmt::format("NCCL gathered {}, but rank {} gave {}", numbers[i], i / kNumbers, i)));
  }
  trial_ = StagingMemory();
  return absl::OkStatus();
}

absl::Status NcclCollective::settle() {
  const Clock::time_point begin = Clock::now(), end = deadline();
  while (failure_.ok()) {
    int state = kSuccess;
    if (const int result = nccl_.async_error(comm_.load(), &state); result != kSuccess) {
      state = result;
    }
    if (state != kSuccess && state != kInProgress) return fail(error_of(state));
    if (state == kSuccess && device_.done()) break;
    if (watchdog_.aborted()) return ended();
    if (Clock::now() > end) return late(begin);
    std::this_thread::yield();
  }
  wait_ns_ += std::chrono::nanoseconds(Clock::now() - begin).count();
  return failure_;
}

absl::Status NcclCollective::finish() { return settle(); }

// Grows packed_ to the largest matrix so far.
absl::Status NcclCollective::reserve(int64_t bytes) {
  if (bytes <= packed_.bytes() && packed_.data() != nullptr) return absl::OkStatus();
  RETURN_IF_ERROR(settle());  // Queued work still uses the old memory.
  packed_ = DeviceMemory();
  packed_ = DeviceMemory(device_, bytes);
  if (packed_.data() != nullptr) return absl::OkStatus();
  return fail(
      resource_exhausted("{} has no room left for collectives; use a smaller "
                         "--memory-fraction",
                         device_.name()));
}

absl::Status NcclCollective::all_reduce(float* data, int64_t rows, int64_t cols, int64_t stride) {
  if (!failure_.ok()) return failure_;
  if (rows * cols == 0) return absl::OkStatus();
  constexpr int64_t kSize = sizeof(float);
  void* dense = data;
  RowCopy copy{.to_stride = cols * kSize,
               .from = data,
               .from_stride = stride * kSize,
               .row_bytes = cols * kSize,
               .rows = rows};
  const bool has_gaps = rows > 1 && stride != cols;
  if (has_gaps) {
    RETURN_IF_ERROR(reserve(rows * cols * kSize));
    copy.to = dense = packed_.data();
    device_.copy_rows(copy);
  }
  RETURN_IF_ERROR(call([&](Nccl::Comm comm) {
    return nccl_.all_reduce(dense, dense, static_cast<size_t>(rows * cols), kFloat32, kSum, comm,
                            device_.queue());
  }));
  if (!has_gaps) return absl::OkStatus();
  std::swap(copy.to_stride, copy.from_stride);
  copy.to = data;
  copy.from = dense;
  device_.copy_rows(copy);
  return absl::OkStatus();
}

// Stores rank r's part, without gaps, from element rows * boundaries[r] of `out` on, on every rank.
// This rank's part is already there or, if there is one row, in args.in.
absl::Status NcclCollective::gather_parts(const GatherArgs& args, std::byte* out) {
  const auto part = [&](int r) {
    return out + args.rows * args.boundaries[r] * args.element_bytes;
  };
  const auto bytes = [&](int r) {
    return static_cast<size_t>(args.rows * (args.boundaries[r + 1] - args.boundaries[r]) *
                               args.element_bytes);
  };
  const void* own = args.rows == 1 ? args.in : part(rank());
  bool alike = true;
  for (int r = 1; r < ranks(); ++r) alike &= bytes(r) == bytes(0);
  return call([&](Nccl::Comm comm) {
    if (alike) return nccl_.all_gather(own, out, bytes(0), kUint8, comm, device_.queue());
    int first = nccl_.group_start();
    for (int r = 0; r < ranks() && first == kSuccess; ++r) {
      if (bytes(r) == 0) continue;
      // Inside a group a call may return kInProgress. group_end() then returns its result.
      const int result = nccl_.broadcast(r == rank() ? own : part(r), part(r), bytes(r), kUint8, r,
                                         comm, device_.queue());
      if (result != kInProgress) first = result;
    }
    const int result = nccl_.group_end();
    return first == kSuccess ? result : first;
  });
}

absl::Status NcclCollective::all_gather(const GatherArgs& args) {
  if (!failure_.ok()) return failure_;
  const int64_t element = args.element_bytes, total = args.boundaries.back();
  if (args.rows * total == 0) return absl::OkStatus();
  if (args.rows == 1) return gather_parts(args, static_cast<std::byte*>(args.out));
  RETURN_IF_ERROR(reserve(args.rows * total * element));
  // Copies a rank's columns to a separate matrix without gaps.
  const auto packed = [&](int r, const void* data, int64_t stride) {
    const int64_t cols = args.boundaries[r + 1] - args.boundaries[r];
    return RowCopy{.to = packed_.data() + args.rows * args.boundaries[r] * element,
                   .to_stride = cols * element,
                   .from = data,
                   .from_stride = stride * element,
                   .row_bytes = cols * element,
                   .rows = args.rows};
  };
  device_.copy_rows(packed(rank(), args.in, args.in_stride));
  RETURN_IF_ERROR(gather_parts(args, packed_.data()));
  unpacked_.clear();
  for (int r = 0; r < ranks(); ++r) {
    RowCopy copy = packed(r, nullptr, args.out_stride);
    copy.from =
        std::exchange(copy.to, static_cast<std::byte*>(args.out) + args.boundaries[r] * element);
    std::swap(copy.to_stride, copy.from_stride);
    const bool in_place = copy.to == args.in && args.in_stride == args.out_stride;
    if (!in_place) unpacked_.push_back(copy);
  }
  device_.copy_each(unpacked_);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Collective>> nccl_collective(
    const Nccl& nccl, std::unique_ptr<Collective>& met, Device& device,
    std::chrono::nanoseconds timeout, const std::atomic<bool>* cancelled, std::string* problem) {
  auto collective =
      std::make_unique<NcclCollective>(nccl, std::move(met), device, timeout, cancelled);
  ASSIGN_OR_RETURN(*problem, collective->connect());
  if (problem->empty()) return collective;
  met = collective->give_back();
  return nullptr;
}

}  // namespace lockstep
