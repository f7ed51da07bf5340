// SPDX-License-Identifier: Apache-2.0
// The weights that a group computes with, as far as ranks and groups can compare them.
#pragma once

#include <algorithm>
#include <map>
#include <string>

namespace lockstep {

struct WeightsOrigin {
  std::string contents;                           // A sample; see cluster.Ready.
  std::map<std::string, std::string> written_at;  // The same, by host: copies have other times.

  // Contents are a sample, so the files of a host that both know must be as old, too.
  bool same_as(const WeightsOrigin& other) const {
    return contents == other.contents && std::ranges::all_of(written_at, [&](const auto& mine) {
             const auto theirs = other.written_at.find(mine.first);
             return theirs == other.written_at.end() || theirs->second == mine.second;
           });
  }
};

}  // namespace lockstep
