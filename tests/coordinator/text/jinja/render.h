// SPDX-License-Identifier: Apache-2.0
// Renders a template for a test.
#pragma once

#include <string>
#include <string_view>

#include "coordinator/text/jinja/template.h"
#include "gtest/gtest.h"

namespace lockstep::jinja {

// Saturday, the 4th of July 2026, 13:05:09.
inline std::tm test_time() {
  return {.tm_sec = 9,
          .tm_min = 5,
          .tm_hour = 13,
          .tm_mday = 4,
          .tm_mon = 6,
          .tm_year = 126,
          .tm_wday = 6,
          .tm_yday = 184};
}

inline bool all_from_request(std::string_view, std::string_view) { return true; }

// Renders with the members of a JSON object as variables, all of which came from the request.
inline absl::StatusOr<MarkedText> try_render(std::string_view source,
                                             const OrderedJson& variables = OrderedJson::object(),
                                             const Limits& limits = {}) {
  ASSIGN_OR_RETURN(const Template parsed, Template::parse(source, limits));
  std::vector<Variable> all;
  for (const auto& [name, value] : variables.items())
    all.push_back({name, &value, all_from_request});
  return parsed.render(all, test_time());
}

// The text, or the error with "error: " before it.
inline std::string render(std::string_view source,
                          const OrderedJson& variables = OrderedJson::object(),
                          const Limits& limits = {}) {
  const auto text = try_render(source, variables, limits);
  return text.ok() ? text->bytes : "error: " + message_of(text.status());
}

}  // namespace lockstep::jinja
