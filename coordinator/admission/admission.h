// SPDX-License-Identifier: Apache-2.0
// Admission before work: what cannot be served, or would wait behind too much, is refused.
#pragma once

#include <cstdint>
#include <string_view>

#include "absl/status/status.h"
#include "coordinator/engine/engine_options.h"
#include "coordinator/engine/request.h"

namespace lockstep {

// kInvalidArgument: parameters that workers would reject (one bad request must not end the group),
// or a prompt that can never be served. Any thread.
absl::Status check_request(const Request& request, const GroupInfo& group);
// Of these, whether prompt and first token fit the group's context and KV pages; is_too_long().
absl::Status check_length(const Request& request, const GroupInfo& group);

// Marks a refusal as one of a prompt that is too long, for which OpenAI has a code of its own.
absl::Status too_long(absl::Status refusal);
// The same in the words by which clients of other servers know it; `why` also says how to fix it.
absl::Status too_long(int64_t context, int64_t found, std::string_view why);
bool is_too_long(const absl::Status& status);

// Says when it is worth another try; 1 where nothing was said.
absl::Status retry_after(absl::Status refusal, int64_t seconds);
int64_t retry_after_of(const absl::Status& refusal);

// kUnavailable, of requests without a deadline: EngineOptions::max_outage_ms.
absl::Status no_workers_for(int64_t ms);

}  // namespace lockstep
