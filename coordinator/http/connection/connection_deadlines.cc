// SPDX-License-Identifier: Apache-2.0
// A connection's deadlines, and the bytes that fill its silence.
#include "coordinator/http/connection/connection.h"
#include "coordinator/http/response_writer.h"

namespace lockstep::http {
namespace {

constexpr std::chrono::milliseconds kProbe{1'000};  // Between checks whether the client is gone.

}  // namespace

void Connection::tick(Clock::time_point now) {
  if (now >= write_deadline_) {
    channel_.reset_on_close();
    return close();
  }
  if (now >= deadline_) {
    const bool half_read = mode_ == Mode::kReading && reading_ != RequestReader::State::kIdle;
    if (!half_read) return close();
    return refuse({.status = 408, .code = "timeout", .message = "the request took too long"});
  }
  // A relay in between may accept the first probe although the client is gone: more are sent.
  const Clock::duration silence = peer_ended_ ? std::min(limits_.silence, kProbe) : limits_.silence;
  if (now - last_write_ < silence) return;
  if (mode_ == Mode::kStreaming) fill_silence();
  if (mode_ == Mode::kAnswering && peer_ended_ && out_.empty()) say_continue();
}

void Connection::fill_silence() {
  if (source_ == nullptr || !out_.empty()) return;
  const std::string_view bytes = source_->keep_alive();
  if (bytes.empty()) return;
  if (chunked_) {
    ChunkWriter chunk(&out_);
    out_ += bytes;
    chunk.end();
  } else {
    out_ += bytes;
  }
  flush();
}

}  // namespace lockstep::http
