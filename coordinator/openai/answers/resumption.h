// SPDX-License-Identifier: Apache-2.0
// Requests that read or end a resumable stream.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "coordinator/openai/generation.h"

namespace lockstep::openai {

// The offset of the first event that the request needs: its header Last-Event-ID plus 1, else
// `from` of its query, else 0. A client that reconnects automatically repeats the query, so the
// header is the newer value. kInvalidArgument: the value is not a number.
absl::StatusOr<size_t> resume_offset(const http::Request& request);

// GET of a stream: its events from resume_offset() on, byte for byte as the first answer would have
// sent them. 404: the client's key has no stream of this name. 410: the stream is no longer in
// memory. 400: the stream ended before that offset.
void resume_stream(ApiContext* context, const std::shared_ptr<http::Exchange>& exchange,
                   const std::string& id);
// DELETE of a stream: 204; the stream ends soon, if it has not ended. 404, 410 as above.
void cancel_stream(ApiContext* context, const std::shared_ptr<http::Exchange>& exchange,
                   const std::string& id);

}  // namespace lockstep::openai
