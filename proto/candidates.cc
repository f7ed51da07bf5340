// SPDX-License-Identifier: Apache-2.0
#include "proto/candidates.h"

#include <cstring>

#include "base/status.h"
#include "proto/block_sums.h"

namespace lockstep {
namespace {

// `edited`: whether the list must have edited logits.
absl::Status check_list(std::string_view name, const cluster::CandidateList& list, bool edited,
                        int max, int64_t vocab) {
  const int count = list.ids_size(), with_edited = edited ? count : 0;
  RETURN_IF_ERROR(check_range(name, count, 0, max));
  RETURN_IF_ERROR(check_range("CandidateList.logits", list.logits_size(), count, count));
  RETURN_IF_ERROR(
      check_range("CandidateList.edited", list.edited_size(), with_edited, with_edited));
  for (const int32_t id : list.ids()) {
    RETURN_IF_ERROR(check_range("Candidate.id", id, 0, vocab - 1));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status check_range(std::string_view name, int64_t found, int64_t min, int64_t max) {
  if (min <= found && found <= max) return absl::OkStatus();
  return invalid_argument("{}: must be {} to {}, found {}", name, min, max, found);
}

CandidateCounts counts_of(const cluster::Output& output) {
  return {output.top_count(), output.raw_top_count(), output.raw_ids_size()};
}

absl::Status check_candidates(const cluster::Candidates& found, const CandidateCounts& asked,
                              int64_t vocab) {
  RETURN_IF_ERROR(check_list("Candidates.top", found.top(), true, asked.top, vocab));
  RETURN_IF_ERROR(check_list("Candidates.raw_top", found.raw_top(), false, asked.raw_top, vocab));
  RETURN_IF_ERROR(
      check_list("Candidates.raw_logits", found.raw_logits(), false, asked.raw_ids, vocab));
  if (found.has_noisy()) {
    RETURN_IF_ERROR(check_range("Candidate.id", found.noisy().id(), 0, vocab - 1));
  }
  RETURN_IF_ERROR(check_sums(found.edited_sums(), vocab));
  RETURN_IF_ERROR(check_sums(found.raw_sums(), vocab));
  return check_logits(found.logits(), vocab);
}

absl::Status check_logits(std::string_view bytes, int64_t vocab) {
  constexpr int64_t kBytes = sizeof(float);
  const auto size = static_cast<int64_t>(bytes.size());
  if (size % kBytes == 0 && size <= vocab * kBytes) return absl::OkStatus();
  return invalid_argument("logits: must have at most {} bytes, {} per number, found {}",
                          vocab * kBytes, kBytes, size);
}

std::vector<float> join_logits(std::span<const std::string_view> slices) {
  size_t bytes = 0;
  for (const std::string_view slice : slices) bytes += slice.size();
  std::vector<float> logits(bytes / sizeof(float));
  auto* to = reinterpret_cast<std::byte*>(logits.data());
  for (const std::string_view slice : slices) {
    if (!slice.empty()) std::memcpy(to, slice.data(), slice.size());
    to += slice.size();
  }
  return logits;
}

}  // namespace lockstep
