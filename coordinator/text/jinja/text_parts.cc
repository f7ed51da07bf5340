// SPDX-License-Identifier: Apache-2.0
#include "coordinator/text/jinja/text_parts.h"

#include <numeric>

namespace lockstep::jinja {
namespace {

bool begins_code_point(char byte) { return (byte & 0xC0) != 0x80; }

}  // namespace

size_t byte_offset(const Text& text, int64_t code_point) {
  if (text.is_ascii()) return static_cast<size_t>(code_point);
  const std::string& bytes = text.bytes();
  size_t at = 0;
  for (int64_t left = code_point; at < bytes.size(); ++at) {
    if (begins_code_point(bytes[at]) && left-- == 0) break;
  }
  return at;
}

std::vector<size_t> byte_offsets(const Text& text) {
  const std::string& bytes = text.bytes();
  std::vector<size_t> offsets;
  offsets.reserve(static_cast<size_t>(text.length) + 1);
  for (size_t at = 0; at < bytes.size(); ++at) {
    if (begins_code_point(bytes[at])) offsets.push_back(at);
  }
  offsets.push_back(bytes.size());
  return offsets;
}

std::string_view clipped(std::string_view text, size_t bytes) {
  if (text.size() <= bytes) return text;
  while (bytes > 0 && !begins_code_point(text[bytes])) --bytes;
  return text.substr(0, bytes);
}

}  // namespace lockstep::jinja
