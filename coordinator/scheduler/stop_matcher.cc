// SPDX-License-Identifier: Apache-2.0
// Held back is the longest end of the text that begins a stop string. A stop string begins with the
// first byte of a code point, so that what is released never ends within one.
#include "coordinator/scheduler/stop_matcher.h"

#include <algorithm>
#include <utility>

namespace lockstep {

StopMatcher::StopMatcher(const std::vector<std::string>& stops) {
  for (const std::string& stop : stops) {
    if (stop.empty()) continue;
    Pattern pattern = {.text = stop, .failure = std::vector<uint32_t>(stop.size() + 1)};
    for (size_t i = 1; i < stop.size(); ++i) {
      pattern.push(stop[i]);
      pattern.failure[i + 1] = static_cast<uint32_t>(pattern.matched);
    }
    pattern.matched = 0;
    patterns_.push_back(std::move(pattern));
  }
}

void StopMatcher::Pattern::push(char byte) {
  while (matched > 0 && text[matched] != byte) matched = failure[matched];
  if (text[matched] == byte) ++matched;
}

std::string StopMatcher::push(std::string_view text) {
  if (stopped_) return "";
  if (patterns_.empty()) return std::string(text);
  size_t pending = 0;  // Of the text's end, how much may begin a stop string.
  for (const char byte : text) {
    held_.push_back(byte);
    pending = 0;
    size_t found = 0;
    for (Pattern& pattern : patterns_) {
      pattern.push(byte);
      pending = std::max(pending, pattern.matched);
      if (pattern.matched == pattern.text.size()) found = std::max(found, pattern.matched);
    }
    if (found == 0) continue;
    stopped_ = true;
    held_.resize(held_.size() - found);
    return std::exchange(held_, "");
  }
  if (text.empty()) return "";
  std::string safe = held_.substr(0, held_.size() - pending);
  held_.erase(0, safe.size());
  return safe;
}

std::string StopMatcher::finish() {
  if (stopped_) return "";
  return std::exchange(held_, "");
}

}  // namespace lockstep
