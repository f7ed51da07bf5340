// SPDX-License-Identifier: Apache-2.0
// posix_spawn, not fork: gRPC's threads hold locks that a forked child would inherit.
#include "coordinator/cluster/launcher.h"

#include <signal.h>
#include <spawn.h>
#include <spdlog/spdlog.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

#include "base/cpu.h"
#include "base/status.h"
#include "base/topology.h"

extern char** environ;

namespace lockstep {
namespace {

constexpr absl::Duration kQuick = absl::Seconds(2);  // A worker that lived shorter died at once.
constexpr int kQuickDeaths = 5;
constexpr absl::Duration kPoll = absl::Milliseconds(20);

// This process' environment with the token in it.
std::vector<std::string> environment_with(const std::string& token) {
  std::vector<std::string> variables;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    if (std::strncmp(*variable, "LOCKSTEP_JOIN_TOKEN=", 20) != 0) variables.push_back(*variable);
  }
  variables.push_back("LOCKSTEP_JOIN_TOKEN=" + token);
  return variables;
}

std::vector<char*> pointers(std::vector<std::string>& strings) {
  std::vector<char*> result;
  for (std::string& string : strings) result.push_back(string.data());
  result.push_back(nullptr);
  return result;
}

// What the worker's threads are bound to. Not where a quota says that the processors are shared
// with others, who may be bound to the same ones.
std::vector<int> processors_for(const LauncherOptions& options, int index) {
  const std::vector<int> usable = thread_processors();
  if (!options.pin || usable_cores() < static_cast<int>(usable.size())) return {};
  return processors_of_worker(locate_processors(usable), options.workers, options.threads, index);
}

// 0 on failure.
pid_t spawn_worker(const LauncherOptions& options, int index) {
  std::vector<std::string> arguments = {"lockstep",
                                        "worker",
                                        "--coordinator",
                                        options.coordinator,
                                        "--threads",
                                        std::to_string(options.threads),
                                        "--rank",
                                        std::to_string(index),
                                        "--parent-pid",
                                        std::to_string(getpid()),
                                        "--log-level",
                                        options.log_level,
                                        "--weight-cache",
                                        options.weight_cache,
                                        "--weight-cache-limit",
                                        std::to_string(options.weight_cache_limit)};
  if (const std::vector<int> processors = processors_for(options, index); !processors.empty()) {
    arguments.insert(arguments.end(), {"--processors", processors_text(processors)});
  }
  arguments.insert(arguments.end(),
                   {"--device", options.devices.empty() ? "cpu" : options.devices[index]});
  if (options.memory_fraction > 0) {
    arguments.insert(arguments.end(),
                     {"--memory-fraction", std::to_string(options.memory_fraction)});
  }
  std::vector<std::string> variables = environment_with(options.token);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&attributes, &none);  // The coordinator's threads block signals.
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  pid_t pid = 0;
  const int error = posix_spawn(&pid, "/proc/self/exe", nullptr, &attributes,
                                pointers(arguments).data(), pointers(variables).data());
  posix_spawnattr_destroy(&attributes);
  if (error != 0) spdlog::error("could not start a worker: {}", std::strerror(error));
  return error == 0 ? pid : 0;
}

std::string how_it_ended(int status) {
  if (WIFSIGNALED(status)) return fmt::format("killed by signal {}", WTERMSIG(status));
  return fmt::format("exit code {}", WEXITSTATUS(status));
}

}  // namespace

Launcher::Launcher(LauncherOptions options, std::function<void(absl::Status)> on_hopeless)
    : options_(std::move(options)),
      on_hopeless_(std::move(on_hopeless)),
      children_(options_.workers),
      thread_([this] { supervise(); }) {}

Launcher::~Launcher() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  thread_.join();
}

std::vector<pid_t> Launcher::pids() const {
  absl::MutexLock lock(&mutex_);
  std::vector<pid_t> pids;
  for (const Child& child : children_) pids.push_back(child.pid);
  return pids;
}

void Launcher::supervise() {
  absl::Status hopeless;
  while (true) {
    {
      absl::MutexLock lock(&mutex_);
      if (stopping_) break;
      reap();
      if (hopeless_.ok()) start_due();
      hopeless.Update(hopeless_);
    }
    if (!hopeless.ok() && on_hopeless_) {
      on_hopeless_(hopeless);
      break;
    }
    absl::SleepFor(kPoll);
  }
  end_all();
}

void Launcher::start_due() {
  for (int index = 0; index < options_.workers; ++index) {
    Child& child = children_[index];
    if (child.pid != 0 || absl::Now() < child.start_after) continue;
    child.pid = spawn_worker(options_, index);
    child.started = absl::Now();
    if (child.pid == 0) child.start_after = absl::Now() + absl::Seconds(1);
  }
}

void Launcher::reap() {
  for (int index = 0; index < options_.workers; ++index) {
    Child& child = children_[index];
    int status = 0;
    if (child.pid == 0 || waitpid(child.pid, &status, WNOHANG) != child.pid) continue;
    spdlog::warn("worker {} (pid {}) ended, {}: starting it again", index, child.pid,
                 how_it_ended(status));
    child.pid = 0;
    child.quick_deaths = absl::Now() - child.started < kQuick ? child.quick_deaths + 1 : 0;
    child.start_after = absl::Now() + child.quick_deaths * absl::Milliseconds(50);
    if (child.quick_deaths >= kQuickDeaths) {
      hopeless_ =
          absl::InternalError(fmt::format("worker {} died {} times as soon as it started ({})",
                                          index, kQuickDeaths, how_it_ended(status)));
    }
  }
}

void Launcher::end_all() {
  absl::MutexLock lock(&mutex_);
  for (const Child& child : children_) {
    if (child.pid != 0) kill(child.pid, SIGTERM);
  }
  const absl::Time force_at = absl::Now() + absl::Seconds(2);
  for (Child& child : children_) {
    while (child.pid != 0 && waitpid(child.pid, nullptr, WNOHANG) == 0) {
      if (absl::Now() >= force_at) kill(child.pid, SIGKILL);
      absl::SleepFor(absl::Milliseconds(2));
    }
    child.pid = 0;
  }
}

}  // namespace lockstep
