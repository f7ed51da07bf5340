// SPDX-License-Identifier: Apache-2.0
#include "worker/collectives/devices/direct.h"

#include <algorithm>

#include "base/check.h"
#include "base/status.h"
#include "base/system/clock.h"
#include "worker/kernels/kernel.h"

namespace lockstep {
namespace {

class DirectCollective final : public Collective {
 public:
  DirectCollective(std::unique_ptr<PeerLink> link, std::unique_ptr<Collective> other)
      : link_(std::move(link)), other_(std::move(other)) {}

  int rank() const override { return other_->rank(); }
  int ranks() const override { return other_->ranks(); }
  void abort() override {
    link_->abort();
    other_->abort();
  }
  Waited waited() const override {
    Waited waited = other_->waited();
    waited.wait_ns += wait_ns_.load();
    return waited;
  }

  // A launch can be captured because the arguments that it gets by value depend only on the
  // operands. The count of exchanges and the end of the group are in memory, and a replay reads
  // them again.
  bool can_be_captured(int64_t gather_bytes) const override {
    return link_->all_pad() && gather_bytes <= kMaxDirectGatherBytes;
  }

  absl::Status all_reduce(float* data, int64_t rows, int64_t cols, int64_t stride) override {
    constexpr int64_t kSize = sizeof(float);
    if (rows * cols == 0) return absl::OkStatus();
    return link_->all_reduce({.data = reinterpret_cast<std::byte*>(data),
                              .stride = stride * kSize,
                              .row_bytes = cols * kSize,
                              .rows = rows});
  }

  // Combines only small sums with the norm. Every rank computes a small sum completely, so it has
  // the whole rows that a norm needs.
  absl::StatusOr<bool> reduce_add_norm(const KernelArgs& args) override {
    const TensorView& sum = args.in[1];
    const int64_t bytes = sum.rows * sum.cols * static_cast<int64_t>(sizeof(float));
    if (bytes == 0 || bytes >= kMinSharedSumBytes) return false;
    RETURN_IF_ERROR(link_->reduce_add_norm(args));
    return true;
  }

  absl::Status all_gather(const GatherArgs& args) override {
    const int64_t bytes = args.rows * widest_part(args.boundaries) * args.element_bytes;
    if (bytes == 0) return absl::OkStatus();
    if (bytes > kMaxDirectGatherBytes) return other_->all_gather(args);
    PeerGather gather{.from = static_cast<const std::byte*>(args.in),
                      .from_stride = args.in_stride * args.element_bytes,
                      .to = static_cast<std::byte*>(args.out),
                      .to_stride = args.out_stride * args.element_bytes,
                      .rows = args.rows};
    for (int r = 0; r <= ranks(); ++r)
      gather.boundaries[r] = args.boundaries[r] * args.element_bytes;
    return link_->all_gather(gather);
  }

  // other_ finishes first, because work that it has queued may wait for ever unless other_ ends it.
  // Then link_ waits for the device.
  absl::Status finish() override {
    const absl::Status status = other_->finish();
    if (!status.ok()) link_->abort();
    const int64_t before_ns = steady_now_ns();
    const absl::Status own = link_->finish();
    wait_ns_ += steady_now_ns() - before_ns;
    return status.ok() ? own : status;
  }

 private:
  const std::unique_ptr<PeerLink> link_;
  std::unique_ptr<Collective> other_;  // Destroyed first, see finish().
  std::atomic<int64_t> wait_ns_{0};
};

}  // namespace

std::unique_ptr<Collective> direct_collective(std::unique_ptr<PeerLink> link,
                                              std::unique_ptr<Collective> other) {
  LOCKSTEP_CHECK(other->ranks() <= kMaxPeers);
  return std::make_unique<DirectCollective>(std::move(link), std::move(other));
}

}  // namespace lockstep
