// SPDX-License-Identifier: Apache-2.0
// The interface between HTTP on sockets (server.h) and the routes: one request that is running, and
// its answer, sent at once or piece by piece.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "coordinator/admission/permit.h"

namespace lockstep::http {

using Headers = std::vector<std::pair<std::string, std::string>>;

// A whole request with its body, within the server's limits.
struct Request {
  std::string method;  // "POST"
  std::string path;    // "/v1/models": without the query, percent-decoded.
  std::string query;   // The text after the question mark, as sent.
  Headers headers;
  std::string body;
  std::string peer;         // "127.0.0.1:40123"
  bool on_loopback = true;  // It was sent to an address that only this machine reaches.

  // The first value of a header; the case of the name does not matter. Empty if there is none.
  std::string_view header(std::string_view name) const;
};

struct Response {
  int status = 200;
  Headers headers;  // Content-Type and others; the server adds lengths and connection headers.
  std::string body;
  Headers trailers;  // Headers after the body, which only HTTP/2 sends.
};

inline constexpr size_t kPieceBytes = 64 << 10;

// Gives the pieces of an answer whose length is not known when it begins.
class BodySource {
 public:
  enum class State {
    kMore,  // More will follow; Exchange::wake() says when.
    kEnd,   // This was the last piece.
  };
  // A source is destroyed after kEnd, or as soon as the client is gone. Its destructor must end the
  // work that produces the bytes.
  virtual ~BodySource() = default;
  // Appends the available bytes, at most about kPieceBytes. Called whenever the socket has taken
  // all earlier bytes, so the source of a slow client is read slowly. After a call that appends
  // nothing, the next one follows wake(). One I/O thread at a time; must not block.
  virtual State read(std::string* bytes) = 0;
  // Bytes to send after a silence of Limits::silence, so that no proxy closes the connection as
  // dead. Empty: none.
  virtual std::string_view keep_alive() const { return {}; }
  // The headers after the last piece, which only HTTP/2 sends. Called after kEnd, or after is_cut()
  // returned true.
  virtual Headers trailers() const { return {}; }
  // Whether the answer ends now, without the bytes that the client has not taken. Only HTTP/2 asks:
  // after wake(), while the client's flow-control windows hold earlier pieces back.
  virtual bool is_cut() { return false; }
};

// Thread-safe. The code that answers keeps a shared_ptr until it has called either respond() or
// stream(), once. Dropping the exchange unanswered closes the connection (HTTP/2: the stream).
class Exchange {
 public:
  virtual ~Exchange() = default;

  virtual const Request& request() const = 0;
  // Frees the body. The code that answers may call it after it has read the body; respond() and
  // stream() free the body, too.
  virtual void drop_body() {}
  // The client whose limits the request counts against: its peer, unless code in front of the
  // handler names another one.
  virtual const std::string& client() const { return request().peer; }
  // The request counts as running until this permit's end() or destruction, whatever happens to the
  // answer. May be null.
  virtual std::shared_ptr<Permit> permit() const { return nullptr; }

  virtual void respond(Response response) = 0;
  // Begins a chunked answer; `head` has no body.
  virtual void stream(Response head, std::unique_ptr<BodySource> source) = 0;
  // Says that the source may have bytes to read. Any thread, any number of times; does not block.
  // Does nothing before stream() and after the end of the answer.
  virtual void wake() = 0;
  // A function that calls wake() as long as the server's exchange exists, and keeps nothing alive.
  // It is for objects that outlive the exchange. A weak_ptr would not do: code in front of a
  // handler may wrap the exchange in another one, which ends when the handler has returned.
  virtual std::function<void()> waker() = 0;
  // `gone` is called once, by an I/O thread, if the client closes before it has the whole answer;
  // at once if it has closed already. `gone` must not block.
  virtual void on_gone(std::function<void()> gone) = 0;
  // Only for a request whose body is streamed (Admission): an I/O thread calls the function with
  // each piece of the body, and with `is_last` at the body's end. The handler must set the function
  // before it returns.
  using Receive = std::function<void(std::string_view bytes, bool is_last)>;
  virtual void on_body(const Receive& /*receive*/) {}
  // Says that the client has proved who it is. Only for HTTP/2, and before the handler returns.
  // From now on the connection does not wait for its turn to be read. It is closed neither because
  // Limits::unproven is reached nor to make room for a newer connection.
  virtual void keep_connection() {}
};

// Answers, or keeps the exchange and answers later from another thread. Called by an I/O thread;
// must return quickly and not block.
using Handler = std::function<void(std::shared_ptr<Exchange>)>;

}  // namespace lockstep::http
