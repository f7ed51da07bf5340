// SPDX-License-Identifier: Apache-2.0
// EngineCore and Inbox on virtual time: the work of Engine's thread, and checks around it.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "coordinator/engine/inbox.h"
#include "tests/simulation/coordinator/workers.h"
#include "tests/simulation/machines/world.h"

namespace lockstep::simulation {

class EngineSide final : public GroupListener {
 public:
  EngineSide(World* world, const EngineOptions& options);
  // Called once, before all other methods.
  void start(Workers* workers);

  // For clients; the core sees these at once.
  absl::StatusOr<std::shared_ptr<Stream>> submit(EngineRequest request);
  void cancel(const std::shared_ptr<Stream>& stream);
  void drain(int64_t time_ms);

  bool ready() const;
  bool draining() const { return draining_; }
  EngineStats stats() const { return core_.stats(); }
  int64_t groups() const { return groups_; }
  int64_t groups_lost() const { return groups_lost_; }
  // The number of lost groups that may count as a strike against a request.
  int64_t groups_failed() const { return groups_failed_; }
  // The number of groups that had other weights or another numeric class than the group before.
  int64_t changed() const { return changed_; }
  int64_t fetches() const { return fetches_; }

  void group_formed(const GroupInfo& info) override;
  void group_lost(const absl::Status& why) override;
  void results(std::vector<cluster::StepResult> results) override;
  void logits(const std::vector<float>& logits) override;

 private:
  // The Group that the inbox gets: the inbox only reads its info().
  class Formed;

  // Passes messages to the core, and carries out its actions.
  void pump();
  void pump_if_due();
  void feed();
  void publish();
  void perform(engine_action::RunStep& action);
  void perform(engine_action::FetchLogits& action);
  void perform(engine_action::NoteStarted& action);
  void perform(engine_action::AppendEvent& action);
  void perform(engine_action::CloseStream& action);
  void perform(engine_action::LeaveGroup& action);
  void share_page(std::shared_ptr<const cluster::Step>& step);
  void keep_outgrown(std::shared_ptr<const cluster::Step>& step);
  void form_again();
  void wake_later();
  void check() const;

  World& world_;
  Workers* workers_ = nullptr;
  const std::shared_ptr<Inbox> inbox_;
  EngineCore core_;
  bool answering_ = false;  // The workers compute a step or logits.
  int64_t sent_at_ = 0;     // The time of the last step.
  bool answered_ = false;   // This group completed a step.
  bool pumping_ = false;
  bool draining_ = false;
  int64_t woken_for_ = -1;  // The time of the scheduled wake-up; -1: none.
  Demand demand_ = Demand::kNone;
  int64_t groups_ = 0;
  int64_t groups_lost_ = 0;
  int64_t groups_failed_ = 0;
  WeightsOrigin weights_;  // The last group's weights.
  std::string class_;      // The last group's numeric class.
  int64_t changed_ = 0;
  int64_t fetches_ = 0;
  std::map<int32_t, int32_t> last_page_;  // By slot.
};

}  // namespace lockstep::simulation
