// SPDX-License-Identifier: Apache-2.0
// Lets through HTTP requests that have an API key.
#pragma once

#include <string>
#include <vector>

#include "coordinator/api/api_keys.h"
#include "coordinator/http/exchange.h"
#include "coordinator/http/refusal.h"

namespace lockstep {

// `handler` behind a look at the key: 401 without one of `keys`, 429 where its requests are all
// under way. A request counts until its whole answer is there. Exchange::client() is the key's
// name. Paths in `open` need no key; those that begin with `uncounted` need one and are not
// counted. The keys outlive the handler.
http::Handler with_keys(const ApiKeys* keys, const std::vector<std::string>& open,
                        const std::string& uncounted, const http::Handler& handler);

// Refuses a request without a key of these with 401 as soon as its head is there: the body is not
// received.
http::Gate gate_of(const ApiKeys* keys, const std::vector<std::string>& open);

}  // namespace lockstep
