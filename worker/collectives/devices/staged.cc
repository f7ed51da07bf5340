// SPDX-License-Identifier: Apache-2.0
// Staging memory has the matrix without gaps. A call's last copy reads this memory, and may still
// be queued when the next call begins. The next call need not wait, since its own copy into this
// memory is queued after that last copy.
#include "worker/collectives/devices/staged.h"

#include <algorithm>
#include <string>

#include "base/status.h"

namespace lockstep {
namespace {

class StagedCollective final : public Collective {
 public:
  StagedCollective(std::unique_ptr<Collective> host, Device& device)
      : host_(std::move(host)), device_(device) {}

  int rank() const override { return host_->rank(); }
  int ranks() const override { return host_->ranks(); }
  void abort() override { host_->abort(); }
  Waited waited() const override { return host_->waited(); }
  // Without peers at most one copy is queued.
  bool can_be_captured(int64_t) const override { return ranks() == 1; }

  absl::Status all_reduce(float* data, int64_t rows, int64_t cols, int64_t stride) override {
    if (ranks() == 1) return host_->all_reduce(nullptr, 0, 0, 0);
    constexpr int64_t kBytes = sizeof(float);
    RETURN_IF_ERROR(reserve(rows * cols * kBytes));
    RowCopy copy{.to = staging_.data(),
                 .to_stride = cols * kBytes,
                 .from = data,
                 .from_stride = stride * kBytes,
                 .row_bytes = cols * kBytes,
                 .rows = rows};
    device_.copy_rows(copy);
    RETURN_IF_ERROR(wait());
    RETURN_IF_ERROR(host_->all_reduce(reinterpret_cast<float*>(staging_.data()), rows, cols, cols));
    std::swap(copy.to_stride, copy.from_stride);
    copy.to = data;
    copy.from = staging_.data();
    device_.copy_rows(copy);
    return absl::OkStatus();
  }

  absl::Status all_gather(const GatherArgs& args) override {
    if (ranks() == 1) return place_own(args);
    const int64_t total = args.boundaries.back(), row_bytes = total * args.element_bytes;
    const int64_t begin = args.boundaries[rank()], end = args.boundaries[rank() + 1];
    RETURN_IF_ERROR(reserve(args.rows * row_bytes));
    std::byte* own = staging_.data() + begin * args.element_bytes;
    device_.copy_rows({.to = own,
                       .to_stride = row_bytes,
                       .from = args.in,
                       .from_stride = args.in_stride * args.element_bytes,
                       .row_bytes = (end - begin) * args.element_bytes,
                       .rows = args.rows});
    RETURN_IF_ERROR(wait());
    GatherArgs here = args;
    here.in = own;
    here.out = staging_.data();
    here.in_stride = here.out_stride = total;
    RETURN_IF_ERROR(host_->all_gather(here));
    device_.copy_rows({.to = args.out,
                       .to_stride = args.out_stride * args.element_bytes,
                       .from = staging_.data(),
                       .from_stride = row_bytes,
                       .row_bytes = row_bytes,
                       .rows = args.rows});
    return absl::OkStatus();
  }

 private:
  // Without peers nothing needs to leave the device.
  absl::Status place_own(const GatherArgs& args) {
    if (args.in != args.out) {
      device_.copy_rows({.to = args.out,
                         .to_stride = args.out_stride * args.element_bytes,
                         .from = args.in,
                         .from_stride = args.in_stride * args.element_bytes,
                         .row_bytes = args.boundaries.back() * args.element_bytes,
                         .rows = args.rows});
    }
    return host_->all_reduce(nullptr, 0, 0, 0);  // Returns an error if it was aborted.
  }

  absl::Status wait() {
    const char* failure = device_.synchronize();
    if (failure == nullptr) return absl::OkStatus();
    return absl::InternalError(fmt::format("{}: {}", device_.name(), failure));
  }

  // Grows staging_ to the largest matrix so far.
  absl::Status reserve(int64_t bytes) {
    if (bytes <= staging_.bytes() && staging_.data() != nullptr) return absl::OkStatus();
    const int64_t wanted = std::max(bytes, 2 * staging_.bytes());
    RETURN_IF_ERROR(wait());  // Queued copies still read the old memory.
    staging_ = StagingMemory();
    staging_ = StagingMemory(device_, wanted);
    if (staging_.data() != nullptr) return absl::OkStatus();
    return resource_exhausted(
        "the system refused {} bytes for collectives; raise the limits on "
        "memory and on locked memory",
        wanted);
  }

  const std::unique_ptr<Collective> host_;
  Device& device_;
  StagingMemory staging_;
};

}  // namespace

std::unique_ptr<Collective> staged_collective(std::unique_ptr<Collective> host, Device& device) {
  return std::make_unique<StagedCollective>(std::move(host), device);
}

}  // namespace lockstep
