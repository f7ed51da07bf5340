// SPDX-License-Identifier: Apache-2.0
// The life of a group: an epoch is opened, its ranks load and run a null step, and later the group
// is lost. Messages of other epochs are ignored.
#include <algorithm>
#include <utility>

#include "base/status.h"
#include "coordinator/cluster/cluster_core.h"
#include "coordinator/cluster/forming/kernels.h"
#include "operators/op.h"

namespace lockstep {

using cluster_action::LogLevel;

namespace {

std::vector<OperatorName> operators_of(const program::Program& program) {
  std::vector<OperatorName> names;
  for (const program::Instruction& instruction : program.instructions()) {
    const int made = instruction.outputs_size() > 0 ? instruction.outputs(0) : -1;
    names.push_back({.op = std::string(op_name(static_cast<Op>(instruction.op()))),
                     .value = made >= 0 ? program.values(made).name() : ""});
  }
  return names;
}

}  // namespace

// ---- From workers to a group ----

void ClusterCore::try_form(int64_t now) {
  if (over_ || !wanted_ || epoch_.phase != Epoch::Phase::kNone || now < form_at_) return;
  if (options_.launch && !own_.has_value()) return;  // Local workers decide which others fit.
  if (joined() >= options_.workers) refuse_incompatible(now);
  Roster roster = choose_roster(members_, regroup_.rules(now));
  if (roster.ranks() > 0) open_epoch(now, std::move(roster), /*reload=*/false);
}

// Ends a group that could have more ranks: the owner gets GroupLost and then requests the next
// group.
void ClusterCore::try_grow(int64_t now) {
  if (over_ || epoch_.phase != Epoch::Phase::kFormed) return;
  const int ranks = regroup_.growth(now, members_, epoch_.links, epoch_.info.numeric_class);
  if (ranks == 0) return;
  regroup_.begin_growth(now, ranks);
  fail_epoch(now, absl::AbortedError(fmt::format("the group grows to {} ranks", ranks)));
}

// Refuses workers that cannot be in one group with the others.
void ClusterCore::refuse_incompatible(int64_t now) {
  const std::vector<LinkId> together = choose_compatible(members_);
  const cluster::Hello peer = *members_.at(together.front()).hello;
  std::vector<std::pair<LinkId, std::string>> odd;
  for (const auto& [link, member] : members_) {
    if (!member.hello.has_value()) continue;
    std::string why = why_incompatible(*member.hello, peer);
    if (!why.empty()) odd.emplace_back(link, std::move(why));
  }
  for (const auto& [link, why] : odd) lose(now, link, LossKind::kRefused, why);
}

void ClusterCore::open_epoch(int64_t now, Roster roster, bool reload) {
  epoch_ = {.phase = Epoch::Phase::kLoading, .number = ++epochs_, .reload = reload};
  epoch_.links = std::move(roster.links);
  epoch_.numeric_class = std::move(roster.numeric_class);
  epoch_.kernels = std::move(roster.kernels);
  epoch_.loaded.resize(epoch_.links.size());
  for (auto& [link, member] : members_) member.last_ranks = 0;
  for (int rank = 0; rank < epoch_.ranks(); ++rank) {
    Member& member = member_of(rank);
    if (member.cover.state == Cover::State::kHolds && member.cover.rank == rank) {
      log(LogLevel::kInfo,
          fmt::format("epoch {}: rank {} is assigned to a spare that holds its weights, pid {}",
                      epoch_.number, rank, member.hello->pid()));
    }
    member.cover = {};
    member.last_rank = rank;
    member.last_ranks = epoch_.ranks();
    member.loaded &= !reload;
    member.progress = 0;
    member.progress_at = now;
    member.waiting = false;
  }
  epoch_.facts = facts_of(epoch_.links);
  epoch_.uneven_measured = speeds_of(epoch_.links).uneven_measured;
  absl::StatusOr<std::vector<program::Program>> programs = options_.compile(epoch_.facts);
  if (!programs.ok()) {
    regroup_.failed(now, epoch_.links, programs.status().code());
    return fail_epoch(now, programs.status(), /*permanent=*/true);
  }
  epoch_.programs = *std::move(programs);
  epoch_.info = group_info(epoch_.programs.front());
  epoch_.info.epoch = epoch_.number;
  for (const program::Program& program : epoch_.programs) {
    epoch_.operators.push_back(operators_of(program));
  }
  epoch_.ask({.kind = Question::Kind::kReady});
  const bool fewer = epoch_.ranks() < options_.workers;
  log(fewer ? LogLevel::kWarning : LogLevel::kInfo,
      fmt::format("epoch {}: {}{} ranks load{}", epoch_.number, epoch_.ranks(),
                  fewer ? fmt::format(" of {}", options_.workers) : "",
                  epoch_.uneven_measured ? ", each in proportion to its memory speed" : ""));
  assign();
}

Speeds::Chosen ClusterCore::speeds_of(const std::vector<LinkId>& links) const {
  std::vector<const cluster::Hello*> hellos;
  hellos.reserve(links.size());
  for (const LinkId link : links) hellos.push_back(&*members_.at(link).hello);
  return speeds_.of(hellos);
}

// The compiler's facts about these workers, which are in rank order.
std::vector<WorkerFacts> ClusterCore::facts_of(const std::vector<LinkId>& links) const {
  const Speeds::Chosen speeds = speeds_of(links);
  std::vector<WorkerFacts> facts;
  for (size_t rank = 0; rank < links.size(); ++rank) {
    const cluster::Hello& hello = *members_.at(links[rank]).hello;
    facts.push_back({.device = hello.device(),
                     .isa = hello.isa(),
                     .numeric_class = epoch_.numeric_class.empty() ? hello.numeric_class()
                                                                   : epoch_.numeric_class,
                     .memory_bytes = hello.memory_bytes(),
                     .speed = speeds.by_rank[rank]});
  }
  return facts;
}

// The part of the assignment that is equal for these workers' ranks.
cluster::Assignment ClusterCore::assignment_of(const std::vector<LinkId>& links) const {
  cluster::Assignment shared = options_.assignment;
  shared.set_group(options_.draw_group_name());
  shared.set_collective_timeout_ms(3 * options_.stuck_ms);  // Later than the check for stuck ranks.
  bool spans_hosts = false;
  for (const LinkId link : links) {
    shared.add_hosts(members_.at(link).hello->host());
    shared.add_devices(members_.at(link).hello->device());
    shared.add_data_addresses(members_.at(link).hello->data_address());
    spans_hosts |= members_.at(link).hello->host() != shared.hosts(0);
  }
  if (spans_hosts) shared.set_data_key(options_.draw_data_key());
  return shared;
}

void ClusterCore::assign() {
  cluster::Assignment shared = assignment_of(epoch_.links);
  shared.set_reload(epoch_.reload);
  *shared.mutable_kernels() = {epoch_.kernels.begin(), epoch_.kernels.end()};
  for (int rank = 0; rank < epoch_.ranks(); ++rank) {
    const cluster::Hello& self = *member_of(rank).hello;
    int loading_here = 0;
    for (const LinkId link : epoch_.links) {
      const Member& peer = members_.at(link);
      loading_here += !peer.loaded && peer.hello->host() == self.host() &&
                      peer.hello->device() == self.device();
    }
    cluster::CoordinatorMessage message;
    *message.mutable_assignment() = shared;
    *message.mutable_assignment()->mutable_program() = epoch_.programs[rank];
    message.mutable_assignment()->set_loading_here(loading_here);
    send({epoch_.links[rank]}, std::move(message));
  }
}

// Whether all ranks use the same kernels for their linears. If not, the next epoch begins, with
// kernels that all ranks have proven; ranks that chose others load again.
bool ClusterCore::agree(int64_t now, const std::vector<cluster::WorkerMessage>& readies) {
  absl::StatusOr<Agreement> agreement = agree_on_kernels(readies);
  if (agreement.ok() && !agreement->unanimous && !epoch_.kernels.empty()) {
    agreement = failed_precondition("a rank uses other kernels than those assigned");
  }
  if (!agreement.ok()) {
    fail_epoch(now, agreement.status());
    return false;
  }
  epoch_.info.kernels = digest_of(agreement->kernels);
  if (agreement->unanimous) return true;
  log(LogLevel::kWarning,
      "the ranks chose different kernels: now each rank gets kernels that all ranks have proven");
  Roster roster{.links = epoch_.links,
                .numeric_class = epoch_.numeric_class,
                .kernels = std::move(agreement->kernels)};
  abort_members("the ranks chose different kernels");
  open_epoch(now, std::move(roster), /*reload=*/false);
  return false;
}

// All ranks are ready. A null step crosses them before the group counts as formed.
void ClusterCore::prove(int64_t now) {
  const std::vector<cluster::WorkerMessage> readies = epoch_.take_answers();
  if (!agree(now, readies)) return;
  const int64_t max = options_.assignment.max_pages();
  epoch_.info.pages = max > 0 ? max : INT64_MAX;
  int other = 0;  // A rank that loaded a different checkpoint than rank 0; 0: none.
  WeightsOrigin weights;
  std::vector<RankInfo> members;
  for (int rank = 0; rank < epoch_.ranks(); ++rank) {
    const cluster::Ready& ready = readies[rank].ready();
    epoch_.info.pages = std::min(epoch_.info.pages, ready.pages());
    if (ready.sequences() > 0) {
      epoch_.info.max_sequences = std::min(epoch_.info.max_sequences, ready.sequences());
    }
    epoch_.info.weight_bytes += ready.weight_bytes();
    member_of(rank).weight_bytes = ready.weight_bytes();
    const cluster::Hello& hello = *member_of(rank).hello;
    members.push_back({.host = hello.host(),
                       .pid = hello.pid(),
                       .device = hello.device(),
                       .isa = hello.isa(),
                       .weight_bytes = ready.weight_bytes(),
                       .operators = epoch_.operators[rank]});
    const WeightsOrigin origin = {.contents = ready.contents(),
                                  .written_at = {{hello.host(), ready.written_at()}}};
    if (rank == 0) weights.contents = ready.contents();
    if (!weights.same_as(origin)) other = rank;
    weights.written_at.emplace(hello.host(), ready.written_at());
  }
  if (other > 0) {
    const absl::Status why = failed_precondition(
        "ranks 0 and {} loaded different checkpoints: {} was rewritten meanwhile", other,
        options_.assignment.checkpoint());
    if (epoch_.reload) return fail_epoch(now, why);
    log(LogLevel::kWarning, message_of(why) + "; all ranks load it again");
    Roster roster = choose_roster(members_, regroup_.rules(now));  // More workers may have joined.
    if (roster.ranks() < epoch_.ranks()) {
      roster = {.links = epoch_.links, .numeric_class = epoch_.numeric_class};
    }
    abort_members("the checkpoint was rewritten");
    return open_epoch(now, std::move(roster), /*reload=*/true);
  }
  epoch_.info.weights = std::move(weights);
  epoch_.info.members = std::make_shared<const std::vector<RankInfo>>(std::move(members));
  cluster::CoordinatorMessage start;
  start.mutable_start()->set_pages(epoch_.info.pages);
  send(epoch_.links, std::move(start));
  epoch_.phase = Epoch::Phase::kProving;
  log(LogLevel::kInfo,
      fmt::format("epoch {}: all have loaded, a null step follows", epoch_.number));
  cluster::CoordinatorMessage null_step;
  null_step.mutable_step();
  ask(now, std::move(null_step));
}

// The null step has crossed every rank.
void ClusterCore::enter(int64_t now) {
  epoch_.take_answers();
  epoch_.phase = Epoch::Phase::kFormed;
  wanted_ = false;
  last_formed_ = epoch_.number;
  failed_tries_ = 0;
  local_.formed();
  regroup_.formed(now, epoch_.ranks());
  for (const LinkId link : epoch_.links) {
    Member& member = members_.at(link);
    member.failures = 0;
    member.known = true;
    member.served = epoch_.number;
    if (member.own) local_.serve(member.hello->preferred_rank());
  }
  epoch_.info.follows_a_kill = std::exchange(was_killed_, false);
  log(LogLevel::kInfo, fmt::format("epoch {}: {} ranks ready, {} KV pages", epoch_.number,
                                   epoch_.ranks(), epoch_.info.pages));
  actions_.push_back(cluster_action::GroupFormed{epoch_.info});
}

void ClusterCore::ask(int64_t now, cluster::CoordinatorMessage message) {
  epoch_.ask(question_of(message, epoch_.info.vocab));
  for (const LinkId link : epoch_.links) members_.at(link).progress_at = now;
  send(epoch_.links, std::move(message));
}

// ---- From a group back to workers ----

void ClusterCore::fail_epoch(int64_t now, const absl::Status& why, bool permanent) {
  const bool formed = epoch_.phase == Epoch::Phase::kFormed;
  abort_members(message_of(why));
  if (formed) {
    regroup_.group_lost(now);
    log(LogLevel::kWarning, "the group was lost: " + message_of(why));
    const bool may_be_chance = absl::IsAborted(why) || absl::IsDeadlineExceeded(why);
    const auto code = may_be_chance ? why.code() : absl::StatusCode::kUnavailable;
    actions_.push_back(cluster_action::GroupLost{absl::Status(code, why.message())});
    return;
  }
  if (permanent && last_formed_ == 0) return give_up(why);
  log(LogLevel::kWarning, "no group yet: " + message_of(why));
  form_at_ = now + std::min(kFirstPauseMs << std::min(failed_tries_, 10), kMaxPauseMs);
  ++failed_tries_;
}

void ClusterCore::abort_members(const std::string& reason) {
  std::vector<LinkId> links;
  for (const LinkId link : epoch_.links) {
    if (members_.contains(link)) links.push_back(link);
  }
  cluster::CoordinatorMessage message;
  message.mutable_abort()->set_reason(reason);
  if (!links.empty()) send(std::move(links), std::move(message));
  epoch_ = {};
}

void ClusterCore::lose(int64_t now, LinkId link, LossKind how, const std::string& why) {
  const auto found = members_.find(link);
  if (found == members_.end()) return;
  const Member member = std::move(found->second);
  members_.erase(found);
  if (how == LossKind::kRefused) {
    cluster::CoordinatorMessage message;
    message.mutable_refusal()->set_reason(why);
    send({link}, std::move(message));
  }
  if (how != LossKind::kClosed) {
    const bool after_sending = how == LossKind::kRefused || how == LossKind::kLeft;
    actions_.push_back(cluster_action::Close{link, after_sending});
  }
  if (over_) return;
  const int rank = epoch_.rank_of(link);
  if (how == LossKind::kRefused) {
    const LogLimit::Clock::time_point at{std::chrono::milliseconds(now)};
    if (const int64_t workers = refusals_.count(at); workers > 0) {
      log(LogLevel::kWarning,
          fmt::format("refused {}{}: {}", name_of(rank, member),
                      workers > 1 ? fmt::format(" and {} others", workers - 1) : "", why));
    }
  } else if (rank < 0 && how != LossKind::kLeft) {
    log(LogLevel::kInfo, fmt::format("{} was lost: {}", name_of(rank, member), why));
  }
  if (member.hello.has_value()) {
    const int local = local_.find(member.hello->pid());
    const bool ours = local >= 0 && local == member.hello->preferred_rank();
    const bool kill = how == LossKind::kCut || how == LossKind::kSilent;
    if (ours) local_.left(now, local, kill ? 0 : kLeaveMs);
  }
  if (rank >= 0 || (epoch_.phase == Epoch::Phase::kNone && member.last_rank >= 0)) {
    regroup_.left(now);
  }
  if (rank < 0) return;
  const auto code = how == LossKind::kSilent ? absl::StatusCode::kDeadlineExceeded
                                             : absl::StatusCode::kUnavailable;
  fail_epoch(now, absl::Status(code, fmt::format("{} was lost: {}", name_of(rank, member), why)));
}

void ClusterCore::give_up(absl::Status why) {
  over_ = true;
  actions_.push_back(cluster_action::FormingImpossible{std::move(why)});
}

}  // namespace lockstep
