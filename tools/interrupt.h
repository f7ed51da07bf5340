// SPDX-License-Identifier: Apache-2.0
// Ctrl-C and SIGTERM as an event instead of an end: a thread waits for them.
#pragma once

#include <functional>
#include <thread>

namespace lockstep {

// Made in main() before any other thread, which inherit the blocked signals. The second Ctrl-C ends
// the process at once (workers go with it), the third where the second one has an action.
class Interrupt {
 public:
  Interrupt();
  ~Interrupt();

  // Called on a thread of its own at the first and, if given, at the second signal. nullptr takes
  // them back.
  void on_signal(std::function<void()> first, std::function<void()> second = nullptr);
  // Called on that thread at every Ctrl-C, which then counts as no signal. nullptr takes it back:
  // on return it is not running.
  void on_ctrl_c(std::function<void()> each);
  bool signalled() const;
  // Blocks until a signal came.
  void wait() const;

 private:
  struct State;
  State* const state_;
};

}  // namespace lockstep
