// SPDX-License-Identifier: Apache-2.0
#include "coordinator/cluster/workers/speeds.h"

#include <algorithm>
#include <functional>

namespace lockstep {
namespace {

constexpr size_t kMaxKinds = 4'096;  // Anyone with the join token may name any host.

double ratio(double a, double b) { return std::max(a, b) / std::min(a, b); }

bool all_known(const std::vector<double>& speeds) {
  return std::ranges::all_of(speeds, [](double speed) { return speed > 0; });
}

}  // namespace

// Workers of one kind have the same host, device, instruction set and number of threads.
Speeds::Kind Speeds::kind_of(const cluster::Hello& hello) {
  return {hello.host(), hello.device(), hello.isa(), hello.threads()};
}

void Speeds::joined(const cluster::Hello& hello) {
  double rate = hello.read_rate();
  const Kind kind = kind_of(hello);
  if (rate <= 0 || rates_.contains(kind) || rates_.size() >= kMaxKinds) return;
  const auto nearest = std::ranges::min_element(
      rates_, {}, [&](const auto& one) { return ratio(one.second, rate); });
  if (nearest != rates_.end() && ratio(nearest->second, rate) <= kAlikeRates) {
    rate = nearest->second;
  }
  rates_[kind] = rate;
}

double Speeds::rate_of(const cluster::Hello& hello) const {
  const auto found = rates_.find(kind_of(hello));
  return found == rates_.end() ? 0 : found->second;
}

Speeds::Chosen Speeds::of(const std::vector<const cluster::Hello*>& ranks) const {
  const Chosen even{.by_rank = std::vector<double>(ranks.size(), 0)};
  if (!given_.empty()) {
    return given_.size() == ranks.size() ? Chosen{.by_rank = given_} : even;
  }
  std::vector<double> said, measured;
  for (const cluster::Hello* hello : ranks) {
    said.push_back(hello->speed());
    measured.push_back(measured_ ? rate_of(*hello) : 0);
  }
  if (all_known(said)) return {.by_rank = said};
  if (!all_known(measured)) return even;
  const bool uneven = std::ranges::adjacent_find(measured, std::not_equal_to<>()) != measured.end();
  return {.by_rank = measured, .uneven_measured = uneven};
}

}  // namespace lockstep
