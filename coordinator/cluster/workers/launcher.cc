// SPDX-License-Identifier: Apache-2.0
// posix_spawn, not fork: a forked child would inherit the locks of gRPC's threads.
#include "coordinator/cluster/workers/launcher.h"

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <utility>

#include "base/status.h"
#include "base/system/spawn_attributes.h"

extern char** environ;

namespace lockstep {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kPoll{20};        // How often dead workers are looked for.
constexpr std::chrono::milliseconds kPatience{2000};  // For workers that are asked to end.

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
  result.reserve(strings.size() + 1);
  for (std::string& string : strings) result.push_back(string.data());
  result.push_back(nullptr);
  return result;
}

std::vector<std::string> arguments_for(const LauncherOptions& options, int index) {
  std::vector<std::string> arguments = {"lockstep",      "worker",
                                        "--coordinator", options.coordinator,
                                        "--rank",        std::to_string(index),
                                        "--parent-pid",  std::to_string(getpid())};
  for (std::string& argument : options.arguments(index)) arguments.push_back(std::move(argument));
  return arguments;
}

// 0 on failure, with errno set.
pid_t spawn_worker(const LauncherOptions& options, int index) {
  std::vector<std::string> arguments = arguments_for(options, index);
  std::vector<std::string> variables = environment_with(options.token);
  pid_t pid = 0;
  const int error = posix_spawn(&pid, "/proc/self/exe", nullptr, SpawnAttributes().get(),
                                pointers(arguments).data(), pointers(variables).data());
  errno = error;
  return error == 0 ? pid : 0;
}

}  // namespace

Launcher::Launcher(LauncherOptions options, ProcessListener* listener)
    : options_(std::move(options)),
      listener_(listener),
      pids_(options_.workers, 0),
      thread_([this] { supervise(); }) {}

Launcher::~Launcher() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

void Launcher::start(int index) {
  MutexLock lock(&mutex_);
  orders_.push_back({.start = true, .index = index});
  changed_.notify_all();
}

void Launcher::kill(int index) {
  MutexLock lock(&mutex_);
  orders_.push_back({.start = false, .index = index});
  changed_.notify_all();
}

std::vector<pid_t> Launcher::pids() const {
  MutexLock lock(&mutex_);
  return pids_;
}

void Launcher::supervise() {
  while (true) {
    std::vector<Order> orders;
    {
      MutexLock lock(&mutex_);
      const Clock::time_point next = Clock::now() + kPoll;
      while (!stopping_ && orders_.empty() && changed_.wait_until(&mutex_, next)) {
      }
      if (stopping_) break;
      orders = std::exchange(orders_, {});
    }
    for (const Order& order : orders) follow(order);
    reap();
  }
  end_all();
}

void Launcher::follow(const Order& order) {
  if (!order.start) {
    const pid_t pid = pids()[order.index];
    if (pid != 0) ::kill(pid, SIGKILL);
    return;
  }
  const pid_t pid = spawn_worker(options_, order.index);
  if (pid == 0) {
    return listener_->on_exited(
        order.index, {.how = fmt::format("could not be started: {}", error_text(errno))});
  }
  {
    MutexLock lock(&mutex_);
    pids_[order.index] = pid;
  }
  listener_->on_started(order.index, pid);
}

void Launcher::reap() {
  const std::vector<pid_t> running = pids();
  for (size_t index = 0; index < running.size(); ++index) {
    int status = 0;
    if (running[index] == 0 || waitpid(running[index], &status, WNOHANG) != running[index]) {
      continue;
    }
    {
      MutexLock lock(&mutex_);
      pids_[index] = 0;
    }
    listener_->on_exited(static_cast<int>(index), process_end(status));
  }
}

void Launcher::end_all() {
  for (const pid_t pid : pids()) {
    if (pid != 0) ::kill(pid, SIGTERM);
  }
  const Clock::time_point force_at = Clock::now() + kPatience;
  for (const pid_t pid : pids()) {
    while (pid != 0 && waitpid(pid, nullptr, WNOHANG) == 0) {
      if (Clock::now() >= force_at) ::kill(pid, SIGKILL);
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  }
}

}  // namespace lockstep
