// SPDX-License-Identifier: Apache-2.0
#include "coordinator/api/traceparent.h"

#include <algorithm>

namespace lockstep {
namespace {

// "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
constexpr size_t kBytes = 55;
constexpr size_t kMaxBytes = 256;

bool is_hex(std::string_view text) {
  return text.find_first_not_of("0123456789abcdef") == text.npos;
}
bool is_zero(std::string_view text) { return text.find_first_not_of('0') == text.npos; }

}  // namespace

std::string traceparent_of(std::string_view value) {
  if (value.size() < kBytes || value.size() > kMaxBytes) return "";
  const std::string_view version = value.substr(0, 2), trace = value.substr(3, 32),
                         parent = value.substr(36, 16), flags = value.substr(53, 2),
                         rest = value.substr(kBytes);
  const bool dashes = value[2] == '-' && value[35] == '-' && value[52] == '-';
  const bool digits = is_hex(version) && is_hex(trace) && is_hex(parent) && is_hex(flags);
  if (!dashes || !digits || version == "ff" || is_zero(trace) || is_zero(parent)) return "";
  if (rest.empty()) return std::string(value);
  const bool later = version != "00" && rest[0] == '-' && std::ranges::all_of(rest, [](char c) {
                       return c == '-' || is_hex({&c, 1});
                     });
  return later ? std::string(value) : "";
}

}  // namespace lockstep
