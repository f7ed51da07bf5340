// SPDX-License-Identifier: Apache-2.0
// Requests for a resumable stream: its rest, and its end.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "coordinator/openai/generation.h"

namespace lockstep::openai {

// The offset at which the rest begins: one after its Last-Event-ID, else `from` of its query, else
// 0. A client that reconnects automatically repeats the query, so the header is the newer value.
// kInvalidArgument: one of them is not a number.
absl::StatusOr<size_t> resume_offset(const http::Request& request);

// GET of a stream: the rest, byte for byte as the first answer would have sent it. 404: the
// client's key has no stream of this name. 410: it is no longer kept. 400: it ended before that
// offset.
void resume_stream(ApiContext* context, const std::shared_ptr<http::Exchange>& exchange,
                   const std::string& id);
// DELETE of a stream: 204; the stream ends soon, if it has not ended. 404, 410 as above.
void cancel_stream(ApiContext* context, const std::shared_ptr<http::Exchange>& exchange,
                   const std::string& id);

}  // namespace lockstep::openai
