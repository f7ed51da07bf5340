// SPDX-License-Identifier: Apache-2.0
// The model that the public ports serve.
#pragma once

#include <algorithm>
#include <string>

#include "base/field_error.h"
#include "base/system/clock.h"
#include "coordinator/admission/queue_times.h"
#include "coordinator/api/api_keys.h"
#include "coordinator/engine/engine.h"
#include "coordinator/model/model.h"
#include "coordinator/streams/resumable_streams.h"

namespace lockstep {

// All pointers outlive the ports.
struct ServedModel {
  const Model* model = nullptr;
  Engine* engine = nullptr;
  int workers = 1;                        // The number of ranks of a complete group.
  const ApiKeys* keys = nullptr;          // Clients need one of these; null: no key is needed.
  ResumableStreams* resumable = nullptr;  // The streams that clients can resume; null: none.
  const QueueTimes* queue = nullptr;      // Refuses requests that would wait too long.
  int32_t lowest_priority = 0;            // The lowest priority of clients without keys.

  // Whether the request is expected to begin in time; OK if there is no estimate.
  absl::Status check_wait(const EngineRequest& request) const {
    return queue != nullptr ? queue->check(request, steady_now_ns()) : absl::OkStatus();
  }
  // OK if a request may have this priority. `permit`: the one of its API key; null: it has no key.
  absl::Status check_priority(const Permit* permit, int32_t priority) const {
    if (permit != nullptr) return permit->check_priority(priority);
    if (priority >= lowest_priority) return absl::OkStatus();
    return field_error(
        "priority",
        "must be {} or more, found {}; start the server with --lowest-priority {}, or with "
        "--api-keys",
        lowest_priority, priority, priority);
  }
  // OK if requests may be resumable.
  absl::Status check_resumable() const {
    if (resumable != nullptr) return absl::OkStatus();
    return absl::FailedPreconditionError(
        "resumable: this server keeps no streams (--resume-bytes 0)");
  }
  // Finds a client's resumable stream. Errors: kNotFound, event_log_is_gone().
  absl::StatusOr<std::shared_ptr<ResumableStream>> find_resumable(const std::string& client,
                                                                  const std::string& id) const {
    if (resumable == nullptr) return absl::NotFoundError("this server keeps no streams");
    return resumable->find({.owner = owner_of(client), .id = id});
  }
  // The max tokens of a sequence: the model's limit, or fewer if the group's pages hold fewer.
  int64_t servable_context() const {
    const int64_t room = engine->stats().group.servable_context();  // 0 before the first group.
    return room > 0 ? std::min(model->max_context(), room) : model->max_context();
  }
  // The owner of the streams that this client may resume.
  std::string owner_of(const std::string& client) const { return keys != nullptr ? client : ""; }
};

}  // namespace lockstep
