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

// The lockstep binary of this build.
std::string lockstep_binary();

struct ProcessOptions {
  std::string input;                               // For standard input.
  std::map<std::string, std::string> environment;  // Added to this process' own.
  std::vector<std::string> wrapper;                // A command that runs it, such as {"nice"}.
};

// As a wrapper: the process, and those that it starts, may have so many descriptors open.
std::vector<std::string> with_descriptors(int limit);

// A started process; killed and waited for when it goes out of scope. One thread.
class Process {
 public:
  explicit Process(std::vector<std::string> arguments, const ProcessOptions& options = {});
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  pid_t pid() const { return pid_; }
  void signal(int number);
  // What it has written so far.
  std::string out() const;
  std::string err(size_t from = 0) const;  // Without its first `from` bytes.
  // Waits until `err` contains the text; false when it ended first or the time is over.
  bool wait_for_err(const std::string& text, std::chrono::seconds timeout = kPatience);
  // Waits for the end. The exit code, or 128 + signal; -1 when the time was over (then it is
  // killed).
  int wait(std::chrono::seconds timeout = kPatience);

 private:
  pid_t pid_ = 0;
  TempFolder folder_;  // Holds what it reads and writes.
  bool ended_ = false;
  int code_ = -1;
};

struct ProcessResult {
  int code = -1;
  std::string out;
  std::string err;
};
// How many lines a command said on standard error. Those of its log are left out: they may warn of
// a slow machine at any time.
int lines_said(const std::string& err);
// Runs `lockstep ARGUMENTS...` to its end.
ProcessResult run_lockstep(std::vector<std::string> arguments, const ProcessOptions& options = {},
                           std::chrono::seconds timeout = kPatience);

// Process ids whose parent is `parent`: those that are alive, and those that nobody waited for.
std::vector<pid_t> children_of(pid_t parent);
std::vector<pid_t> zombies_of(pid_t parent);
bool is_alive(pid_t pid);

// A TempFolder by its name, as commands take it.
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
