// SPDX-License-Identifier: Apache-2.0
// The events of ClusterCore in a simulation. The engine's thread may wake some time after the
// answer that it waits for has arrived (wake_engine()).
#include "tests/simulation/coordinator/cluster_side.h"

#include <algorithm>
#include <utility>

#include "base/status.h"
#include "coordinator/cluster/rank_replies.h"

namespace lockstep::simulation {

namespace {

cluster::WorkerMessage beat(uint64_t epoch) {
  cluster::WorkerMessage message;
  message.set_epoch(epoch);
  message.mutable_heartbeat();
  return message;
}

// The speeds that decide the shards; check_speeds() reads them in the program's model name.
std::string speeds_text(const std::vector<WorkerFacts>& workers) {
  std::string text;
  for (const WorkerFacts& worker : workers) text += fmt::format("{} ", worker.speed);
  return text;
}

}  // namespace

ClusterCoreOptions ClusterSide::options(bool launch, int64_t max_pages) {
  ClusterCoreOptions options{.workers = host_.model.ranks,
                             .min_workers = host_.min_workers,
                             .launch = launch,
                             .stuck_ms = host_.stuck_ms,
                             .grace_ms = host_.grace_ms,
                             .regrow_ms = host_.regrow_ms,
                             .measured_speeds = true};
  if (world_.planted(Plant::kGraceIgnored)) options.grace_ms = 0;
  if (world_.planted(Plant::kTooFewRanks)) options.min_workers = 1;
  if (world_.planted(Plant::kNeverGrows)) options.regrow_ms = kForever;
  if (world_.planted(Plant::kGrowsInCircle)) options.regrow_ms = 0;
  options.assignment.set_checkpoint("/checkpoint");
  options.assignment.set_max_pages(max_pages);
  options.compile = [model = host_.model](const std::vector<WorkerFacts>& workers)
      -> absl::StatusOr<std::vector<program::Program>> {
    program::Program program;
    program.set_ranks(static_cast<int>(workers.size()));
    program.set_model(speeds_text(workers));
    program.set_vocab(model.vocab);
    program.set_numeric_class(group_class(workers).value());
    program.mutable_limits()->set_page_tokens(model.page_tokens);
    program.mutable_limits()->set_rows(model.max_rows);
    program.mutable_limits()->set_outputs(model.max_outputs);
    program.mutable_limits()->set_sequences(model.max_sequences);
    program.mutable_limits()->set_context(model.max_context);
    for (int i = 0; i < model.instructions; ++i) program.add_instructions();
    if (model.blocks > 0) program.add_states()->mutable_block();
    program.mutable_sequence_rules()->set_rope_length_of_prompt(model.rope.of_prompt);
    for (const int64_t length : model.rope.lengths) {
      program::Attributes& attributes = *program.mutable_instructions(0)->mutable_attributes();
      attributes.mutable_rope_table()->add_lengths(length);
    }
    std::vector<program::Program> programs(workers.size(), program);
    for (size_t rank = 0; rank < programs.size(); ++rank) {
      programs[rank].set_rank(static_cast<int32_t>(rank));
    }
    return programs;
  };
  options.draw_data_key = [] { return std::string(32, 'k'); };
  options.draw_group_name = [this] { return fmt::format("group {}", ++last_group_); };
  return options;
}

ClusterSide::ClusterSide(Host* host, GroupListener* listener, bool launch, int64_t max_pages)
    : host_(*host),
      world_(host->world),
      listener_(*listener),
      time_(&world_),
      machine_(host, this, this, &time_),
      checks_(host, ClusterCoreOptions{}.silent_ms),
      options_(options(launch, max_pages)),
      core_(std::make_unique<ClusterCore>(options_)) {
  world_.after(0, [this] { tick(); });
}

// ---- Events in, actions out ----

template <typename Event>
void ClusterSide::post(const Event& event) {
  event(*core_, world_.now());
  for (ClusterAction& action : core_->take_actions()) perform(std::move(action));
  checks_.after_event(healthy());
}

void ClusterSide::perform(ClusterAction action) {
  using namespace cluster_action;
  if (auto* message = std::get_if<Send>(&action)) {
    send(std::move(*message));
  } else if (const auto* link = std::get_if<Close>(&action)) {
    close(*link);
  } else if (const auto* start = std::get_if<StartWorker>(&action)) {
    if (over_) world_.broken("a worker is started after the end");
    machine_.start(start->index);
  } else if (const auto* kill = std::get_if<KillWorker>(&action)) {
    machine_.kill(kill->index);
  } else if (auto* formed = std::get_if<GroupFormed>(&action)) {
    checks_.formed(formed->info);
    formed_ = std::move(formed->info);
    lost_ = absl::OkStatus();
    wake_engine();
  } else if (auto* lost = std::get_if<GroupLost>(&action)) {
    if (!over_) checks_.lost(lost->why);
    only_left_ = checks_.only_left();
    lost_ = std::move(lost->why);
    wake_engine();
  } else if (auto* replies = std::get_if<cluster_action::RankReplies>(&action)) {
    checks_.answered();
    replies_ = std::move(replies->messages);
    wake_engine();
  } else if (const auto* impossible = std::get_if<FormingImpossible>(&action)) {
    world_.log("cluster: hopeless: {}", message_of(impossible->why));
    if (host_.faults == 0) world_.broken("hopeless without a fault");
    world_.after(200, [this] { restart(); });
  } else if (const auto* log = std::get_if<Log>(&action)) {
    world_.log("cluster: {}", log->line);
  }
}

void ClusterSide::tick() {
  if (!time_.runs()) {
    tick_due_ = true;
    return;
  }
  run_tick();
}

void ClusterSide::run_tick() {
  checks_.ticked();
  if (world_.planted(Plant::kSilenceIgnored)) {
    for (const auto& [id, link] : open_) {
      post([&, id = id](ClusterCore& core, int64_t now) { core.message(now, id, beat(epoch_)); });
    }
  }
  post([](ClusterCore& core, int64_t now) { core.tick(now); });
  checks_.after_tick();
  world_.after(kTickMs + (world_.one_in(10) ? world_.between(0, 20) : 0), [this] { tick(); });
}

void ClusterSide::hold_up(int64_t ms) {
  if (!time_.runs()) return;
  world_.log("cluster: held up for {} ms", ms);
  time_.stop();
  held_up_at_ = world_.now();
  world_.after(ms, [this] { continue_all(); });
}

// The coordinator has a thread that ticks and one that reads messages. After a pause, either may
// run first.
void ClusterSide::continue_all() {
  if (time_.runs()) return;
  for (Process* process : machine_.alive()) process->noticed_late(held_up_at_);
  checks_.continued();
  const bool tick_due = std::exchange(tick_due_, false);
  const bool tick_first = world_.one_in(2);
  if (tick_due && tick_first) run_tick();
  time_.resume();
  if (tick_due && !tick_first) run_tick();
}

void ClusterSide::calm() { continue_all(); }

// The server ended because it could not form its first group. Its workers notice that it has ended.
void ClusterSide::restart() {
  if (over_) return;
  ++restarts_;
  world_.log("cluster: the server is restarted");
  for (const auto& [id, link] : open_) link->down.cut();
  open_.clear();
  machine_.coordinator_ended();
  checks_.restarted();
  core_ = std::make_unique<ClusterCore>(options_);
  if (wait_ == Wait::kGroup) want_group({});
}

// ---- Links ----

Link* ClusterSide::open(Process* worker) {
  links_.push_back(std::make_unique<Link>(&world_, &time_, &worker->time(), worker));
  Link* const link = links_.back().get();
  link->up.on_message = [this, link](ToCoordinator message) {
    if (link->id == 0) {
      link->id = ++last_link_;
      open_[link->id] = link;
      post([&](ClusterCore& core, int64_t now) { core.opened(now, link->id); });
    }
    if (!open_.contains(link->id)) return;
    if (message.has_goodbye() && world_.planted(Plant::kGoodbyeIgnored)) return;
    checks_.received(*link, message);
    spoil(&message);
    post([&](ClusterCore& core, int64_t now) { core.message(now, link->id, std::move(message)); });
  };
  link->up.on_closed = [this, link] { on_closed(*link); };
  return link;
}

// Plants a bug: changes the message so that the core acts as if it lacked a rule.
void ClusterSide::spoil(ToCoordinator* message) {
  if (world_.planted(Plant::kEpochUnchecked) && message->epoch() > 0) message->set_epoch(epoch_);
  if (world_.planted(Plant::kSpareFirst) && message->has_hello()) {
    message->mutable_hello()->set_spare(false);
  }
  if (world_.planted(Plant::kCoverAlike) && message->hello().spare()) {
    message->mutable_hello()->set_preferred_rank(0);
  }
  // The core treats a worker that prefers a rank as the restarted worker of that rank.
  if (world_.planted(Plant::kSurvivorMoved) && message->has_hello() &&
      message->hello().preferred_rank() < 0 && !message->hello().spare()) {
    message->mutable_hello()->set_preferred_rank(0);
  }
  if (world_.planted(Plant::kMeasuredAnew) && message->has_hello()) {
    cluster::Hello& hello = *message->mutable_hello();
    hello.set_isa(std::to_string(hello.pid()));
    hello.set_read_rate(hello.read_rate() * (1 + hello.pid() % 3));
  }
  if (world_.planted(Plant::kIdentityIgnored) && message->has_ready()) {
    message->mutable_ready()->set_contents("any");
  }
  if (world_.planted(Plant::kStuckIgnored) && message->has_heartbeat()) {
    message->mutable_heartbeat()->set_progress(static_cast<uint64_t>(world_.now()));
  }
}

void ClusterSide::on_closed(Link& link) {
  link.down.close();
  if (open_.erase(link.id) == 0) return;
  checks_.gone(link);
  post([&](ClusterCore& core, int64_t now) { core.closed(now, link.id); });
}

void ClusterSide::send(cluster_action::Send send) {
  std::vector<Link*> links;
  for (const LinkId id : send.links) {
    if (const auto found = open_.find(id); found != open_.end()) links.push_back(found->second);
  }
  if (links.empty()) return;
  checks_.unfit_joined(std::any_of(open_.begin(), open_.end(), [](const auto& one) {
    return one.second->process.options().unfit;
  }));
  checks_.sends(links, send.message);
  epoch_ = send.message.epoch();
  const auto message = std::make_shared<const cluster::CoordinatorMessage>(std::move(send.message));
  for (Link* link : links) link->down.send(message);
  if (!world_.planted(Plant::kStepTwice) || !message->has_step() || !world_.one_in(20)) return;
  for (Link* link : links) link->down.send(message);
}

void ClusterSide::close(const cluster_action::Close& close) {
  const auto found = open_.find(close.link);
  if (found == open_.end()) return;
  checks_.gone(*found->second);
  if (close.after_sending) return found->second->down.close();
  checks_.cuts(*found->second);
  found->second->cut();
}

// ---- Processes ----

void ClusterSide::on_started(int index, int pid) {
  post([&](ClusterCore& core, int64_t now) { core.worker_started(now, index, pid); });
}

void ClusterSide::on_exited(int index, const ProcessEnd& end) {
  post([&](ClusterCore& core, int64_t now) { core.worker_exited(now, index, end); });
}

// ---- The group's owner ----

void ClusterSide::want_group(const GroupRequirements& requirements) {
  wait_ = Wait::kGroup;
  formed_.reset();
  post([&](ClusterCore& core, int64_t now) { core.want_group(now, requirements); });
}

void ClusterSide::note_demand(Demand demand) {
  if (world_.planted(Plant::kNeverGrows)) demand = Demand::kRuns;
  post([&](ClusterCore& core, int64_t now) { core.note_demand(now, demand); });
}

bool ClusterSide::whole() const {
  return checks_.ranks() == host_.model.ranks || core_->joined() < host_.model.ranks;
}

void ClusterSide::run_step(std::shared_ptr<const cluster::Step> step) {
  cluster::CoordinatorMessage message;
  *message.mutable_step() = *step;
  exchange(Wait::kResults, std::move(message));
}

void ClusterSide::fetch_logits(uint64_t step, int output) {
  cluster::CoordinatorMessage message;
  message.mutable_logits()->set_step(step);
  message.mutable_logits()->set_output(output);
  exchange(Wait::kLogits, std::move(message));
}

void ClusterSide::exchange(Wait wait, cluster::CoordinatorMessage message) {
  wait_ = wait;
  replies_.reset();
  if (!lost_.ok()) return wake_engine();
  checks_.asked();
  post([&](ClusterCore& core, int64_t now) { core.exchange(now, std::move(message)); });
}

void ClusterSide::leave_group() {
  wait_ = Wait::kNothing;
  if (!formed_.has_value() || !lost_.ok()) return;
  lost_ = absl::CancelledError("the group was dissolved");
  checks_.left();
  checks_.owner_acts(true);
  post([](ClusterCore& core, int64_t now) { core.end_epoch(now, "the group was dissolved"); });
  checks_.owner_acts(false);
}

void ClusterSide::shutdown() {
  over_ = true;
  checks_.left();
  checks_.owner_acts(true);
  post([](ClusterCore& core, int64_t now) { core.shutdown(now); });
}

bool ClusterSide::healthy() const {
  const bool late = world_.planted(Plant::kReadyTooLong) && formed_.has_value();
  return late || core_->ready(world_.now());
}

// A coordinator that is held up answers no probe.
void ClusterSide::note_readiness(bool ready) {
  if (time_.runs()) checks_.readiness(ready);
}

void ClusterSide::wake_engine() {
  if (world_.planted(Plant::kLostWakeUp) && world_.one_in(100)) return;
  if (std::exchange(waking_, true)) return;
  world_.after(world_.one_in(20) ? world_.between(0, 60) : 0, [this] {
    waking_ = false;
    answer_engine();
  });
}

void ClusterSide::answer_engine() {
  if (wait_ == Wait::kNothing) return;
  if (wait_ != Wait::kGroup) return answer_exchange();
  if (!formed_.has_value()) return;
  wait_ = Wait::kNothing;
  listener_.group_formed(*formed_);
}

void ClusterSide::answer_exchange() {
  if (lost_.ok() && !replies_.has_value()) return;
  const Wait wait = std::exchange(wait_, Wait::kNothing);
  if (!lost_.ok()) return listener_.group_lost(lost_);
  RankReplies replies = *std::exchange(replies_, std::nullopt);
  if (wait == Wait::kResults) return listener_.results(results_of(std::move(replies)));
  const absl::StatusOr<std::vector<float>> logits = logits_of(replies, formed_->vocab);
  if (logits.ok()) return listener_.logits(*logits);
  leave_group();
  listener_.group_lost(logits.status());
}

}  // namespace lockstep::simulation
