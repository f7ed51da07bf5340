// SPDX-License-Identifier: Apache-2.0
#include "coordinator/http/response_writer.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <ctime>
#include <iterator>

#include "coordinator/http/ascii.h"

namespace lockstep::http {
namespace {

constexpr size_t kChunkDigits = 8;

const char* reason_of(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 204:
      return "No Content";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 409:
      return "Conflict";
    case 410:
      return "Gone";
    case 413:
      return "Content Too Large";
    case 417:
      return "Expectation Failed";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 500:
      return "Internal Server Error";
    case 501:
      return "Not Implemented";
    case 503:
      return "Service Unavailable";
    case 505:
      return "HTTP Version Not Supported";
    default:
      return "";  // Clients read the number.
  }
}

bool is_servers_own(const std::string& name) {
  for (const char* own : {"Content-Length", "Transfer-Encoding", "Connection", "Date"}) {
    if (equal_ignoring_case(name, own)) return true;
  }
  return false;
}

// A value may contain bytes of a request: they must not begin another header.
void append_line(std::string_view text, std::string* bytes) {
  for (const char c : text) *bytes += c == '\r' || c == '\n' || c == '\0' ? ' ' : c;
}

}  // namespace

void append_head(const Response& response, BodyKind kind, bool keep_alive, std::string* bytes) {
  const auto out = std::back_inserter(*bytes);
  fmt::format_to(out, "HTTP/1.1 {} {}\r\nDate: {:%a, %d %b %Y %H:%M:%S} GMT\r\n", response.status,
                 reason_of(response.status), fmt::gmtime(std::time(nullptr)));
  for (const auto& [name, value] : response.headers) {
    if (is_servers_own(name)) continue;
    append_line(name, bytes);
    *bytes += ": ";
    append_line(value, bytes);
    *bytes += "\r\n";
  }
  const bool has_length = response.status >= 200 && response.status != 204;
  if (kind == BodyKind::kChunks) *bytes += "Transfer-Encoding: chunked\r\n";
  if (kind <= BodyKind::kLength && has_length) {
    fmt::format_to(out, "Content-Length: {}\r\n", response.body.size());
  }
  if (!keep_alive) *bytes += "Connection: close\r\n";
  *bytes += "\r\n";
}

ChunkWriter::ChunkWriter(std::string* bytes) : bytes_(bytes), begin_(bytes->size()) {
  bytes->append(kChunkDigits, '0');  // The size, in base 16.
  *bytes += "\r\n";
}

bool ChunkWriter::end() {
  const size_t size = bytes_->size() - begin_ - kChunkDigits - 2;
  if (size == 0) {
    bytes_->resize(begin_);
    return false;
  }
  fmt::format_to_n(bytes_->begin() + static_cast<ptrdiff_t>(begin_), kChunkDigits, "{:08x}", size);
  *bytes_ += "\r\n";
  return true;
}

}  // namespace lockstep::http
