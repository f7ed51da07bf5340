// SPDX-License-Identifier: Apache-2.0
// EngineCore without its thread: a test takes the actions and gives the answers.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "coordinator/engine/engine_core.h"
#include "tests/coordinator/helpers.h"
#include "tests/support/cluster/fake_group.h"

namespace lockstep {

// A core with a group of fake workers; events are collected per stream.
class Driven {
 public:
  explicit Driven(const FakeModel& model = {}, const EngineOptions& options = {},
                  const Tokenizer* tokenizer = nullptr)
      : model_(model), workers_(model), core_(tokenizer, options) {
    form(1);
  }

  // Forms a group whose workers have no state yet.
  void form(uint64_t epoch) { form(fake_info(model_, epoch)); }
  void form(const GroupInfo& info) {
    workers_ = FakeWorkers(model_);
    core_.group_formed(info);
  }

  std::shared_ptr<Stream> submit(EngineRequest request) {
    auto stream = std::make_shared<Stream>();
    core_.submit(std::make_unique<Job>(std::move(request), model_.vocab, Prefix{}, stream));
    return stream;
  }
  // Takes all actions: keeps a step or a fetch for answer(), and appends events to their streams.
  void act() {
    step_ = nullptr;
    fetch_.reset();
    for (std::vector<EngineAction> actions = core_.take_actions(); !actions.empty();
         actions = core_.take_actions()) {
      take(actions);
    }
  }
  void take(std::vector<EngineAction>& actions) {
    for (EngineAction& action : actions) {
      if (auto* run = std::get_if<engine_action::RunStep>(&action)) step_ = run->step;
      if (auto* fetch = std::get_if<engine_action::FetchLogits>(&action)) fetch_ = *fetch;
      if (auto* event = std::get_if<engine_action::AppendEvent>(&action)) {
        event->stream->append(std::move(event->event)).IgnoreError();
      }
      if (auto* close = std::get_if<engine_action::CloseStream>(&action))
        close->stream->close(close->status);
      if (auto* leave = std::get_if<engine_action::LeaveGroup>(&action)) left_ = leave->why;
    }
  }
  std::vector<cluster::StepResult> answers() {
    absl::StatusOr<std::vector<cluster::StepResult>> results = workers_.run(*step_);
    EXPECT_TRUE(results.ok()) << results.status();
    return *std::move(results);
  }
  // Answers the pending step or fetch and takes the actions that follow. False: none is pending.
  bool answer() {
    if (step_ == nullptr && !fetch_.has_value()) return false;
    if (fetch_.has_value()) {
      core_.logits(*workers_.logits(fetch_->step, fetch_->output));
    } else {
      core_.results(answers());
    }
    act();
    return true;
  }
  // Runs until no step or fetch is pending.
  void run() {
    for (act(); answer();) {
    }
  }

  EngineCore& core() { return core_; }
  const std::shared_ptr<const cluster::Step>& step() const { return step_; }
  const std::optional<engine_action::FetchLogits>& fetch() const { return fetch_; }
  const absl::Status& left() const { return left_; }
  const FakeModel& model() const { return model_; }
  FakeWorkers& workers() { return workers_; }

 private:
  const FakeModel model_;
  FakeWorkers workers_;
  EngineCore core_;
  std::shared_ptr<const cluster::Step> step_;
  std::optional<engine_action::FetchLogits> fetch_;
  absl::Status left_;
};

// The tokens of a choice of the request if no other request runs.
inline std::vector<int32_t> tokens_alone(const EngineRequest& request, int32_t choice = 0) {
  Driven driven;
  const std::shared_ptr<Stream> stream = driven.submit(request);
  driven.run();
  return finish(*stream)[choice].tokens;
}

}  // namespace lockstep
