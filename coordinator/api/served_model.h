// SPDX-License-Identifier: Apache-2.0
// What the public ports serve.
#pragma once

#include <string>

#include "coordinator/api/api_keys.h"
#include "coordinator/engine.h"
#include "coordinator/kept_streams.h"
#include "coordinator/model.h"

namespace lockstep {

// All outlive the ports.
struct ServedModel {
  const Model* model = nullptr;
  Engine* engine = nullptr;
  int workers = 1;                // Of a complete group.
  const ApiKeys* keys = nullptr;  // That clients need one of; null: none.
  KeptStreams* kept = nullptr;    // What clients can resume; null: nothing.

  // Whether a request may be resumable.
  absl::Status check_resumable() const {
    if (kept != nullptr) return absl::OkStatus();
    return absl::FailedPreconditionError(
        "resumable: this server keeps no streams (--resume-bytes 0)");
  }
  // Whose streams a client may resume.
  std::string owner_of(const std::string& client) const { return keys != nullptr ? client : ""; }
};

}  // namespace lockstep
