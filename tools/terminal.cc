// SPDX-License-Identifier: Apache-2.0
#include "tools/terminal.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

namespace lockstep {

void say(const std::string& line) { std::fputs((line + "\n").c_str(), stderr); }

std::string human_bytes(int64_t bytes) {
  static constexpr const char* kUnits[] = {"B", "kB", "MB", "GB", "TB"};
  double value = static_cast<double>(bytes);
  int unit = 0;
  while (value >= 999.5 && unit < 4) {
    value /= 1000;
    ++unit;
  }
  if (unit == 0) return fmt::format("{} B", bytes);
  return fmt::format("{:.{}f} {}", value, value < 10 ? 1 : 0, kUnits[unit]);
}

ProgressLine::ProgressLine() : enabled_(isatty(STDERR_FILENO) == 1) {}

bool ProgressLine::due() {
  const auto now = std::chrono::steady_clock::now();
  if (!enabled_ || now - last_ < std::chrono::milliseconds(100)) return false;
  last_ = now;
  return true;
}

void ProgressLine::draw(const std::string& line) {
  fmt::print(stderr, "\r\033[K{}", line);
  std::fflush(stderr);
  drawn_ = true;
}

void ProgressLine::bar(const std::string& what, int64_t done, int64_t total) {
  if (!due() || total <= 0) return;
  constexpr int kWidth = 30;
  const int filled = static_cast<int>(std::clamp<int64_t>(done * kWidth / total, 0, kWidth));
  draw(fmt::format("{} [{:#>{}}{:.>{}}] {} of {}", what, "", filled, "", kWidth - filled,
                   human_bytes(done), human_bytes(total)));
}

void ProgressLine::spin(const std::string& text) {
  if (!due()) return;
  draw(fmt::format("{} {}", "|/-\\"[frame_++ % 4], text));
}

void ProgressLine::clear() {
  if (!drawn_) return;
  fmt::print(stderr, "\r\033[K");
  std::fflush(stderr);
  drawn_ = false;
}

}  // namespace lockstep
