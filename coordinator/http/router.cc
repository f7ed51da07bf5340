// SPDX-License-Identifier: Apache-2.0
#include "coordinator/http/router.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <string_view>

#include "base/status.h"

namespace lockstep::http {
namespace {

// Removes and returns the part up to the next slash, and removes the slash.
std::string_view take_segment(std::string_view* path) {
  const size_t end = std::min(path->find('/'), path->size());
  const std::string_view segment = path->substr(0, end);
  path->remove_prefix(std::min(end + 1, path->size()));
  return segment;
}

// Nothing: the path does not match.
std::optional<PathParameters> match(std::string_view pattern, std::string_view path) {
  if (std::ranges::count(pattern, '/') != std::ranges::count(path, '/')) return std::nullopt;
  PathParameters parameters;
  while (!pattern.empty() || !path.empty()) {
    const std::string_view wanted = take_segment(&pattern);
    const std::string_view found = take_segment(&path);
    if (wanted.starts_with('{') && !found.empty()) {
      parameters.emplace_back(wanted.substr(1, wanted.size() - 2), found);
    } else if (wanted != found) {
      return std::nullopt;
    }
  }
  return parameters;
}

// The forms of a path: without empty segments, and with or without /v1 in front.
std::vector<std::string> spellings(std::string_view path) {
  if (path == "*") return {"*"};
  constexpr std::string_view kVersion = "/v1/";
  std::string plain;
  while (!path.empty()) {
    const std::string_view segment = take_segment(&path);
    if (!segment.empty()) plain.append("/").append(segment);
  }
  if (plain.empty()) return {"/"};
  const bool has_version = plain.starts_with(kVersion);
  std::string other = has_version ? plain.substr(kVersion.size() - 1) : "/v1" + plain;
  return {std::move(plain), std::move(other)};
}

void allow(const std::string& method, std::string* methods) {
  for (const std::string& one : {method, std::string(method == "GET" ? "HEAD" : "")}) {
    if (!one.empty()) *methods += (methods->empty() ? "" : ", ") + one;
  }
}

}  // namespace

// "; there are /v1/models, ...": paths with the same first segment.
std::string Router::others_like(std::string_view path) const {
  const std::string_view folder = path.substr(0, path.find('/', 1) + 1);
  std::vector<std::string_view> paths;
  for (const Route& route : routes_) {
    if (folder.size() < 2 || !route.path.starts_with(folder)) continue;
    if (std::ranges::count(paths, route.path) == 0) paths.push_back(route.path);
  }
  return paths.empty() ? "" : fmt::format("; there are {}", fmt::join(paths, ", "));
}

void Router::operator()(std::shared_ptr<Exchange> exchange) const {
  const Request& request = exchange->request();
  const std::string& method = request.method == "HEAD" ? "GET" : request.method;
  std::string allowed;
  for (const std::string& path : spellings(request.path)) {
    for (const Route& route : routes_) {
      const auto parameters = match(route.path, path);
      if (!parameters && path != "*") continue;  // "OPTIONS *" asks for the server's methods.
      if (parameters && route.method == method) {
        return route.handler(std::move(exchange), *parameters);
      }
      if (allowed.find(route.method) == std::string::npos) allow(route.method, &allowed);
    }
  }
  if (allowed.empty()) {
    return exchange->respond(
        refusal_({.status = 404,
                  .code = "not_found",
                  .message = fmt::format("there is no path {}{}", printable(request.path),
                                         others_like(request.path))}));
  }
  allow("OPTIONS", &allowed);
  if (method == "OPTIONS") {
    return exchange->respond({.status = 204, .headers = {{"Allow", allowed}}});
  }
  exchange->respond(
      refusal_({.status = 405,
                .code = "method_not_allowed",
                .message = fmt::format("{} {}: the method must be {}", printable(request.method),
                                       printable(request.path), allowed),
                .headers = {{"Allow", allowed}}}));
}

}  // namespace lockstep::http
