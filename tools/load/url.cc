// SPDX-License-Identifier: Apache-2.0
#include "tools/load/url.h"

#include <algorithm>

#include "base/sockets/address.h"

namespace lockstep {

std::string Url::authority() const { return join_address(host, port); }

absl::StatusOr<Url> parse_url(std::string_view flag, std::string_view text) {
  const absl::Status refusal = invalid_argument(
      "{}: must be http://HOST:PORT or https://HOST:PORT, found {}", flag, printable(text));
  const bool tls = text.starts_with("https://");
  // Printable ASCII without blanks: it is written into a request's head.
  const auto belongs = [](char c) { return c > ' ' && c <= '~' && c != '?' && c != '#'; };
  if ((!tls && !text.starts_with("http://")) || !std::ranges::all_of(text, belongs)) return refusal;
  const std::string_view rest = text.substr(tls ? 8 : 7);
  const size_t slash = std::min(rest.find('/'), rest.size());
  std::string address(rest.substr(0, slash)), path(rest.substr(slash));
  const bool has_port = address.find(':') != address.npos && !address.ends_with(']');
  if (!has_port) address += tls ? ":443" : ":80";
  absl::StatusOr<HostAndPort> parts = split_address(address);
  if (!parts.ok() || parts->host.empty() || std::stoi(parts->port) == 0 ||
      parts->host.find_first_of("@[]") != std::string::npos) {
    return refusal;
  }
  while (path.ends_with('/')) path.pop_back();
  if (path.empty()) path = "/v1";
  return Url{.host = std::move(parts->host),
             .port = std::move(parts->port),
             .path = std::move(path),
             .tls = tls};
}

}  // namespace lockstep
