// SPDX-License-Identifier: Apache-2.0
#include "tools/interrupt.h"

#include <pthread.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace lockstep {

// Shared with a detached thread that lives as long as the process, so never freed.
struct Interrupt::State {
  absl::Mutex mutex;
  int count ABSL_GUARDED_BY(mutex) = 0;
  std::function<void()> first ABSL_GUARDED_BY(mutex);
  std::function<void()> second ABSL_GUARDED_BY(mutex);
  std::function<void()> ctrl_c ABSL_GUARDED_BY(mutex);
};

namespace {

bool means_nothing(int signal) {
  return signal == SIGUSR1 || signal == SIGUSR2 || signal == SIGALRM;
}

sigset_t awaited_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGALRM}) {
    sigaddset(&set, signal);
  }
  return set;
}

// True under nohup. sigwait() returns even ignored signals while they are blocked.
bool is_ignored(int signal) {
  struct sigaction action = {};
  return sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

}  // namespace

Interrupt::Interrupt() : state_(new State) {
  const sigset_t set = awaited_signals();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  std::thread([state = state_] {
    const sigset_t waited = awaited_signals();
    int signal = 0;
    while (sigwait(&waited, &signal) == 0) {
      if (signal == SIGHUP && is_ignored(SIGHUP)) continue;
      if (means_nothing(signal)) {
        spdlog::default_logger()->warn("SIG{} is ignored", sigabbrev_np(signal));
        continue;
      }
      absl::MutexLock lock(&state->mutex);
      if (signal == SIGINT && state->ctrl_c) {
        state->ctrl_c();
        continue;
      }
      const std::function<void()>& action = ++state->count == 1 ? state->first : state->second;
      if (action && state->count <= 2) {
        action();
      } else if (state->count > 1) {
        _exit(128 + signal);
      }
    }
  }).detach();
}

Interrupt::~Interrupt() {
  set_signal(nullptr, nullptr);
  set_ctrl_c(nullptr);
}

Interrupt::Actions Interrupt::on_signal(std::function<void()> first, std::function<void()> second) {
  set_signal(std::move(first), std::move(second));
  return {this, [](Interrupt* self) { self->set_signal(nullptr, nullptr); }};
}

Interrupt::Actions Interrupt::on_ctrl_c(std::function<void()> each) {
  set_ctrl_c(std::move(each));
  return {this, [](Interrupt* self) { self->set_ctrl_c(nullptr); }};
}

void Interrupt::set_signal(std::function<void()> first, std::function<void()> second) {
  absl::MutexLock lock(&state_->mutex);
  state_->first = std::move(first);
  state_->second = std::move(second);
  if (state_->count > 0 && state_->first) state_->first();
}

void Interrupt::set_ctrl_c(std::function<void()> each) {
  absl::MutexLock lock(&state_->mutex);
  state_->ctrl_c = std::move(each);
}

bool Interrupt::signalled() const {
  absl::MutexLock lock(&state_->mutex);
  return state_->count > 0;
}

void Interrupt::wait() const {
  absl::MutexLock lock(&state_->mutex);
  const auto came = [this]()
                        ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_->mutex) { return state_->count > 0; };
  state_->mutex.Await(absl::Condition(&came));
}

}  // namespace lockstep
