// SPDX-License-Identifier: Apache-2.0
#include "coordinator/cluster/forming/regroup.h"

#include <algorithm>
#include <utility>

namespace lockstep {

// ---- Events ----

void Regroup::joined(int64_t now) {
  joined_at_ = now;
  too_few_ = 0;
}

void Regroup::left(int64_t now) {
  if (growing_to_ > 0 || graces_ == kMaxGraces) return;
  ++graces_;
  grace_until_ = now + options_.grace_ms;
}

void Regroup::wanted(int64_t now, const GroupRequirements& requirements) {
  wanted_at_ = now;
  numeric_class_ = requirements.numeric_class;
}

// If an attempt to grow fails, one worker may be the cause, not the number of ranks. So only the
// same set of workers is not tried again.
void Regroup::failed(int64_t now, const std::vector<LinkId>& links, absl::StatusCode code) {
  const auto ranks = static_cast<int>(links.size());
  const bool grows = ranks == growing_to_;
  if (!grows && ranks >= options_.workers) return;
  if (now >= forget_at_) failed_.clear();
  if (!grows && code == absl::StatusCode::kResourceExhausted) {
    too_few_ = std::max(too_few_, ranks);
  } else {
    failed_.insert({links.begin(), links.end()});
  }
  // Longer than any pause between attempts, so that attempts with other workers come first.
  forget_at_ = now + (grows ? options_.regrow_ms : std::max(options_.regrow_ms, 2 * kMaxPauseMs));
}

// If an attempt to grow gave fewer ranks than planned, it is not repeated at once, even if workers
// join again.
void Regroup::formed(int64_t now, int ranks) {
  if (growing_to_ > 0) {
    if (ranks < growing_to_) grow_at_ = now + options_.regrow_ms;
    grown_at_ = ranks < growing_to_ ? INT64_MIN : now;
  }
  growing_to_ = 0;
  ignore_failures_before_ = INT64_MIN;
  formed_once_ = true;
  too_few_ = 0;
  graces_ = 0;
  grace_until_ = INT64_MIN;
}

// If the larger group was lost soon, the attempt to grow is also not repeated at once.
void Regroup::group_lost(int64_t now) {
  const int64_t grown_at = std::exchange(grown_at_, INT64_MIN);
  if (grown_at != INT64_MIN && now - grown_at < options_.regrow_ms) {
    grow_at_ = now + options_.regrow_ms;
  }
}

void Regroup::begin_growth(int64_t now, int ranks) {
  grown_at_ = INT64_MIN;
  ignore_failures_before_ = forgiven(now);
  growing_to_ = ranks;
}

// ---- Decisions ----

// Failures of workers before this time no longer count: a worker that failed may work again. While
// requests run, all failures count, because requests are not interrupted to try such a worker.
int64_t Regroup::forgiven(int64_t now) const {
  return idle() ? now - options_.regrow_ms : INT64_MIN;
}

RosterRules Regroup::rules(int64_t now) const {
  return {.workers = options_.workers,
          .min_workers = options_.min_workers,
          .first = !formed_once_,
          .spares_may_start = now - joined_at_ >= options_.grace_ms,
          .grace_over = now >= grace_until_,
          .numeric_class = numeric_class_,
          .class_grace_over = now - wanted_at_ >= options_.grace_ms,
          .ignore_failures_before = ignore_failures_before_,
          .too_few = now < forget_at_ ? too_few_ : 0,
          .failed = now < forget_at_ ? failed_ : std::set<std::set<LinkId>>{}};
}

int Regroup::growth(int64_t now, const Members& members, const std::vector<LinkId>& links,
                    const std::string& numeric_class) const {
  const int ranks = static_cast<int>(links.size());
  if (ranks >= options_.workers || now < grow_at_) return 0;
  RosterRules rules = this->rules(now);
  rules.grace_over = true;
  rules.ignore_failures_before = forgiven(now);
  // Requests keep their numeric class; without requests, every class is allowed.
  rules.numeric_class = demand_ == Demand::kNone ? "" : numeric_class;
  rules.class_grace_over = false;
  const Roster roster = choose_roster(members, rules);
  if (roster.ranks() <= ranks) return 0;
  int64_t first_at = now;  // When the first of the new workers joined.
  for (const LinkId link : roster.links) {
    if (std::find(links.begin(), links.end(), link) != links.end()) continue;
    first_at = std::min(first_at, members.at(link).joined_at);
  }
  if (now - first_at >= options_.regrow_ms) return roster.ranks();
  // Workers that were lost together return one after the other: grow once for all of them.
  const bool all_came = roster.ranks() == options_.workers || now - joined_at_ >= options_.grace_ms;
  return idle() && all_came ? roster.ranks() : 0;
}

}  // namespace lockstep
