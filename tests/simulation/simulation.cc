// SPDX-License-Identifier: Apache-2.0
// How a story is drawn, and how it has to end.
#include "tests/simulation/simulation.h"

#include <algorithm>

#include "tests/simulation/scripted_workers.h"

namespace lockstep::simulation {
namespace {

constexpr int64_t kCalmMs = 6'000;          // Faults end.
constexpr int64_t kServesAgainMs = 15'000;  // After the last fault.

FakeModel draw_model(World& world) {
  const int64_t vocab = world.one_in(3) ? 200 : 70;
  return {.ranks = static_cast<int>(world.between(1, 3)),
          .vocab = vocab,
          .pages = world.between(6, 40),
          .page_tokens = world.between(1, 4),
          .max_rows = world.between(3, 24),
          .max_outputs = world.between(2, 8),
          .max_sequences = world.between(2, 8),
          .max_context = 64,
          .seed = static_cast<uint64_t>(world.between(0, 1 << 30)),
          .poison = static_cast<int32_t>(vocab - 1)};
}

EngineOptions draw_options(World& world) {
  return {.prefill_chunk = world.between(1, 16),
          .max_running = world.between(1, 8),
          .max_waiting = {.requests = world.between(2, 12),
                          .choices = 24,
                          .prompt_tokens = 150,
                          .bytes = 30'000},
          .max_unread_bytes = 8'000,
          .idle_step_ms = world.one_in(2) ? 0 : 1000};
}

}  // namespace

Simulation::Simulation(uint64_t seed, bool trace)
    : world_(seed, trace), model_(draw_model(world_)), engine_(&world_, draw_options(world_)) {
  workers_ = std::make_unique<ScriptedWorkers>(&world_, &engine_, model_);
  const int64_t count = world_.between(1, 14);
  for (int64_t i = 0; i < count; ++i) {
    clients_.push_back(std::make_unique<Client>(&world_, &engine_, model_, static_cast<int>(i),
                                                /*patient=*/false));
  }
  drains_ = world_.one_in(8);
}

Simulation::~Simulation() = default;

template <typename Over>
void Simulation::run_until(const char* what, int64_t limit_ms, const Over& over) {
  const int64_t limit = world_.now() + limit_ms;
  while (world_.failure().empty() && !over()) {
    const bool any = world_.run_next();
    if (any && world_.now() <= limit) continue;
    world_.broken("{}: not within {} ms", what, limit_ms);
  }
}

bool Simulation::all_done() const {
  return std::all_of(clients_.begin(), clients_.end(),
                     [](const auto& client) { return client->done(); });
}

std::string Simulation::run() {
  engine_.start(workers_.get());
  if (drains_) {
    run_drain();
  } else {
    run_calm();
  }
  check_end();
  return world_.failure();
}

// Faults, then calm: everything that was asked for ends, and a new request is served.
void Simulation::run_calm() {
  bool calm = false;
  world_.after(kCalmMs, [&] {
    world_.tell("from now on no faults");
    workers_->calm();
    for (const auto& client : clients_) client->wake();
    calm = true;
  });
  run_until("the faults", kCalmMs, [&] { return calm; });
  run_until("every stream ends", kServesAgainMs, [&] { return all_done(); });
  if (!world_.failure().empty()) return;
  clients_.push_back(std::make_unique<Client>(&world_, &engine_, model_,
                                              static_cast<int>(clients_.size()), /*patient=*/true));
  run_until("a new request ends", kServesAgainMs, [&] { return all_done(); });
  if (!engine_.ready()) world_.broken("not ready after all faults");
}

// What is there goes on, what is not done in time is cancelled, nothing new is taken.
void Simulation::run_drain() {
  bool over = false;
  const int64_t time = world_.between(0, 600);
  world_.after(world_.between(500, 5000), [&] {
    engine_.drain(time);
    workers_->drain();
    if (engine_.ready()) world_.broken("ready while draining");
    // A step that is under way at the deadline is waited for.
    world_.after(time + 1, [&] { over = true; });
  });
  run_until("the drain", kCalmMs, [&] { return over; });
  const EngineStats stats = engine_.stats();
  if (stats.running + stats.waiting > 0) {
    world_.broken("{} choices after the drain", stats.running + stats.waiting);
  }
  for (const auto& client : clients_) client->wake();
  run_until("every stream ends after the drain", kServesAgainMs, [&] { return all_done(); });
}

void Simulation::check_end() {
  if (!world_.failure().empty()) return;
  const EngineStats stats = engine_.stats();
  if (stats.running + stats.waiting != 0) {
    world_.broken("all clients are done, and {} choices run and {} wait", stats.running,
                  stats.waiting);
  }
}

void Simulation::add_to(Tally* tally) const {
  for (const auto& client : clients_) {
    ++tally->requests;
    tally->served += client->served() ? 1 : 0;
    tally->tokens += client->tokens();
  }
  tally->groups += engine_.groups();
  tally->groups_lost += engine_.groups_lost();
  tally->preemptions += engine_.stats().preemptions;
  tally->fetches += engine_.fetches();
  tally->drains += drains_ ? 1 : 0;
}

}  // namespace lockstep::simulation
