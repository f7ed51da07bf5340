// SPDX-License-Identifier: Apache-2.0
// A process' identity and end, read from /proc/<pid>/stat.
#include "worker/collectives/host/process.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <csignal>
#include <string>
#include <string_view>

namespace lockstep {
namespace {

struct Stat {
  enum { kRead, kMissing, kUnknown } outcome = kUnknown;
  char state = '?';
  uint64_t flags = 0;
  uint64_t start_ticks = 0;
};

// The fields after the command's name, which ends at the last ')': state is field 3 of the line.
Stat parse(std::string_view line) {
  Stat stat;
  const size_t close = line.rfind(')');
  if (close == std::string_view::npos || close + 2 >= line.size()) return stat;
  line.remove_prefix(close + 2);
  for (int field = 3; field <= 22 && !line.empty(); ++field) {
    const size_t end = std::min(line.find(' '), line.size());
    const std::string_view text = line.substr(0, end);
    if (field == 3) stat.state = text.empty() ? '?' : text[0];
    uint64_t* number = field == 9 ? &stat.flags : field == 22 ? &stat.start_ticks : nullptr;
    if (number != nullptr) std::from_chars(text.data(), text.data() + text.size(), *number);
    if (field == 22) stat.outcome = Stat::kRead;
    line.remove_prefix(std::min(end + 1, line.size()));
  }
  return stat;
}

Stat read_stat(int64_t pid) {
  const std::string path = "/proc/" + std::to_string(pid) + "/stat";
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  // Having no free descriptors says nothing about the peer.
  if (file < 0) return {.outcome = errno == ENOENT ? Stat::kMissing : Stat::kUnknown};
  char line[1024];
  const ssize_t bytes = read(file, line, sizeof(line));
  const int error = errno;
  close(file);
  if (bytes < 0) return {.outcome = error == ESRCH ? Stat::kMissing : Stat::kUnknown};
  return parse({line, static_cast<size_t>(bytes)});
}

// In a new pid namespace under an old /proc, /proc/<pid> would be another process.
bool proc_is_ours() {
  char target[32];
  const ssize_t bytes = readlink("/proc/self", target, sizeof(target));
  return bytes > 0 &&
         std::string_view(target, static_cast<size_t>(bytes)) == std::to_string(getpid());
}

}  // namespace

ProcessIdentity this_process() {
  ProcessIdentity self{.pid = getpid()};
  struct stat space;
  if (stat("/proc/self/ns/pid", &space) == 0) self.pid_namespace = space.st_ino;
  if (proc_is_ours()) self.start_ticks = read_stat(self.pid).start_ticks;
  return self;
}

bool is_gone(const ProcessIdentity& self, const ProcessIdentity& other) {
  if (other.pid == 0 || other.pid == self.pid) return false;
  if (self.pid_namespace == 0 || self.pid_namespace != other.pid_namespace) return false;
  if (kill(static_cast<pid_t>(other.pid), 0) != 0 && errno == ESRCH) return true;
  if (self.start_ticks == 0 || other.start_ticks == 0) return false;
  const Stat stat = read_stat(other.pid);
  if (stat.outcome != Stat::kRead) return stat.outcome == Stat::kMissing;
  // The kernel's PF_EXITING: a killed process that frees many gigabytes takes seconds to become a
  // zombie, but has this flag from the first moment.
  constexpr uint64_t kExiting = 0x4;
  return stat.start_ticks != other.start_ticks || stat.state == 'Z' || stat.state == 'X' ||
         (stat.flags & kExiting) != 0;
}

}  // namespace lockstep
