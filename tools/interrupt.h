// SPDX-License-Identifier: Apache-2.0
// Turns Ctrl-C, SIGTERM and SIGHUP into events: a thread waits for them. SIGUSR1, SIGUSR2 and
// SIGALRM, which have no use here and would end the process, are ignored with a log line.
#pragma once

#include <functional>
#include <memory>

namespace lockstep {

// Make it in main() before any other thread, so that all threads inherit the blocked signals. The
// second Ctrl-C ends the process at once, and its workers with it. If on_signal() gave an action
// for the second signal, the third Ctrl-C ends the process instead.
class Interrupt {
 public:
  Interrupt();
  ~Interrupt();

  // Its destructor removes the actions; afterwards none runs. Declare it after the objects that the
  // actions use. At most one of on_signal() and one of on_ctrl_c() may exist at a time.
  using Actions = std::unique_ptr<Interrupt, void (*)(Interrupt*)>;

  // `first` is called on a separate thread at the first signal, and `second`, if given, at the
  // second signal. If a signal has already arrived, on_signal() itself calls `first`.
  [[nodiscard]] Actions on_signal(std::function<void()> first,
                                  std::function<void()> second = nullptr);
  // `each` is called on the same thread at every Ctrl-C. Ctrl-C then does not count as a signal.
  [[nodiscard]] Actions on_ctrl_c(std::function<void()> each);
  bool signalled() const;
  // Blocks until a signal arrives.
  void wait() const;

 private:
  struct State;
  void set_signal(std::function<void()> first, std::function<void()> second);
  void set_ctrl_c(std::function<void()> each);

  State* const state_;
};

}  // namespace lockstep
