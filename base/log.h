// SPDX-License-Identifier: Apache-2.0
// How log lines leave a process: as text, or as one JSON object per line. The lines are written at
// once, or by a background thread, so that logging never waits for the reader of the log.
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

inline constexpr int64_t kMaxLogBytes = 1 << 20;  // The max size of queued lines.

// Queues lines in memory, up to kMaxLogBytes, for a thread that writes them. If there are more, the
// oldest are dropped, and a line says how many. Thread-safe.
class BackgroundSink;

// Receives the lines that spdlog's functions log while this object exists; spdlog's level for the
// process stays as it is. Only one object exists at a time.
class Log {
 public:
  struct Options {
    LogFormat format = LogFormat::kText;
    bool background = false;  // If false, the logging thread writes each line itself.
    int descriptor = 2;       // For background lines; others go to standard error.
  };
  explicit Log(const Options& options);
  // Writes the lines that are still queued, for at most one second.
  ~Log();
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;

  // A line for the user who started the process, at any log level: "lockstep: ready; ..." in text.
  void announce(const std::string& line) const;
  // The number of lines dropped so far.
  int64_t dropped() const;

 private:
  const LogFormat format_;
  spdlog::sink_ptr sink_;
  std::shared_ptr<BackgroundSink> background_;
};

// Logs a line at level info with named values: members of the JSON object, or, in text, an object
// after the message. `fields` is an object without "time", "level" and "message".
void log_fields(std::string_view message, const OrderedJson& fields);

}  // namespace lockstep
