// SPDX-License-Identifier: Apache-2.0
// A worker that sends an invalid answer ends its group, never this process.
#include "coordinator/engine/step_results.h"

#include <limits>

#include "base/status.h"
#include "proto/candidates.h"

namespace lockstep {
namespace {

template <typename... Args>
absl::Status internal(fmt::format_string<Args...> format, Args&&... args) {
  return absl::InternalError(fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace

absl::Status check_results(const std::vector<cluster::StepResult>& results,
                           const cluster::Step& step, const GroupInfo& group) {
  if (static_cast<int>(results.size()) != group.ranks) {
    return internal("step {}: must have results of {} ranks, found {}", step.step(), group.ranks,
                    results.size());
  }
  for (int rank = 0; rank < group.ranks; ++rank) {
    const cluster::StepResult& result = results[static_cast<size_t>(rank)];
    if (result.step() != step.step()) {
      return internal("rank {} answered step {} instead of {}", rank, result.step(), step.step());
    }
    if (result.outputs_size() != step.outputs_size()) {
      return internal("step {}: must have {} outputs of rank {}, found {}", step.step(),
                      step.outputs_size(), rank, result.outputs_size());
    }
    for (int i = 0; i < step.outputs_size(); ++i) {
      const absl::Status status =
          check_candidates(result.outputs(i), counts_of(step.outputs(i)), group.vocab);
      if (status.ok()) continue;
      return internal("step {}, output {} of rank {}: {}", step.step(), i, rank,
                      message_of(status));
    }
  }
  return absl::OkStatus();
}

absl::Status check_row(const std::vector<float>& logits, uint64_t step, const GroupInfo& group) {
  if (static_cast<int64_t>(logits.size()) == group.vocab) return absl::OkStatus();
  return internal("step {}: must have {} logits of all ranks, found {}", step, group.vocab,
                  logits.size());
}

absl::Status check_group(const GroupInfo& group) {
  const auto check = [](const char* name, int64_t value, int64_t max) {
    if (1 <= value && value <= max) return absl::OkStatus();
    return internal("a group's {}: must be 1 to {}, found {}", name, max, value);
  };
  constexpr int64_t kMaxPages = std::numeric_limits<int32_t>::max();
  constexpr int64_t kMax = int64_t{1} << 40;
  RETURN_IF_ERROR(check("ranks", group.ranks, kMax));
  RETURN_IF_ERROR(check("KV pages", group.pages, kMaxPages));
  RETURN_IF_ERROR(check("positions per page", group.page_tokens, kMax));
  RETURN_IF_ERROR(check("rows", group.max_rows, kMax));
  RETURN_IF_ERROR(check("outputs", group.max_outputs, kMax));
  RETURN_IF_ERROR(check("sequences", group.max_sequences, kMax));
  RETURN_IF_ERROR(check("context", group.max_context, kMax));
  return check("vocabulary", group.vocab, kMaxPages);
}

}  // namespace lockstep
