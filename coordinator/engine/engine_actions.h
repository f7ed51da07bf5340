// SPDX-License-Identifier: Apache-2.0
// What EngineCore is given and what it wants done, as data: whoever owns the core takes the actions
// after each event and carries them out in order.
#pragma once

#include <cstdint>
#include <memory>
#include <variant>

#include "absl/status/status.h"
#include "coordinator/engine/engine_options.h"
#include "coordinator/scheduler/sequences/prepared_request.h"
#include "coordinator/streams/stream.h"
#include "proto/cluster.pb.h"

namespace lockstep {

struct Submission {
  std::shared_ptr<const PreparedRequest> request;
  std::shared_ptr<Stream> stream;  // A name for the request: the core never calls it.
  int64_t came_ns = 0;             // Of a steady clock, when the caller gave it.
  int64_t context = 0;             // Tokens that it may have; 0: what the core's group can serve.
  bool needs_larger = false;       // It has no room in the group that serves as it comes.
};

namespace engine_action {

// Answered by results(), or group_lost(). One at a time. A step without tokens asks whether every
// rank still answers.
struct RunStep {
  std::shared_ptr<const cluster::Step> step;
};
// All raw logits of an output of the last step: answered by logits(), or group_lost().
struct FetchLogits {
  uint64_t step = 0;
  int output = 0;
};
// The step that was just run has the first rows of this request.
struct NoteStarted {
  std::shared_ptr<Stream> stream;
};
struct AppendEvent {
  std::shared_ptr<Stream> stream;
  StreamEvent event;
};
// Once per request, after its last event.
struct CloseStream {
  std::shared_ptr<Stream> stream;
  absl::Status status;
};
// The group gave answers that cannot be: it is let go, and another one formed.
struct LeaveGroup {
  absl::Status why;
};

}  // namespace engine_action

using EngineAction =
    std::variant<engine_action::RunStep, engine_action::FetchLogits, engine_action::NoteStarted,
                 engine_action::AppendEvent, engine_action::CloseStream, engine_action::LeaveGroup>;

}  // namespace lockstep
