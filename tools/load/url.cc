// SPDX-License-Identifier: Apache-2.0
#include "tools/load/url.h"

#include <algorithm>
#include <charconv>
#include <cstdint>

#include "base/sockets/address.h"

namespace lockstep {
namespace {

bool is_port(std::string_view text) {
  uint16_t port = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  return error == std::errc() && stop == text.data() + text.size() && port > 0;
}

// Printable ASCII without blanks: it is written into a request's head.
bool is_plain(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return c > ' ' && c <= '~'; });
}

}  // namespace

std::string Url::authority() const { return join_address(host, port); }

absl::StatusOr<Url> parse_url(std::string_view flag, std::string_view text) {
  const auto refuse = [&] {
    return invalid_argument("{} {}: wanted http://HOST:PORT or https://HOST:PORT", flag,
                            printable(text));
  };
  const bool tls = text.starts_with("https://");
  if ((!tls && !text.starts_with("http://")) || !is_plain(text)) return refuse();
  std::string_view rest = text.substr(text.find("//") + 2);
  const size_t slash = std::min(rest.find('/'), rest.size());
  Url url{.port = tls ? "443" : "80", .path = std::string(rest.substr(slash)), .tls = tls};
  rest = rest.substr(0, slash);
  const size_t bracket = rest.find(']');
  const size_t colon = rest.find(':', bracket == rest.npos ? 0 : bracket);
  if (colon != rest.npos) url.port = rest.substr(colon + 1);
  url.host = rest.substr(0, colon);
  if (bracket != rest.npos) {
    if (!url.host.starts_with('[') || !url.host.ends_with(']')) return refuse();
    url.host = url.host.substr(1, url.host.size() - 2);
  }
  while (url.path.ends_with('/')) url.path.pop_back();
  if (url.path.empty()) url.path = "/v1";
  if (url.host.empty() || url.host.find_first_of("@?#[]") != url.host.npos || !is_port(url.port) ||
      url.path.find_first_of("?#") != url.path.npos) {
    return refuse();
  }
  return url;
}

}  // namespace lockstep
