// SPDX-License-Identifier: Apache-2.0
// How fast the ranks of a group are beside each other: what its plan is cut by. Said by the user,
// or measured by workers; a measurement is kept, so that a restart makes the same plan.
#pragma once

#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "proto/cluster.pb.h"

namespace lockstep {

// Rates that differ by no more than this factor are noise.
inline constexpr double kAlikeRates = 1.25;

// A part of ClusterCore. One thread at a time.
class Speeds {
 public:
  // `given`: by rank of a whole group; where there are any, nothing else counts, and a group of
  // another size has even parts. `measured`: else what workers measured may count.
  Speeds(std::vector<double> given, bool measured)
      : given_(std::move(given)), measured_(measured && given_.empty()) {}

  // A worker joined. What the first of its kind on its host measured holds for all of that kind,
  // as long as this lives; where that is noise beside what another kind measured, it is that.
  void joined(const cluster::Hello& hello);
  // No part is cut by what was measured any more.
  void ignore_measured() { measured_ = false; }

  struct Chosen {
    std::vector<double> by_rank;   // As WorkerFacts has them; all 0: parts are even.
    bool uneven_measured = false;  // They differ, and were measured.
  };
  // What was given, else what the workers were told with --speed, if all were, else what they
  // measured, if all have.
  Chosen of(const std::vector<const cluster::Hello*>& ranks) const;

 private:
  using Kind = std::tuple<std::string, std::string, std::string, int>;
  static Kind kind_of(const cluster::Hello& hello);
  double rate_of(const cluster::Hello& hello) const;

  const std::vector<double> given_;
  bool measured_;
  std::map<Kind, double> rates_;
};

}  // namespace lockstep
