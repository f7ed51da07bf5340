// SPDX-License-Identifier: Apache-2.0
// Accepts only HTTP requests that have an API key.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "coordinator/api/api_keys.h"
#include "coordinator/http/exchange.h"
#include "coordinator/http/refusal.h"

namespace lockstep {

// The permit of the request's key, see ApiKeys::admit(). A request must have one Authorization:
// if there were two, a proxy could check the one that this server ignores.
absl::StatusOr<std::unique_ptr<ApiKeys::KeyPermit>> admit_by_key(const ApiKeys& keys,
                                                                 const http::Request& request,
                                                                 bool counts);

// A handler that calls `handler` if the request has one of `keys`. It answers 401 if not, and 429
// if the key already has its maximum of running requests. A request counts until its whole answer
// is available. Exchange::client() is the key's name. Paths in `open` need no key; paths that begin
// with `uncounted` need one, but requests to them do not count. The keys outlive the handler.
http::Handler with_keys(const ApiKeys* keys, const std::vector<std::string>& open,
                        const std::string& uncounted, const http::Handler& handler);

// Answers 401 to a request without one of `keys` as soon as its head has arrived: the body is not
// received.
http::Gate gate_of(const ApiKeys* keys, const std::vector<std::string>& open);

}  // namespace lockstep
