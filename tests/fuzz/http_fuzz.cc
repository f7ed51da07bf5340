// SPDX-License-Identifier: Apache-2.0
// Bytes of a connection give the same requests and refusals wherever they are cut. The first byte
// of an input chooses the cut; the others are the client's bytes.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "coordinator/http/request_reader.h"

namespace {

using lockstep::http::Request;
using lockstep::http::RequestReader;

constexpr lockstep::http::ReadLimits kLimits = {.header_bytes = 512, .body_bytes = 256};

void check_request(const Request& request) {
  LOCKSTEP_CHECK(!request.method.empty());
  LOCKSTEP_CHECK(request.path.starts_with('/') || request.path == "*");
  LOCKSTEP_CHECK(request.path.find('\0') == std::string::npos);
  LOCKSTEP_CHECK(request.body.size() <= kLimits.body_bytes);
  size_t bytes = 0;
  for (const auto& [name, value] : request.headers) {
    LOCKSTEP_CHECK(!name.empty());
    LOCKSTEP_CHECK(value.find_first_of(std::string_view("\r\n\0", 3)) == std::string::npos);
    bytes += name.size() + value.size();
  }
  LOCKSTEP_CHECK(bytes <= kLimits.header_bytes);
}

// One line per request or refusal.
std::vector<std::string> read(std::string_view bytes, size_t piece) {
  RequestReader reader(kLimits);
  std::vector<std::string> all;
  size_t largest = 0;
  while (!bytes.empty() && reader.state() != RequestReader::State::kRefused) {
    reader.feed(bytes.substr(0, piece));
    largest = std::max(largest, std::min(piece, bytes.size()));
    bytes.remove_prefix(std::min(piece, bytes.size()));
    piece = piece * 5 % 97 + 1;
    while (reader.state() == RequestReader::State::kWhole) {
      const Request request = reader.take();
      check_request(request);
      all.push_back(request.method + request.path + "?" + request.query + request.body);
      reader.feed({});
    }
  }
  if (reader.state() == RequestReader::State::kRefused) {
    const auto& refusal = reader.refusal();
    LOCKSTEP_CHECK(refusal.status >= 400 && refusal.status < 600);
    LOCKSTEP_CHECK(refusal.message.find('\n') == std::string::npos);
    all.push_back(std::to_string(refusal.status));
  } else {
    // Unread bytes stay within the limits plus the bytes that arrived at once.
    LOCKSTEP_CHECK(reader.bytes() <=
                   4 * (kLimits.header_bytes + kLimits.body_bytes) + 256 + 2 * largest);
  }
  return all;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  LOCKSTEP_CHECK(read(bytes, bytes.size() + 1) == read(bytes, data[0] % 96 + 1));
  return 0;
}
