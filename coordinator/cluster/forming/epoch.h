// SPDX-License-Identifier: Apache-2.0
// One try at a group: its members by rank, what they were asked and what they answered. Messages of
// other epochs never get here.
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
    kLoading,  // Every rank was assigned its program; Ready is awaited.
    kProving,  // A null step crosses all ranks.
    kFormed,   // The owner has the group.
  };
  Phase phase = Phase::kNone;
  uint64_t number = 0;
  bool reload = false;               // Kept weights were not to be used.
  std::vector<LinkId> links;         // By rank.
  std::string numeric_class;         // That every rank was told to compute in; "": the common one.
  std::vector<std::string> kernels;  // That every rank was told to compute by; none: its own.
  bool uneven_measured = false;      // Parts differ by what the ranks' workers measured.
  // By rank: what the compiler knew, and what it made of that.
  std::vector<WorkerFacts> facts;
  std::vector<program::Program> programs;
  GroupInfo info;
  std::vector<std::vector<OperatorName>> operators;  // By rank and instruction.
  std::vector<cluster::LoadProgress> loaded;         // By rank.
  std::optional<Question> question;  // What every rank owes an answer to; none: idle.
  std::vector<std::optional<cluster::WorkerMessage>> answers;  // By rank.

  int ranks() const { return static_cast<int>(links.size()); }
  // -1: it is no member.
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
  // Once complete: by rank. Nothing is owed afterwards.
  std::vector<cluster::WorkerMessage> take_answers() {
    std::vector<cluster::WorkerMessage> taken;
    for (auto& answer : answers) taken.push_back(std::move(*answer));
    question.reset();
    answers.clear();
    return taken;
  }
};

}  // namespace lockstep
