// SPDX-License-Identifier: Apache-2.0
// One Generate call: has its request read on the pool, then answers with its events.
#pragma once

#include <memory>

#include "coordinator/api/served_model.h"
#include "coordinator/api/task_pool.h"
#include "coordinator/http/exchange.h"

namespace lockstep {

// Returns quickly: the pool parses, checks and tokenizes. Pool and model outlive the call.
void answer_generate(const ServedModel& served, TaskPool* pool,
                     std::shared_ptr<http::Exchange> exchange);

}  // namespace lockstep
