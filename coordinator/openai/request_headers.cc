// SPDX-License-Identifier: Apache-2.0
#include "coordinator/openai/request_headers.h"

#include <algorithm>
#include <string_view>

#include "absl/strings/match.h"
#include "coordinator/api/traceparent.h"
#include "coordinator/streams/resumable_index.h"

namespace lockstep::openai {

std::string traceparent_of(const http::Request& request) {
  const auto is_it = [](const auto& header) {
    return absl::EqualsIgnoreCase(header.first, "traceparent");
  };
  if (std::ranges::count_if(request.headers, is_it) != 1) return "";
  return lockstep::traceparent_of(request.header("traceparent"));
}

std::string id_of(const http::Request& request) {
  const std::string_view given = request.header("X-Request-Id");
  return check_resumable_id(given).ok() ? std::string(given) : "";
}

}  // namespace lockstep::openai
