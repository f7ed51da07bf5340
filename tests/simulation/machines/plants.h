// SPDX-License-Identifier: Apache-2.0
// Bugs that can be planted around the cores, to prove that the simulation finds them. Each changes
// messages or actions at a core's border, as if the core lacked a rule. The product has none of
// these bugs.
#pragma once

#include <iterator>

namespace lockstep::simulation {

enum class Plant {
  kNone,
  kEpochUnchecked,        // The coordinator accepts answers of a past epoch.
  kWorkerEpochUnchecked,  // A worker accepts messages of a past epoch.
  kStepTwice,             // A step is sent twice.
  kLostWakeUp,            // The engine's thread is not woken by an answer.
  kSilenceIgnored,        // A silent worker is not lost.
  kStuckIgnored,          // A worker that makes no progress is not lost.
  kReadyTooLong,          // The server reports ready while its group is lost.
  kWrongKill,             // Another worker's process is killed.
  kIdentityIgnored,       // Ranks have weights of different checkpoints.
  kWeightsUnchecked,      // A worker keeps weights of another program or checkpoint.
  kPagesKept,             // A worker keeps KV pages of the last group.
  kGraceIgnored,          // A smaller group forms before the lost worker could return.
  kTooFewRanks,           // A group has fewer ranks than the minimum.
  kNeverGrows,            // A smaller group stays small.
  kGrowsInCircle,         // A failed growth is tried again at once.
  kSpareFirst,            // A spare is used while there are enough others.
  kCoverAlike,            // All spares cover the same rank.
  kSurvivorMoved,         // A worker that joins gets the rank of one that stays.
  kMeasuredAnew,          // A restarted worker's new measurement changes the plan.
  kGoodbyeIgnored,        // A worker that says goodbye counts as crashed.
  kEventTwice,            // An event goes to its reader twice.
  kEventLost,             // An event does not go to its reader.
  kPageFreedEarly,        // A sequence gets a page that another one still uses.
  kOutgrownKept,          // A sequence that outgrows its rotary frequencies keeps its pages.
};
inline constexpr const char* kPlantNames[] = {"none",
                                              "epoch-unchecked",
                                              "worker-epoch-unchecked",
                                              "step-twice",
                                              "lost-wake-up",
                                              "silence-ignored",
                                              "stuck-ignored",
                                              "ready-too-long",
                                              "wrong-kill",
                                              "identity-ignored",
                                              "weights-unchecked",
                                              "pages-kept",
                                              "grace-ignored",
                                              "too-few-ranks",
                                              "never-grows",
                                              "grows-in-circle",
                                              "spare-first",
                                              "cover-alike",
                                              "survivor-moved",
                                              "measured-anew",
                                              "goodbye-ignored",
                                              "event-twice",
                                              "event-lost",
                                              "page-freed-early",
                                              "outgrown-kept"};
inline constexpr int kPlants = std::size(kPlantNames);

}  // namespace lockstep::simulation
