// SPDX-License-Identifier: Apache-2.0
// Draws a simulation from its seed, and checks how it ends.
#include "tests/simulation/simulation.h"

#include <algorithm>
#include <utility>

namespace lockstep::simulation {
namespace {

constexpr int64_t kCalmMs = 8'000;  // Faults end at this time.
// The server must serve again within this time after the last fault. A stuck rank is found after
// 10 s. After that, a request that ends every group may still need its three strikes.
constexpr int64_t kServesAgainMs = 20'000;
// The simulation continues for this time after a shutdown, to find what happens too late.
constexpr int64_t kShutdownMs = 1'000;

FakeModel draw_model(World& world) {
  const int64_t vocab = world.one_in(3) ? 200 : 70;
  FakeModel model = {.ranks = static_cast<int>(world.between(1, 4)),
                     .vocab = vocab,
                     .pages = world.between(6, 40),
                     .page_tokens = world.between(1, 4),
                     .max_rows = world.between(3, 24),
                     .max_outputs = world.between(2, 8),
                     .max_sequences = world.between(2, 8),
                     .max_context = 64,
                     .seed = static_cast<uint64_t>(world.between(0, 1 << 30)),
                     .poison = static_cast<int32_t>(vocab - 1),
                     .deadly = static_cast<int32_t>(vocab - 2)};
  if (model.seed % 4 == 0) {
    model.blocks =
        static_cast<int64_t>(model.seed / 4 % static_cast<uint64_t>(model.max_sequences)) + 1;
  }
  if (model.seed % 5 == 0) {
    model.rope = {.of_prompt = model.seed % 3 == 0, .lengths = {7, 20}};
  }
  return model;
}

// The default, 10 s, is drawn in a quarter of the simulations only, because it takes long.
int64_t draw_stuck_ms(World& world) {
  return world.one_in(4) ? 10'000 : world.one_in(4) ? 4'000 : 1'500;
}

int64_t draw_grace_ms(World& world) {
  return world.one_in(3) ? 1'500 : world.one_in(3) ? 0 : world.between(50, 800);
}

// The minimum number of ranks; mostly one.
int draw_min(World& world, int ranks) {
  return world.one_in(3) ? static_cast<int>(world.between(1, ranks)) : 1;
}

// 0: there is only one host. A second host mostly reads as fast as the first, and sometimes half as
// fast.
int64_t draw_other_read_rate(World& world) {
  if (!world.one_in(2)) return 0;
  return world.one_in(3) ? kReadRate / 2 : kReadRate;
}

Host draw_host(World& world) {
  const FakeModel model = draw_model(world);
  return {.world = world,
          .model = model,
          .stuck_ms = draw_stuck_ms(world),
          .calm_at = kCalmMs,
          .grace_ms = draw_grace_ms(world),
          .regrow_ms = world.between(500, 2'500),
          .min_workers = draw_min(world, model.ranks),
          .fitting_ranks = draw_min(world, model.ranks),
          .other_read_rate = draw_other_read_rate(world)};
}

EngineOptions draw_options(World& world) {
  return {.prefill_chunk = world.between(1, 16),
          .max_running = world.between(1, 8),
          .step_budget_ms = world.one_in(3) ? -1 : world.between(0, 40),
          .prefix = {.enabled = !world.one_in(5), .shared = world.one_in(3)},
          .max_waiting = {.requests = world.between(2, 12),
                          .choices = 24,
                          .prompt_tokens = 150,
                          .bytes = 30'000},
          .max_unread_bytes = 8'000,
          .idle_step_ms = world.between(200, 1000)};
}

}  // namespace

Simulation::Simulation(uint64_t seed, bool trace, Plant plant)
    : world_(seed, trace, plant),
      host_(draw_host(world_)),
      engine_(&world_, draw_options(world_)),
      launch_(!world_.one_in(3)),
      cluster_(&host_, &engine_, launch_, world_.one_in(2) ? host_.model.pages : 0),
      faults_(&host_, &cluster_, kCalmMs) {
  const int64_t count = world_.between(1, 14);
  for (int64_t i = 0; i < count; ++i) add_client(/*patient=*/false);
  start_workers();
  drains_ = world_.one_in(8);
}

// Starts workers by hand: all if none are launched, spares, and a worker that joins late.
void Simulation::start_workers() {
  const auto start = [this](cluster::Hello hello) {
    if (host_.other_read_rate > 0 && world_.one_in(2)) {
      hello.set_host("there");
      hello.set_data_address("there:1");
    }
    cluster_.machine().start_by_hand(std::move(hello), /*uninvited=*/false, /*unfit=*/false);
  };
  const int64_t workers = launch_ ? 0 : host_.model.ranks + world_.between(0, 1);
  for (int64_t i = 0; i < workers; ++i) start(Machine::hello());
  const int64_t spares = world_.one_in(3) ? world_.between(1, 2) : 0;
  for (int64_t i = 0; i < spares; ++i) start(Machine::spare());
  if (!world_.one_in(3)) return;
  world_.after(world_.between(0, kCalmMs - 1),
               [this, start] { start(world_.one_in(2) ? Machine::spare() : Machine::hello()); });
}

void Simulation::add_client(bool patient) {
  clients_.push_back(std::make_unique<Client>(&world_, &engine_, host_.model,
                                              static_cast<int>(clients_.size()), patient));
}

Simulation::~Simulation() = default;

template <typename Over>
void Simulation::run_until(const char* what, int64_t limit_ms, const Over& over) {
  const int64_t limit = world_.now() + limit_ms;
  while (world_.failure().empty() && !over()) {
    const bool any = world_.run_next();
    cluster_.note_readiness(engine_.ready());
    if (any && world_.now() <= limit) continue;
    world_.broken("{}: not within {} ms", what, limit_ms);
  }
}

bool Simulation::all_done() const {
  return std::all_of(clients_.begin(), clients_.end(),
                     [](const auto& client) { return client->done(); });
}

std::string Simulation::run() {
  engine_.start(&cluster_);
  if (drains_) {
    run_drain();
  } else {
    run_calm();
  }
  check_end();
  return world_.failure();
}

// Faults strike, then end: every request must end, and a new one must be served.
void Simulation::run_calm() {
  bool calm = false;
  world_.after(kCalmMs, [&] {
    calm_down();
    calm = true;
  });
  run_until("the faults", kCalmMs, [&] { return calm; });
  add_client(/*patient=*/true);
  run_until("every stream ends, a new request is served, and the server is ready and whole",
            kServesAgainMs, [&] { return all_done() && engine_.ready() && cluster_.whole(); });
}

void Simulation::calm_down() {
  world_.log("from now on no faults");
  faults_.calm();
  for (const auto& client : clients_) client->wake();
}

// During a drain, running requests continue, and new ones are refused. At the deadline, unfinished
// ones are cancelled.
void Simulation::run_drain() {
  bool over = false;
  const int64_t time = world_.between(0, 600);
  world_.after(world_.between(500, 7000), [&] {
    engine_.drain(time);
    faults_.draining();
    if (engine_.ready()) world_.broken("ready while draining");
    // The drain ends at its deadline, even if a step is running.
    world_.after(time + 1, [&] { over = true; });
  });
  run_until("the drain", kCalmMs, [&] { return over; });
  const EngineStats stats = engine_.stats();
  if (stats.running + stats.waiting > 0) {
    world_.broken("{} choices are left after the drain", stats.running + stats.waiting);
  }
  calm_down();
  run_until("every stream ends after the drain", kServesAgainMs, [&] { return all_done(); });
  cluster_.shutdown();
  const int64_t end = world_.now() + kShutdownMs;
  run_until("the shutdown", 2 * kShutdownMs, [&] { return world_.now() >= end; });
}

void Simulation::check_end() {
  if (!world_.failure().empty()) return;
  const EngineStats stats = engine_.stats();
  if (stats.running + stats.waiting != 0) {
    world_.broken("all clients are done, but {} choices run and {} wait", stats.running,
                  stats.waiting);
  }
}

void Simulation::add_to(Tally* tally) {
  for (const auto& client : clients_) {
    ++tally->requests;
    tally->served += client->served() ? 1 : 0;
    tally->tokens += client->tokens();
  }
  tally->groups += engine_.groups();
  tally->groups_lost += engine_.groups_lost();
  tally->preemptions += engine_.stats().preemptions;
  tally->cached += engine_.stats().prefix.hits;
  tally->fetches += engine_.fetches();
  for (const auto& client : clients_) tally->ended_by_strikes += client->ended_by_strikes() ? 1 : 0;
  tally->drains += drains_ ? 1 : 0;
  tally->processes += static_cast<int64_t>(cluster_.machine().processes().size());
  tally->loads += host_.loads;
  tally->keeps += host_.keeps;
  tally->reuses += host_.reuses;
  tally->long_works += host_.long_works;
  tally->reloads += cluster_.checks().reloads();
  tally->uneven += cluster_.checks().uneven();
  tally->refusals += cluster_.checks().refusals();
  tally->late_ticks += cluster_.checks().late_ticks();
  tally->became_unready += cluster_.checks().became_unready();
  tally->slowest_false_ms = std::max(tally->slowest_false_ms, cluster_.checks().slowest_false_ms());
  tally->restarts += cluster_.restarts();
  tally->smaller += cluster_.checks().roster().smaller();
  tally->grown += cluster_.checks().roster().grown();
  tally->spares += cluster_.checks().roster().spares();
  tally->preloads += host_.preloads;
  tally->covered += cluster_.checks().roster().covered();
  tally->too_few += host_.too_few;
  tally->faults += faults_.counts();
  for (const auto& [name, fired] : points_.counts()) tally->points[name] += fired;
}

Tally& Tally::operator+=(const Tally& other) {
  requests += other.requests;
  served += other.served;
  tokens += other.tokens;
  groups += other.groups;
  groups_lost += other.groups_lost;
  preemptions += other.preemptions;
  cached += other.cached;
  fetches += other.fetches;
  ended_by_strikes += other.ended_by_strikes;
  drains += other.drains;
  processes += other.processes;
  loads += other.loads;
  keeps += other.keeps;
  reuses += other.reuses;
  long_works += other.long_works;
  reloads += other.reloads;
  uneven += other.uneven;
  refusals += other.refusals;
  late_ticks += other.late_ticks;
  became_unready += other.became_unready;
  slowest_false_ms = std::max(slowest_false_ms, other.slowest_false_ms);
  restarts += other.restarts;
  smaller += other.smaller;
  grown += other.grown;
  spares += other.spares;
  preloads += other.preloads;
  covered += other.covered;
  too_few += other.too_few;
  faults += other.faults;
  for (const auto& [name, fired] : other.points) points[name] += fired;
  return *this;
}

}  // namespace lockstep::simulation
