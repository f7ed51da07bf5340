// SPDX-License-Identifier: Apache-2.0
// One group, from the attempt to form it to its end: its members by rank, the current question and
// the answers. The core drops messages of other epochs.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "coordinator/cluster/cluster_actions.h"
#include "coordinator/cluster/forming/question.h"
#include "proto/program.pb.h"
#include "sharding/worker_facts.h"

namespace lockstep {

struct Epoch {
  enum class Phase {
    kNone,     // No epoch is open.
    kLoading,  // Every rank was assigned its program; they are loading.
    kProving,  // A null step is crossing all ranks.
    kFormed,   // The owner has the group.
  };
  Phase phase = Phase::kNone;
  uint64_t number = 0;
  bool reload = false;               // Ranks load again what they already have in memory.
  std::vector<LinkId> links;         // By rank.
  std::string numeric_class;         // The class of all ranks; "": one that all support.
  std::vector<std::string> kernels;  // All ranks use them; empty: each rank chooses.
  bool uneven_measured = false;      // Shards differ because of workers' measurements.
  // The compiler's input and output, by rank.
  std::vector<WorkerFacts> facts;
  std::vector<program::Program> programs;
  GroupInfo info;
  std::vector<std::vector<OperatorName>> operators;  // By rank and instruction.
  std::vector<cluster::LoadProgress> loaded;         // By rank.
  std::optional<Question> question;                  // The question to every rank; none: idle.
  std::vector<std::optional<cluster::WorkerMessage>> answers;  // By rank.

  int ranks() const { return static_cast<int>(links.size()); }
  // -1: not a member.
  int rank_of(LinkId link) const {
    const auto found = std::find(links.begin(), links.end(), link);
    return found == links.end() ? -1 : static_cast<int>(found - links.begin());
  }

  void ask(Question asked) {
    question = std::move(asked);
    answers.assign(links.size(), std::nullopt);
  }
  bool owes(int rank) const { return question.has_value() && !answers[rank].has_value(); }
  bool complete() const {
    return question.has_value() &&
           std::all_of(answers.begin(), answers.end(), [](const auto& a) { return a.has_value(); });
  }
  // Requires complete(). Returns the answers by rank; afterwards no question is open.
  std::vector<cluster::WorkerMessage> take_answers() {
    std::vector<cluster::WorkerMessage> taken;
    for (auto& answer : answers) taken.push_back(std::move(*answer));
    question.reset();
    answers.clear();
    return taken;
  }
};

}  // namespace lockstep
