// SPDX-License-Identifier: Apache-2.0
// What the public ports serve.
#pragma once

#include <algorithm>
#include <string>

#include "base/status.h"
#include "base/system/clock.h"
#include "coordinator/admission/queue_times.h"
#include "coordinator/api/api_keys.h"
#include "coordinator/engine/engine.h"
#include "coordinator/model/model.h"
#include "coordinator/streams/kept_streams.h"

namespace lockstep {

// All outlive the ports.
struct ServedModel {
  const Model* model = nullptr;
  Engine* engine = nullptr;
  int workers = 1;                    // Of a complete group.
  const ApiKeys* keys = nullptr;      // That clients need one of; null: none.
  KeptStreams* kept = nullptr;        // What clients can resume; null: nothing.
  const QueueTimes* queue = nullptr;  // By which requests that would wait too long are refused.
  int32_t lowest_priority = 0;        // Of clients without keys.

  // Whether it would begin in time, as far as that is known.
  absl::Status check_wait(const Request& request) const {
    return queue != nullptr ? queue->check(request, steady_now_ns()) : absl::OkStatus();
  }
  // Whether a request may have this priority. `pass`: of its key; null: it has none.
  absl::Status check_priority(const Pass* pass, int32_t priority) const {
    if (pass != nullptr) return pass->check_priority(priority);
    if (priority >= lowest_priority) return absl::OkStatus();
    return invalid_argument(
        "priority: must be {} or more, found {}; start the server with --lowest-priority {}, or "
        "with --api-keys",
        lowest_priority, priority, priority);
  }
  // Whether a request may be resumable.
  absl::Status check_resumable() const {
    if (kept != nullptr) return absl::OkStatus();
    return absl::FailedPreconditionError(
        "resumable: this server keeps no streams (--resume-bytes 0)");
  }
  // A client's stream; kNotFound, kept_log_is_gone().
  absl::StatusOr<std::shared_ptr<KeptStream>> find_kept(const std::string& client,
                                                        const std::string& id) const {
    if (kept == nullptr) return absl::NotFoundError("this server keeps no streams");
    return kept->find({.owner = owner_of(client), .id = id});
  }
  // Tokens that a sequence may have: the model's, or those that the group's pages hold.
  int64_t servable_context() const {
    const int64_t room = engine->stats().group.servable_context();  // 0 before there is one.
    return room > 0 ? std::min(model->max_context(), room) : model->max_context();
  }
  // Whose streams a client may resume.
  std::string owner_of(const std::string& client) const { return keys != nullptr ? client : ""; }
};

}  // namespace lockstep
