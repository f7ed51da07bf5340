// SPDX-License-Identifier: Apache-2.0
// The communicator never blocks: whatever it answers, its state is asked for until it is no longer
// in progress, the time is over or somebody aborts.
#include "worker/collectives/nccl.h"

#include <dlfcn.h>

#include <climits>
#include <thread>
#include <utility>

#include "base/status.h"

namespace lockstep {

// The fields of version 2.18: NCCL reads as many as `size` says and gives later ones their default.
struct Nccl::Config {
  size_t size = sizeof(Config);
  unsigned magic = 0xcafebeef;
  unsigned version = 21800;
  int blocking = 0;
  int cga_cluster_size = INT_MIN;  // INT_MIN and null: as NCCL likes.
  int min_ctas = INT_MIN;
  int max_ctas = INT_MIN;
  const char* net_name = nullptr;
  int split_share = INT_MIN;
  int traffic_class = INT_MIN;  // Padding before 2.24.
};

namespace {

using Clock = std::chrono::steady_clock;

constexpr int kSuccess = 0, kInProgress = 7;
constexpr int kBytes = 1, kFloat = 7;  // Types: uint8, float32.
constexpr int kSum = 0;
constexpr int kLeastVersion = 21800;

class NcclCollective final : public Collective {
 public:
  NcclCollective(const Nccl& nccl, std::unique_ptr<Collective> met, Device& device,
                 std::chrono::nanoseconds timeout, const std::atomic<bool>* cancelled)
      : nccl_(nccl),
        met_(std::move(met)),
        device_(device),
        timeout_(timeout),
        cancelled_(cancelled) {}
  ~NcclCollective() override {
    if (comm_ != nullptr) nccl_.abort(comm_);
  }

  absl::Status connect();

  int rank() const override { return met_->rank(); }
  int ranks() const override { return met_->ranks(); }
  absl::Status all_reduce(float* data, int64_t rows, int64_t cols, int64_t stride) override;
  absl::Status all_gather(const GatherArgs& args) override;
  absl::Status finish() override;
  void abort() override {
    aborted_.store(true);
    met_->abort();
  }
  Waited waited() const override { return {.wait_ns = wait_ns_.load(), .transfer_ns = 0}; }

 private:
  absl::StatusOr<Nccl::Id> share_id();
  absl::Status gather_parts(const GatherArgs& args, std::byte* out);
  absl::Status reserve(int64_t bytes);
  // Asks until the communicator is at rest, and the device too where `device` says so.
  absl::Status settle(bool device);
  // Of a call that only queues.
  absl::Status queued(int result) {
    if (result == kSuccess) return absl::OkStatus();
    return result == kInProgress ? settle(false) : fail(error_of(result));
  }
  absl::Status error_of(int result) const {
    return absl::InternalError(fmt::format("NCCL: {}", nccl_.error_text(result)));
  }
  // Ends the communicator; the first reason stays.
  absl::Status fail(absl::Status reason) {
    if (failure_.ok()) failure_ = std::move(reason);
    if (comm_ != nullptr) nccl_.abort(std::exchange(comm_, nullptr));
    return failure_;
  }

  const Nccl nccl_;
  const std::unique_ptr<Collective> met_;
  Device& device_;
  const std::chrono::nanoseconds timeout_;
  const std::atomic<bool>* cancelled_;  // Of setting up alone.
  Nccl::Comm comm_ = nullptr;
  DeviceMemory packed_;  // Where a matrix of several rows lies rank by rank.
  std::atomic<bool> aborted_{false};
  std::atomic<int64_t> wait_ns_{0};
  absl::Status failure_;
};

absl::StatusOr<Nccl::Id> NcclCollective::share_id() {
  Nccl::Id id;
  int result = kSuccess;
  if (rank() == 0) result = nccl_.get_unique_id(&id);
  // All take part, whatever rank 0 has found: an id of zeros says that there is none.
  if (result != kSuccess) id = {};
  Nccl::Id shared;
  std::vector<int64_t> boundaries(ranks() + 1, 1);
  boundaries[0] = 0;
  RETURN_IF_ERROR(met_->all_gather({.in = &id,
                                    .in_stride = 1,
                                    .out = &shared,
                                    .out_stride = 1,
                                    .rows = 1,
                                    .boundaries = boundaries,
                                    .element_bytes = sizeof(Nccl::Id)}));
  if (shared.bytes != Nccl::Id().bytes) return shared;
  return rank() == 0 ? error_of(result) : absl::InternalError("NCCL gave rank 0 no id");
}

absl::Status NcclCollective::connect() {
  ASSIGN_OR_RETURN(const Nccl::Id id, share_id());
  Nccl::Config config;
  RETURN_IF_ERROR(queued(nccl_.init(&comm_, ranks(), id, rank(), &config)));
  RETURN_IF_ERROR(settle(false));
  cancelled_ = nullptr;
  return absl::OkStatus();
}

absl::Status NcclCollective::settle(bool device) {
  const Clock::time_point begin = Clock::now();
  while (failure_.ok()) {
    int state = kSuccess;
    if (const int result = nccl_.async_error(comm_, &state); result != kSuccess) state = result;
    if (state != kSuccess && state != kInProgress) return fail(error_of(state));
    if (state == kSuccess && (!device || device_.done())) break;
    if (aborted_.load() || (cancelled_ != nullptr && cancelled_->load())) {
      return fail(absl::AbortedError(fmt::format("aborted on rank {}", rank())));
    }
    if (Clock::now() - begin > timeout_) {
      return fail(absl::DeadlineExceededError(
          fmt::format("rank {} waited {} s for its peers' GPUs", rank(),
                      std::chrono::duration_cast<std::chrono::seconds>(timeout_).count())));
    }
    std::this_thread::yield();
  }
  wait_ns_ += std::chrono::nanoseconds(Clock::now() - begin).count();
  return failure_;
}

absl::Status NcclCollective::finish() {
  if (!failure_.ok()) return failure_;
  return settle(true);
}

// Grows to the largest matrix that ever went through.
absl::Status NcclCollective::reserve(int64_t bytes) {
  if (bytes <= packed_.bytes() && packed_.data() != nullptr) return absl::OkStatus();
  RETURN_IF_ERROR(settle(true));  // What is queued still uses it.
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
  RETURN_IF_ERROR(queued(nccl_.all_reduce(dense, dense, static_cast<size_t>(rows * cols), kFloat,
                                          kSum, comm_, device_.queue())));
  if (!has_gaps) return absl::OkStatus();
  std::swap(copy.to_stride, copy.from_stride);
  copy.to = data;
  copy.from = dense;
  device_.copy_rows(copy);
  return absl::OkStatus();
}

// Rank r's part, without gaps, goes to out + rows * boundaries[r] elements on every rank; this
// rank's lies there already, or in args.in where that has no gaps.
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
  if (alike) {
    return queued(nccl_.all_gather(own, out, bytes(0), kBytes, comm_, device_.queue()));
  }
  RETURN_IF_ERROR(queued(nccl_.group_start()));
  for (int r = 0; r < ranks(); ++r) {
    if (bytes(r) == 0) continue;
    // Within a group nothing is known of a call before the group ends.
    const int result = nccl_.broadcast(r == rank() ? own : part(r), part(r), bytes(r), kBytes, r,
                                       comm_, device_.queue());
    if (result != kSuccess && result != kInProgress) return fail(error_of(result));
  }
  return queued(nccl_.group_end());
}

absl::Status NcclCollective::all_gather(const GatherArgs& args) {
  if (!failure_.ok()) return failure_;
  const int64_t element = args.element_bytes, total = args.boundaries.back();
  if (args.rows * total == 0) return absl::OkStatus();
  if (args.rows == 1) return gather_parts(args, static_cast<std::byte*>(args.out));
  RETURN_IF_ERROR(reserve(args.rows * total * element));
  // A rank's columns as a matrix of their own.
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
  for (int r = 0; r < ranks(); ++r) {
    RowCopy copy = packed(r, nullptr, args.out_stride);
    copy.from =
        std::exchange(copy.to, static_cast<std::byte*>(args.out) + args.boundaries[r] * element);
    std::swap(copy.to_stride, copy.from_stride);
    device_.copy_rows(copy);
  }
  return absl::OkStatus();
}

template <typename Function>
bool find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

}  // namespace

std::string nccl_version_text(int version) {
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

absl::StatusOr<Nccl> load_nccl(const std::string& file) {
  if (file == "off") return absl::NotFoundError("switched off by LOCKSTEP_NCCL");
  void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    return absl::NotFoundError(dlerror());  // It names the file.
  }
  Nccl nccl;
  int (*get_version)(int*) = nullptr;
  if (!find(library, "ncclGetVersion", get_version) || get_version(&nccl.version) != kSuccess ||
      nccl.version < kLeastVersion) {
    return failed_precondition("{}: wanted NCCL {} or later, found {}", file,
                               nccl_version_text(kLeastVersion), nccl_version_text(nccl.version));
  }
  if (find(library, "ncclGetUniqueId", nccl.get_unique_id) &&
      find(library, "ncclCommInitRankConfig", nccl.init) &&
      find(library, "ncclCommGetAsyncError", nccl.async_error) &&
      find(library, "ncclCommAbort", nccl.abort) &&
      find(library, "ncclGetErrorString", nccl.error_text) &&
      find(library, "ncclGroupStart", nccl.group_start) &&
      find(library, "ncclGroupEnd", nccl.group_end) &&
      find(library, "ncclAllGather", nccl.all_gather) &&
      find(library, "ncclBroadcast", nccl.broadcast) &&
      find(library, "ncclAllReduce", nccl.all_reduce)) {
    return nccl;
  }
  return failed_precondition("{}: it lacks a function of NCCL {}", file,
                             nccl_version_text(kLeastVersion));
}

absl::StatusOr<std::unique_ptr<Collective>> nccl_collective(const Nccl& nccl,
                                                            std::unique_ptr<Collective> met,
                                                            Device& device,
                                                            std::chrono::nanoseconds timeout,
                                                            const std::atomic<bool>* cancelled) {
  auto collective =
      std::make_unique<NcclCollective>(nccl, std::move(met), device, timeout, cancelled);
  RETURN_IF_ERROR(collective->connect());
  return collective;
}

}  // namespace lockstep
