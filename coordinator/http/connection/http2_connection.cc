// SPDX-License-Identifier: Apache-2.0
#include "coordinator/http/connection/http2_connection.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <utility>

#include "base/sockets/address.h"
#include "base/system/clock.h"
#include "base/system/out_of_memory.h"
#include "base/tls/tls.h"

namespace lockstep::http {
namespace {

using Socket = boost::asio::posix::stream_descriptor;

constexpr size_t kTurnBytes = 16 << 10;  // The maximum read in one turn.
constexpr size_t kStepBytes = 128;       // The time is checked after this many bytes.
constexpr int64_t kTurnNs = 200'000;     // The processor time that ends a turn of tiny frames.
constexpr size_t kOutBytes = 64 << 10;   // Given to the socket at once.
// While more frames than this wait for the socket, nothing is read. A frame has about 300 bytes.
constexpr size_t kMaxQueued = 64;
constexpr uint32_t kStreamWindow = 256 << 10;
constexpr int32_t kConnectionWindow = 1 << 20;

// Above these limits nghttp2 ends the connection.
constexpr size_t kMaxAcks = 1000;           // PING and SETTINGS that wait for their answers.
constexpr uint64_t kResetBurst = 4096;      // Streams that the client resets at once,
constexpr uint64_t kResetsPerSecond = 256;  // and per second after that.
// If more frames than this wait for the socket, feed() ends the connection: nghttp2 does not bound
// some kinds of frames, such as resets of refused streams.
constexpr size_t kMaxFrames = 4096;

// Whether ALPN chose a protocol: HTTP/2 over TLS requires this.
bool has_protocol(const SSL* tls) {
  const unsigned char* name = nullptr;
  unsigned size = 0;
  SSL_get0_alpn_selected(tls, &name, &size);
  return size > 0;
}

std::string_view view(const uint8_t* bytes, size_t size) {
  return {reinterpret_cast<const char*>(bytes), size};
}

}  // namespace

// nghttp2 is C: no exception may pass through it.
struct Http2Callbacks {
  template <typename Work>
  static int guarded(Work work) {
    const absl::Status done = within_memory([&] { return work(), absl::OkStatus(); });
    return done.ok() ? 0 : NGHTTP2_ERR_CALLBACK_FAILURE;
  }
  static Http2Connection& of(void* connection) {
    return *static_cast<Http2Connection*>(connection);
  }

  static int on_begin_headers(nghttp2_session* /*session*/, const nghttp2_frame* frame,
                              void* connection) {
    if (frame->headers.cat != NGHTTP2_HCAT_REQUEST) return 0;
    if (!of(connection).may_begin_stream(frame->hd.stream_id)) {
      return NGHTTP2_ERR_CALLBACK_FAILURE;
    }
    return guarded([&] { of(connection).begin_stream(frame->hd.stream_id); });
  }
  static int on_header(nghttp2_session* /*session*/, const nghttp2_frame* frame,
                       const uint8_t* name, size_t name_bytes, const uint8_t* value,
                       size_t value_bytes, uint8_t /*flags*/, void* connection) {
    Http2Stream* const stream = of(connection).find(frame->hd.stream_id);
    if (stream == nullptr) return 0;
    if (!stream->count_header(name_bytes + value_bytes)) return NGHTTP2_ERR_CALLBACK_FAILURE;
    if (frame->headers.cat != NGHTTP2_HCAT_REQUEST) return 0;
    return guarded([&] { stream->add_header(view(name, name_bytes), view(value, value_bytes)); });
  }
  static int on_frame(nghttp2_session* /*session*/, const nghttp2_frame* frame, void* connection) {
    if (frame->hd.type == NGHTTP2_SETTINGS) of(connection).deadline_ = kNever;
    if (frame->hd.type == NGHTTP2_PING && (frame->hd.flags & NGHTTP2_FLAG_ACK) != 0) {
      of(connection).end_drain();
    }
    if (frame->hd.type != NGHTTP2_HEADERS && frame->hd.type != NGHTTP2_DATA) return 0;
    Http2Stream* const stream = of(connection).find(frame->hd.stream_id);
    if (stream == nullptr) return 0;
    const bool is_last = (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0;
    const bool is_head =
        frame->hd.type == NGHTTP2_HEADERS && frame->headers.cat == NGHTTP2_HCAT_REQUEST;
    return guarded([&] {
      if (is_head) {
        stream->end_head(is_last);
        if (of(connection).server().draining) of(connection).begin_drain();
      } else if (is_last) {
        stream->end_body();
      }
    });
  }
  static int on_data(nghttp2_session* /*session*/, uint8_t /*flags*/, int32_t id,
                     const uint8_t* bytes, size_t size, void* connection) {
    Http2Stream* const stream = of(connection).find(id);
    if (stream == nullptr) return 0;
    return guarded([&] { stream->add_body(view(bytes, size)); });
  }
  static int on_sent(nghttp2_session* /*session*/, const nghttp2_frame* frame, void* connection) {
    const bool is_last = (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0 &&
                         (frame->hd.type == NGHTTP2_HEADERS || frame->hd.type == NGHTTP2_DATA);
    Http2Stream* const stream = is_last ? of(connection).find(frame->hd.stream_id) : nullptr;
    if (stream == nullptr) return 0;
    return guarded([&] { stream->on_end_sent(); });
  }
  static int on_close(nghttp2_session* /*session*/, int32_t id, uint32_t /*code*/,
                      void* connection) {
    return guarded([&] { of(connection).end_stream(id); });
  }

  static nghttp2_session_callbacks* all() {
    static nghttp2_session_callbacks* const callbacks = [] {
      nghttp2_session_callbacks* made = nullptr;
      if (nghttp2_session_callbacks_new(&made) != 0) throw std::bad_alloc();
      nghttp2_session_callbacks_set_on_begin_headers_callback(made, on_begin_headers);
      nghttp2_session_callbacks_set_on_header_callback(made, on_header);
      nghttp2_session_callbacks_set_on_frame_recv_callback(made, on_frame);
      nghttp2_session_callbacks_set_on_data_chunk_recv_callback(made, on_data);
      nghttp2_session_callbacks_set_on_frame_send_callback(made, on_sent);
      nghttp2_session_callbacks_set_on_stream_close_callback(made, on_close);
      return made;
    }();
    return callbacks;
  }
};

Http2Connection::Http2Connection(IoThread* thread, int descriptor, std::string network)
    : IoConnection(std::move(network)),
      thread_(thread),
      limits_(thread->server().limits),
      socket_(thread->context()),
      tls_(thread->server().open_tls(descriptor)),
      channel_(descriptor, tls_),
      blank_{.peer = peer_name(descriptor), .on_loopback = is_on_loopback(descriptor)},
      last_read_(Clock::now()),
      deadline_(last_read_ + limits_.header),
      proof_deadline_(limits_.unproven.has_value() ? last_read_ + limits_.unproven->time : kNever),
      idle_since_(last_read_) {
  set_socket_options(descriptor);
}

Http2Connection::~Http2Connection() { nghttp2_session_del(session_); }

bool Http2Connection::open_session() {
  nghttp2_option* options = nullptr;
  if (nghttp2_option_new(&options) != 0) return false;
  nghttp2_option_set_no_closed_streams(options, 1);
  nghttp2_option_set_max_outbound_ack(options, kMaxAcks);
  nghttp2_option_set_stream_reset_rate_limit(options, kResetBurst, kResetsPerSecond);
  const int made = nghttp2_session_server_new2(&session_, Http2Callbacks::all(), this, options);
  nghttp2_option_del(options);
  const nghttp2_settings_entry settings[] = {
      {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, static_cast<uint32_t>(limits_.max_streams)},
      {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, kStreamWindow},
      {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, static_cast<uint32_t>(limits_.read.header_bytes)},
      {NGHTTP2_SETTINGS_NO_RFC7540_PRIORITIES, 1}};
  return made == 0 &&
         nghttp2_submit_settings(session_, NGHTTP2_FLAG_NONE, settings, std::size(settings)) == 0 &&
         nghttp2_session_set_local_window_size(session_, NGHTTP2_FLAG_NONE, 0, kConnectionWindow) ==
             0;
}

void Http2Connection::start(int descriptor) {
  boost::system::error_code error;
  if (socket_.assign(descriptor, error); error) {  // The system lacks resources for epoll.
    ::close(descriptor);
    return close();
  }
  // Without memory for TLS the connection ends: its bytes must not be read as plain text.
  if (channel_.is_tls() != (server().tls != nullptr) || !open_session()) return close();
  if (!channel_.is_tls()) flush();  // A client may wait for our SETTINGS.
  wait_readable();
}

void Http2Connection::keep() {
  if (std::exchange(is_kept_, true)) return;
  proof_deadline_ = kNever;
  server().connections.keep(network());
}

// A client without a request so far may still send one.
void Http2Connection::drain() {
  if (is_closed_ || nghttp2_session_get_last_proc_stream_id(session_) == 0) return;
  begin_drain();
  flush();
}

// The client opens no more streams after it has read the notice. Streams that it opened before are
// still answered: it has opened all of them when it answers the PING.
void Http2Connection::begin_drain() {
  if (std::exchange(is_draining_, true)) return;
  nghttp2_submit_shutdown_notice(session_);
  nghttp2_submit_ping(session_, NGHTTP2_FLAG_NONE, nullptr);
}

// nghttp2 ends the connection after the last stream.
void Http2Connection::end_drain() {
  if (!is_draining_ || std::exchange(is_drained_, true)) return;
  nghttp2_submit_goaway(session_, NGHTTP2_FLAG_NONE,
                        nghttp2_session_get_last_proc_stream_id(session_), NGHTTP2_NO_ERROR,
                        nullptr, 0);
}

void Http2Connection::close() {
  if (is_closed_) return;
  is_closed_ = true;
  boost::system::error_code ignored;
  socket_.close(ignored);
  // Closing a stream may release the last owner of this connection.
  const auto self = weak_from_this().lock();
  const auto streams = std::move(streams_);
  streams_.clear();
  thread_->forget(this);
  for (const auto& [id, stream] : streams) stream->close();
}

// ---- Streams ----

Http2Stream* Http2Connection::find(int32_t stream) {
  const auto found = streams_.find(stream);
  return found == streams_.end() ? nullptr : found->second.get();
}

// A client's streams have the numbers 1, 3, 5 and so on.
bool Http2Connection::may_begin_stream(int32_t stream) const {
  return !is_bounded() || stream < 2 * limits_.unproven->requests;
}

void Http2Connection::begin_stream(int32_t stream) {
  streams_.emplace(stream, std::make_shared<Http2Stream>(this, stream, blank_));
  receiving_.emplace(stream, Clock::now() + limits_.body);
}

void Http2Connection::end_stream(int32_t stream) {
  const auto found = streams_.find(stream);
  if (found == streams_.end()) return;
  const std::shared_ptr<Http2Stream> ended = std::move(found->second);
  streams_.erase(found);
  receiving_.erase(stream);
  sending_.erase(stream);
  if (streams_.empty()) idle_since_ = Clock::now();
  ended->close();
}

// ---- Reading ----

void Http2Connection::wait_readable() {
  if (read_armed_ || is_closed_) return;
  read_armed_ = true;
  socket_.async_wait(Socket::wait_read, [self = shared_from_this()](const auto& error) {
    self->read_armed_ = false;
    if (!error) self->is_kept_ ? self->take_turn() : self->await_turn();
  });
}

void Http2Connection::await_turn() {
  if (turn_awaited_ || is_closed_) return;
  turn_awaited_ = true;
  if (!is_kept_) return thread_->await_turn(shared_from_this());
  boost::asio::post(thread_->context(), [self = shared_from_this()] { self->take_turn(); });
}

void Http2Connection::take_turn() {
  turn_awaited_ = false;
  if (is_closed_) return;
  if (channel_.is_handshaking() && channel_.is_abandoned()) return close();
  const auto read = [this] { return read_turn(), absl::OkStatus(); };
  if (!within_memory(read).ok()) return close();
  if (!is_closed_) flush();
}

// Gives nghttp2 the bytes that the last turn left, or, if it left none, reads once.
void Http2Connection::read_turn() {
  if (must_write_first()) {
    reads_after_write_ = true;
    return;
  }
  if (in_.empty()) {
    std::string& scratch = thread_->scratch();
    const auto [outcome, bytes] = channel_.read(scratch.data(), kTurnBytes);
    if (outcome == Channel::Outcome::kWantRead) return wait_readable();
    if (outcome == Channel::Outcome::kWantWrite) {
      read_wants_write_ = true;
      return wait_writable();
    }
    if (outcome != Channel::Outcome::kDone) {
      // A client that hangs up is not an error of TLS.
      if (!is_shaken_ && ERR_peek_error() != 0) server().log_failed(blank_.peer, take_tls_error());
      return close();
    }
    if (!std::exchange(is_shaken_, true) && tls_ != nullptr && !has_protocol(tls_.get())) {
      server().log_failed(blank_.peer, "the client offers no protocol by ALPN; offer h2");
      return close();
    }
    last_read_ = Clock::now();
    was_pinged_ = false;
    if (!feed({scratch.data(), bytes})) return close();
  } else {
    const std::string left = std::exchange(in_, {});
    if (!feed(left)) return close();
  }
  // TLS may have more that the socket does not show.
  in_.empty() && !channel_.is_tls() ? wait_readable() : await_turn();
}

// Whether reading must wait until the client has taken answers. Each frame of the client may cause
// an answer, and nghttp2 itself bounds only the answers to PING and SETTINGS.
bool Http2Connection::must_write_first() const {
  return write_armed_ && nghttp2_session_get_outbound_queue_size(session_) > kMaxQueued;
}

// Gives the bytes to nghttp2 until the turn ends; in_ gets the rest. False: the connection must
// end.
bool Http2Connection::feed(std::string_view bytes) {
  const int64_t end = is_kept_ ? INT64_MAX : thread_time_ns() + kTurnNs;
  while (!bytes.empty()) {
    const std::string_view step = bytes.substr(0, is_kept_ ? bytes.size() : kStepBytes);
    frame_bytes_ += step.size();
    if (is_bounded() && frame_bytes_ > limits_.unproven->frame_bytes) return false;
    const ssize_t read = nghttp2_session_mem_recv(
        session_, reinterpret_cast<const uint8_t*>(step.data()), step.size());
    if (read < 0 || nghttp2_session_get_outbound_queue_size(session_) > kMaxFrames) return false;
    bytes.remove_prefix(step.size());
    if ((!is_kept_ && thread_time_ns() >= end) || must_write_first()) break;
  }
  in_ = bytes;
  return true;
}

// ---- Writing ----

void Http2Connection::wait_writable() {
  if (write_armed_ || is_closed_) return;
  write_armed_ = true;
  if (!out_.empty() && write_deadline_ == kNever) write_deadline_ = Clock::now() + limits_.write;
  socket_.async_wait(Socket::wait_write, [self = shared_from_this()](const auto& error) {
    self->write_armed_ = false;
    if (error) return;
    if (std::exchange(self->read_wants_write_, false)) self->await_turn();
    self->flush();
    if (!self->must_write_first() && std::exchange(self->reads_after_write_, false)) {
      self->await_turn();
    }
  });
}

// Asks nghttp2 for bytes to send. False: the connection must end.
bool Http2Connection::fill() {
  out_.clear();
  sent_ = 0;
  while (out_.size() < kOutBytes) {
    const uint8_t* bytes = nullptr;
    const ssize_t size = nghttp2_session_mem_send(session_, &bytes);
    if (size < 0) return false;
    if (size == 0) break;
    out_.append(view(bytes, static_cast<size_t>(size)));
  }
  return true;
}

bool Http2Connection::write_pieces(WriteTurn* turn) {
  if (is_closed_ || write_armed_ || (channel_.is_tls() && channel_.is_handshaking())) return true;
  while (turn->goes_on()) {
    if (sent_ == out_.size()) {
      bool goes_on = false;
      if (!within_memory([&] { return goes_on = fill(), absl::OkStatus(); }).ok() || !goes_on) {
        close();
        return true;
      }
      if (out_.empty()) {
        std::string().swap(out_);  // Idle connections keep no memory.
        const bool is_over =
            nghttp2_session_want_read(session_) == 0 && nghttp2_session_want_write(session_) == 0;
        if (is_over) close();
        return true;
      }
    }
    const auto [outcome, bytes] = channel_.write(std::string_view(out_).substr(sent_));
    if (outcome == Channel::Outcome::kWantWrite) wait_writable();
    if (outcome != Channel::Outcome::kDone && outcome != Channel::Outcome::kWantWrite) close();
    if (outcome != Channel::Outcome::kDone) return true;
    sent_ += bytes;
    write_deadline_ = kNever;
  }
  return false;
}

// ---- Deadlines ----

void Http2Connection::tick(Clock::time_point now) {
  if (now >= write_deadline_) {
    channel_.reset_on_close();
    return close();
  }
  if (now >= std::min(deadline_, proof_deadline_)) return close();
  while (!receiving_.empty() && now >= receiving_.begin()->second) {
    const int32_t late = receiving_.begin()->first;
    receiving_.erase(receiving_.begin());
    if (Http2Stream* const stream = find(late); stream != nullptr) stream->end_late();
  }
  for (const auto& [stream, deadline] : sending_) {
    if (now < deadline) continue;
    nghttp2_submit_rst_stream(session_, NGHTTP2_FLAG_NONE, stream, NGHTTP2_ENHANCE_YOUR_CALM);
  }
  if (streams_.empty() && now >= idle_since_ + limits_.idle) {
    nghttp2_session_terminate_session(session_, NGHTTP2_NO_ERROR);
  }
  check_silence(now);
  flush();
}

// A client that waits for its turn is not silent.
void Http2Connection::check_silence(Clock::time_point now) {
  if (turn_awaited_ || now - last_read_ < limits_.ping) return;
  if (now - last_read_ >= limits_.lost) return close();
  if (was_pinged_) return;
  was_pinged_ = true;
  nghttp2_submit_ping(session_, NGHTTP2_FLAG_NONE, nullptr);
}

}  // namespace lockstep::http
