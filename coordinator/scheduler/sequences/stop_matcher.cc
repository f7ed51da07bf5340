// SPDX-License-Identifier: Apache-2.0
// Holds back the longest end of the text that is also the beginning of a stop string. A stop string
// begins at a code point, so text that is given out always ends between code points.
#include "coordinator/scheduler/sequences/stop_matcher.h"

#include <algorithm>
#include <utility>

namespace lockstep {

StopStrings::StopStrings(std::vector<std::string> stops) {
  std::sort(stops.begin(), stops.end());
  stops.erase(std::unique(stops.begin(), stops.end()), stops.end());
  for (std::string& stop : stops) {
    if (stop.empty()) continue;
    const size_t size = stop.size();
    patterns_.push_back({.text = std::move(stop), .failure = std::vector<uint32_t>(size + 1)});
    size_t matched = 0;
    for (size_t i = 1; i < size; ++i) {
      matched = advance(patterns_.size() - 1, matched, patterns_.back().text[i]);
      patterns_.back().failure[i + 1] = static_cast<uint32_t>(matched);
    }
  }
}

size_t StopStrings::advance(size_t index, size_t matched, char byte) const {
  const Pattern& pattern = patterns_[index];
  while (matched > 0 && pattern.text[matched] != byte) matched = pattern.failure[matched];
  return matched + (pattern.text[matched] == byte ? 1 : 0);
}

std::string StopMatcher::push(std::string_view text) {
  if (stopped()) return "";
  if (stops_.size() == 0) return std::string(text);
  size_t pending = 0;  // The length of the text's end that may begin a stop string.
  for (const char byte : text) {
    withheld_.push_back(byte);
    pending = 0;
    size_t found = 0;
    for (size_t i = 0; i < stops_.size(); ++i) {
      matched_[i] = stops_.advance(i, matched_[i], byte);
      pending = std::max(pending, matched_[i]);
      if (matched_[i] == stops_.length(i)) found = std::max(found, matched_[i]);
    }
    if (found == 0) continue;
    found_ = withheld_.substr(withheld_.size() - found);
    withheld_.erase(withheld_.size() - found);
    return std::exchange(withheld_, "");
  }
  if (text.empty()) return "";
  std::string safe = withheld_.substr(0, withheld_.size() - pending);
  withheld_.erase(0, safe.size());
  return safe;
}

std::string StopMatcher::finish() {
  if (stopped()) return "";
  return std::exchange(withheld_, "");
}

}  // namespace lockstep
