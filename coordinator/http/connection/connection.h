// SPDX-License-Identifier: Apache-2.0
// A connection of HTTP/1.1: reads requests one after the other, gives each to the handler, and
// writes its answer. It watches the socket while it answers, too, so it notices at once that the
// client closes. Runs only on its IoThread. Private to this folder.
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

class Connection final : public IoConnection,
                         public Answerer,
                         public std::enable_shared_from_this<Connection> {
 public:
  Connection(IoThread* thread, int descriptor, std::string network);

  void start(int descriptor) override;
  void take_turn() override;  // Continues the handshake.
  void take_write_turn() override { thread_->write_now(shared_from_this()); }
  bool write_pieces(WriteTurn* turn) override;
  void tick(Clock::time_point now) override;
  void drain() override;
  bool is_closable() const override;
  void close() override;

  // The exchange posts these calls to the I/O thread.
  void respond(std::shared_ptr<PendingExchange> exchange, Response response) override;
  void stream(std::shared_ptr<PendingExchange> exchange, const Response& head,
              std::unique_ptr<BodySource> source) override;
  void pump() override { thread_->write_in_turn(shared_from_this()); }
  void abandon() override;

 private:
  enum class Mode {
    kReading,    // A request is read, or awaited.
    kAnswering,  // The handler has not answered yet.
    kWriting,    // An answer of known length is written.
    kStreaming,
    kLingering,  // All is sent; the client should close.
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
  const Limits& limits_;
  boost::asio::posix::stream_descriptor socket_;
  Channel channel_;
  RequestReader reader_;
  RequestReader::State reading_ = RequestReader::State::kIdle;  // The state at the last check.
  Mode mode_ = Mode::kReading;
  BufferedBytes::Share received_;
  BufferedBytes::Share unsent_;  // A large answer's bytes, until the client has taken all of them.

  std::weak_ptr<PendingExchange> waiting_;     // Set until the exchange is answered.
  std::shared_ptr<PendingExchange> exchange_;  // Set while its answer is written.
  std::unique_ptr<BodySource> source_;         // Set until it ends.
  bool was_answered_ = false;                  // At least one request was answered.
  bool owes_answer_ = false;                   // Counted in ServerState::answers.
  bool is_head_ = false;                       // The request was HEAD: the answer has no body.
  bool is_http_1_1_ = true;  // A copy, because the reader may be at the next request already.
  bool chunked_ = false;
  bool close_after_ = false;
  bool peer_ended_ = false;

  std::string out_;  // Bytes to be sent, beginning at sent_.
  size_t sent_ = 0;
  bool read_armed_ = false;
  bool write_armed_ = false;
  bool read_wants_write_ = false;                          // TLS must write before it can read on.
  Clock::time_point deadline_ = Clock::time_point::max();  // For what the client must send next.
  Clock::time_point write_deadline_ = Clock::time_point::max();  // Set while out_ waits.
  Clock::time_point last_write_;
};

}  // namespace lockstep::http
