// SPDX-License-Identifier: Apache-2.0
#include "worker/collectives/single.h"

#include <atomic>
#include <cstring>

#include "base/check.h"

namespace lockstep {
namespace {

class SingleCollective final : public Collective {
 public:
  int rank() const override { return 0; }
  int ranks() const override { return 1; }
  void abort() override { aborted_.store(true); }
  Waited waited() const override { return {}; }

  absl::Status all_reduce(float*, int64_t, int64_t, int64_t) override { return state(); }

  absl::Status all_gather(const GatherArgs& args) override {
    LOCKSTEP_CHECK(args.boundaries.size() == 2 && args.boundaries[0] == 0);
    const int64_t bytes = args.boundaries[1] * args.element_bytes;
    if (bytes == 0) return state();
    if (args.in == args.out) {
      LOCKSTEP_CHECK(args.rows <= 1 || args.in_stride == args.out_stride);
      return state();
    }
    for (int64_t row = 0; row < args.rows; ++row) {
      std::memcpy(static_cast<char*>(args.out) + row * args.out_stride * args.element_bytes,
                  static_cast<const char*>(args.in) + row * args.in_stride * args.element_bytes,
                  static_cast<size_t>(bytes));
    }
    return state();
  }

 private:
  absl::Status state() const {
    return aborted_.load() ? absl::AbortedError("aborted by rank 0") : absl::OkStatus();
  }

  std::atomic<bool> aborted_{false};
};

}  // namespace

std::unique_ptr<Collective> single_collective() { return std::make_unique<SingleCollective>(); }

}  // namespace lockstep
