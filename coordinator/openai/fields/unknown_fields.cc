// SPDX-License-Identifier: Apache-2.0
#include "coordinator/openai/fields/unknown_fields.h"

#include <algorithm>

#include "base/log.h"
#include "base/status.h"
#include "coordinator/openai/error.h"

namespace lockstep::openai {
namespace {

// The max number of names in a header: clients and proxies limit its size.
constexpr size_t kMaxNames = 64;
constexpr size_t kMaxNameBytes = 64;
constexpr size_t kMaxLogged = 4096;  // For all clients together.

// The name in the form that a header's value allows: shortened, with "?" in place of each character
// that is not allowed.
std::string header_name(std::string name) {
  name.resize(std::min(name.size(), kMaxNameBytes));
  std::ranges::replace_if(
      name, [](char c) { return c <= ' ' || c > '~' || c == ','; }, '?');
  return name.empty() ? "?" : name;
}

// A client without an API key is identified by its host without the port: each of its connections
// has another port.
std::string client_of(const http::Exchange& exchange) {
  const std::string& client = exchange.client();
  return client == exchange.request().peer ? client.substr(0, client.rfind(':')) : client;
}

}  // namespace

absl::Status UnknownFields::set_mode(const std::string& mode) {
  if (mode != "pass" && mode != "error") {
    return invalid_argument("--unknown-fields {}: must be pass or error", printable(mode));
  }
  refuses_ = mode == "error";
  return absl::OkStatus();
}

absl::StatusOr<std::string> UnknownFields::take(const http::Exchange& exchange,
                                                const std::vector<std::string>& names) {
  if (names.empty()) return "";
  count_ += static_cast<int64_t>(names.size());
  const auto refusal_of = [&](size_t index, const std::string& text) {
    const std::string name = printable(names[index].substr(0, kMaxNameBytes));
    return refusal(name, text);
  };
  if (refuses_) return refusal_of(0, "this server has no such field (--unknown-fields error)");
  if (names.size() > kMaxNames) {
    return refusal_of(kMaxNames, fmt::format("a request must have at most {} unknown fields, found "
                                             "{}; send fewer",
                                             kMaxNames, names.size()));
  }
  const std::string client = client_of(exchange);
  std::string value;
  for (const std::string& sent : names) {
    const std::string name = header_name(sent);
    value += (value.empty() ? "" : ", ") + name;
    if (!is_new(client, name)) continue;
    log_fields("ignored an unknown field",
               {{"client", client}, {"endpoint", exchange.request().path}, {"field", name}});
  }
  return value;
}

bool UnknownFields::is_new(const std::string& client, const std::string& name) {
  const MutexLock lock(&mutex_);
  return logged_.size() < kMaxLogged && logged_.emplace(client, name).second;
}

}  // namespace lockstep::openai
