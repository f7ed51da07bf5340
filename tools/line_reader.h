// SPDX-License-Identifier: Apache-2.0
// Lines of standard input; another thread can end the wait.
#pragma once

#include <optional>
#include <string>

namespace lockstep {

class LineReader {
 public:
  LineReader();
  ~LineReader();
  LineReader(const LineReader&) = delete;
  LineReader& operator=(const LineReader&) = delete;

  // The next line, without its line end. Nullopt: the input has ended, or stop() was called. A last
  // line without a line end counts.
  std::optional<std::string> next();
  // Any thread.
  void stop();

 private:
  int stop_event_;
  std::string buffer_;
  bool ended_ = false;
};

}  // namespace lockstep
