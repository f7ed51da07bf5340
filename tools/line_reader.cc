// SPDX-License-Identifier: Apache-2.0
#include "tools/line_reader.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

#include "base/check.h"

namespace lockstep {

LineReader::LineReader() : stop_event_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  LOCKSTEP_CHECK(stop_event_ >= 0);
}

LineReader::~LineReader() { close(stop_event_); }

void LineReader::stop() {
  const uint64_t one = 1;
  LOCKSTEP_CHECK(write(stop_event_, &one, sizeof(one)) == sizeof(one));
}

std::optional<std::string> LineReader::next() {
  while (buffer_.find('\n') == std::string::npos && !ended_) {
    pollfd fds[] = {{STDIN_FILENO, POLLIN, 0}, {stop_event_, POLLIN, 0}};
    if (poll(fds, 2, -1) < 0 && errno != EINTR) return std::nullopt;
    if (fds[1].revents != 0) return std::nullopt;
    if (fds[0].revents == 0) continue;
    char bytes[4096];
    const ssize_t count = read(STDIN_FILENO, bytes, sizeof(bytes));
    if (count < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (count > 0) buffer_.append(bytes, static_cast<size_t>(count));
    ended_ = count <= 0;
  }
  if (buffer_.empty()) return std::nullopt;
  const size_t end = buffer_.find('\n');
  std::string line = buffer_.substr(0, end);
  buffer_.erase(0, end == std::string::npos ? end : end + 1);
  if (!line.empty() && line.back() == '\r') line.pop_back();
  return line;
}

}  // namespace lockstep
