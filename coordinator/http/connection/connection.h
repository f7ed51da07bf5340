// SPDX-License-Identifier: Apache-2.0
// One connection: reads requests one after the other, hands each to the handler, writes its answer.
// It always listens to the client, so that one that is gone is noticed at once. All of it runs on
// its IoThread. Private to this folder.
#pragma once

#include <boost/asio/posix/stream_descriptor.hpp>
#include <memory>
#include <optional>
#include <string>

#include "base/tls/channel.h"
#include "coordinator/http/connection/io_thread.h"
#include "coordinator/http/connection/pending_exchange.h"
#include "coordinator/http/request_reader.h"

namespace lockstep::http {

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  // Owns the descriptor from start() on. `network`: that it comes from.
  Connection(IoThread* thread, int descriptor, std::string network);

  const std::string& network() const { return network_; }

  void start(int descriptor);
  // Goes on with the handshake, at its turn (IoThread::await_handshake()).
  void shake_hands();
  // Looks at the deadlines.
  void tick(Clock::time_point now);
  void drain();
  // Since when it has waited for the end of a request's head. Nothing: that is there.
  std::optional<Clock::time_point> idle_since() const;
  // At once: its exchange's client is gone. Without effect a second time.
  void close();

  // What became of its exchange.
  void respond(std::shared_ptr<PendingExchange> exchange, const Response& response);
  void stream(std::shared_ptr<PendingExchange> exchange, const Response& head,
              std::unique_ptr<BodySource> source);
  void pump();     // The source may have something.
  void abandon();  // It will not be answered.

 private:
  enum class Mode {
    kReading,    // A request, or nothing.
    kAnswering,  // Until the handler says something.
    kWriting,    // An answer of known length.
    kStreaming,
    kLingering,  // All is said; the client closes.
    kClosed,
  };

  void wait_readable();
  void wait_writable();
  void receive();
  void read_within_memory();
  void read_rounds();
  void discard();
  void on_end_of_input(Channel::Outcome outcome);
  void probe();
  void fill_silence();
  void say_continue();
  void advance();
  void account();
  bool has_room_for(size_t answer_bytes, const Request& request);
  Response refusal_of(const Refusal& refusal) const;
  void hand_over();
  void refuse(const Refusal& refusal);
  void begin_answer(std::shared_ptr<PendingExchange> exchange, const Response& head, bool streamed);
  bool flush();
  void on_written();
  void append_piece();
  void finish_answer();
  void settle();
  void linger();
  void set_deadline(Clock::duration time) { deadline_ = Clock::now() + time; }

  IoThread* const thread_;
  const std::string network_;
  const Limits& limits_;
  boost::asio::posix::stream_descriptor socket_;
  Channel channel_;
  RequestReader reader_;
  RequestReader::State reading_ = RequestReader::State::kIdle;  // As of the last look.
  Mode mode_ = Mode::kReading;
  HeldBytes::Share received_;
  HeldBytes::Share unsent_;  // A whole answer's bytes.

  std::weak_ptr<PendingExchange> waiting_;     // Until it is answered.
  std::shared_ptr<PendingExchange> exchange_;  // While its answer is written.
  std::unique_ptr<BodySource> source_;         // Until its end.
  bool was_answered_ = false;                  // It had a request, and waits for another one.
  bool owes_answer_ = false;                   // Counted in ServerState::answers.
  bool is_head_ = false;                       // Asked for by HEAD: the answer has no body.
  bool is_http_1_1_ = true;                    // The reader may be at the next request by now.
  bool chunked_ = false;
  bool close_after_ = false;
  bool peer_ended_ = false;

  std::string out_;  // To be sent, from sent_ on.
  size_t sent_ = 0;
  bool read_armed_ = false;
  bool write_armed_ = false;
  bool read_wants_write_ = false;  // TLS has something to say before it reads on.
  Clock::time_point deadline_ = Clock::time_point::max();        // Of what is read.
  Clock::time_point write_deadline_ = Clock::time_point::max();  // While out_ waits.
  Clock::time_point last_write_;
  Clock::time_point idle_since_ = Clock::now();
};

}  // namespace lockstep::http
