// SPDX-License-Identifier: Apache-2.0
// The border between HTTP as bytes on sockets (server.h) and what is answered (routes): one request
// under way, and its answer, at once or piece by piece.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "coordinator/admission/pass.h"

namespace lockstep::http {

using Headers = std::vector<std::pair<std::string, std::string>>;

// A whole request, its body included, within the server's limits.
struct Request {
  std::string method;  // "POST"
  std::string path;    // "/v1/models": without the query, percent-decoded.
  std::string query;   // What follows the question mark, as sent.
  Headers headers;
  std::string body;
  std::string peer;         // "127.0.0.1:40123"
  bool on_loopback = true;  // It came to an address that only this machine reaches.

  // The first value of a header; its name in any case. Empty where there is none.
  std::string_view header(std::string_view name) const;
};

struct Response {
  int status = 200;
  Headers headers;  // Content-Type and the like; lengths and connection are the server's.
  std::string body;
};

inline constexpr size_t kPieceBytes = 64 << 10;

// Gives the pieces of an answer whose length is not known when it begins.
class BodySource {
 public:
  enum class State {
    kMore,  // There is more to come; Exchange::wake() says when.
    kEnd,   // This was the last piece.
  };
  // Goes away after kEnd, or as soon as the client is gone: that ends what it reads from.
  virtual ~BodySource() = default;
  // Appends what there is by now, about kPieceBytes at most. Called by an I/O thread, one at a
  // time, when all that it gave before was handed to the socket (so a client that reads slowly is a
  // source that is read slowly), and again until it appends nothing. Must not block.
  virtual State read(std::string* bytes) = 0;
  // What is sent where nothing was for Limits::silence, so that nobody between takes the connection
  // for dead. Empty: nothing.
  virtual std::string_view keep_alive() const { return {}; }
};

// Thread-safe. Whoever answers keeps it by a shared_ptr until it has called respond() or stream(),
// once. Dropping it unanswered closes the connection.
class Exchange {
 public:
  virtual ~Exchange() = default;

  virtual const Request& request() const = 0;
  // Gives back the memory of the body, which was read. Before the answer, by whoever gives it.
  virtual void drop_body() {}
  // Whom the request counts for: its peer, unless somebody in front of the handler knows better.
  virtual const std::string& client() const { return request().peer; }
  // While it is held and has not ended, the request counts as under way, whatever becomes of the
  // answer. May be null.
  virtual std::shared_ptr<Pass> pass() const { return nullptr; }

  virtual void respond(Response response) = 0;
  // Begins a chunked answer; `head` has no body.
  virtual void stream(Response head, std::unique_ptr<BodySource> source) = 0;
  // The source may have something. Any thread, any number of times; does not block. Without effect
  // before stream() and after the end.
  virtual void wake() = 0;
  // Does that for as long as the client is there, and keeps nothing alive: for whoever outlives the
  // exchange. Whoever stands in front of a handler may have wrapped the exchange in one of its own,
  // which is gone when the handler has returned.
  virtual std::function<void()> waker() = 0;
  // Called once, by an I/O thread, if the client goes away before it was answered in full; at once
  // if it has. Must not block.
  virtual void on_gone(std::function<void()> gone) = 0;
};

// Answers, or keeps the exchange and answers later from another thread. Called by an I/O thread;
// must not block, nor take longer than a moment.
using Handler = std::function<void(std::shared_ptr<Exchange>)>;

}  // namespace lockstep::http
