// SPDX-License-Identifier: Apache-2.0
// What EngineCore knows of a request.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "coordinator/cluster/group.h"
#include "coordinator/scheduler/prepared_request.h"
#include "coordinator/scheduler/sequence.h"
#include "coordinator/streams/stream.h"

namespace lockstep {

// What decides the bits of a group's answers.
struct Origin {
  std::string numeric_class;
  WeightsOrigin weights;
  std::string kernels;  // See GroupInfo.
};

// A group was lost while it computed new rows of a request, the last one at `end`.
struct Accusation {
  int64_t end = 0;
  absl::Status why;
};

// A request under way. Its caller's thread makes it; EngineCore fills in the rest and is the only
// one that changes it.
struct Job {
  Job(Request request, int64_t vocab, Prefix prefix, std::shared_ptr<Stream> reader)
      : prepared(std::move(request), vocab, prefix), stream(std::move(reader)) {}

  const Request& request() const { return prepared.request(); }

  const PreparedRequest prepared;
  const std::shared_ptr<Stream> stream;  // A name for the request: the core never calls it.
  int64_t came_ns = 0;                   // Of a steady clock, when the caller gave it.
  int64_t context = 0;        // Tokens that it may have; 0: all that the core's group can serve.
  bool needs_larger = false;  // It has no room in the group that serves as it comes.

  uint64_t number = 0;  // Its place among all that came.
  std::vector<std::unique_ptr<Sequence>> choices;
  int32_t open = 0;                   // Choices that are not finished.
  bool queued = false;                // They are in the scheduler.
  bool started = false;               // Rows of it were computed, or it has ended.
  std::optional<Origin> origin;       // Of what its reader was told.
  std::optional<Accusation> accused;  // Until the next group is formed.
  // Groups that were lost while they computed its rows, and none has since come to where the last
  // of these rows ended.
  int strikes = 0;
  int64_t struck_at = 0;
  int pardons = 0;   // Groups that chance may have ended: no strikes.
  absl::Status end;  // With which the stream closes when all choices are finished.
};

// What a step drew for a sequence, and its reader was not told yet.
struct Untold {
  Sequence* sequence = nullptr;
  StreamEvent event;
};

}  // namespace lockstep
