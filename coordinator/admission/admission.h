// SPDX-License-Identifier: Apache-2.0
// Checks a request before it enters the queue, and refuses it if it cannot be served.
#pragma once

#include <cstdint>
#include <string_view>

#include "absl/status/status.h"
#include "coordinator/engine/engine_options.h"
#include "coordinator/engine/engine_request.h"

namespace lockstep {

// kInvalidArgument: parameters that workers would reject (one bad request must not end the group),
// or a prompt that can never be served. Any thread.
absl::Status check_request(const EngineRequest& request, const GroupInfo& group);
// The part of check_request() that checks whether the prompt and the first token fit the group; see
// is_too_long().
absl::Status check_length(const EngineRequest& request, const GroupInfo& group);

// The refusal of a prompt that is too long, in the words that clients of other servers know; OpenAI
// has an error code for it. `why` also says how to fix it. The text names no field: each port adds
// the name of its field.
absl::Status too_long(int64_t context, int64_t found, std::string_view why);
bool is_too_long(const absl::Status& status);

// Sets and gets the seconds after which a retry is worthwhile: at least 1, and 1 if not set.
absl::Status retry_after(absl::Status refusal, int64_t seconds);
int64_t retry_after_of(const absl::Status& refusal);

// kUnavailable, for a request without a deadline when there has been no group for `ms`
// (EngineOptions::max_outage_ms).
absl::Status no_workers_for(int64_t ms);

}  // namespace lockstep
