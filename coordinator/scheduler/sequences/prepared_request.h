// SPDX-License-Identifier: Apache-2.0
// A request and everything that is derived from it once, for all its choices. It is made on the
// caller's thread, so that long lists in a request do not delay the engine.
#pragma once

#include <cstdint>

#include "coordinator/engine/engine_request.h"
#include "coordinator/sampling/penalties.h"
#include "coordinator/scheduler/sequences/stop_matcher.h"
#include "proto/sequence_rules.h"

namespace lockstep {

// Immutable; shared by the request's choices.
class PreparedRequest {
 public:
  PreparedRequest(EngineRequest request, int64_t vocab, Prefix prefix = {});

  // The request's stop_ids ascend, without duplicates.
  const EngineRequest& request() const { return request_; }
  const LogitRules& rules() const { return rules_; }
  const StopStrings& stops() const { return stops_; }
  const Prefix& prefix() const { return prefix_; }  // The prompt's prefix.
  bool is_stop_id(int32_t id) const;
  int64_t bytes() const;  // Its approximate memory.

 private:
  const EngineRequest request_;
  const LogitRules rules_;
  const StopStrings stops_;
  const Prefix prefix_;
};

}  // namespace lockstep
