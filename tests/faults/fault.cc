// SPDX-License-Identifier: Apache-2.0
#include "tests/faults/fault.h"

#include <numeric>
#include <utility>

namespace lockstep::faults {
namespace {

std::string joined(const std::vector<Act>& acts, std::string (*text)(const Act&)) {
  std::string all;
  for (const Act& act : acts) all += (all.empty() ? "" : " + ") + text(act);
  return all;
}

std::vector<int> first_numbers(int count) {
  std::vector<int> numbers(static_cast<size_t>(count));
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

}  // namespace

const char* name_of(Kind kind) {
  constexpr const char* kNames[kKinds] = {
      "kill",         "terminate",   "stop",     "pause", "kill twice", "kill all",
      "rename",       "overwrite",   "spare",    "hold",  "other host", "other device",
      "old protocol", "wrong token", "no hello", "mute"};
  return kNames[static_cast<int>(kind)];
}

bool is_stranger(Kind kind) { return kind >= Kind::kOtherHost; }

std::string Fault::kinds() const {
  return joined(acts, [](const Act& act) { return std::string(name_of(act.kind)); });
}

std::string Fault::ranks() const {
  return joined(acts, [](const Act& act) {
    if (act.kind == Kind::kKillAll) return std::string("all");
    return is_stranger(act.kind) || act.kind == Kind::kHold ? std::string("-")
                                                            : std::to_string(act.rank);
  });
}

FaultDraw::FaultDraw(uint64_t seed, int workers, std::vector<int> kinds, std::vector<int> phases)
    : random_(seed),
      workers_(workers),
      all_kinds_(kinds.empty() ? first_numbers(kKinds) : std::move(kinds)),
      all_phases_(phases.empty() ? first_numbers(kPhases) : std::move(phases)) {}

int FaultDraw::deal(std::vector<int>& pile, const std::vector<int>& all) {
  if (pile.empty()) pile = all;
  std::swap(pile[draw(static_cast<int>(pile.size()))], pile.back());
  const int dealt = pile.back();
  pile.pop_back();
  return dealt;
}

// Draws the delay: a pause may be shorter or longer than --silent-ms, and a successor may be killed
// before or after it joins.
Act FaultDraw::act(Kind kind, int rank) {
  const bool pauses = kind == Kind::kPause || kind == Kind::kHold;
  const int delay_ms = pauses ? 50 + draw(2'500) : draw(800);
  return {.kind = kind, .rank = rank, .delay_ms = delay_ms};
}

Fault FaultDraw::next() {
  Fault fault{.phase = static_cast<Phase>(deal(phases_, all_phases_)),
              .healing_rank = draw(workers_),
              .delay_ms = draw(150)};
  // Half of the faults strike the rank that approach() kills first.
  const int first = draw(2) == 0 ? fault.healing_rank : draw(workers_);
  fault.acts.push_back(act(static_cast<Kind>(deal(kinds_, all_kinds_)), first));
  if (all_kinds_.size() == 1) return fault;
  // A stranger alone disturbs nothing, so half of the strangers come with a second fault.
  const bool two = draw(is_stranger(fault.acts[0].kind) ? 2 : 4) == 0;
  const auto second = static_cast<Kind>(draw(static_cast<int>(Kind::kKillAll)));
  if (two) fault.acts.push_back(act(second, draw(workers_)));
  return fault;
}

}  // namespace lockstep::faults
