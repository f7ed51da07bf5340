// SPDX-License-Identifier: Apache-2.0
// A SessionCore driven by a test's events; its actions are written as words.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "worker/session/session_core.h"

namespace lockstep {

// Drives a core, and writes down its actions: "send hello", "run load keep", "abort", "end OK".
class SessionDriver : public testing::Test {
 protected:
  SessionDriver() : core_(named_hello(), &in_memory_) {
    core_.connected(now_);
    EXPECT_EQ(actions(), Actions({"send hello 0"}));
  }

  using Actions = std::vector<std::string>;

  static cluster::Hello named_hello() {
    cluster::Hello hello;
    hello.set_pid(7);
    return hello;
  }

  static std::string name_of(const SessionAction& action) {
    static constexpr const char* kWork[] = {"check", "load", "start", "step", "logits", "preload"};
    if (const auto* send = std::get_if<session_action::Send>(&action)) {
      const auto* field = send->message.GetDescriptor()->FindFieldByNumber(
          static_cast<int>(send->message.kind_case()));
      return fmt::format("send {} {}", field->name(), send->message.epoch());
    }
    if (const auto* run = std::get_if<session_action::Run>(&action)) {
      return fmt::format("run {} {}{}{}", kWork[run->work.kind], run->work.epoch,
                         run->work.keep ? " keep" : "", run->work.reuse ? " reuse" : "");
    }
    if (std::holds_alternative<session_action::AbortRunning>(action)) return "abort";
    if (std::holds_alternative<session_action::FinishSending>(action)) return "finish sending";
    const absl::Status& status = std::get<session_action::End>(action).status;
    return status.ok() ? "end OK" : "end " + message_of(status);
  }

  // The actions since the last call.
  Actions actions() {
    Actions actions;
    for (SessionAction& action : core_.take_actions()) {
      actions.push_back(name_of(action));
      if (auto* send = std::get_if<session_action::Send>(&action)) last_ = std::move(send->message);
    }
    return actions;
  }

  static cluster::CoordinatorMessage of(uint64_t epoch) {
    cluster::CoordinatorMessage message;
    message.set_epoch(epoch);
    return message;
  }
  static cluster::CoordinatorMessage assignment(uint64_t epoch, const std::string& folder = "m") {
    cluster::CoordinatorMessage message = of(epoch);
    message.mutable_assignment()->set_checkpoint(folder);
    message.mutable_assignment()->mutable_program()->set_vocab(100);
    return message;
  }
  static cluster::CoordinatorMessage preload(uint64_t epoch, int vocab = 100) {
    cluster::CoordinatorMessage message = of(epoch);
    *message.mutable_preload() = assignment(epoch).assignment();
    message.mutable_preload()->mutable_program()->set_vocab(vocab);
    return message;
  }
  static cluster::CoordinatorMessage start(uint64_t epoch) {
    cluster::CoordinatorMessage message = of(epoch);
    message.mutable_start()->set_pages(3);
    return message;
  }
  static cluster::CoordinatorMessage step(uint64_t epoch, uint64_t number = 1) {
    cluster::CoordinatorMessage message = of(epoch);
    message.mutable_step()->set_step(number);
    return message;
  }
  static cluster::CoordinatorMessage abort_of(uint64_t epoch) {
    cluster::CoordinatorMessage message = of(epoch);
    message.mutable_abort();
    return message;
  }

  Actions on(cluster::CoordinatorMessage message) {
    core_.message(now_, std::move(message));
    return actions();
  }
  Actions done(WorkResult result = {}) {
    core_.work_done(now_, std::move(result));
    return actions();
  }
  Actions step_done(uint64_t number = 1) {
    WorkResult result;
    result.reply.mutable_result()->set_step(number);
    return done(std::move(result));
  }
  Actions tick(const HeartbeatStats& heartbeat_stats = {}) {
    core_.tick(now_, heartbeat_stats);
    return actions();
  }
  // Runs the events from an assignment to Ready.
  void load(uint64_t epoch, const std::string& stamp = "i", bool keep = false) {
    EXPECT_EQ(on(assignment(epoch)), Actions({fmt::format("run check {}", epoch)}));
    EXPECT_EQ(done({.stamp = stamp}),
              Actions({fmt::format("run load {}{}", epoch, keep ? " keep" : "")}));
    EXPECT_EQ(done(loaded(stamp)), Actions({fmt::format("send ready {}", epoch)}));
  }
  void load_and_start(uint64_t epoch) {
    load(epoch);
    EXPECT_EQ(on(start(epoch)), Actions({fmt::format("run start {}", epoch)}));
    EXPECT_EQ(done(), Actions());
  }
  static WorkResult loaded(const std::string& stamp) {
    WorkResult result{.stamp = stamp};
    result.reply.mutable_ready()->set_pages(9);
    return result;
  }

  int64_t now_ = 1000;
  WeightsInMemory in_memory_;
  SessionCore core_;
  cluster::WorkerMessage last_;  // The last message that was sent.
};

}  // namespace lockstep
