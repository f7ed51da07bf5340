// SPDX-License-Identifier: Apache-2.0
// Converts a connection's bytes to requests. Uses no socket and no clock: the same bytes give the
// same requests, however they are split.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "coordinator/http/head.h"

namespace lockstep::http {

struct ReadLimits {
  // The maximum of the request line and headers together. In a chunked body it also limits each
  // line with a chunk's size, and all trailers together.
  size_t header_bytes = 16 << 10;
  size_t body_bytes = 4 << 20;
};

// Checks each head by head.h before Beast's parser gets it. For one thread.
class RequestReader {
 public:
  enum class State {
    kIdle,     // No byte of a request yet.
    kHeader,   // Inside the head.
    kBody,     // Inside the body.
    kWhole,    // take() returns the request.
    kRefused,  // Permanent: refusal() says why.
  };
  // Each request begins as a copy of `blank`, which has the fields that the connection knows.
  explicit RequestReader(const ReadLimits& limits, Request blank = {});
  ~RequestReader();

  // Appends these bytes and reads on. In kWhole the bytes are only stored, in kRefused dropped.
  State feed(std::string_view bytes);
  State state() const { return state_; }
  // Only in kBody: the request without its body.
  const Request& head() const;
  // Only in kBody: refuses the request if its body has more bytes, or will have more.
  State bound_body(size_t max_bytes);
  // True if the caller must send "100 Continue": once per request that expects it.
  bool take_continue();
  // Only in kWhole. The next feed(), which may be without bytes, begins the next request.
  Request take();
  // For the last request read: whether the connection stays open for another one, and whether the
  // answer may be sent in chunks.
  bool keeps_alive() const { return keeps_alive_; }
  bool is_http_1_1() const { return framing_.http_1_1; }
  // Only in kRefused.
  const Refusal& refusal() const { return refusal_; }
  // The Origin of the request that is being read or refused; "" if there is none, or before the end
  // of its head.
  const std::string& origin() const { return origin_; }
  // Frees all bytes and stays in kRefused.
  void drop();
  // bytes(): about the memory held. bytes_ahead(): in kWhole, the bytes of later requests.
  size_t bytes() const;
  size_t bytes_ahead() const { return buffer_.size(); }

 private:
  class Parser;
  void begin();
  void read_head();
  void finish_head(std::string_view head);
  std::optional<Refusal> parse_body();
  void read_body();
  void refuse(Refusal refusal);

  const ReadLimits limits_;
  const Request blank_;
  State state_ = State::kIdle;
  std::string buffer_;    // Received bytes that are not parsed yet.
  size_t looked_at_ = 0;  // Bytes of buffer_ already searched for the end of the head.
  std::unique_ptr<Parser> parser_;
  Framing framing_;
  size_t max_body_bytes_ = 0;  // The bound of the request that is being read.
  bool continue_wanted_ = false;
  bool keeps_alive_ = false;
  Request request_;
  Refusal refusal_;
  std::string origin_;
};

}  // namespace lockstep::http
