// SPDX-License-Identifier: Apache-2.0
#include "worker/collectives/outcome.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "base/status.h"
#include "worker/collectives/share.h"

namespace lockstep {
namespace {

struct Outcome {
  int32_t severity = 0;  // 0: success; 1: waited too long; 2: failed.
  std::array<char, 252> text{};
};

Outcome outcome_of(const absl::Status& status) {
  Outcome outcome;
  if (status.ok()) return outcome;
  outcome.severity = status.code() == absl::StatusCode::kDeadlineExceeded ? 1 : 2;
  const std::string text = message_of(status);
  std::memcpy(outcome.text.data(), text.data(), std::min(text.size(), outcome.text.size() - 1));
  return outcome;
}

}  // namespace

absl::StatusOr<std::string> share_outcome(Collective& met, const absl::Status& own) {
  ASSIGN_OR_RETURN(const std::vector<Outcome> all, share(met, outcome_of(own)));
  const auto worst = std::max_element(
      all.begin(), all.end(), [](const auto& a, const auto& b) { return a.severity < b.severity; });
  if (worst->severity == 0) return "";
  return fmt::format("rank {}: {}", worst - all.begin(), worst->text.data());
}

}  // namespace lockstep
