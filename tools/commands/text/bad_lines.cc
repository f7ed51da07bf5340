// SPDX-License-Identifier: Apache-2.0
#include "tools/commands/text/bad_lines.h"

#include "base/json.h"
#include "base/status.h"

namespace lockstep {

void BadLines::print(int number, const absl::Status& status) {
  const std::string line = fmt::format("{} line {}: {}", input_, number, message_of(status));
  if (++count_ == 1) first_ = absl::Status(status.code(), line);
  fmt::print("{}\n", write_json({{"error", line}}));
}

absl::Status BadLines::status() const {
  if (count_ == 0) return absl::OkStatus();
  if (count_ == 1) return first_;
  return absl::Status(first_.code(), fmt::format("{} lines got an error, the first is {}", count_,
                                                 message_of(first_)));
}

}  // namespace lockstep
