// SPDX-License-Identifier: Apache-2.0
#include "coordinator/http/browser_rules.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <utility>

#include "base/sockets/address.h"
#include "base/status.h"
#include "coordinator/http/ascii.h"
#include "coordinator/http/connection/forwarding_exchange.h"
#include "coordinator/http/refusal.h"

namespace lockstep::http {
namespace {

// "localhost:8000" -> "localhost", "[::1]:8000" -> "::1". Any other text is returned unchanged.
std::string_view name_of(std::string_view host) {
  const bool is_bracketed = host.starts_with('[');
  const size_t end = host.find(is_bracketed ? ']' : ':');
  if (end == host.npos) return host;
  const std::string_view port = host.substr(is_bracketed ? end + 1 : end);
  if (!port.empty() && (port[0] != ':' || port.find_first_not_of("0123456789", 1) != port.npos)) {
    return host;
  }
  return is_bracketed ? host.substr(1, end - 1) : host.substr(0, end);
}

// The machine's own name, which /etc/hosts often maps to 127.0.1.1. No page of an attacker
// has this host name.
std::string host_name() {
  std::array<char, 256> name = {};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

// Browsers themselves resolve names that end with ".localhost".
bool is_name_of_this_machine(std::string_view name) {
  std::string lower(name);
  std::ranges::transform(lower, lower.begin(), to_lower);
  return is_loopback_host(lower) || lower.ends_with(".localhost") ||
         equal_ignoring_case(lower, host_name());
}

// "https://chat.example.com" -> "chat.example.com"; nothing: it is not a page's origin.
std::optional<std::string_view> authority_of(std::string_view origin) {
  const size_t end = origin.find("://");
  if (end == origin.npos || end == 0) return std::nullopt;
  const std::string_view authority = origin.substr(end + 3);
  if (authority.empty() || authority.find('/') != authority.npos) return std::nullopt;
  return authority;
}

bool contains(const std::vector<std::string>& names, std::string_view name) {
  return std::ranges::any_of(
      names, [name](const std::string& one) { return equal_ignoring_case(one, name); });
}

bool is_allowed(const BrowserRules& rules, std::string_view origin) {
  return contains(rules.origins, "*") || contains(rules.origins, origin);
}

bool is_own(std::string_view origin, std::string_view host) {
  const std::optional<std::string_view> authority = authority_of(origin);
  return authority.has_value() && equal_ignoring_case(*authority, host);
}

// Checks a request without an Origin: browsers send none for an image or a script, but say whose
// page needs it (https://www.w3.org/TR/fetch-metadata/). A link that the user follows is served,
// but not what a page loads ahead, or opens by a script.
std::optional<Refusal> check_site(const Request& request) {
  const std::string_view site = request.header("Sec-Fetch-Site");
  if (site != "cross-site" && site != "same-site") return std::nullopt;
  const bool follows_link =
      request.method == "GET" && request.header("Sec-Fetch-Mode") == "navigate" &&
      request.header("Sec-Fetch-Dest") == "document" &&  // No frame.
      request.header("Sec-Fetch-User") == "?1" && request.header("Sec-Purpose").empty();
  if (follows_link) return std::nullopt;
  return Refusal{.status = 403,
                 .code = "origin_not_allowed",
                 .message = fmt::format("Sec-Fetch-Site: must be same-origin or none, found {}; "
                                        "pages of other origins cannot embed this server's answers",
                                        site),
                 .headers = {}};
}

std::optional<Refusal> check_request(const BrowserRules& rules, const Request& request) {
  const std::string_view host = request.header("Host"), origin = request.header("Origin");
  if (!rules.keyless || !request.on_loopback) return std::nullopt;
  if (!host.empty() && !is_name_of_this_machine(name_of(host)) &&
      !contains(rules.hosts, name_of(host))) {
    return Refusal{.status = 403,
                   .code = "host_not_allowed",
                   .message = fmt::format("Host: must be a name of this machine, found {}; "
                                          "to accept it, use --allow-host {}",
                                          printable(host), printable(name_of(host))),
                   .headers = {}};
  }
  if (is_own(origin, host) || is_allowed(rules, origin)) return std::nullopt;
  if (origin.empty()) return check_site(request);
  const std::string way_out =
      rules.shares ? fmt::format("to accept its pages, use --allow-origin {}", printable(origin))
                   : "pages of other origins cannot call this port";
  return Refusal{.status = 403,
                 .code = "origin_not_allowed",
                 .message = fmt::format("Origin: must be that of this server, found {}; {}",
                                        printable(origin), way_out),
                 .headers = {}};
}

Headers cors_headers(const BrowserRules& rules, std::string_view origin) {
  const bool any = contains(rules.origins, "*");
  return {{"Access-Control-Allow-Origin", any ? "*" : std::string(origin)},
          {"Access-Control-Expose-Headers", "X-Request-Id, Retry-After"},
          {"Vary", "Origin"}};
}

// Allows all headers that the page asks for: client libraries choose which ones they send.
Response answer_preflight(const BrowserRules& rules, const Request& request) {
  Response response = {.status = 204, .headers = cors_headers(rules, request.header("Origin"))};
  const auto add = [&response](const char* name, std::string value) {
    response.headers.emplace_back(name, std::move(value));
  };
  add("Access-Control-Allow-Methods", "GET, POST, PUT, DELETE");
  if (const std::string_view wanted = request.header("Access-Control-Request-Headers");
      !wanted.empty()) {
    add("Access-Control-Allow-Headers", std::string(wanted));
  }
  if (request.header("Access-Control-Request-Private-Network") == "true") {
    add("Access-Control-Allow-Private-Network", "true");
  }
  add("Access-Control-Max-Age", "600");
  return response;
}

// An exchange whose answers have CORS headers: the page that sent the request may read them.
class SharedExchange final : public ForwardingExchange {
 public:
  SharedExchange(std::shared_ptr<Exchange> exchange, Headers headers)
      : ForwardingExchange(std::move(exchange)), headers_(std::move(headers)) {}
  void respond(Response response) override {
    ForwardingExchange::respond(with_headers(std::move(response)));
  }
  void stream(Response head, std::unique_ptr<BodySource> source) override {
    ForwardingExchange::stream(with_headers(std::move(head)), std::move(source));
  }

 private:
  Response with_headers(Response response) const {
    response.headers.insert(response.headers.end(), headers_.begin(), headers_.end());
    return response;
  }

  const Headers headers_;
};

}  // namespace

absl::Status check(const BrowserRules& rules) {
  for (const std::string& host : rules.hosts) {
    if (!host.empty() && host.find_first_of("/:* ") == host.npos) continue;
    return invalid_argument(
        "--allow-host {}: must be the name that browsers use, without a port: chat.example.com",
        printable(host));
  }
  for (const std::string& origin : rules.origins) {
    if (origin == "*" || authority_of(origin).has_value()) continue;
    return invalid_argument(
        "--allow-origin {}: must be an origin, https://chat.example.com, or * for every page",
        printable(origin));
  }
  return absl::OkStatus();
}

PageHeaders page_headers_of(const BrowserRules& rules) {
  return [rules](std::string_view origin) {
    const bool shares = !origin.empty() && is_allowed(rules, origin);
    return shares ? cors_headers(rules, origin) : Headers();
  };
}

Handler with_browser_rules(const BrowserRules& rules, Handler handler) {
  return [rules, handler = std::move(handler)](std::shared_ptr<Exchange> exchange) {
    const Request& request = exchange->request();
    if (const std::optional<Refusal> refusal = check_request(rules, request)) {
      return exchange->respond(render_refusal(*refusal));
    }
    const std::string_view origin = request.header("Origin");
    if (origin.empty() || !is_allowed(rules, origin)) return handler(std::move(exchange));
    if (request.method == "OPTIONS" && !request.header("Access-Control-Request-Method").empty()) {
      return exchange->respond(answer_preflight(rules, request));
    }
    handler(std::make_shared<SharedExchange>(exchange, cors_headers(rules, origin)));
  };
}

}  // namespace lockstep::http
