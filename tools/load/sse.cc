// SPDX-License-Identifier: Apache-2.0
#include "tools/load/sse.h"

#include <algorithm>

namespace lockstep {

absl::Status SseParser::feed(std::string_view bytes,
                             const std::function<void(std::string_view)>& on_data) {
  while (!bytes.empty()) {
    if (std::exchange(after_cr_, false) && bytes[0] == '\n') {  // "\r\n" is one line end.
      bytes.remove_prefix(1);
      continue;
    }
    const size_t end = std::min(bytes.find_first_of("\r\n"), bytes.size());
    if (line_.size() + data_.size() + end > kMaxEventBytes) {
      return absl::OutOfRangeError(
          fmt::format("an event of the stream is longer than {} bytes", kMaxEventBytes));
    }
    line_ += bytes.substr(0, end);
    if (end == bytes.size()) break;
    after_cr_ = bytes[end] == '\r';
    bytes.remove_prefix(end + 1);
    end_line(on_data);
  }
  return absl::OkStatus();
}

void SseParser::end_line(const std::function<void(std::string_view)>& on_data) {
  std::string_view line = line_;
  if (std::exchange(first_line_, false) && line.starts_with("\xef\xbb\xbf")) line.remove_prefix(3);
  if (line.empty()) {
    if (!data_.empty()) on_data(std::string_view(data_).substr(0, data_.size() - 1));
    data_.clear();
  } else if (line == "data" || line.starts_with("data:")) {
    line.remove_prefix(std::min<size_t>(5, line.size()));
    if (line.starts_with(' ')) line.remove_prefix(1);
    data_ += line;
    data_ += '\n';
  }  // A comment or another field: id, event, retry.
  line_.clear();
}

}  // namespace lockstep
