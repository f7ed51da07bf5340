// SPDX-License-Identifier: Apache-2.0
// Progress output for a user at a terminal. Nothing is shown if stderr is not a terminal.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace lockstep {

// Prints a line on stderr. If that fails, for instance on a full disk, the line is dropped, while
// fmt::print() would throw.
void say(const std::string& line);

// "1.2 GB", "340 MB": decimal, two significant digits or more.
std::string human_bytes(int64_t bytes);

// One line on stderr, redrawn in place at most ten times a second. One thread at a time.
class ProgressLine {
 public:
  ProgressLine();
  ~ProgressLine() { clear(); }

  // "loading weights [#####.....] 1.2 of 2.2 GB"
  void bar(const std::string& what, int64_t done, int64_t total);
  // A rotating line and the text.
  void spin(const std::string& text);
  void clear();

 private:
  bool due();
  void draw(const std::string& line);

  const bool enabled_;
  bool drawn_ = false;
  int frame_ = 0;
  std::chrono::steady_clock::time_point last_{};
};

}  // namespace lockstep
