// SPDX-License-Identifier: Apache-2.0
// The kinds of faults, and the seeded draw of them.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "tests/faults/observed_server.h"

namespace lockstep::faults {

enum class Kind {
  kKill,
  kTerminate,
  kStop,       // SIGSTOP, without a SIGCONT.
  kPause,      // SIGSTOP, and SIGCONT after the delay.
  kKillTwice,  // Kills the rank, and its successor after the delay.
  kKillAll,
  // Another file takes the name of the checkpoint's file; then a rank is killed, if there is a
  // group.
  kRename,
  kOverwrite,  // The file is overwritten even while it is read; then a rank is killed.
  kSpare,      // A worker started by hand replaces a killed rank, and is killed after the delay.
  kHold,       // The server itself is stopped for the delay.
  kOtherHost,  // This kind and all below are strangers: see StrangerKind.
  kOtherDevice,
  kOldProtocol,
  kWrongToken,
  kNoHello,
  kMute,
};
inline constexpr int kKinds = 16;
const char* name_of(Kind kind);
bool is_stranger(Kind kind);

struct Act {
  Kind kind;
  int rank;
  int delay_ms;
};

struct Fault {
  Phase phase;
  int healing_rank;       // Joining, loading and null step begin after this rank is killed.
  int delay_ms;           // The time that a load, a step or idleness lasts before the fault.
  std::vector<Act> acts;  // One, or two at once.

  std::string kinds() const;  // "kill + stop"
  std::string ranks() const;  // "0 + 2"
};

class FaultDraw {
 public:
  // Draws from these kinds and phases; empty: from all.
  FaultDraw(uint64_t seed, int workers, std::vector<int> kinds, std::vector<int> phases);
  // Deals every kind and phase once per round, each round in another order, so that none is rare.
  Fault next();

 private:
  int draw(int count) { return static_cast<int>(random_() % static_cast<uint64_t>(count)); }
  int deal(std::vector<int>& pile, const std::vector<int>& all);
  Act act(Kind kind, int rank);

  std::mt19937_64 random_;
  const int workers_;
  const std::vector<int> all_kinds_, all_phases_;
  std::vector<int> kinds_, phases_;  // The ones that are not dealt yet in this round.
};

}  // namespace lockstep::faults
