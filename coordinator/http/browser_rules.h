// SPDX-License-Identifier: Apache-2.0
// Which web pages may call a port. A browser lets every page send requests to every server, says
// from which origin they come, and shows answers to pages of other origins only where the server
// allows it (CORS, https://fetch.spec.whatwg.org). A page whose name was made to point here later
// (DNS rebinding) counts as of this server's origin, but for the name itself.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "coordinator/http/exchange.h"
#include "coordinator/http/refusal.h"

namespace lockstep::http {

struct BrowserRules {
  // The port asks for no key, so a browser on this machine is all that a page elsewhere needs. Then
  // requests that come to a loopback address, whatever else the port is bound to, are answered with
  // 403 where Host is no name of this machine, or Origin another one than the server's own.
  // Requests from other machines are not looked at: their names for this one are not known.
  bool keyless = false;
  bool shares = true;                // Whether `origins` may name any, and an error says so.
  std::vector<std::string> hosts;    // Other names that a Host may have: "chat.example.com".
  std::vector<std::string> origins;  // That may call and read: "https://chat.example.com", or "*".
};

// kInvalidArgument, one line that names the flag (--allow-host, --allow-origin) and its value.
absl::Status check(const BrowserRules& rules);

// `handler` behind these rules. It answers preflights of the allowed origins itself, and writes
// CORS headers into answers for them, and only them.
Handler with_browser_rules(const BrowserRules& rules, Handler handler);
// The CORS headers of what is refused before that handler sees it: an allowed origin's page may
// read why.
PageHeaders page_headers_of(const BrowserRules& rules);

}  // namespace lockstep::http
