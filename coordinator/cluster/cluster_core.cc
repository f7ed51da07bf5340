// SPDX-License-Identifier: Apache-2.0
// ClusterCore's events: messages from workers, changes of their processes, and time. How a group
// forms and is lost is in forming/forming.cc.
#include "coordinator/cluster/cluster_core.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/check.h"
#include "base/fault_point.h"
#include "base/status.h"
#include "proto/handshake.h"

namespace lockstep {

using cluster_action::LogLevel;

namespace {

// Errors that a retry would repeat: the user has to fix something.
bool is_permanent(absl::StatusCode code) {
  return code == absl::StatusCode::kInvalidArgument ||
         code == absl::StatusCode::kFailedPrecondition ||
         code == absl::StatusCode::kResourceExhausted || code == absl::StatusCode::kNotFound ||
         code == absl::StatusCode::kInternal;
}

const char* kind_of(const cluster::Hello& hello) { return hello.spare() ? "spare" : "worker"; }

}  // namespace

ClusterCore::ClusterCore(ClusterCoreOptions options)
    : options_(std::move(options)),
      local_(options_.launch ? options_.workers : 0, options_.stuck_ms) {}

std::vector<ClusterAction> ClusterCore::take_actions() { return std::exchange(actions_, {}); }

void ClusterCore::send(std::vector<LinkId> links, cluster::CoordinatorMessage message) {
  message.set_epoch(epoch_.number);
  actions_.push_back(cluster_action::Send{std::move(links), std::move(message)});
}

void ClusterCore::log(LogLevel level, std::string line) {
  actions_.push_back(cluster_action::Log{level, std::move(line)});
}

// ---- Workers' events ----

void ClusterCore::opened(int64_t now, LinkId link) {
  members_[link] = {.link = link, .opened_at = now, .received_at = now};
}

void ClusterCore::closed(int64_t now, LinkId link) {
  lose(now, link, LossKind::kClosed, "its stream ended");
  try_form(now);
}

void ClusterCore::message(int64_t now, LinkId link, cluster::WorkerMessage message) {
  const auto found = members_.find(link);
  if (found == members_.end() || over_) return;
  Member& member = found->second;
  member.received_at = now;
  if (message.has_hello()) {
    on_hello(now, member, message.hello());
    try_form(now);
    return try_grow(now);
  }
  if (!member.hello.has_value()) {
    return lose(now, link, LossKind::kRefused, "its first message is not a Hello");
  }
  if (message.has_preloaded()) return on_preloaded(now, member, message);
  if (message.has_goodbye()) return on_goodbye(now, member);
  const int rank = epoch_.rank_of(link);
  if (rank < 0 || message.epoch() != epoch_.number) return;
  switch (message.kind_case()) {
    case cluster::WorkerMessage::kHeartbeat:
      return on_heartbeat(now, member, message.heartbeat());
    case cluster::WorkerMessage::kFailure:
      on_failure(now, rank, message.failure());
      break;
    case cluster::WorkerMessage::kProgress:
      on_progress(now, rank, message.progress());
      break;
    default:
      on_answer(now, rank, std::move(message));
  }
  try_form(now);
}

void ClusterCore::on_hello(int64_t now, Member& member, const cluster::Hello& hello) {
  const auto refuse = [&](const std::string& why) {
    lose(now, member.link, LossKind::kRefused, why);
  };
  if (member.hello.has_value()) return refuse("it sent Hello twice");
  if (hello.protocol() != kProtocolVersion) {
    return refuse(fmt::format("it uses protocol {}, the coordinator {}: install the same version",
                              hello.protocol(), kProtocolVersion));
  }
  if (const absl::Status status = check_hello(hello); !status.ok()) {
    return refuse(message_of(status));
  }
  member.hello = hello;
  const int local = local_.find(hello.pid());
  const bool own = local >= 0 && local == hello.preferred_rank();
  if (own) own_ = hello;
  std::string why;
  if (epoch_.phase != Epoch::Phase::kNone) {
    why = why_incompatible(hello, *member_of(0).hello);
  } else if (own_.has_value()) {
    why = why_incompatible(hello, *own_);
  }
  if (!why.empty()) return refuse(why);
  if (own) {
    local_.joined(local);
    member.own = member.known = true;
  }
  const double rate = hello.read_rate();
  log(LogLevel::kInfo,
      fmt::format("a {} joined: pid {}, {}, {}, {} threads{}", kind_of(hello), hello.pid(),
                  printable(hello.device()), printable(hello.isa()), hello.threads(),
                  rate > 0 ? fmt::format(", reads {:.1f} GB/s", rate / 1e9) : ""));
  member.joined_at = now;
  regroup_.joined(now);
  speeds_.joined(hello);
  failed_tries_ = 0;
  form_at_ = now;
}

void ClusterCore::on_heartbeat(int64_t now, Member& member, const cluster::Heartbeat& heartbeat) {
  const bool has_waited = member.waiting && !heartbeat.waiting();  // The rank's own work begins.
  if (heartbeat.progress() != member.progress || has_waited) member.progress_at = now;
  member.progress = heartbeat.progress();
  member.waiting = heartbeat.waiting();
}

void ClusterCore::on_failure(int64_t now, int rank, const cluster::Failure& failure) {
  const absl::Status status = status_of(failure);
  if (epoch_.phase == Epoch::Phase::kLoading) member_of(rank).loaded = false;
  if (failure.peer_lost()) {
    return fail_epoch(now, unavailable("rank {} could not continue: {}", rank, message_of(status)));
  }
  // The sizes of shards came from measurements, not from the user, so equal sizes are tried.
  if (epoch_.uneven_measured && epoch_.phase != Epoch::Phase::kFormed &&
      status.code() == absl::StatusCode::kResourceExhausted) {
    speeds_.ignore_measured();
    log(LogLevel::kWarning, "weighted shards do not fit in memory; using equal shards");
    return fail_epoch(now, status);
  }
  // Too few ranks for the model: no rank is at fault.
  const bool too_few =
      epoch_.ranks() < options_.workers && status.code() == absl::StatusCode::kResourceExhausted;
  if (!too_few) {
    ++member_of(rank).failures;
    member_of(rank).failed_at = now;
  }
  if (epoch_.phase != Epoch::Phase::kFormed) regroup_.failed(now, epoch_.links, status.code());
  // Only the coordinator may say that no rank is at fault. If a worker could say so, a step that
  // always fails with such a status would be retried forever.
  if (absl::IsAborted(status) || absl::IsDeadlineExceeded(status)) {
    return fail_epoch(now, unavailable("{}", message_of(status)));
  }
  fail_epoch(now, status, is_permanent(status.code()));
}

void ClusterCore::on_progress(int64_t now, int rank, const cluster::LoadProgress& progress) {
  if (const absl::Status status = check_progress(progress); !status.ok()) {
    return lose(now, epoch_.links[rank], LossKind::kRefused, message_of(status));
  }
  member_of(rank).progress_at = now;
  epoch_.loaded[rank] = progress;
  cluster_action::Loaded all;
  for (const cluster::LoadProgress& one : epoch_.loaded) {
    all.bytes_done += one.bytes_done();
    all.bytes_total += one.bytes_total();
  }
  actions_.push_back(all);
}

// A Goodbye counts in any epoch: a peer may have noticed the end first, so the group may be over
// already.
void ClusterCore::on_goodbye(int64_t now, const Member& member) {
  was_killed_ |= member.served > 0 && member.served == last_formed_;
  const std::string& place = member.hello->data_address();
  log(LogLevel::kInfo, fmt::format("{}{} leaves: its process was asked to end",
                                   name_of(epoch_.rank_of(member.link), member),
                                   place.empty() ? "" : " at " + printable(place)));
  lose(now, member.link, LossKind::kLeft, "its process was asked to end");
  try_form(now);
}

void ClusterCore::on_answer(int64_t now, int rank, cluster::WorkerMessage message) {
  const absl::Status status =
      epoch_.owes(rank)
          ? check_answer(*epoch_.question, static_cast<int>(epoch_.operators[rank].size()), message)
          : invalid_argument("it answered without a question");
  if (!status.ok()) return lose(now, epoch_.links[rank], LossKind::kRefused, message_of(status));
  if (message.has_ready()) member_of(rank).loaded = true;
  member_of(rank).progress_at = now;
  epoch_.answers[rank] = std::move(message);
  if (!epoch_.complete()) return;
  switch (epoch_.phase) {
    case Epoch::Phase::kLoading:
      return prove(now);
    case Epoch::Phase::kProving:
      return enter(now);
    default:
      actions_.push_back(cluster_action::RankReplies{epoch_.take_answers()});
  }
}

// ---- Processes' events ----

void ClusterCore::worker_started(int64_t now, int index, int pid) {
  bool has_joined = false;  // It may have joined before this event.
  for (auto& [link, member] : members_) {
    if (!member.hello.has_value() || member.hello->pid() != pid ||
        member.hello->preferred_rank() != index) {
      continue;
    }
    has_joined = member.own = member.known = true;
    own_ = member.hello;
  }
  local_.started(now, index, pid, has_joined);
  try_form(now);
}

void ClusterCore::worker_exited(int64_t now, int index, const ProcessEnd& end) {
  const int pid = local_.pid(index);
  was_killed_ |= end.from_outside && local_.serves(index);
  const int quick_deaths = local_.exited(now, index);
  if (over_) return;
  log(LogLevel::kWarning,
      fmt::format("worker {} (pid {}) ended, {}: starting it again", index, pid, end.how));
  LinkId link = 0;
  bool found = false;
  for (const auto& [id, member] : members_) {
    if (pid == 0 || !member.hello.has_value() || member.hello->pid() != pid ||
        member.hello->preferred_rank() != index) {
      continue;
    }
    link = id;
    found = true;
  }
  if (found) lose(now, link, LossKind::kCut, "its process ended, " + end.how);
  if (last_formed_ == 0 && quick_deaths >= kFatalQuickDeaths) {
    give_up(failed_precondition("worker {} died {} times as soon as it started ({})", index,
                                quick_deaths, end.how));
  }
}

void ClusterCore::run_local_workers(int64_t now) {
  for (const int index : local_.take_to_kill(now)) {
    log(LogLevel::kWarning,
        fmt::format("worker {} (pid {}) does not answer: killing it", index, local_.pid(index)));
    actions_.push_back(cluster_action::KillWorker{index});
  }
  for (const int index : local_.take_due(now)) {
    actions_.push_back(cluster_action::StartWorker{index});
  }
}

// ---- The owner's requests ----

void ClusterCore::want_group(int64_t now, const GroupRequirements& requirements) {
  if (over_) return;
  if (epoch_.phase == Epoch::Phase::kFormed) end_epoch(now, "a new group is formed");
  wanted_ = true;
  regroup_.wanted(now, requirements);
  try_form(now);
}

void ClusterCore::note_demand(int64_t now, Demand demand) {
  regroup_.note_demand(demand);
  try_grow(now);
}

void ClusterCore::exchange(int64_t now, cluster::CoordinatorMessage message) {
  if (epoch_.phase != Epoch::Phase::kFormed) return;
  LOCKSTEP_CHECK(!epoch_.question.has_value());
  ask(now, std::move(message));
}

void ClusterCore::end_epoch(int64_t, const std::string& reason) {
  wanted_ = false;
  abort_members(reason);
}

void ClusterCore::shutdown(int64_t) {
  if (over_) return;
  over_ = true;
  const bool formed = epoch_.phase == Epoch::Phase::kFormed;
  end_epoch(0, "the coordinator ends");
  if (formed) {
    actions_.push_back(
        cluster_action::GroupLost{absl::CancelledError("the cluster was shut down")});
  }
}

// ---- Time ----

void ClusterCore::tick(int64_t now) {
  if (over_) return;
  if (last_tick_ >= 0 && now - last_tick_ > kTickMs + kLateTickMs) {
    log(LogLevel::kWarning,
        fmt::format("the coordinator was delayed for {} ms: workers' silence counts from now",
                    now - last_tick_ - kTickMs));
    for (auto& [link, member] : members_) {
      member.opened_at = member.received_at = member.progress_at = now;
    }
    local_.restart_join_times(now);
  }
  last_tick_ = now;
  look_for_silence(now);
  look_for_stuck(now);
  run_local_workers(now);
  if (fault_point("cluster.form_later")) return;
  try_form(now);
  try_grow(now);
  cover_ranks();
}

void ClusterCore::look_for_silence(int64_t now) {
  std::vector<std::pair<LinkId, std::string>> lost;
  for (const auto& [link, member] : members_) {
    if (!member.hello.has_value() && now - member.opened_at >= kHelloMs) {
      lost.emplace_back(link, fmt::format("it sent no Hello for {} ms", now - member.opened_at));
    } else if (member.hello.has_value() && now - member.received_at >= options_.silent_ms) {
      lost.emplace_back(link, fmt::format("it sent nothing for {} ms", now - member.received_at));
    }
  }
  for (const auto& [link, why] : lost) lose(now, link, LossKind::kSilent, why);
}

void ClusterCore::look_for_stuck(int64_t now) {
  if (!epoch_.question.has_value()) return;
  std::vector<const Member*> ranks;
  std::vector<bool> unanswered;
  for (int rank = 0; rank < epoch_.ranks(); ++rank) {
    ranks.push_back(&member_of(rank));
    unanswered.push_back(epoch_.owes(rank));
  }
  const int stuck = find_stuck(ranks, unanswered, now, options_.stuck_ms);
  if (stuck < 0) return;
  lose(now, epoch_.links[stuck], LossKind::kCut,
       fmt::format("it made no progress for {} ms", now - ranks[stuck]->progress_at));
}

bool ClusterCore::ready(int64_t now) const {
  if (epoch_.phase != Epoch::Phase::kFormed) return false;
  bool progress = !epoch_.question.has_value();
  for (const LinkId link : epoch_.links) {
    const Member& member = members_.at(link);
    if (now - member.received_at > kReadySilentMs) return false;
    progress |= now - member.progress_at <= kReadyProgressMs;
  }
  return progress;
}

int ClusterCore::joined() const {
  int count = 0;
  for (const auto& [link, member] : members_) count += member.hello.has_value();
  return count;
}

std::vector<WorkerState> ClusterCore::workers(int64_t now) const {
  std::vector<WorkerState> states;
  for (const auto& [link, member] : members_) {
    if (!member.hello.has_value()) continue;
    WorkerState state = state_of(member, now);
    state.rank = epoch_.rank_of(link);
    if (state.rank >= 0) {
      state.role = epoch_.phase == Epoch::Phase::kFormed ? WorkerState::Role::kServing
                                                         : WorkerState::Role::kLoading;
    }
    states.push_back(std::move(state));
  }
  // Workers without a rank stay in the order of their arrival.
  std::ranges::stable_sort(states, {}, [](const WorkerState& state) {
    return state.rank < 0 ? std::numeric_limits<int>::max() : state.rank;
  });
  return states;
}

// ---- Spares ----
//
// Idle spares hold the weights of ranks, so that a spare can replace a lost rank without loading. A
// preload never affects the group: if it fails, the spare stays a spare.

namespace {

// Whether both workers get the same programs, which do not depend on free memory.
bool alike(WorkerFacts one, WorkerFacts other) {
  one.memory_bytes = other.memory_bytes = 0;
  return one == other;
}

}  // namespace

// Ranks are covered in a full group only: a smaller one grows soon, and then the weights of all
// ranks change.
void ClusterCore::cover_ranks() {
  if (over_ || epoch_.phase != Epoch::Phase::kFormed || epoch_.ranks() < options_.workers) return;
  for (auto& [link, member] : members_) {
    const bool waits = member.hello.has_value() && epoch_.rank_of(link) < 0;
    if (!waits || member.cover.epoch == epoch_.number) continue;
    preload(member, choose_cover(members_, epoch_.links, link));
  }
}

// Sends the assignment that the spare would get if `rank` were lost now. Each epoch sends its own
// assignment; the spare loads only weights that it does not have in memory.
void ClusterCore::preload(Member& spare, int rank) {
  spare.cover.epoch = epoch_.number;
  std::vector<LinkId> links = epoch_.links;
  links[rank] = spare.link;
  const std::vector<WorkerFacts> facts = facts_of(links);
  cluster::CoordinatorMessage message;
  cluster::Assignment& assignment = *message.mutable_preload();
  assignment = assignment_of(links);
  assignment.set_loading_here(1);
  if (std::ranges::equal(facts, epoch_.facts, alike)) {
    *assignment.mutable_program() = epoch_.programs[rank];
  } else {
    absl::StatusOr<std::vector<program::Program>> programs = options_.compile(facts);
    if (!programs.ok()) return;
    *assignment.mutable_program() = std::move((*programs)[rank]);
  }
  if (spare.cover.rank != rank) spare.cover.since = 0;
  spare.cover.rank = rank;
  spare.cover.state = Cover::State::kLoads;
  spare.loaded = false;
  send({spare.link}, std::move(message));
}

void ClusterCore::on_preloaded(int64_t now, Member& member, const cluster::WorkerMessage& message) {
  Cover& cover = member.cover;
  if (cover.state != Cover::State::kLoads || message.epoch() != cover.epoch) return;
  const cluster::Preloaded& preloaded = message.preloaded();
  if (const absl::Status status = check_preloaded(preloaded); !status.ok()) {
    return lose(now, member.link, LossKind::kRefused, message_of(status));
  }
  if (preloaded.has_failure()) {
    std::string why = message_of(status_of(preloaded.failure()));
    const bool logged = why == cover.failure;
    cover = {.state = Cover::State::kFailed, .epoch = cover.epoch, .failure = std::move(why)};
    if (logged) return;
    return log(LogLevel::kWarning,
               fmt::format("a {} (pid {}) holds no rank's weights: {}", kind_of(*member.hello),
                           member.hello->pid(), cover.failure));
  }
  cover.state = Cover::State::kHolds;
  if (cover.since == 0) cover.since = now;
  member.loaded = true;
  member.weight_bytes = preloaded.weight_bytes();
  log(LogLevel::kInfo, fmt::format("a {} (pid {}) holds the weights of rank {}",
                                   kind_of(*member.hello), member.hello->pid(), cover.rank));
}

}  // namespace lockstep
