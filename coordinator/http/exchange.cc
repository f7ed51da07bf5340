// SPDX-License-Identifier: Apache-2.0
#include "coordinator/http/exchange.h"

#include "coordinator/http/ascii.h"

namespace lockstep::http {

std::string_view Request::header(std::string_view name) const {
  for (const auto& [key, value] : headers) {
    if (equal_ignoring_case(key, name)) return value;
  }
  return {};
}

}  // namespace lockstep::http
