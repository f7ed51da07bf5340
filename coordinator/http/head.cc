// SPDX-License-Identifier: Apache-2.0
#include "coordinator/http/head.h"

#include <algorithm>

#include "base/status.h"
#include "coordinator/http/ascii.h"

namespace lockstep::http {
namespace {

Refusal malformed(std::string message) {
  return {.status = 400, .code = "malformed_request", .message = std::move(message)};
}

// Whether a header's value or a request line may contain this character.
bool is_text(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte >= 0x20 ? byte != 0x7f : c == '\t';
}

std::optional<Refusal> check_version(std::string_view version) {
  if (version == "HTTP/1.1" || version == "HTTP/1.0") return std::nullopt;
  const bool other = version.size() == 8 && version.starts_with("HTTP/") && is_digit(version[5]) &&
                     version[6] == '.' && is_digit(version[7]);
  if (!other) return malformed("the request line: must be METHOD TARGET HTTP/1.1");
  return Refusal{.status = 505,
                 .code = "http_version_not_supported",
                 .message = fmt::format("the version: must be HTTP/1.1, found {}", version)};
}

std::optional<Refusal> check_request_line(std::string_view line) {
  const size_t first = line.find(' ');
  const size_t second = first == line.npos ? line.npos : line.find(' ', first + 1);
  if (second == line.npos || !is_token(line.substr(0, first)) || second == first + 1) {
    return malformed("the request line: must be METHOD TARGET HTTP/1.1");
  }
  for (const char c : line.substr(first + 1, second - first - 1)) {
    if (c <= ' ' || c > '~') return malformed("the request line: must have a target in ASCII");
  }
  return check_version(line.substr(second + 1));
}

std::optional<Refusal> check_header_line(std::string_view line) {
  if (line.starts_with(' ') || line.starts_with('\t')) return malformed("a header is folded");
  const size_t colon = line.find(':');
  if (colon == line.npos || !is_token(line.substr(0, colon))) {
    return malformed(fmt::format("a header: must be NAME: VALUE, found {}", printable(line)));
  }
  if (!std::ranges::all_of(line.substr(colon + 1), is_text)) {
    return malformed(
        fmt::format("header {}: must have no control character", printable(line.substr(0, colon))));
  }
  return std::nullopt;
}

// "example.com:8000", "[::1]", "127.0.0.1", "": no user, no path, no blank.
bool is_host(std::string_view text) {
  return std::ranges::all_of(text, [](char c) {
    return is_letter_or_digit(c) ||
           std::string_view("-._~%!$&'()*+,;=:[]").find(c) != std::string_view::npos;
  });
}

std::optional<int64_t> decimal(std::string_view text) {
  if (text.empty() || text.size() > 18 || !std::ranges::all_of(text, is_digit)) return {};
  int64_t value = 0;
  for (const char c : text) value = value * 10 + (c - '0');
  return value;
}

int hex_digit(char c) {
  if (is_digit(c)) return c - '0';
  const char lower = to_lower(c);
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

// Nothing: a `%` without two digits, or a NUL.
std::optional<std::string> percent_decoded(std::string_view text) {
  std::string decoded;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      decoded += text[i];
      continue;
    }
    if (i + 2 >= text.size()) return std::nullopt;
    const int high = hex_digit(text[i + 1]);
    const int low = hex_digit(text[i + 2]);
    if (high < 0 || low < 0 || high + low == 0) return std::nullopt;
    decoded += static_cast<char>(high * 16 + low);
    i += 2;
  }
  return decoded;
}

}  // namespace

std::optional<Refusal> check_lines(std::string_view head) {
  bool first = true;
  while (!head.empty()) {
    const size_t end = head.find("\r\n");
    const std::string_view line = head.substr(0, end);
    if (end == head.npos || line.find_first_of(std::string_view("\r\n\0", 3)) != line.npos) {
      return malformed("a line: must end with CR LF, and have no CR, LF or NUL inside");
    }
    head.remove_prefix(end + 2);
    if (line.empty() && head.empty() && !first) return std::nullopt;
    if (auto refusal = first ? check_request_line(line) : check_header_line(line)) return refusal;
    first = false;
  }
  return malformed("the head: must end with an empty line");
}

std::optional<Refusal> check_headers(const Headers& headers, int minor, size_t max_body_bytes,
                                     Framing* framing) {
  *framing = {.http_1_1 = minor == 1};
  int hosts = 0;
  int lengths = 0;
  int encodings = 0;
  for (const auto& [name, value] : headers) {
    if (equal_ignoring_case(name, "Host")) {
      ++hosts;
      if (!is_host(value))
        return malformed(fmt::format("Host {}: must be a host", printable(value)));
    } else if (equal_ignoring_case(name, "Content-Length")) {
      ++lengths;
      const std::optional<int64_t> length = decimal(value);
      if (!length)
        return malformed(
            fmt::format("Content-Length {}: must be a number of bytes", printable(value)));
      framing->content_length = *length;
    } else if (equal_ignoring_case(name, "Transfer-Encoding")) {
      ++encodings;
      framing->chunked = equal_ignoring_case(value, "chunked");
    } else if (equal_ignoring_case(name, "Content-Encoding")) {
      if (equal_ignoring_case(value, "identity")) continue;
      return Refusal{
          .status = 415,
          .code = "content_encoding_not_supported",
          .message = fmt::format("Content-Encoding {}: must be identity; send the body unencoded",
                                 printable(value)),
          .headers = {{"Accept-Encoding", "identity"}}};
    } else if (equal_ignoring_case(name, "Expect")) {
      framing->expects_continue = equal_ignoring_case(value, "100-continue");
      if (framing->expects_continue) continue;
      return Refusal{.status = 417,
                     .code = "expectation_failed",
                     .message = fmt::format("Expect {}: must be 100-continue", printable(value))};
    }
  }
  if (hosts > 1 || (hosts == 0 && minor == 1)) {
    return malformed(fmt::format("Host: must be one header, found {}", hosts));
  }
  if (lengths > 1) return malformed("more than one Content-Length");
  if (lengths > 0 && encodings > 0) return malformed("both Content-Length and Transfer-Encoding");
  if (encodings > 0 && minor == 0) return malformed("Transfer-Encoding in HTTP/1.0");
  if (encodings > 1 || (encodings == 1 && !framing->chunked)) {
    return Refusal{.status = 501,
                   .code = "transfer_encoding_not_supported",
                   .message = "Transfer-Encoding: must be only chunked"};
  }
  if (static_cast<uint64_t>(framing->content_length) > max_body_bytes) {
    return Refusal{.status = 413,
                   .code = "body_too_large",
                   .message = fmt::format("the body: must have up to {} bytes, found {}",
                                          max_body_bytes, framing->content_length)};
  }
  framing->expects_continue &= minor == 1 && (framing->chunked || framing->content_length > 0);
  return std::nullopt;
}

std::optional<Refusal> read_target(std::string_view method, std::string_view target,
                                   Request* request) {
  if (target == "*" && method == "OPTIONS") {
    request->path = "*";
    return std::nullopt;
  }
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (!equal_ignoring_case(target.substr(0, scheme.size()), scheme)) continue;
    target.remove_prefix(scheme.size());
    const size_t end = std::min(target.find_first_of("/?#"), target.size());
    if (end == 0 || !is_host(target.substr(0, end))) {
      return malformed("the target: must be http://HOST/PATH");
    }
    target.remove_prefix(end);
    if (!target.starts_with('/')) {  // "http://host" and "http://host?query".
      request->path = "/";
      if (target.starts_with('?')) request->query = std::string(target.substr(1));
      if (target.empty() || target.starts_with('?')) return std::nullopt;
    }
    break;
  }
  const size_t question = target.find('?');
  const std::optional<std::string> path = percent_decoded(target.substr(0, question));
  if (!target.starts_with('/') || target.find('#') != target.npos || !path) {
    return malformed(fmt::format("the target: must be /PATH?QUERY, found {}", printable(target)));
  }
  request->path = *path;
  if (question != target.npos) request->query = std::string(target.substr(question + 1));
  return std::nullopt;
}

}  // namespace lockstep::http
