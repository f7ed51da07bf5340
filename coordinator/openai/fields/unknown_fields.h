// SPDX-License-Identifier: Apache-2.0
// Fields that are in no table: they are ignored and named in the answer, or refused.
#pragma once

#include <atomic>
#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "base/threads/mutex.h"
#include "coordinator/http/exchange.h"

namespace lockstep::openai {

// The header of an answer that names the ignored fields.
inline constexpr char kIgnoredFields[] = "X-Ignored-Fields";

// Thread-safe.
class UnknownFields {
 public:
  // `mode`: "pass" or "error"; others are kInvalidArgument, with the flag's name.
  absl::Status set_mode(const std::string& mode);

  bool refuses() const { return refuses_; }

  // Counts the names of one request. Logs a name at info when this client sends it for the first
  // time. Returns kIgnoredFields' value, "" for none. kInvalidArgument, with one of the names as
  // param: they are refused, or are too many for a header.
  absl::StatusOr<std::string> take(const http::Exchange& exchange,
                                   const std::vector<std::string>& names)
      ABSL_LOCKS_EXCLUDED(mutex_);

  int64_t count() const { return count_; }

 private:
  bool is_new(const std::string& client, const std::string& name) ABSL_LOCKS_EXCLUDED(mutex_);

  bool refuses_ = false;
  std::atomic<int64_t> count_ = 0;
  Mutex mutex_;
  std::set<std::pair<std::string, std::string>> logged_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace lockstep::openai
