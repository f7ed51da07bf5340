// SPDX-License-Identifier: Apache-2.0
#include "coordinator/http/connection/connection.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/sockets/address.h"
#include "base/system/out_of_memory.h"
#include "coordinator/http/response_writer.h"

namespace lockstep::http {
namespace {

using Socket = boost::asio::posix::stream_descriptor;

constexpr char kContinue[] = "HTTP/1.1 100 Continue\r\n\r\n";
constexpr int kRounds = 8;                // Reads or pieces in a row; then others are served.
constexpr size_t kKeptBuffer = 32 << 10;  // Kept for the next answer; a larger buffer is freed.

}  // namespace

Connection::Connection(IoThread* thread, int descriptor, std::string network)
    : IoConnection(std::move(network)),
      thread_(thread),
      limits_(thread->server().limits),
      socket_(thread->context()),
      channel_(descriptor, thread->server().open_tls(descriptor)),
      reader_(limits_.read,
              {.peer = peer_name(descriptor), .on_loopback = is_on_loopback(descriptor)}),
      received_(&thread->server().received),
      unsent_(&thread->server().unsent) {
  set_socket_options(descriptor);
}

void Connection::start(int descriptor) {
  boost::system::error_code error;
  if (socket_.assign(descriptor, error); error) {  // The system lacks resources for epoll.
    ::close(descriptor);
    return close();
  }
  // Without memory for TLS the connection ends: its bytes must not be read as plain text.
  if (channel_.is_tls() != (thread_->server().tls != nullptr)) return close();
  set_deadline(limits_.header);
  wait_readable();
}

bool Connection::is_closable() const {
  return mode_ == Mode::kReading && reading_ != RequestReader::State::kBody;
}

void Connection::drain() {
  const bool is_idle = mode_ == Mode::kReading && reading_ == RequestReader::State::kIdle;
  if (!is_idle || !was_answered_) return;
  deadline_ = std::min(deadline_, Clock::now() + limits_.last_request);
}

void Connection::close() {
  if (mode_ == Mode::kClosed) return;
  mode_ = Mode::kClosed;
  settle();
  received_.hold(0);
  unsent_.hold(0);
  boost::system::error_code ignored;
  socket_.close(ignored);
  // Destroying the exchange and the source may release the last owner of this connection, so no
  // member is used after that.
  auto exchange = exchange_ != nullptr ? std::move(exchange_) : waiting_.lock();
  auto source = std::move(source_);
  thread_->forget(this);
  if (exchange != nullptr) exchange->lose();
}

// ---- Reading ----

void Connection::wait_readable() {
  if (read_armed_ || mode_ == Mode::kClosed) return;
  read_armed_ = true;
  socket_.async_wait(Socket::wait_read, [self = shared_from_this()](const auto& error) {
    self->read_armed_ = false;
    if (!error) self->receive();
  });
}

void Connection::receive() {
  if (channel_.is_handshaking()) return thread_->await_turn(shared_from_this());
  read_within_memory();
}

void Connection::take_turn() {
  if (mode_ == Mode::kClosed) return;
  channel_.is_abandoned() ? close() : read_within_memory();
}

void Connection::read_within_memory() {
  const auto read = [this] { return read_rounds(), absl::OkStatus(); };
  if (!within_memory(read).ok()) close();
}

void Connection::read_rounds() {
  std::string& scratch = thread_->scratch();
  for (int round = 0; round < kRounds; ++round) {
    if (mode_ == Mode::kLingering) return discard();
    if (mode_ == Mode::kClosed || peer_ended_) return;
    // Enough is read ahead: reading continues after this request is answered.
    if (mode_ != Mode::kReading && reader_.bytes_ahead() > limits_.pipelined_bytes) return;
    const auto [outcome, bytes] = channel_.read(scratch.data(), scratch.size());
    if (outcome == Channel::Outcome::kWantRead) return wait_readable();
    if (outcome == Channel::Outcome::kWantWrite) {
      read_wants_write_ = true;
      return wait_writable();
    }
    if (outcome != Channel::Outcome::kDone) return on_end_of_input(outcome);
    reader_.feed(std::string_view(scratch).substr(0, bytes));
    if (mode_ != Mode::kReading) continue;
    advance();
    // The loop ends here, so that an immediate answer is sent before an end of input is noticed.
    if (mode_ == Mode::kAnswering) return wait_readable();
  }
  boost::asio::post(thread_->context(), [self = shared_from_this()] { self->receive(); });
}

// The client has closed the connection, or has closed only its sending side and waits for its
// answer.
void Connection::on_end_of_input(Channel::Outcome outcome) {
  peer_ended_ = true;
  if (mode_ == Mode::kWriting) return;  // The rest of the answer shows which of the two it is.
  const bool may_be_probed =
      mode_ == Mode::kStreaming || (mode_ == Mode::kAnswering && is_http_1_1_);
  if (outcome != Channel::Outcome::kEnd || !may_be_probed) return close();
  probe();
}

// Finds out whether the client has closed: sends bytes that clients skip. A client that has closed
// resets the connection, which is an error of the socket.
void Connection::probe() {
  socket_.async_wait(Socket::wait_error, [self = shared_from_this()](const auto& error) {
    if (!error) self->close();
  });
  mode_ == Mode::kStreaming ? fill_silence() : say_continue();
}

void Connection::say_continue() {
  out_ += kContinue;
  flush();
}

// Acts on the bytes read so far.
void Connection::advance() {
  account();
  if (mode_ != Mode::kReading) return;
  const RequestReader::State before = std::exchange(reading_, reader_.state());
  switch (reading_) {
    case RequestReader::State::kIdle:
      return;
    case RequestReader::State::kHeader:
      if (before != reading_) set_deadline(limits_.header);
      return;
    case RequestReader::State::kBody:
      if (before != reading_) {
        set_deadline(limits_.body);
        const Admission admission = thread_->server().admit(reader_.head(), network());
        if (admission.refusal.has_value()) return refuse(*admission.refusal);
        if (reader_.bound_body(admission.max_body_bytes) == RequestReader::State::kRefused) {
          return refuse(reader_.refusal());
        }
        received_.belong_to(admission.client);
        account();
        if (mode_ != Mode::kReading) return;
      }
      if (reader_.take_continue()) {
        out_ += kContinue;
        flush();
      }
      return;
    case RequestReader::State::kWhole:
      return hand_over();
    case RequestReader::State::kRefused:
      return refuse(reader_.refusal());
  }
}

// A large answer counts as unsent until the client has taken all of it.
bool Connection::has_room_for(size_t answer_bytes, const Request& request) {
  if (answer_bytes <= ServerState::kSmallAnswer) return true;
  unsent_.belong_to(thread_->server().admit(request, network()).client);
  return thread_->server().has_room_for(answer_bytes, &unsent_);
}

void Connection::account() {
  const BufferedBytes::Sums buffered = received_.hold(static_cast<int64_t>(reader_.bytes()));
  if (!buffered.fit(limits_.all_body_bytes) && reader_.state() == RequestReader::State::kBody) {
    refuse(too_much_received(buffered.of_all > limits_.all_body_bytes));
  }
}

void Connection::hand_over() {
  mode_ = Mode::kAnswering;
  deadline_ = kNever;
  Request request = reader_.take();
  is_head_ = request.method == "HEAD";
  is_http_1_1_ = reader_.is_http_1_1();
  close_after_ = !reader_.keeps_alive();
  received_.belong_to("");  // The client of bytes that were read ahead is not known yet.
  account();
  ++thread_->server().answers;
  owes_answer_ = true;
  auto exchange =
      std::make_shared<PendingExchange>(std::move(request), weak_from_this(), thread_->mailbox());
  waiting_ = exchange;
  thread_->server().handler(std::move(exchange));
}

// ---- Answering ----

Response Connection::refusal_of(const Refusal& refusal) const {
  Response response = thread_->server().refusal(refusal);
  if (const PageHeaders& more = thread_->server().page_headers) {
    for (auto& header : more(reader_.origin())) response.headers.push_back(std::move(header));
  }
  return response;
}

void Connection::refuse(const Refusal& refusal) {
  if (mode_ != Mode::kReading) return;
  mode_ = Mode::kWriting;
  deadline_ = kNever;
  close_after_ = true;
  const Response response = refusal_of(refusal);
  append_head(response, BodyKind::kLength, /*keep_alive=*/false, &out_);
  out_ += response.body;
  reader_.drop();
  received_.hold(0);
  on_written();
}

void Connection::begin_answer(std::shared_ptr<PendingExchange> exchange, const Response& head,
                              bool streamed) {
  exchange_ = std::move(exchange);
  waiting_.reset();
  mode_ = streamed ? Mode::kStreaming : Mode::kWriting;
  chunked_ = streamed && is_http_1_1_;
  const BodyKind kind = !streamed  ? is_head_ ? BodyKind::kNone : BodyKind::kLength
                        : chunked_ ? BodyKind::kChunks
                                   : BodyKind::kUntilEnd;
  const bool is_last = peer_ended_ && reader_.bytes_ahead() == 0;
  close_after_ |= thread_->server().draining || is_last || kind == BodyKind::kUntilEnd;
  append_head(head, kind, !close_after_, &out_);
}

void Connection::respond(std::shared_ptr<PendingExchange> exchange, Response response) {
  if (mode_ != Mode::kAnswering) return;
  if (!has_room_for(response.body.size(), exchange->request())) {
    response = refusal_of(too_many_unread());
  }
  begin_answer(std::move(exchange), response, /*streamed=*/false);
  if (!is_head_) out_ += response.body;
  on_written();
}

void Connection::stream(std::shared_ptr<PendingExchange> exchange, const Response& head,
                        std::unique_ptr<BodySource> source) {
  if (mode_ != Mode::kAnswering) return;
  begin_answer(std::move(exchange), head, /*streamed=*/true);
  last_write_ = Clock::now();
  if (is_head_) {
    source.reset();
    mode_ = Mode::kWriting;
    return on_written();
  }
  source_ = std::move(source);
  pump();
}

void Connection::abandon() {
  if (mode_ == Mode::kAnswering) close();
}

bool Connection::write_pieces(WriteTurn* turn) {
  while (turn->goes_on()) {
    if (mode_ != Mode::kStreaming || write_armed_) return true;
    const size_t before = out_.size();
    append_piece();
    if (mode_ == Mode::kClosed) return true;
    if (source_ == nullptr) {  // The rest of the answer is known.
      mode_ = Mode::kWriting;
      on_written();
      return true;
    }
    const bool gave_something = out_.size() > before;
    if (!flush() || !gave_something) return true;
  }
  return false;
}

// Appends the bytes that the source has now.
void Connection::append_piece() {
  exchange_->clear_woken();
  BodySource::State state = BodySource::State::kMore;
  if (chunked_) {
    ChunkWriter chunk(&out_);
    state = source_->read(&out_);
    chunk.end();
  } else {
    state = source_->read(&out_);
  }
  // An event may have any size, and stays in out_ while the client reads slowly.
  if (!has_room_for(out_.size(), exchange_->request())) return close();
  if (state == BodySource::State::kMore) return;
  source_.reset();
  if (chunked_) out_ += kLastChunk;
}

// Returns whether the system has taken all of out_.
bool Connection::flush() {
  while (sent_ < out_.size()) {
    const auto [outcome, bytes] = channel_.write(std::string_view(out_).substr(sent_));
    if (outcome == Channel::Outcome::kWantWrite) {
      wait_writable();
      return false;
    }
    if (outcome != Channel::Outcome::kDone) {
      close();
      return false;
    }
    sent_ += bytes;
    last_write_ = Clock::now();
    write_deadline_ = kNever;
  }
  sent_ = 0;
  if (out_.size() > ServerState::kSmallAnswer) unsent_.hold(0);
  out_.clear();
  if (out_.capacity() > kKeptBuffer) out_.shrink_to_fit();
  return true;
}

void Connection::wait_writable() {
  if (write_armed_ || mode_ == Mode::kClosed) return;
  write_armed_ = true;
  if (!out_.empty() && write_deadline_ == kNever) write_deadline_ = Clock::now() + limits_.write;
  socket_.async_wait(Socket::wait_write, [self = shared_from_this()](const auto& error) {
    self->write_armed_ = false;
    if (error) return;
    if (std::exchange(self->read_wants_write_, false)) self->receive();
    self->on_written();
  });
}

// Writes the rest of out_, then ends the answer or reads more of it from the source.
void Connection::on_written() {
  if (mode_ == Mode::kClosed || !flush()) return;
  if (mode_ == Mode::kWriting) return finish_answer();
  if (mode_ == Mode::kStreaming) pump();
}

void Connection::finish_answer() {
  settle();
  unsent_.hold(0);
  if (exchange_ != nullptr) exchange_->finish();
  exchange_.reset();
  if (close_after_) return linger();
  was_answered_ = true;
  mode_ = Mode::kReading;
  reading_ = RequestReader::State::kIdle;
  // If a drain began after this answer's head, the client does not know that the connection will
  // close, and may send its next request already.
  set_deadline(thread_->server().draining ? limits_.last_request : limits_.idle);
  reader_.feed({});
  advance();
  // The client sends no more, and all its requests are answered.
  if (mode_ == Mode::kReading && peer_ended_) return close();
  wait_readable();
}

void Connection::settle() {
  if (std::exchange(owes_answer_, false)) --thread_->server().answers;
}

// Waits until the client closes: closing a socket with unread bytes would reset the connection, and
// the client might lose its answer.
void Connection::linger() {
  if (peer_ended_) return close();
  mode_ = Mode::kLingering;
  channel_.end_writing();
  set_deadline(limits_.linger);
  wait_readable();
}

void Connection::discard() {
  std::string& scratch = thread_->scratch();
  for (int round = 0; round < kRounds; ++round) {
    const Channel::Outcome outcome = channel_.read(scratch.data(), scratch.size()).outcome;
    if (outcome == Channel::Outcome::kDone) continue;
    return outcome == Channel::Outcome::kWantRead ? wait_readable() : close();
  }
  wait_readable();
}

}  // namespace lockstep::http
