// SPDX-License-Identifier: Apache-2.0
// Identifies the checkpoint of a group's weights, by a sample of its contents and its files' times.
#pragma once

#include <algorithm>
#include <map>
#include <string>

namespace lockstep {

struct WeightsOrigin {
  std::string contents;                           // A sample; see cluster.Ready.
  std::map<std::string, std::string> written_at;  // File times by host; copies may differ in them.

  // Contents are only a sample. So if both have file times of the same host, the times must be
  // equal, too.
  bool same_as(const WeightsOrigin& other) const {
    return contents == other.contents && std::ranges::all_of(written_at, [&](const auto& mine) {
             const auto theirs = other.written_at.find(mine.first);
             return theirs == other.written_at.end() || theirs->second == mine.second;
           });
  }
};

}  // namespace lockstep
