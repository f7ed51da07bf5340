// SPDX-License-Identifier: Apache-2.0
// The relative speeds of a group's ranks, given by the user or measured by workers. The group's
// plan depends on them. The first measurement is kept, so that a restart does not change the plan.
#pragma once

#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "proto/cluster.pb.h"

namespace lockstep {

// Rates that differ by no more than this factor count as equal.
inline constexpr double kAlikeRates = 1.25;

// A part of ClusterCore. One thread at a time.
class Speeds {
 public:
  // `given`: the user's speeds, by rank of a full group; empty: none. If there are any, nothing
  // else counts, and a group of another size has even parts. `measured`: whether workers'
  // measurements may count if `given` is empty.
  Speeds(std::vector<double> given, bool measured)
      : given_(std::move(given)), measured_(measured && given_.empty()) {}

  // A worker joined. Workers of one host with the same device, instruction set and threads are of
  // one kind. The first measurement of a kind counts for all its workers, as long as this object
  // lives. If another kind has nearly the same rate, this kind gets that rate.
  void joined(const cluster::Hello& hello);
  // From now on no part depends on measurements.
  void ignore_measured() { measured_ = false; }

  struct Chosen {
    std::vector<double> by_rank;   // See WorkerFacts; all 0: even parts.
    bool uneven_measured = false;  // The rates differ, and were measured.
  };
  // The given speeds, else the workers' --speed if all have it, else the measurements if all have
  // one.
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
