// SPDX-License-Identifier: Apache-2.0
// All outputs stay on the device, and are compared piece by piece: those of experts have up to
// hundreds of MB.
#include "worker/kernel_choice/same_bits_trial.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/status.h"

namespace lockstep {
namespace {

constexpr int64_t kMaxTimed = 50;
constexpr int64_t kPieceBytes = int64_t{16} << 20;
// Bytes after a case's outputs, which no kernel may write.
constexpr int64_t kBytesAfter = int64_t{1} << 20;

int64_t out_bytes(const KernelArgs& args) {
  return args.out[0].rows * args.out[0].cols * 4 + kBytesAfter;
}

}  // namespace

absl::Status SameBitsTrials::compute_wanted() {
  int64_t bytes = 0;
  for (int i = 0; i < cases_->count(); ++i) {
    KernelArgs args = cases_->args(i);
    bytes = std::max(bytes, out_bytes(args));
    DeviceMemory& wanted = wanted_.emplace_back();
    ASSIGN_OR_RETURN(wanted, allocate_memory(place_.device, out_bytes(args), "trials"));
    RETURN_IF_ERROR(calls_.reserve(plain_, args));
    ASSIGN_OR_RETURN(args.step, cases_->step(i));
    args.out[0].data = wanted.data();
    Trial trial;
    ASSIGN_OR_RETURN(const bool done, calls_.compute(plain_, args, wanted, &trial));
    if (!done) return failed_precondition("{}: {}", plain_.name, trial.problem);
  }
  ASSIGN_OR_RETURN(out_, allocate_memory(place_.device, bytes, "trials"));
  return absl::OkStatus();
}

absl::StatusOr<int64_t> SameBitsTrials::first_difference(const DeviceMemory& wanted) const {
  std::vector<uint32_t> is, should;
  for (int64_t at = 0; at < wanted.bytes(); at += kPieceBytes) {
    const int64_t bytes = std::min(kPieceBytes, wanted.bytes() - at);
    is.resize(static_cast<size_t>(bytes / 4));
    should.resize(static_cast<size_t>(bytes / 4));
    place_.device.copy_out(is.data(), out_.data() + at, bytes);
    place_.device.copy_out(should.data(), wanted.data() + at, bytes);
    RETURN_IF_ERROR(device_status(place_.device.synchronize(), place_.device));
    const auto differs = std::ranges::mismatch(is, should).in1;
    if (differs != is.end()) return at / 4 + (differs - is.begin());
  }
  return -1;
}

absl::Status SameBitsTrials::try_case(const KernelEntry& kernel, int index, Trial* trial) {
  KernelArgs args = cases_->args(index);
  ASSIGN_OR_RETURN(args.step, cases_->step(index));
  args.out[0].data = out_.data();
  const int64_t rows = args.out[0].rows, cols = args.out[0].cols;
  ASSIGN_OR_RETURN(const bool done, calls_.compute(kernel, args, out_, trial));
  if (!done) return absl::OkStatus();
  TriedRows tried{.rows = rows, .cols = cols};
  ASSIGN_OR_RETURN(const int64_t differs, first_difference(wanted_[static_cast<size_t>(index)]));
  if (differs >= 0) {
    tried.error = 1;
    trial->refuse(fmt::format("with {} rows, row {}, column {} has other bits", rows,
                              differs / cols, differs % cols));
  } else if (cases_->is_timed(index)) {
    RETURN_IF_ERROR(calls_.time(kernel, args, kMaxTimed, &tried));
  }
  trial->rows.push_back(tried);
  return absl::OkStatus();
}

absl::Status SameBitsTrials::run(const KernelEntry& kernel, Trial* trial) {
  LOCKSTEP_CHECK(kernel.pack == plain_.pack && kernel.packed_bytes == plain_.packed_bytes);
  trial->rows.clear();
  for (int i = 0; i < cases_->count(); ++i) {
    RETURN_IF_ERROR(calls_.reserve(kernel, cases_->args(i)));
    RETURN_IF_ERROR(blame(try_case(kernel, i, trial), cases_->args(i).out[0].rows, trial));
    if (trial->verdict == Verdict::kRefused) return absl::OkStatus();
  }
  trial->verdict = Verdict::kProven;
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<SameBitsTrials>> SameBitsTrials::make(
    const TrialPlace& place, std::unique_ptr<TrialCases> cases, const KernelEntry& plain) {
  std::unique_ptr<SameBitsTrials> trials(new SameBitsTrials(place, std::move(cases), plain));
  RETURN_IF_ERROR(trials->compute_wanted());
  return trials;
}

}  // namespace lockstep
