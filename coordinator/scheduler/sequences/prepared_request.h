// SPDX-License-Identifier: Apache-2.0
// A request with all that is derived from it once, whichever number of choices it has. It is made
// on the caller's thread, so that no list of a client's, however long, holds up the engine.
#pragma once

#include <cstdint>

#include "coordinator/engine/request.h"
#include "coordinator/sampling/penalties.h"
#include "coordinator/scheduler/sequences/stop_matcher.h"
#include "proto/sequence_rules.h"

namespace lockstep {

// Immutable; shared by the request's choices.
class PreparedRequest {
 public:
  PreparedRequest(Request request, int64_t vocab, Prefix prefix = {});

  // Its stop_ids ascend, each once.
  const Request& request() const { return request_; }
  const LogitRules& rules() const { return rules_; }
  const StopStrings& stops() const { return stops_; }
  const Prefix& prefix() const { return prefix_; }  // Of its prompt.
  bool is_stop_id(int32_t id) const;
  int64_t bytes() const;  // That it holds in memory, about.

 private:
  const Request request_;
  const LogitRules rules_;
  const StopStrings stops_;
  const Prefix prefix_;
};

}  // namespace lockstep
