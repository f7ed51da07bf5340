// SPDX-License-Identifier: Apache-2.0
// Where a server is.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace lockstep {

struct Url {
  std::string host;  // Of IPv6 without brackets.
  std::string port;
  std::string path;  // Before the interface's own paths: "/v1".
  bool tls = false;

  std::string authority() const;  // As header Host wants it.
  std::string text() const { return (tls ? "https://" : "http://") + authority() + path; }
};

// "http://HOST[:PORT][/PATH]", or https; the port is 80 or 443 and the path "/v1" where there is
// none. `flag` names the text in errors.
absl::StatusOr<Url> parse_url(std::string_view flag, std::string_view text);

}  // namespace lockstep
