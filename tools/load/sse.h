// SPDX-License-Identifier: Apache-2.0
// Parses server-sent events (HTML standard, section 9.2.6).
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "base/status.h"

namespace lockstep {

// One stream. The result does not depend on how its bytes are split.
class SseParser {
 public:
  static constexpr size_t kMaxEventBytes = 16 << 20;

  // Calls `on_data` with the data of each event that these bytes complete. An event above
  // kMaxEventBytes is an error, after which the stream is unusable.
  absl::Status feed(std::string_view bytes, const std::function<void(std::string_view)>& on_data);

 private:
  void end_line(const std::function<void(std::string_view)>& on_data);

  std::string line_;  // Without its end, which has not arrived.
  std::string data_;  // The data of the incomplete event, with '\n' after each line.
  bool after_cr_ = false;
  bool first_line_ = true;
};

}  // namespace lockstep
