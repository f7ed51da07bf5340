// SPDX-License-Identifier: Apache-2.0
// A worker that answers something else ends its group, never this process.
#include "coordinator/step_results.h"

#include <cstring>
#include <limits>

#include "base/status.h"

namespace lockstep {
namespace {

template <typename... Args>
absl::Status internal(fmt::format_string<Args...> format, Args&&... args) {
  return absl::InternalError(fmt::format(format, std::forward<Args>(args)...));
}

absl::Status check_candidates(const cluster::Candidates& answer, const cluster::Output& output,
                              int64_t vocab) {
  const cluster::CandidateList &top = answer.top(), &raw_top = answer.raw_top();
  if (top.ids_size() > output.top_count() || raw_top.ids_size() > output.raw_top_count()) {
    return internal("want at most {} and {} candidates, found {} and {}", output.top_count(),
                    output.raw_top_count(), top.ids_size(), raw_top.ids_size());
  }
  if (top.logits_size() != top.ids_size() || top.edited_size() != top.ids_size() ||
      raw_top.logits_size() != raw_top.ids_size()) {
    return internal("want candidates' lists of {} and {}, found {}, {} and {}", top.ids_size(),
                    raw_top.ids_size(), top.logits_size(), top.edited_size(),
                    raw_top.logits_size());
  }
  const auto check = [vocab](int32_t id) {
    if (0 <= id && id < vocab) return absl::OkStatus();
    return internal("want a token id below {}, found {}", vocab, id);
  };
  for (const int32_t id : top.ids()) RETURN_IF_ERROR(check(id));
  for (const int32_t id : raw_top.ids()) RETURN_IF_ERROR(check(id));
  return answer.has_noisy() ? check(answer.noisy().id()) : absl::OkStatus();
}

}  // namespace

absl::Status check_results(const std::vector<cluster::StepResult>& results,
                           const cluster::Step& step, const GroupInfo& group) {
  if (static_cast<int>(results.size()) != group.ranks) {
    return internal("step {}: want results of {} ranks, found {}", step.step(), group.ranks,
                    results.size());
  }
  for (int rank = 0; rank < group.ranks; ++rank) {
    const cluster::StepResult& result = results[static_cast<size_t>(rank)];
    if (result.step() != step.step()) {
      return internal("rank {} answered step {} instead of {}", rank, result.step(), step.step());
    }
    if (result.outputs_size() != step.outputs_size()) {
      return internal("step {}: want {} outputs of rank {}, found {}", step.step(),
                      step.outputs_size(), rank, result.outputs_size());
    }
    for (int i = 0; i < step.outputs_size(); ++i) {
      const absl::Status status = check_candidates(result.outputs(i), step.outputs(i), group.vocab);
      if (status.ok()) continue;
      return internal("step {}, output {} of rank {}: {}", step.step(), i, rank,
                      message_of(status));
    }
  }
  return absl::OkStatus();
}

absl::Status check_group(const GroupInfo& group) {
  const auto check = [](const char* name, int64_t value, int64_t max) {
    if (1 <= value && value <= max) return absl::OkStatus();
    return internal("a group's {}: want 1 to {}, found {}", name, max, value);
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

std::vector<float> join_logits(const RankCandidates& ranks) {
  std::vector<float> logits;
  for (const cluster::Candidates* rank : ranks) {
    const size_t count = rank->logits().size() / sizeof(float);
    if (count == 0) continue;  // A rank without a slice.
    const size_t before = logits.size();
    logits.resize(before + count);
    std::memcpy(logits.data() + before, rank->logits().data(), count * sizeof(float));
  }
  return logits;
}

}  // namespace lockstep
