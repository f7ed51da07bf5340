// SPDX-License-Identifier: Apache-2.0
#include "worker/kernel_choice/linear_trial.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>

#include "base/status.h"

namespace lockstep {
namespace {

constexpr double kNormFactor = 2;  // Bounds use this many times the measured norm.

constexpr int64_t kMinRows = 64, kMaxRows = 512;  // Rows that are tried on all columns.
constexpr int64_t kWideRows = 8192, kWideCols = 512;
constexpr int64_t kRowCounts[] = {1, 7, 8, kMinRows};  // In addition to the maximum.
constexpr int64_t kMaxTimed = 10;

bool same_bits(float a, float b) {
  return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b);
}

}  // namespace

LinearTrials::LinearTrials(const TrialPlace& place, const TrialShape& shape,
                           const program::Weight& weight, const KernelEntry& plain)
    : place_(place),
      device_(place.device),
      shape_(shape),
      plain_(plain),
      weight_(weight),
      calls_(place) {
  rows_ = std::clamp(place.max_rows, kMinRows, kMaxRows);
  if (place.max_rows > kMaxRows) wide_rows_ = std::min(place.max_rows, kWideRows);
  wide_cols_ = std::min(shape.cols, kWideCols);
}

absl::Status LinearTrials::place_operands() {
  const int64_t rows = std::max(rows_, wide_rows_);
  for (int64_t col = 0; shape_.bias && col < shape_.cols; ++col) {
    biases_.push_back(trial_x(-1, col));
  }
  const int64_t out_floats = std::max(rows_ * shape_.cols, wide_rows_ * wide_cols_);
  ASSIGN_OR_RETURN(x_, trial_numbers(place_, 0, rows, shape_.depth, shape_.x));
  ASSIGN_OR_RETURN(bias_, trial_numbers(place_, -1, 1, std::ssize(biases_), DType::kF32));
  ASSIGN_OR_RETURN(out_, allocate_memory(device_, out_floats * 4, "trials"));
  return absl::OkStatus();
}

// Arguments for the first `cols` rows of the weight.
KernelArgs LinearTrials::args(const KernelEntry& kernel, const Weights& weights, int64_t rows,
                              int64_t cols) const {
  const bool gated = kernel.op == Op::kGatedLinear;
  const int64_t out_cols = gated ? cols / 2 : cols;
  KernelArgs args;
  args.in[0] = {x_.data(), rows, shape_.depth, shape_.depth, shape_.x};
  args.in[1] = weights.view(0);
  args.in[1].rows = cols;  // In every layout, the first rows do not depend on later rows.
  if (shape_.bias) args.in[2] = {bias_.data(), 1, cols, cols, DType::kF32};
  args.out[0] = {out_.data(), rows, out_cols, out_cols, DType::kF32};
  if (gated) args.attrs = MapAttrs{.function = Function::kScale, .factor = 1};
  return args;
}

// False: the kernel could not be queued; the trial has the reason.
absl::StatusOr<bool> LinearTrials::compute(const KernelEntry& kernel, const Weights& weights,
                                           int64_t rows, int64_t cols, Outputs* found,
                                           Trial* trial) {
  const KernelArgs call_args = args(kernel, weights, rows, cols);
  const int64_t out_cols = call_args.out[0].cols;
  ASSIGN_OR_RETURN(const bool done, calls_.compute(kernel, call_args, out_, trial));
  if (!done) return false;
  *found = {rows, out_cols, std::vector<float>(static_cast<size_t>(rows * out_cols))};
  device_.copy_out(found->at.data(), out_.data(), rows * out_cols * 4);
  RETURN_IF_ERROR(device_status(device_.synchronize(), device_));
  return true;
}

void LinearTrials::measure_norms() {
  norms_.resize(static_cast<size_t>(shape_.cols));
  for_each(place_.parallel, shape_.cols, [&](int64_t col) {
    const double bias = biases_.empty() ? 0 : biases_[static_cast<size_t>(col)];
    double squares = 0;
    for (int64_t row = 0; row < rows_; ++row) {
      const double sum = double{wanted_.row(row)[col]} - bias;
      squares += sum * sum;
    }
    norms_[static_cast<size_t>(col)] =
        kNormFactor * std::sqrt(3 * squares / static_cast<double>(rows_));
  });
}

absl::Status LinearTrials::prepare() {
  RETURN_IF_ERROR(place_operands());
  ASSIGN_OR_RETURN(plain_weights_, trial_weights(place_, place_.source, weight_, plain_));
  const int64_t rows = std::max(rows_, wide_rows_);
  RETURN_IF_ERROR(calls_.reserve(plain_, args(plain_, *plain_weights_, rows, shape_.cols)));
  Trial unused;
  ASSIGN_OR_RETURN(bool done,
                   compute(plain_, *plain_weights_, rows_, shape_.cols, &wanted_, &unused));
  if (done && wide_rows_ > 0) {
    ASSIGN_OR_RETURN(
        done, compute(plain_, *plain_weights_, wide_rows_, wide_cols_, &wide_wanted_, &unused));
  }
  if (!done) return failed_precondition("{}: {}", plain_.name, unused.problem);
  measure_norms();
  return absl::OkStatus();
}

template <typename OfRow>
LinearTrials::Worst LinearTrials::worst_of(int64_t rows, const OfRow& of_row) const {
  std::vector<Worst> worst(static_cast<size_t>(rows));
  for_each(place_.parallel, rows,
           [&](int64_t row) { worst[static_cast<size_t>(row)] = of_row(row); });
  return *std::ranges::max_element(worst, {}, &Worst::error);
}

// Compares with `sums`, the plain kernel's outputs.
LinearTrials::Worst LinearTrials::compare(const Outputs& found, const Outputs& sums,
                                          bool slices) const {
  std::vector<double> bounds;
  for (size_t col = 0; col < static_cast<size_t>(sums.cols); ++col) {
    const double bias = biases_.empty() ? 0 : biases_[col];
    bounds.push_back(error_bound(shape_, slices, norms_[col], bias));
  }
  const auto sum_at = [&](int64_t row, int64_t col) {
    return Bounded{sums.row(row)[col], bounds[static_cast<size_t>(col)]};
  };
  return worst_of(found.rows, [&](int64_t row) {
    Worst worst{.row = row};
    for (int64_t col = 0; col < found.cols; ++col) {
      const float is = found.row(row)[col];
      const Bounded should = shape_.op == Op::kLinear
                                 ? sum_at(row, col)
                                 : product_of(sum_at(row, 2 * col), sum_at(row, 2 * col + 1));
      if (same_bits(is, should.value) || (!std::isfinite(is) && !std::isfinite(should.value))) {
        continue;
      }
      const double apart = std::abs(double{is} - double{should.value});
      const double error = should.bound > 0 && std::isfinite(apart)
                               ? apart / should.bound
                               : std::numeric_limits<double>::infinity();
      if (error > worst.error) worst = {error, row, col};
    }
    return worst;
  });
}

// Worst::error is 1 if a bit differs, else 0.
LinearTrials::Worst LinearTrials::compare_bits(const Outputs& found, const Outputs& whole) const {
  return worst_of(std::min(found.rows, whole.rows), [&](int64_t row) {
    for (int64_t col = 0; col < found.cols; ++col) {
      if (!same_bits(found.row(row)[col], whole.row(row)[col])) return Worst{1, row, col};
    }
    return Worst{.row = row};
  });
}

// The first call fills `whole`; the others compare with it.
absl::Status LinearTrials::try_rows(const KernelEntry& kernel, const Weights& weights, int64_t rows,
                                    int64_t cols, Outputs* whole, Trial* trial) {
  Outputs found;
  ASSIGN_OR_RETURN(const bool done, compute(kernel, weights, rows, cols, &found, trial));
  if (!done) return absl::OkStatus();
  const bool slices = !kernel.own_bits && shape_.weight != DType::kF32;
  const Worst worst = compare(found, rows > rows_ ? wide_wanted_ : wanted_, slices);
  TriedRows tried{.rows = rows, .cols = cols, .error = worst.error};
  if (worst.error > 1) {
    trial->refuse(
        fmt::format("with {} rows, the error of row {}, column {} is {:.3g} times its bound", rows,
                    worst.row, worst.col, worst.error));
  } else if (place_.same_bits && whole->rows > 0) {
    const Worst other = compare_bits(found, *whole);
    if (other.error > 0) {
      trial->refuse(fmt::format(
          "row {}, column {} has other bits with {} rows and {} columns than with {} and {}: "
          "--fast allows that",
          other.row, other.col, rows, found.cols, whole->rows, whole->cols));
    }
  }
  if (trial->verdict != Verdict::kRefused && rows <= rows_) {
    RETURN_IF_ERROR(calls_.time(kernel, args(kernel, weights, rows, cols), kMaxTimed, &tried));
  }
  if (whole->rows == 0) *whole = std::move(found);
  trial->rows.push_back(tried);
  return absl::OkStatus();
}

absl::Status LinearTrials::run(const KernelEntry& kernel, Trial* trial) {
  trial->rows.clear();
  const bool shares = kernel.pack == plain_.pack && kernel.packed_bytes == plain_.packed_bytes;
  std::optional<Weights> own;
  if (!shares) {
    ASSIGN_OR_RETURN(own, trial_weights(place_, place_.source, weight_, kernel));
  }
  const Weights& weights = shares ? *plain_weights_ : *own;
  const int64_t max_rows = std::max(rows_, wide_rows_);
  RETURN_IF_ERROR(calls_.reserve(kernel, args(kernel, weights, max_rows, shape_.cols)));
  Outputs whole;
  std::vector<std::pair<int64_t, int64_t>> counts = {{rows_, shape_.cols}};
  for (const int64_t rows : kRowCounts) {
    if (rows < rows_) counts.emplace_back(rows, shape_.cols);
  }
  if (wide_rows_ > 0) counts.emplace_back(wide_rows_, wide_cols_);
  for (const auto& [rows, cols] : counts) {
    RETURN_IF_ERROR(blame(try_rows(kernel, weights, rows, cols, &whole, trial), rows, trial));
    if (trial->verdict == Verdict::kRefused) return absl::OkStatus();
  }
  trial->verdict = Verdict::kProven;
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<LinearTrials>> LinearTrials::make(const TrialPlace& place,
                                                                 const TrialShape& shape,
                                                                 const program::Weight& weight,
                                                                 const KernelEntry& plain) {
  std::unique_ptr<LinearTrials> trials(new LinearTrials(place, shape, weight, plain));
  RETURN_IF_ERROR(trials->prepare());
  return trials;
}

}  // namespace lockstep
