// SPDX-License-Identifier: Apache-2.0
// One Generate call: a task of the pool reads its request, and the request's events are sent.
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
