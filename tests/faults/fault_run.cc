// SPDX-License-Identifier: Apache-2.0
#include "tests/faults/fault_run.h"

#include <csignal>
#include <filesystem>
#include <functional>
#include <thread>
#include <utility>

#include "base/status.h"

namespace lockstep::faults {

using std::chrono::milliseconds;
using std::chrono::seconds;

namespace {

// Longer than ranks need from the assignment until they meet.
constexpr milliseconds kTimeToMeet{60};
constexpr milliseconds kHold{800};  // Shorter than the silence after which a rank is lost.

}  // namespace

FaultRun::FaultRun(const FaultRunOptions& options)
    : options_(options), checkpoints_(options.shape), questions_(make_questions()) {}

FaultRun::~FaultRun() = default;

// ---- The start ----

// Learns the right answers: for each checkpoint, from a server of one worker without faults.
absl::Status FaultRun::learn() {
  for (int variant = checkpoints_.variants() - 1; variant >= 0; --variant) {
    checkpoints_.put(variant, Rewrite::kRename);
    ObservedServer server(checkpoints_.folder(), 1, options_.serve_flags);
    for (Question& question : questions_) {
      const Answer answer = ask(server.stub(), question.request, seconds(120));
      if (!answer.status.ok()) {
        return unavailable("without faults it failed: {}\n{}", answer.status.error_message(),
                           server.log());
      }
      question.answers[variant] = answer.choices;
    }
  }
  if (checkpoints_.variants() > 1 && questions_[0].answers[0] == questions_[0].answers[1]) {
    return absl::InternalError("both checkpoints give the same answers");
  }
  return absl::OkStatus();
}

absl::Status FaultRun::begin() {
  RETURN_IF_ERROR(learn());
  server_ = std::make_unique<ObservedServer>(checkpoints_.folder(), options_.workers,
                                             options_.serve_flags);
  clients_ = std::make_unique<Clients>(server_->channel(), questions_, options_.clients,
                                       2 * options_.limit + seconds(60));
  RETURN_IF_ERROR(serve_again(Clock::now() + options_.limit));
  const std::optional<JoinPoint> join_point = server_->join_point();
  if (!join_point.has_value()) return absl::InternalError("no worker has an address and a token");
  join_point_ = *join_point;
  return absl::OkStatus();
}

// ---- A fault ----

absl::StatusOr<Outcome> FaultRun::run(const Fault& fault) {
  must_reload_ = false;
  approach(fault);
  const Phase before = server_->phase();
  const std::string pid = fmt::format("(pid {})", server_->worker(fault.acts[0].rank));
  const Clock::time_point begin = Clock::now();
  for (const Act& act : fault.acts) inject(act);
  const bool formed = server_->logged_phase() == Phase::kStep;
  release(fault);
  for (const Act& act : fault.acts) follow_up(act);
  const Clock::time_point deadline = begin + options_.limit;
  clients_->resume();
  RETURN_IF_ERROR(serve_again(deadline));
  const auto took = std::chrono::duration_cast<milliseconds>(Clock::now() - begin);
  RETURN_IF_ERROR(tidy(deadline));
  const bool had_group = before == Phase::kStep || before == Phase::kIdle;
  const bool killed = fault.acts.size() == 1 && fault.acts[0].kind == Kind::kKill;
  if (had_group && killed) RETURN_IF_ERROR(check_loss(pid));
  // If a group was formed meanwhile, the fault may have struck only after that, so it counts for
  // kStep.
  const bool missed = formed && before != Phase::kIdle;
  return Outcome{.phase = missed ? Phase::kStep : before, .took = took};
}

bool FaultRun::until(const std::function<bool()>& holds) {
  const Clock::time_point deadline = Clock::now() + options_.limit;
  while (!holds()) {
    if (Clock::now() >= deadline || server_->ended()) return false;
    std::this_thread::sleep_for(milliseconds(1));
  }
  return true;
}

// If the phase is not reached, the fault strikes in another phase, and counts for that phase.
void FaultRun::approach(const Fault& fault) {
  const milliseconds delay(fault.delay_ms);
  if (fault.phase == Phase::kStep || fault.phase == Phase::kIdle) {
    if (fault.phase == Phase::kIdle) clients_->pause();
    until([&] { return server_->phase() == fault.phase; });
    return std::this_thread::sleep_for(delay);
  }
  const pid_t lost = server_->worker(fault.healing_rank);
  const int epochs = server_->epochs();
  signal(fault.healing_rank, SIGKILL);
  if (fault.phase == Phase::kJoining) {
    until([&] {
      const pid_t successor = server_->worker(fault.healing_rank);
      return successor != 0 && successor != lost;
    });
    return;
  }
  until([&] { return server_->epochs() > epochs; });
  const auto load_for = [&](milliseconds time) {
    const Clock::time_point end = Clock::now() + time;
    until([&] { return Clock::now() >= end || server_->logged_phase() != Phase::kLoading; });
  };
  if (fault.phase == Phase::kLoading) return load_for(delay);
  // A null step takes a millisecond, which is too short for a fault. So a rank that has nothing to
  // load is stopped, and the null step waits for it.
  load_for(kTimeToMeet);
  if (options_.workers > 1) held_ = server_->worker((fault.healing_rank + 1) % options_.workers);
  if (held_ != 0) kill(held_, SIGSTOP);
  load_for(kHold);
}

// Continues the rank that held up the null step, unless the fault stopped it, too.
void FaultRun::release(const Fault& fault) {
  const pid_t held = std::exchange(held_, 0);
  for (const Act& act : fault.acts) {
    const bool stops = act.kind == Kind::kStop || act.kind == Kind::kPause;
    if (stops && server_->worker(act.rank) == held) return;
  }
  if (held != 0) kill(held, SIGCONT);
}

void FaultRun::signal(int rank, int number) {
  const pid_t pid = server_->worker(rank);
  if (pid != 0) kill(pid, number);
}

void FaultRun::inject(const Act& act) {
  const auto rewrite = [&](Rewrite how) {
    checkpoints_.put((checkpoints_.variant() + 1) % checkpoints_.variants(), how);
  };
  switch (act.kind) {
    case Kind::kKill:
    case Kind::kKillTwice:
      return signal(act.rank, SIGKILL);
    case Kind::kTerminate:
      return signal(act.rank, SIGTERM);
    case Kind::kStop:
    case Kind::kPause:
      return signal(act.rank, SIGSTOP);
    case Kind::kKillAll:
      for (int rank = 0; rank < options_.workers; ++rank) signal(rank, SIGKILL);
      return;
    case Kind::kRename: {
      rewrite(Rewrite::kRename);
      if (server_->logged_phase() != Phase::kStep) return;
      must_reload_ = true;
      return signal(act.rank, SIGKILL);
    }
    case Kind::kOverwrite:
      rewrite(Rewrite::kOverwrite);
      must_reload_ = true;
      return signal(act.rank, SIGKILL);
    case Kind::kSpare:
      return bring_spare(act);
    case Kind::kHold:
      return server_->signal(SIGSTOP);
    default:
      break;
  }
  const auto stranger =
      static_cast<StrangerKind>(static_cast<int>(act.kind) - static_cast<int>(Kind::kOtherHost));
  strangers_.push_back(std::make_unique<Stranger>(stranger, join_point_, options_.workers));
}

void FaultRun::bring_spare(const Act& act) {
  spares_.push_back(std::make_unique<testing::Process>(
      std::vector<std::string>{testing::lockstep_binary(), "worker", "--coordinator",
                               join_point_.address, "--threads", "1", "--weight-cache", "off"},
      testing::ProcessOptions{.environment = {{"LOCKSTEP_JOIN_TOKEN", join_point_.token}}}));
  until([&] { return server_->has_joined(spares_.back()->pid()); });
  signal(act.rank, SIGKILL);
}

void FaultRun::follow_up(const Act& act) {
  if (act.kind == Kind::kSpare) {
    std::this_thread::sleep_for(milliseconds(act.delay_ms));
    return spares_.clear();
  }
  if (act.kind == Kind::kPause) {
    std::this_thread::sleep_for(milliseconds(act.delay_ms));
    return signal(act.rank, SIGCONT);
  }
  if (act.kind == Kind::kHold) {
    std::this_thread::sleep_for(milliseconds(act.delay_ms));
    return server_->signal(SIGCONT);
  }
  if (act.kind != Kind::kKillTwice) return;
  // The rank was killed just now. `lost` is the dead process, not yet reaped, or its successor.
  const Clock::time_point end = Clock::now() + milliseconds(act.delay_ms);
  const pid_t lost = server_->worker(act.rank);
  until([&] {
    const pid_t successor = server_->worker(act.rank);
    return successor != 0 && (successor != lost || Clock::now() >= end);
  });
  std::this_thread::sleep_until(end);
  signal(act.rank, SIGKILL);
}

// ---- The checks after a fault ----

absl::Status FaultRun::check_answer(const Answer& answer) {
  const int variant = questions_[0].variant_of(answer.choices);
  if (variant < 0) return absl::InternalError("the answer has other bits than before");
  const bool current = variant == checkpoints_.variant();
  if (!current && (must_reload_ || variant != served_)) {
    return absl::InternalError("the answer comes from the replaced checkpoint");
  }
  served_ = variant;
  return absl::OkStatus();
}

// Waits until health reports SERVING and a new client's request is answered in full.
absl::Status FaultRun::serve_again(Clock::time_point deadline) {
  const auto patience = [&] {
    return std::chrono::ceil<seconds>(deadline - Clock::now()) + seconds(1);
  };
  std::string last = "health does not report SERVING";
  while (Clock::now() < deadline) {
    if (server_->ended()) return absl::InternalError("the server ended");
    if (const std::string broken = clients_ == nullptr ? "" : clients_->broken_promise();
        !broken.empty()) {
      return absl::InternalError(broken);
    }
    if (!server_->is_serving()) {
      std::this_thread::sleep_for(milliseconds(5));
      continue;
    }
    const Answer answer = ask(server_->stub(), questions_[0].request, patience());
    last = answer.status.ok() ? "the answer came late" : answer.status.error_message();
    if (answer.status.ok() && Clock::now() >= deadline) break;
    if (answer.status.ok()) return check_answer(answer);
    if (!was_rewritten(answer.status)) {
      return absl::InternalError("a request ended with: " + last);
    }
  }
  return absl::DeadlineExceededError("the server does not serve again: " + last);
}

absl::Status FaultRun::check_loss(const std::string& pid) {
  if (server_->last_loss().find(pid) != std::string::npos) return absl::OkStatus();
  return absl::InternalError(
      fmt::format("{} was killed, but the log says: {}", pid, server_->last_loss()));
}

// Checks that every worker runs once, and that no other process or stranger is left.
absl::Status FaultRun::tidy(Clock::time_point deadline) {
  std::string odd;
  do {
    odd = server_->odd_processes();
    for (const auto& stranger : strangers_) {
      if (stranger->is_unwelcome() && !stranger->ended()) odd = "a stranger is still connected";
    }
    if (!odd.empty()) std::this_thread::sleep_for(milliseconds(5));
  } while (!odd.empty() && Clock::now() < deadline);
  if (!odd.empty()) return absl::InternalError("the server serves, but " + odd);
  for (const auto& stranger : strangers_) {
    if (stranger->is_unwelcome() && !stranger->error().empty()) {
      return absl::InternalError(stranger->error());
    }
  }
  strangers_.clear();
  return absl::OkStatus();
}

// ---- The end ----

absl::Status FaultRun::end() {
  clients_.reset();
  std::vector<pid_t> workers;
  workers.reserve(options_.workers);
  for (int rank = 0; rank < options_.workers; ++rank) workers.push_back(server_->worker(rank));
  const int code = server_->end();
  if (code != 0) return absl::InternalError(fmt::format("after Ctrl-C it exits with {}", code));
  for (const pid_t worker : workers) {
    if (testing::is_alive(worker)) {
      return absl::InternalError(fmt::format("worker {} outlives the server", worker));
    }
  }
  for (const auto& entry : std::filesystem::directory_iterator(server_->runtime_folder())) {
    return absl::InternalError(entry.path().string() + " is left");
  }
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm")) {
    if (entry.path().filename().string().find("lockstep") == std::string::npos) continue;
    return absl::InternalError(entry.path().string() + " is left");
  }
  return absl::OkStatus();
}

}  // namespace lockstep::faults
