// SPDX-License-Identifier: Apache-2.0
// All padding rows are equal, so they are routed to the same experts, like one more token.
#include "worker/steps/padded_step.h"

#include <algorithm>
#include <bit>

namespace lockstep {
namespace {

constexpr int64_t kWide = 64;        // From this many rows on, buckets are multiples of it.
constexpr int64_t kPositions = 256;  // The smallest bucket of positions.

int64_t power_of_two(int64_t min) {
  return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(min)));
}

}  // namespace

int64_t padded_rows(int64_t rows, int64_t max) {
  const int64_t bucket = rows <= kWide ? power_of_two(rows) : (rows + kWide - 1) / kWide * kWide;
  return std::min(bucket, max);
}

int64_t padded_positions(int64_t positions) {
  return power_of_two(std::max(positions, kPositions));
}

PaddedStep::PaddedStep(const program::Limits& limits)
    : limit_(std::min({limits.rows(), limits.sequences(), limits.outputs(), kMaxPaddedRows})),
      tokens_(limit_),
      positions_(limit_),
      sequence_of_row_(limit_),
      output_rows_(limit_),
      sequences_(limit_),
      outputs_(limit_) {}

void PaddedStep::use(const StateRoom& room) {
  has_spare_ = room.spare > 0;
  page_ = static_cast<int32_t>(room.pages);
  slot_ = room.sequences;
}

StepView* PaddedStep::take(const StepView& step) {
  const int64_t rows = step.rows, outputs = step.output_count;
  if (!has_spare_ || rows == 0 || rows > max_ || outputs > rows) return nullptr;
  if (rows != step.sequence_count || step.embeddings != nullptr) return nullptr;
  const int64_t count = padded_rows(rows, max_);
  std::copy_n(step.tokens, rows, tokens_.begin());
  std::copy_n(step.positions, rows, positions_.begin());
  std::copy_n(step.sequences, rows, sequences_.begin());
  std::copy_n(step.output_rows, outputs, output_rows_.begin());
  std::copy_n(step.outputs, outputs, outputs_.begin());
  std::fill(tokens_.begin() + rows, tokens_.begin() + count, 0);
  std::fill(positions_.begin() + rows, positions_.begin() + count, 0);
  std::fill(output_rows_.begin() + outputs, output_rows_.begin() + count,
            static_cast<int32_t>(count - 1));
  std::fill(outputs_.begin() + outputs, outputs_.begin() + count, OutputSpec{});
  int64_t longest = 1;
  for (int64_t i = 0; i < count; ++i) {
    sequence_of_row_[i] = static_cast<int32_t>(i);
    if (i >= rows) {
      sequences_[i] = {.first_row = i, .rows = 1, .pages = &page_, .slot = slot_, .rope_length = 1};
    }
    longest = std::max(longest, sequences_[i].first_position + 1);
  }
  view_ = {.rows = count,
           .tokens = tokens_.data(),
           .positions = positions_.data(),
           .sequence_of_row = sequence_of_row_.data(),
           .sequences = sequences_.data(),
           .sequence_count = count,
           .output_rows = output_rows_.data(),
           .outputs = outputs_.data(),
           .output_count = count,
           .longest = padded_positions(longest)};
  return &view_;
}

}  // namespace lockstep
