// SPDX-License-Identifier: Apache-2.0
#include "worker/kernel_choice/expert_cases.h"

#include <algorithm>
#include <random>

#include "base/status.h"

namespace lockstep {
namespace {

constexpr int64_t kMaxTokens = 8192;
constexpr int64_t kMaxBytes = int64_t{512} << 20;  // All rows of x, or of the output.
// The rows of the first experts: none, one, a few; whole tiles of 64, 128 and 192 rows, and one row
// more; whole tiles of 176 and 208 rows, and one row more.
constexpr int64_t kExpertRows[] = {0, 1, 7, 384, 385, 2288, 2289};
constexpr int64_t kMinRoutesWithStrays = 16;  // Cases with fewer routes have no ids of no expert.
constexpr int64_t kMatrices = 3;              // Neighbouring experts have different ones.
constexpr uint64_t kSeed = 1;

// The first experts have the rows of kExpertRows, the other experts have the remaining rows; all in
// a random order.
std::vector<int32_t> ids_of(int64_t routes, int64_t experts) {
  std::vector<int32_t> ids;
  if (routes >= kMinRoutesWithStrays) ids = {-1, static_cast<int32_t>(experts)};
  const int64_t first = std::min(std::ssize(kExpertRows), experts - 1);
  for (int64_t e = 0; e < first; ++e) {
    const int64_t rows = std::min(kExpertRows[e], routes - std::ssize(ids));
    ids.insert(ids.end(), static_cast<size_t>(rows), static_cast<int32_t>(e));
  }
  std::mt19937 random(kSeed);
  while (std::ssize(ids) < routes) {
    ids.push_back(static_cast<int32_t>(first + static_cast<int64_t>(random()) % (experts - first)));
  }
  std::ranges::shuffle(ids, random);
  return ids;
}

// Random matrices, one after another.
program::Weight matrices_weight(const TrialShape& shape, int64_t matrices) {
  program::Weight weight;
  weight.set_name("trial");
  weight.set_role(program::LINEAR_WEIGHT);
  weight.set_dtype(static_cast<program::DType>(shape.weight));
  weight.set_rows(matrices * shape.cols);
  weight.set_cols(shape.depth);
  weight.set_matrices(matrices);
  program::Piece* piece = weight.add_pieces();
  piece->set_source(weight.name());
  for (const int64_t size : {matrices, shape.cols, shape.depth}) piece->add_source_shape(size);
  piece->set_row_end(weight.rows());
  piece->set_col_end(shape.depth);
  return weight;
}

}  // namespace

// The rule that chooses a kernel's tile may take another one for half of the rows. The last case
// has a row of x for each route, as a down projection has.
ExpertCases::ExpertCases(const TrialPlace& place, const TrialShape& shape, int64_t each)
    : place_(place), shape_(shape) {
  const int64_t route_bytes = std::max(shape.cols * 4, shape.depth * dtype_bytes(shape.x));
  const int64_t tokens = std::clamp<int64_t>(kMaxBytes / (route_bytes * each), 1,
                                             std::min(place.max_rows, kMaxTokens));
  for (int64_t rows = tokens; rows > 0; rows /= rows > 64 ? 2 : 8) {
    cases_.push_back({.x_rows = rows, .each = each});
  }
  if (each > 1) cases_.push_back({.x_rows = tokens * each, .each = 1, .is_timed = false});
}

absl::Status ExpertCases::place_ids() {
  std::vector<int32_t> all;
  for (Case& one : cases_) {
    one.first = std::ssize(all);
    const std::vector<int32_t> ids = ids_of(one.x_rows * one.each, shape_.experts);
    all.insert(all.end(), ids.begin(), ids.end());
  }
  const int64_t bytes = static_cast<int64_t>(all.size() * sizeof(int32_t));
  ASSIGN_OR_RETURN(ids_, allocate_memory(place_.device, bytes, "trials"));
  place_.device.copy_in(ids_.data(), all.data(), bytes);
  return device_status(place_.device.synchronize(), place_.device);
}

absl::Status ExpertCases::place_weights(const KernelEntry& plain) {
  const int64_t matrices = std::min(kMatrices, shape_.experts);
  const int64_t bytes = plain.packed_bytes(shape_.cols, shape_.depth);
  ASSIGN_OR_RETURN(weights_, allocate_memory(place_.device, shape_.experts * bytes, "trials"));
  const WeightSource source{RandomWeights(kSeed)};
  ASSIGN_OR_RETURN(const Weights few,
                   trial_weights(place_, source, matrices_weight(shape_, matrices), plain));
  const auto* const from = static_cast<const std::byte*>(few.view(0).data);
  std::vector<RowCopy> copies;
  for (int64_t e = 0; e < shape_.experts; ++e) {
    copies.push_back({.to = weights_.data() + e * bytes,
                      .from = from + e % matrices * bytes,
                      .row_bytes = bytes,
                      .rows = 1});
  }
  place_.device.copy_each(copies);
  return device_status(place_.device.synchronize(), place_.device);
}

absl::Status ExpertCases::prepare(const KernelEntry& plain) {
  const int64_t x_rows = std::ranges::max(cases_, {}, &Case::x_rows).x_rows;
  ASSIGN_OR_RETURN(x_, trial_numbers(place_, 0, x_rows, shape_.depth, shape_.x));
  if (shape_.bias) {
    const int64_t cols = shape_.experts * shape_.cols;
    ASSIGN_OR_RETURN(bias_, trial_numbers(place_, -1, 1, cols, DType::kF32));
  }
  RETURN_IF_ERROR(place_ids());
  return place_weights(plain);
}

KernelArgs ExpertCases::args(int index) const {
  const Case& one = cases_[static_cast<size_t>(index)];
  const int64_t routes = one.x_rows * one.each, rows = shape_.experts * shape_.cols;
  KernelArgs args;
  args.in[0] = {x_.data(), one.x_rows, shape_.depth, shape_.depth, shape_.x};
  args.in[1] = {ids_.data() + one.first * 4, routes, 1, 1, DType::kI32};
  args.in[2] = {weights_.data(), rows, shape_.depth, shape_.depth, shape_.weight};
  if (shape_.bias) args.in[3] = {bias_.data(), 1, rows, rows, DType::kF32};
  args.out[0] = {nullptr, routes, shape_.cols, shape_.cols, DType::kF32};
  args.attrs = ExpertAttrs{.experts = shape_.experts};
  return args;
}

absl::StatusOr<std::unique_ptr<ExpertCases>> ExpertCases::make(const TrialPlace& place,
                                                               const TrialShape& shape,
                                                               int64_t each,
                                                               const KernelEntry& plain) {
  std::unique_ptr<ExpertCases> cases(new ExpertCases(place, shape, each));
  RETURN_IF_ERROR(cases->prepare(plain));
  return cases;
}

}  // namespace lockstep
