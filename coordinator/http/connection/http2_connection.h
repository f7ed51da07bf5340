// SPDX-License-Identifier: Apache-2.0
// A connection of HTTP/2 (RFC 9113), whose frames nghttp2 reads and writes. A client may send
// frames without limit. So until a client has proved who it is, its connection is read only in
// turns, which alternate between the networks of clients (FairTurns). Private to this folder.
#pragma once

#include <nghttp2/nghttp2.h>

#include <boost/asio/posix/stream_descriptor.hpp>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/tls/channel.h"
#include "coordinator/http/connection/http2_stream.h"
#include "coordinator/http/connection/io_thread.h"

namespace lockstep::http {

class Http2Connection final : public IoConnection,
                              public std::enable_shared_from_this<Http2Connection> {
 public:
  Http2Connection(IoThread* thread, int descriptor, std::string network);
  ~Http2Connection() override;

  void start(int descriptor) override;
  void take_turn() override;  // Continues the handshake, or reads.
  void take_write_turn() override { thread_->write_now(shared_from_this()); }
  bool write_pieces(WriteTurn* turn) override;
  void tick(Clock::time_point now) override;
  void drain() override;
  bool is_kept() const override { return is_kept_; }
  bool is_closable() const override { return !is_kept_; }
  void close() override;

  // ---- For its streams ----
  IoThread& thread() { return *thread_; }
  ServerState& server() { return thread_->server(); }
  nghttp2_session* session() { return session_; }
  void end_receiving(int32_t stream) { receiving_.erase(stream); }
  // The client gets a new deadline to take the next bytes of the stream's answer.
  void begin_sending(int32_t stream) { sending_[stream] = Clock::now() + limits_.write; }
  void end_sending(int32_t stream) { sending_.erase(stream); }
  void keep();  // See Exchange::keep_connection().
  // Sends what the session has to send. May close the connection.
  void flush() { thread_->write_in_turn(shared_from_this()); }

 private:
  friend struct Http2Callbacks;

  bool open_session();
  Http2Stream* find(int32_t stream);
  bool is_bounded() const { return limits_.unproven.has_value() && !is_kept_; }
  // False: the client has begun too many streams without a proof, and the connection must end.
  bool may_begin_stream(int32_t stream) const;
  void begin_stream(int32_t stream);
  void end_stream(int32_t stream);
  void begin_drain();
  void end_drain();

  void wait_readable();
  void wait_writable();
  void await_turn();
  void read_turn();
  bool must_write_first() const;
  bool feed(std::string_view bytes);
  void check_silence(Clock::time_point now);
  bool fill();

  IoThread* const thread_;
  const Limits& limits_;
  boost::asio::posix::stream_descriptor socket_;
  const std::shared_ptr<ssl_st> tls_;
  Channel channel_;
  Request blank_;  // Each request begins as a copy.
  nghttp2_session* session_ = nullptr;
  std::unordered_map<int32_t, std::shared_ptr<Http2Stream>> streams_;
  // The deadline of each stream whose request is not complete. Later streams have larger numbers.
  std::map<int32_t, Clock::time_point> receiving_;
  // The deadline of each stream that has bytes for the client to take.
  std::unordered_map<int32_t, Clock::time_point> sending_;

  std::string in_;          // Bytes that were read, and not given to nghttp2 yet.
  size_t frame_bytes_ = 0;  // The number of bytes given to nghttp2.
  std::string out_;         // Bytes to be sent, beginning at sent_.
  size_t sent_ = 0;
  bool is_closed_ = false;
  bool is_draining_ = false;  // The notice of a GOAWAY was submitted.
  bool is_drained_ = false;   // The last GOAWAY was submitted.
  bool is_kept_ = false;
  bool is_shaken_ = false;  // The handshake is done, and ALPN was checked.
  bool read_armed_ = false;
  bool write_armed_ = false;
  bool turn_awaited_ = false;
  bool reads_after_write_ = false;    // Reading waits until the client has taken answers.
  bool read_wants_write_ = false;     // TLS must write before it can read on.
  bool was_pinged_ = false;           // A PING was sent since the last bytes were read.
  Clock::time_point last_read_;       // At first: the connection's start.
  Clock::time_point deadline_;        // For the client's first SETTINGS.
  Clock::time_point proof_deadline_;  // For keep().
  Clock::time_point write_deadline_ = Clock::time_point::max();  // Set while out_ waits.
  Clock::time_point idle_since_;
};

}  // namespace lockstep::http
