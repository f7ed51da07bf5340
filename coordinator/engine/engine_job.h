// SPDX-License-Identifier: Apache-2.0
// EngineCore's record of a request.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "coordinator/cluster/group.h"
#include "coordinator/scheduler/sequences/prepared_request.h"
#include "coordinator/scheduler/sequences/sequence.h"
#include "coordinator/streams/stream.h"

namespace lockstep {

// The properties that determine the bits of a group's answers.
struct Origin {
  std::string numeric_class;
  WeightsOrigin weights;
  std::string kernels;  // See GroupInfo.
};

// The loss of a group while it computed new rows of a request. `end` is the position after the last
// of these rows.
struct SuspectedLoss {
  int64_t end = 0;
  absl::Status why;
};

// A request that has not ended. The caller's thread makes it; after that only EngineCore changes
// it.
struct Job {
  Job(EngineRequest request, int64_t vocab, Prefix prefix, std::shared_ptr<Stream> reader)
      : prepared(std::move(request), vocab, prefix), stream(std::move(reader)) {}

  const EngineRequest& request() const { return prepared.request(); }

  const PreparedRequest prepared;
  const std::shared_ptr<Stream> stream;  // Identifies the request: the core calls no method of it.
  int64_t submitted_ns = 0;              // When the caller submitted it, by a steady clock.
  int64_t context = 0;        // The request's token limit; 0: the context that the group can serve.
  bool needs_larger = false;  // The current group is too small for it.

  uint64_t number = 0;  // 1, 2, ... in the order of arrival.
  std::vector<std::unique_ptr<Sequence>> choices;
  int32_t open = 0;                        // Choices that are not finished.
  bool queued = false;                     // The choices are in the scheduler.
  bool started = false;                    // Rows of it were computed, or it has ended.
  std::optional<Origin> origin;            // The origin of the events sent so far.
  std::optional<SuspectedLoss> suspected;  // The last loss, until the next group is formed.
  // The number of lost groups that count against the request; 0 again as soon as a group has
  // computed the request's rows up to `strike_end`.
  int strikes = 0;
  int64_t strike_end = 0;
  int uncounted_losses = 0;  // Losses that may be chance, and therefore were no strikes.
  absl::Status end;          // The stream's status after all choices are finished.
};

// A drawn token of a sequence, not sent to its reader yet.
struct UnsentToken {
  Sequence* sequence = nullptr;
  StreamEvent event;
};

}  // namespace lockstep
