// SPDX-License-Identifier: Apache-2.0
// A client's view of HTTP/1.1 over a socket, for tests that send what no library sends.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "tests/support/network/socket.h"

namespace lockstep::testing {

struct HttpAnswer {
  int status = 0;  // 0: the connection ended before the head was complete.
  std::map<std::string, std::string> headers;  // Names are in lower case.
  std::string body;                            // Without the lines of chunks.
  bool whole = false;                          // All of the body arrived.
};

// Only one thread may use it.
class HttpClient {
 public:
  explicit HttpClient(const std::string& address);

  const Socket& socket() const { return socket_; }
  bool send(std::string_view bytes) const { return socket_.send(bytes); }
  // Waits for the next answer. `no_body`: the request was a HEAD.
  HttpAnswer read(bool no_body = false);
  HttpAnswer get(const std::string& path);
  HttpAnswer post(const std::string& path, const std::string& body);
  // Reads until the text has arrived, and removes it and everything before it. False: the
  // connection ended first.
  bool read_until(std::string_view text);
  // Whether the server closes without sending another byte.
  bool ends() { return received_.empty() && socket_.is_closed_by_peer(); }

 private:
  bool more();  // Waits for bytes; false at the end.
  std::string take(size_t bytes);
  bool read_chunks(std::string* body);

  Socket socket_;
  std::string received_;
};

// A request: "GET /path HTTP/1.1", Host, `lines` (each with its CR LF), Content-Length if there is
// a body, and the body.
std::string http_request(const std::string& method, const std::string& path,
                         const std::string& lines = "", const std::string& body = "");

}  // namespace lockstep::testing
