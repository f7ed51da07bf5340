// SPDX-License-Identifier: Apache-2.0
// Real processes for whole-system tests.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "tests/support/files/temp_folder.h"
#include "tests/support/patience.h"

namespace lockstep::testing {

// The path of this build's lockstep binary.
std::string lockstep_binary();

struct ProcessOptions {
  std::string input;                               // The text on standard input.
  std::map<std::string, std::string> environment;  // Added to this process's environment.
  std::vector<std::string> wrapper;  // A command that runs the process, such as {"nice"}.
};

// A wrapper that limits the open descriptors of the process and its children.
std::vector<std::string> with_descriptors(int limit);

// A started process; it is killed and waited for when it goes out of scope. Only one thread may use
// it.
class Process {
 public:
  explicit Process(std::vector<std::string> arguments, const ProcessOptions& options = {});
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  pid_t pid() const { return pid_; }
  void signal(int number);
  // The output so far.
  std::string out() const;
  std::string err(size_t from = 0) const;  // Without its first `from` bytes.
  // Waits until `err` contains the text. False: the process ended first, or the time is over.
  bool wait_for_err(const std::string& text, std::chrono::seconds timeout = kPatience);
  // Waits until the process ends. Returns the exit code, or 128 + signal; -1 if the time was over:
  // then the process is killed, unless `timeout` is 0.
  int wait(std::chrono::seconds timeout = kPatience);

 private:
  pid_t pid_ = 0;
  TempFolder folder_;  // Holds the process's input and output.
  bool ended_ = false;
  int code_ = -1;
};

struct ProcessResult {
  int code = -1;
  std::string out;
  std::string err;
};
// The number of lines that a command printed on standard error, without the lines of its log, which
// may warn about a slow machine at any time.
int lines_said(const std::string& err);
// Runs `lockstep ARGUMENTS...` until it ends.
ProcessResult run_lockstep(std::vector<std::string> arguments, const ProcessOptions& options = {},
                           std::chrono::seconds timeout = kPatience);

// The ids of `parent`'s child processes: the running ones, and the zombies.
std::vector<pid_t> children_of(pid_t parent);
std::vector<pid_t> zombies_of(pid_t parent);
bool is_alive(pid_t pid);

// The path of a TempFolder as a string, as commands take it.
class TemporaryFolder {
 public:
  const std::string& path() const { return path_; }
  std::string write(const std::string& name, const std::string& content) const;

 private:
  TempFolder folder_;
  std::string path_ = folder_.path().string();
};

std::string read_file(const std::string& path, size_t from = 0);

}  // namespace lockstep::testing
