// SPDX-License-Identifier: Apache-2.0
// The interface of a connection to its IoThread, implemented for each protocol. Private to this
// folder.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>

#include "coordinator/http/connection/write_turn.h"
#include "coordinator/http/exchange.h"

namespace lockstep::http {

using Clock = std::chrono::steady_clock;
inline constexpr Clock::time_point kNever = Clock::time_point::max();

// Used only by its IoThread.
class IoConnection {
 public:
  // `network`: the network of the client.
  explicit IoConnection(std::string network) : network_(std::move(network)) {}
  virtual ~IoConnection() = default;
  IoConnection(const IoConnection&) = delete;
  IoConnection& operator=(const IoConnection&) = delete;

  const std::string& network() const { return network_; }
  bool is_first_turn() { return std::exchange(is_first_turn_, false); }  // True once.
  // Its index among the connections of its thread, which sets it.
  size_t index() const { return index_; }
  void set_index(size_t index) { index_ = index; }
  // The state of IoThread::write_in_turn().
  struct WriteState {
    bool is_awaiting = false;  // It waits for its next turn.
    bool was_long = false;     // Its last turn was long, so it waits for the next one.
  };
  WriteState& write_state() { return write_state_; }

  // Owns the descriptor from here on.
  virtual void start(int descriptor) = 0;
  // Continues the work that waited for a turn: IoThread::await_turn(), write_in_turn().
  virtual void take_turn() = 0;
  virtual void take_write_turn() = 0;
  // Writes until the turn ends. False: it ended before all was written. May close the connection.
  virtual bool write_pieces(WriteTurn* turn) = 0;
  // Checks the deadlines.
  virtual void tick(Clock::time_point now) = 0;
  virtual void drain() = 0;
  // Whether its client has proved who it is: Exchange::keep_connection().
  virtual bool is_kept() const { return false; }
  // Whether it may be closed for a newer one. HTTP/1.1: it waits for a request, or for the rest of
  // a head. HTTP/2: it is not kept.
  virtual bool is_closable() const = 0;
  // Closes at once and reports to each exchange that its client is gone. Does nothing the second
  // time.
  virtual void close() = 0;

 private:
  const std::string network_;
  bool is_first_turn_ = true;
  size_t index_ = 0;
  WriteState write_state_;
};

class PendingExchange;

// Writes the answer to one request: a connection of HTTP/1.1, or a stream of HTTP/2. Used only by
// its IoThread.
class Answerer {
 public:
  virtual ~Answerer() = default;

  virtual void respond(std::shared_ptr<PendingExchange> exchange, Response response) = 0;
  virtual void stream(std::shared_ptr<PendingExchange> exchange, const Response& head,
                      std::unique_ptr<BodySource> source) = 0;
  virtual void pump() = 0;     // The source may have bytes to read.
  virtual void abandon() = 0;  // The exchange will not be answered.
  virtual void keep_connection() {}
};

}  // namespace lockstep::http
