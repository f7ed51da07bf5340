// SPDX-License-Identifier: Apache-2.0
// A server's address.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace lockstep {

struct Url {
  std::string host;  // IPv6 addresses have no brackets.
  std::string port;
  std::string path;  // Before the interface's own paths: "/v1".
  bool tls = false;

  std::string authority() const;  // For the header Host.
  std::string text() const { return (tls ? "https://" : "http://") + authority() + path; }
};

// "http://HOST[:PORT][/PATH]", or https; the default port is 80 or 443 and the default path "/v1".
// `flag` names the text in errors.
absl::StatusOr<Url> parse_url(std::string_view flag, std::string_view text);

}  // namespace lockstep
