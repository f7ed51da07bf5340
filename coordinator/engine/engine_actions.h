// SPDX-License-Identifier: Apache-2.0
// EngineCore's actions, as data. The core's owner takes them after each event and carries them out
// in order.
#pragma once

#include <cstdint>
#include <memory>
#include <variant>

#include "absl/status/status.h"
#include "coordinator/engine/engine_options.h"
#include "coordinator/streams/stream.h"
#include "proto/cluster.pb.h"

namespace lockstep {

namespace engine_action {

// Sends a step to the group, which runs one step at a time. The core gets results() or group_lost()
// for it. A step without tokens checks that every rank still answers.
struct RunStep {
  std::shared_ptr<const cluster::Step> step;
};
// Asks for all raw logits of an output of the last step. The core gets logits() or group_lost().
struct FetchLogits {
  uint64_t step = 0;
  int output = 0;
};
// The step that was just sent has the first rows of this request.
struct NoteStarted {
  std::shared_ptr<Stream> stream;
};
struct AppendEvent {
  std::shared_ptr<Stream> stream;
  StreamEvent event;
};
// Follows the last event of each request.
struct CloseStream {
  std::shared_ptr<Stream> stream;
  absl::Status status;
};
// The group gave invalid answers: it is dropped, and another one is formed.
struct LeaveGroup {
  absl::Status why;
};

}  // namespace engine_action

using EngineAction =
    std::variant<engine_action::RunStep, engine_action::FetchLogits, engine_action::NoteStarted,
                 engine_action::AppendEvent, engine_action::CloseStream, engine_action::LeaveGroup>;

}  // namespace lockstep
