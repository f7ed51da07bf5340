// SPDX-License-Identifier: Apache-2.0
#include "tests/support/network/http_client.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <cctype>

namespace lockstep::testing {
namespace {

std::map<std::string, std::string> headers_of(std::string_view head) {
  std::map<std::string, std::string> headers;
  while (!head.empty()) {
    const size_t end = head.find("\r\n");
    const size_t colon = head.find(": ");
    std::string name(head.substr(0, colon));
    std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::tolower(c); });
    headers[name] = head.substr(colon + 2, end - colon - 2);
    head.remove_prefix(end + 2);
  }
  return headers;
}

}  // namespace

// Without Nagle's algorithm, pieces arrive as they are sent.
HttpClient::HttpClient(const std::string& address) : socket_(address) {
  const int yes = 1;
  setsockopt(socket_.descriptor(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
}

bool HttpClient::more() {
  const std::string bytes = socket_.receive();
  received_ += bytes;
  return !bytes.empty();
}

std::string HttpClient::take(size_t bytes) {
  std::string taken = received_.substr(0, bytes);
  received_.erase(0, bytes);
  return taken;
}

bool HttpClient::read_until(std::string_view text) {
  size_t at = 0;
  while ((at = received_.find(text)) == std::string::npos) {
    if (!more()) return false;
  }
  take(at + text.size());
  return true;
}

bool HttpClient::read_chunks(std::string* body) {
  while (true) {
    size_t end = 0;
    while ((end = received_.find("\r\n")) == std::string::npos) {
      if (!more()) return false;
    }
    const size_t size = std::stoul(take(end + 2), nullptr, 16);
    while (received_.size() < size + 2) {
      if (!more()) return false;
    }
    *body += take(size);
    if (take(2) != "\r\n") return false;
    if (size == 0) return true;
  }
}

HttpAnswer HttpClient::read(bool no_body) {
  HttpAnswer answer;
  size_t end = 0;
  while ((end = received_.find("\r\n\r\n")) == std::string::npos) {
    if (!more()) return answer;
  }
  const std::string head = take(end + 4);
  const size_t line = head.find("\r\n");
  answer.status = std::stoi(head.substr(9, 3));
  answer.headers = headers_of(std::string_view(head).substr(line + 2, end - line));
  if (answer.headers.contains("transfer-encoding")) {
    answer.whole = no_body || read_chunks(&answer.body);
  } else if (answer.headers.contains("content-length")) {
    const size_t size = no_body ? 0 : std::stoul(answer.headers["content-length"]);
    while (received_.size() < size && more()) {
    }
    answer.whole = received_.size() >= size;
    answer.body = take(size);
  } else if (answer.status != 204 && !no_body) {
    while (more()) {
    }
    answer.body = take(received_.size());
    answer.whole = true;
  } else {
    answer.whole = true;
  }
  return answer;
}

HttpAnswer HttpClient::get(const std::string& path) {
  send(http_request("GET", path));
  return read();
}

HttpAnswer HttpClient::post(const std::string& path, const std::string& body) {
  send(http_request("POST", path, "", body));
  return read();
}

std::string http_request(const std::string& method, const std::string& path,
                         const std::string& lines, const std::string& body) {
  const std::string length =
      body.empty() ? "" : "Content-Length: " + std::to_string(body.size()) + "\r\n";
  return method + " " + path + " HTTP/1.1\r\nHost: localhost\r\n" + lines + length + "\r\n" + body;
}

}  // namespace lockstep::testing
