// SPDX-License-Identifier: Apache-2.0
// Random faults, one or two at once and in any phase, on virtual time: after each the group serves
// again within 15 s.
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <utility>

#include "base/status.h"
#include "tests/coordinator/cluster/virtual_cluster.h"

namespace lockstep::testing {
namespace {

constexpr int kWorkers = 3;
constexpr int64_t kHealMs = 15'000;

// Three workers whose processes the test plays.
class FaultyCluster {
 public:
  explicit FaultyCluster(uint64_t seed) : random_(seed) { cluster_.want_group(); }

  // Time passes until a step crosses the group, for `ms` at most.
  bool serves_within(int64_t ms) {
    for (const int64_t end = cluster_.now() + ms; cluster_.now() < end;) {
      cluster_.pass(50);
      run_processes();
      if (cluster_.lost() != "") {
        in_step_ = false;
        cluster_.want_group();
      }
      if (in_step_ || !cluster_.formed() || !cluster_.core().ready(cluster_.now())) continue;
      in_step_ = true;
      cluster_.step(++steps_);
      if (!cluster_.replied()) continue;
      in_step_ = false;
      return true;
    }
    return false;
  }

  // In words, for a failed test.
  std::string inject() {
    std::string story = draw(3) == 0 ? begin_step() : "";
    stuck_ = false;
    const int faults = draw(4) == 0 ? 2 : 1;
    for (int i = 0; i < faults; ++i) {
      story += inject_one(draw(kWorkers));
      if (draw(3) == 0) cluster_.pass(50 * draw(40));  // The second one while it heals.
      run_processes();
    }
    return story;
  }
  const std::string& log() const { return cluster_.log(); }
  std::string hopeless() const { return cluster_.hopeless(); }

 private:
  static ClusterCoreOptions options() {
    ClusterCoreOptions options = VirtualCluster::default_options();
    options.workers = kWorkers;
    options.launch = true;
    return options;
  }
  int draw(int count) { return static_cast<int>(random_() % static_cast<uint64_t>(count)); }

  VirtualWorker* worker(int index) {
    const auto found = links_.find(index);
    return found == links_.end() ? nullptr : &cluster_.worker(found->second);
  }

  // Ranks that wait for the faulty one say so.
  std::string begin_step() {
    if (!cluster_.formed() || cluster_.lost() != "") return "";
    for (const auto& [index, link] : links_) {
      cluster_.worker(link).steps = false;
      cluster_.worker(link).waits = true;
    }
    in_step_ = true;
    cluster_.step(++steps_);
    for (const auto& [index, link] : links_) cluster_.worker(link).steps = true;
    return "in a step: ";
  }

  std::string inject_one(int index) {
    VirtualWorker* victim = worker(index);
    const std::string who = fmt::format("{} ", index);
    if (victim == nullptr) return who + "is down; ";
    switch (draw(6)) {
      case 0:
        die(index, "killed by signal 9");
        return who + "is killed; ";
      case 1:
        victim->beats = victim->steps = victim->loads = victim->waits = false;
        return who + "is stopped; ";
      case 2:
        if (std::exchange(stuck_, true)) return "";  // Each takes 10 s to be found.
        victim->steps = victim->loads = victim->waits = false;
        return who + "is stuck; ";
      case 3:
        victim->failure.emplace();
        victim->failure->set_message("the device failed");
        victim->failure->set_code(static_cast<int32_t>(absl::StatusCode::kInternal));
        return who + "fails; ";
      case 4:
        pages_ = 0;
        die(index, "killed by signal 9");
        return who + "comes back without pages; ";
      default: {
        cluster::Hello hello = VirtualCluster::default_hello();
        hello.set_host("elsewhere");
        cluster_.join(hello);
        return "a stranger joins; ";
      }
    }
  }

  void die(int index, const std::string& how) {
    VirtualWorker* victim = worker(index);
    if (victim != nullptr && victim->open) cluster_.hang_up(victim->link);
    links_.erase(index);
    cluster_.process_exited(index, how);
  }

  void run_processes() {
    for (const int index : cluster_.take_killed()) die(index, "killed by signal 9");
    for (int index = 0; index < kWorkers; ++index) {  // One that was refused ends by itself.
      if (worker(index) != nullptr && !worker(index)->open && worker(index)->refusal() != "") {
        die(index, "exit code 2");
      }
    }
    for (const int index : cluster_.take_started()) {
      cluster::Hello hello = VirtualCluster::default_hello();
      hello.set_preferred_rank(index);
      hello.set_pid(++last_pid_);
      cluster_.process_started(index, last_pid_);
      links_[index] = cluster_.join(hello, {.pages = pages_});
      pages_ = 10;
    }
  }

  VirtualCluster cluster_{options()};
  std::mt19937_64 random_;
  std::map<int, LinkId> links_;  // Of processes that run, by worker.
  int last_pid_ = 1'000;
  int64_t pages_ = 10;  // Of the next worker that starts.
  uint64_t steps_ = 0;
  bool in_step_ = false;
  bool stuck_ = false;  // A worker is, by the fault under way.
};

class FaultsTest : public ::testing::TestWithParam<uint64_t> {};

TEST_P(FaultsTest, TheGroupServesAgainWithinFifteenSeconds) {
  FaultyCluster cluster(GetParam());
  ASSERT_TRUE(cluster.serves_within(kHealMs)) << cluster.log();
  for (int fault = 0; fault < 200; ++fault) {
    const size_t before = cluster.log().size();
    const std::string story = cluster.inject();
    ASSERT_TRUE(cluster.serves_within(kHealMs)) << "fault " << fault << ": " << story << "\n"
                                                << cluster.log().substr(before);
    ASSERT_EQ(cluster.hopeless(), "");
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, FaultsTest, ::testing::Values(1, 2, 3, 4, 5, 6, 7, 8),
                         [](const auto& info) { return "Seed" + std::to_string(info.param); });

}  // namespace
}  // namespace lockstep::testing
