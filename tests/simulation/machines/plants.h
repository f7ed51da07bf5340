// SPDX-License-Identifier: Apache-2.0
// Bugs that can be planted around the cores, to prove that the simulation finds them: each acts at
// a core's border as a core without that rule would. None is in the product.
#pragma once

#include <iterator>

namespace lockstep::simulation {

enum class Plant {
  kNone,
  kEpochUnchecked,        // The coordinator takes answers of a past epoch.
  kWorkerEpochUnchecked,  // A worker takes messages of a past epoch.
  kStepTwice,             // A step is sent twice.
  kLostWakeUp,            // The engine's thread sleeps through its answer.
  kSilenceIgnored,        // A worker that says nothing is not lost.
  kStuckIgnored,          // Neither is one that makes no progress.
  kReadyTooLong,          // The server says that it is ready while its group is lost.
  kWrongKill,             // Another worker's process is killed.
  kIdentityIgnored,       // Ranks have weights of different checkpoints.
  kWeightsUnchecked,      // A worker keeps weights that are of another program or checkpoint.
  kPagesKept,             // A worker keeps KV pages of the last group.
  kGraceIgnored,          // Fewer ranks before the lost one could come back.
  kTooFewRanks,           // Fewer ranks than are of use.
  kNeverGrows,            // A group of fewer ranks stays so.
  kGrowsInCircle,         // What cannot grow is tried again at once.
  kSpareFirst,            // A spare is used while there are enough others.
  kCoverAlike,            // All spares hold the weights of the same rank.
  kMeasuredAnew,          // A restarted worker's own measurement makes the plan.
  kGoodbyeIgnored,        // A worker that says goodbye is as one that crashes.
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
                                              "measured-anew",
                                              "goodbye-ignored",
                                              "event-twice",
                                              "event-lost",
                                              "page-freed-early",
                                              "outgrown-kept"};
inline constexpr int kPlants = std::size(kPlantNames);

}  // namespace lockstep::simulation
