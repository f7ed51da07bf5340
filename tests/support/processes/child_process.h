// SPDX-License-Identifier: Apache-2.0
// A test's own process, which the test can kill, stop, or ask for its result.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <fstream>
#include <functional>
#include <iterator>
#include <new>
#include <string>
#include <string_view>

#include "base/status.h"
#include "tests/support/patience.h"

namespace lockstep {

// A forked process that runs `body` and reports the result to its parent. Fork before the test has
// threads. The process ends with this object, or after kPatience.
class Child {
 public:
  explicit Child(const std::function<absl::Status()>& body) {
    int ends[2];
    EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
    pid_ = fork();
    if (pid_ == 0) {
      alarm(kPatience.count());
      const absl::Status status = body();
      const std::string report = fmt::format(
          "{}{}", static_cast<char>('A' + static_cast<int>(status.code())), message_of(status));
      _exit(write(ends[1], report.data(), report.size()) < 0);
    }
    close(ends[1]);
    report_ = ends[0];
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    close(report_);
  }

  pid_t pid() const { return pid_; }

  // The result of `body`; kUnknown if it is late, or if the process was killed.
  absl::Status result(std::chrono::milliseconds patience = kPatience) {
    pollfd polled{.fd = report_, .events = POLLIN, .revents = 0};
    if (poll(&polled, 1, static_cast<int>(patience.count())) <= 0) {
      return absl::UnknownError("the child has not ended");
    }
    char text[1024];
    const ssize_t bytes = read(report_, text, sizeof(text));
    if (bytes <= 0) return absl::UnknownError("the child ended without a report");
    return absl::Status(static_cast<absl::StatusCode>(text[0] - 'A'),
                        fmt::format("{}", std::string_view(text + 1, bytes - 1)));
  }

 private:
  pid_t pid_;
  int report_;
};

// A flag set in one process and seen in processes that were forked after it was made.
class Flag {
 public:
  void set() { word_->store(1); }
  bool is_set() const { return word_->load() != 0; }
  void wait() const {
    while (!is_set()) usleep(1000);
  }

 private:
  std::atomic<int>* const word_ =
      new (mmap(nullptr, sizeof(int), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0))
          std::atomic<int>(0);
};

// True if the process's first thread waits for something.
inline bool is_asleep(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  const std::string line((std::istreambuf_iterator<char>(file)), {});
  const size_t close = line.rfind(')');
  return close != std::string::npos && close + 2 < line.size() && line[close + 2] == 'S';
}

}  // namespace lockstep
