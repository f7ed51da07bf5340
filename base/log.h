// SPDX-License-Identifier: Apache-2.0
// How a process' log lines leave it: as text or as one JSON object per line, at once or by a thread
// of its own, so that nobody who logs waits for whoever reads.
#pragma once

#include <spdlog/common.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "base/json.h"

namespace lockstep {

enum class LogFormat { kText, kJson };
// "text" or "json"; kInvalidArgument names the flag --log-format.
absl::StatusOr<LogFormat> log_format_of(std::string_view name);

// {"time": UTC in milliseconds, "level", "message"} and the fields of log_fields().
std::unique_ptr<spdlog::formatter> json_formatter();

inline constexpr int64_t kMaxLogBytes = 1 << 20;  // That wait to be written.

// Lines wait in memory, up to kMaxLogBytes, for a thread that writes them. Of more the oldest are
// dropped, and a line says how many. Thread-safe.
class BackgroundSink;

// What spdlog's functions log to from now on, at this process' level. One at a time.
class Log {
 public:
  struct Options {
    LogFormat format = LogFormat::kText;
    bool background = false;  // Else lines are written by whoever logs.
    int descriptor = 2;       // Where background lines go; others go to standard error.
  };
  explicit Log(const Options& options);
  // Lines that wait are still written, for a second at most.
  ~Log();
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;

  // A line for whoever started the process, whatever the level: "lockstep: ready; ..." in text.
  void announce(const std::string& line) const;
  // Lines that were dropped so far.
  int64_t dropped() const;

 private:
  const LogFormat format_;
  spdlog::sink_ptr sink_;
  std::shared_ptr<BackgroundSink> background_;
};

// A line at level info with named values: members of its JSON object, or an object behind the
// message of a line of text. `fields` is an object, without "time", "level" and "message".
void log_fields(std::string_view message, const OrderedJson& fields);

}  // namespace lockstep
