// SPDX-License-Identifier: Apache-2.0
// What a person at a terminal sees while something takes long. Nothing at all where stderr is a
// file.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace lockstep {

// A line on stderr. Where it cannot be written, to a full disk or to a reader that is gone, it is
// dropped: fmt::print() would throw.
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
  // A turning stroke and the text.
  void spin(const std::string& text);
  void clear();

 private:
  bool due();
  void draw(const std::string& line);

  const bool enabled_;
  bool drawn_ = false;
  int turn_ = 0;
  std::chrono::steady_clock::time_point last_{};
};

}  // namespace lockstep
