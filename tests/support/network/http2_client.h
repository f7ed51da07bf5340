// SPDX-License-Identifier: Apache-2.0
// A client of HTTP/2 over a socket, whose flow-control windows a test controls.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "tests/support/network/http2.h"
#include "tests/support/network/socket.h"

struct nghttp2_session;

namespace lockstep::testing {

struct Http2Answer {
  int status = 0;  // 0: no head arrived.
  std::map<std::string, std::string> headers;
  std::string body;
  std::map<std::string, std::string> trailers;
  bool is_whole = false;          // The end of the answer arrived.
  std::optional<uint32_t> reset;  // The code with which the stream was closed before its end.
};

// Only one thread may use it. It sends at once, and reads only in its constructor and in methods
// that wait.
class Http2Client {
 public:
  // Waits for the server's SETTINGS. `window`: the bytes that the server may send on each stream.
  // If it is not the default, the server may also send only 65,535 bytes on the whole connection.
  // After these bytes, only open_windows() lets it send more.
  explicit Http2Client(const std::string& address, uint32_t window = 1 << 30);
  ~Http2Client();
  Http2Client(const Http2Client&) = delete;
  Http2Client& operator=(const Http2Client&) = delete;

  // get() and post() begin a stream and return its id. Without `is_last` the body continues with
  // send_body().
  int32_t get(const std::string& path, const http2::Headers& headers = {});
  int32_t post(const std::string& path, std::string_view body, bool is_last = true,
               const http2::Headers& headers = {});
  void send_body(int32_t stream, std::string_view bytes, bool is_last);
  void reset(int32_t stream);
  // From now on the server may send up to 1 GiB.
  void open_windows();

  // Waits for the end of the stream, or of the connection.
  Http2Answer wait(int32_t stream);
  // Waits until the condition holds; false if the connection ended first.
  template <typename Condition>
  bool read_until(const Condition& condition) {
    while (!condition()) {
      if (!read()) return condition();
    }
    return true;
  }
  // Waits until the server has closed the connection.
  void wait_until_closed();
  // The part of the answer that has been read.
  const Http2Answer& answer(int32_t stream) { return streams_[stream].answer; }
  int pings() const { return pings_; }                // The number of PINGs from the server.
  bool is_going_away() const { return going_away_; }  // The server sent GOAWAY.

 private:
  friend struct Http2ClientCallbacks;
  struct Stream {
    Http2Answer answer;
    std::string out;  // Body bytes to send, beginning at sent.
    size_t sent = 0;
    bool out_ends = false;
    bool is_closed = false;
  };

  int32_t begin(const std::string& method, const std::string& path, const http2::Headers& headers);
  bool read();
  void flush();

  Socket socket_;
  nghttp2_session* session_ = nullptr;
  std::map<int32_t, Stream> streams_;
  int pings_ = 0;
  bool has_settings_ = false;  // The server's SETTINGS arrived.
  bool going_away_ = false;
};

}  // namespace lockstep::testing
