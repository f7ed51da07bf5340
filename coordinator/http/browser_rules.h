// SPDX-License-Identifier: Apache-2.0
// The web pages that may call a port. A browser lets every page send requests to every server, and
// sends the page's origin along. It shows answers to pages of other origins only if the server
// allows it (CORS, https://fetch.spec.whatwg.org). In an attack by DNS rebinding, the name of the
// attacker's page is made to resolve to this server's address. The browser then treats the page as
// one of this server; only the name in Host shows the difference.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "coordinator/http/exchange.h"
#include "coordinator/http/refusal.h"

namespace lockstep::http {

struct BrowserRules {
  // Whether the port needs no key, so that any page in a browser on this machine could call it. If
  // so, requests to a loopback address are checked: Host must be a name of this machine or in
  // `hosts`, and Origin the server's own or in `origins`. Otherwise the answer is 403. Requests
  // from other machines are not checked: the names that they use for this machine are unknown.
  bool keyless = false;
  bool shares = true;              // Whether the port has --allow-origin, so that errors name it.
  std::vector<std::string> hosts;  // Other valid names in a Host header: "chat.example.com".
  // Origins that may call and read: "https://chat.example.com", or "*".
  std::vector<std::string> origins;
};

// kInvalidArgument, one line that names the flag (--allow-host, --allow-origin) and its value.
absl::Status check(const BrowserRules& rules);

// A handler that checks these rules before it calls `handler`. It answers preflights of the allowed
// origins itself, and adds CORS headers only to answers for them.
Handler with_browser_rules(const BrowserRules& rules, Handler handler);
// The CORS headers of refusals that are made before that handler is called, so that pages of an
// allowed origin may read the reason.
PageHeaders page_headers_of(const BrowserRules& rules);

}  // namespace lockstep::http
