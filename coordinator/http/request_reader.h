// SPDX-License-Identifier: Apache-2.0
// A connection's bytes -> requests. No socket and no clock: the same bytes give the same requests,
// wherever they were cut.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "coordinator/http/head.h"

namespace lockstep::http {

struct ReadLimits {
  // Of the request line and headers. The same holds for what a chunked body has beside its content:
  // one line with a chunk's size, and all trailers.
  size_t header_bytes = 16 << 10;
  size_t body_bytes = 4 << 20;
};

// Beast's parser behind the checks of head.h. One thread.
class RequestReader {
 public:
  enum class State {
    kIdle,     // Nothing of a request yet.
    kHeader,   // Within its first part.
    kBody,     // Within its body.
    kWhole,    // take() gives it.
    kRefused,  // For good.
  };
  // Each request begins as `blank`: what its connection knows of it.
  explicit RequestReader(const ReadLimits& limits, Request blank = {});
  ~RequestReader();

  // Reads on with these bytes behind those that are left. In kWhole and kRefused they are only
  // kept, or dropped.
  State feed(std::string_view bytes);
  State state() const { return state_; }
  // In kBody: the request without its body.
  const Request& head() const;
  // True once per request that expects it: "100 Continue" is to be sent.
  bool take_continue();
  // In kWhole. What follows it is read by the next feed(), which may be of nothing.
  Request take();
  // Of the request that was read last: whether it asks for more on this connection, and whether it
  // may be answered in chunks.
  bool keeps_alive() const { return keeps_alive_; }
  bool is_http_1_1() const { return framing_.http_1_1; }
  // In kRefused.
  const Refusal& refusal() const { return refusal_; }
  // The Origin of the request that is being read or refused; "" without one, and before the end of
  // its head.
  const std::string& origin() const { return origin_; }
  // Lets go of what is held, for good: kRefused.
  void drop();
  // About what is held here, and of it what belongs to requests behind the one in kWhole.
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
  std::string buffer_;    // Received, and not parsed yet.
  size_t looked_at_ = 0;  // Of it, for the end of the head.
  std::unique_ptr<Parser> parser_;
  Framing framing_;
  bool continue_wanted_ = false;
  bool keeps_alive_ = false;
  Request request_;
  Refusal refusal_;
  std::string origin_;
};

}  // namespace lockstep::http
