// SPDX-License-Identifier: Apache-2.0
// What clients ask of a stream that is kept: its rest, and its end.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "coordinator/openai/generation.h"

namespace lockstep::openai {

// The offset that a request for the rest names: one behind its Last-Event-ID, else `from` of its
// query, else 0. A client that comes back by itself repeats the query, so its header is the newer.
// kInvalidArgument: one of them is no number.
absl::StatusOr<size_t> resume_offset(const http::Request& request);

// GET of a stream: the rest, byte for byte what its first answer would have sent from there.
// 404: the client's key has none of this name. 410: it is kept no more. 400: it has ended before.
void resume_stream(ApiContext* context, const std::shared_ptr<http::Exchange>& exchange,
                   const std::string& id);
// DELETE of a stream: 204, and it ends soon, if it has not. 404, 410 as above.
void cancel_stream(ApiContext* context, const std::shared_ptr<http::Exchange>& exchange,
                   const std::string& id);

}  // namespace lockstep::openai
