// SPDX-License-Identifier: Apache-2.0
// Ctrl-C, SIGTERM and SIGHUP as an event instead of an end: a thread waits for them. SIGUSR1,
// SIGUSR2 and SIGALRM, which mean nothing here and would end the process, are ignored with a log
// line.
#pragma once

#include <functional>
#include <memory>

namespace lockstep {

// Made in main() before any other thread, which inherit the blocked signals. The second Ctrl-C ends
// the process at once (workers go with it), the third where the second one has an action.
class Interrupt {
 public:
  Interrupt();
  ~Interrupt();

  // Takes its actions back when it ends: then none is running, nor will. Declared behind what they
  // use. One of each kind at a time.
  using Actions = std::unique_ptr<Interrupt, void (*)(Interrupt*)>;

  // Called on a thread of its own at the first and, if given, at the second signal; at once where
  // the first has come.
  [[nodiscard]] Actions on_signal(std::function<void()> first,
                                  std::function<void()> second = nullptr);
  // Called on that thread at every Ctrl-C, which then counts as no signal.
  [[nodiscard]] Actions on_ctrl_c(std::function<void()> each);
  bool signalled() const;
  // Blocks until a signal came.
  void wait() const;

 private:
  struct State;
  void set_signal(std::function<void()> first, std::function<void()> second);
  void set_ctrl_c(std::function<void()> each);

  State* const state_;
};

}  // namespace lockstep
