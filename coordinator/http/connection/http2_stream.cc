// SPDX-License-Identifier: Apache-2.0
#include "coordinator/http/connection/http2_stream.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "base/system/out_of_memory.h"
#include "coordinator/http/connection/http2_connection.h"

namespace lockstep::http {
namespace {

constexpr int64_t kStreamBytes = 2 << 10;  // The cost of a stream besides its head and body.
constexpr size_t kMaxHeads = 4;            // A head this many times the limit ends the connection.
constexpr size_t kHeaderOverhead = 32;     // The bytes to add per header: RFC 9113, 6.5.2.

// Headers in the form of nghttp2, which copies them. The result points into `headers`.
std::vector<nghttp2_nv> pairs_of(const Headers& headers) {
  std::vector<nghttp2_nv> pairs;
  pairs.reserve(headers.size());
  for (const auto& [name, value] : headers) {
    pairs.push_back({reinterpret_cast<uint8_t*>(const_cast<char*>(name.data())),
                     reinterpret_cast<uint8_t*>(const_cast<char*>(value.data())), name.size(),
                     value.size(), NGHTTP2_NV_FLAG_NONE});
  }
  return pairs;
}

// nghttp2 makes names lower case; line ends in a value become blanks, as in HTTP/1.1.
Headers head_of(const Response& response) {
  Headers head = {{":status", std::to_string(response.status)}};
  head.insert(head.end(), response.headers.begin(), response.headers.end());
  for (auto& [name, value] : head) {
    std::ranges::replace_if(
        value, [](char c) { return c == '\r' || c == '\n'; }, ' ');
  }
  return head;
}

ssize_t give_bytes(nghttp2_session* /*session*/, int32_t /*id*/, uint8_t* buffer, size_t size,
                   uint32_t* flags, nghttp2_data_source* source, void* /*connection*/) {
  ssize_t given = NGHTTP2_ERR_CALLBACK_FAILURE;  // Without memory the connection ends.
  within_memory([&] {
    given = static_cast<Http2Stream*>(source->ptr)->give(buffer, size, flags);
    return absl::OkStatus();
  }).IgnoreError();
  return given;
}

}  // namespace

Http2Stream::Http2Stream(Http2Connection* connection, int32_t id, Request blank)
    : connection_(connection),
      id_(id),
      request_(std::move(blank)),
      max_body_bytes_(connection->server().limits.read.body_bytes),
      received_(&connection->server().received),
      unsent_(&connection->server().unsent) {}

// ---- Receiving ----

bool Http2Stream::count_header(size_t bytes) {
  header_bytes_ += bytes + kHeaderOverhead;
  return header_bytes_ <= kMaxHeads * connection_->server().limits.read.header_bytes;
}

void Http2Stream::add_header(std::string_view name, std::string_view value) {
  if (header_bytes_ > connection_->server().limits.read.header_bytes) return;
  if (name == ":method") {
    request_.method = value;
  } else if (name == ":path") {
    const size_t question = value.find('?');
    request_.path = value.substr(0, question);
    if (question != std::string_view::npos) request_.query = value.substr(question + 1);
  } else if (name == ":authority") {
    request_.headers.emplace_back("host", value);
  } else if (!name.starts_with(':')) {
    request_.headers.emplace_back(name, value);
  }
}

void Http2Stream::end_head(bool is_last) {
  const size_t max = connection_->server().limits.read.header_bytes;
  if (header_bytes_ > max) {
    return refuse({.status = 431,
                   .code = "header_too_large",
                   .message = fmt::format("headers: must have at most {} bytes, found {}", max,
                                          header_bytes_)});
  }
  const Admission admission = connection_->server().admit(request_, connection_->network());
  if (admission.refusal.has_value()) return refuse(*admission.refusal);
  streams_body_ = admission.streams_body;
  has_endless_body_ = admission.has_endless_body;
  max_body_bytes_ = std::min(max_body_bytes_, admission.max_body_bytes);
  request_.headers.shrink_to_fit();
  received_.belong_to(admission.client);
  unsent_.belong_to(admission.client);
  account();
  if (mode_ != Mode::kReading) return;
  if (streams_body_) hand_over();
  if (is_last) end_body();
}

void Http2Stream::add_body(std::string_view bytes) {
  if (streams_body_) {
    if (const auto open = exchange()) open->receive(bytes, /*is_last=*/false);
    return;
  }
  if (mode_ != Mode::kReading) return;
  const size_t max = max_body_bytes_;
  if (request_.body.size() + bytes.size() > max) {
    return refuse(
        {.status = 413,
         .code = "body_too_large",
         .message = fmt::format("the body: must have at most {} bytes, found more", max)});
  }
  request_.body += bytes;
  account();
}

void Http2Stream::end_body() {
  request_ended_ = true;
  connection_->end_receiving(id_);
  if (mode_ == Mode::kReading) return hand_over();
  if (!streams_body_) return;
  if (const auto open = exchange()) open->receive({}, /*is_last=*/true);
}

void Http2Stream::end_late() {
  if (mode_ == Mode::kReading) {
    return refuse({.status = 408, .code = "timeout", .message = "the request took too long"});
  }
  nghttp2_submit_rst_stream(connection_->session(), NGHTTP2_FLAG_NONE, id_, NGHTTP2_CANCEL);
}

// Null: the code that answers has dropped it.
std::shared_ptr<PendingExchange> Http2Stream::exchange() const {
  return exchange_ != nullptr ? exchange_ : waiting_.lock();
}

// The memory of the stream and its head. Two strings and their allocations take less than twice the
// bytes that RFC 9113 counts for a header.
int64_t Http2Stream::base_bytes() const {
  return kStreamBytes + 2 * static_cast<int64_t>(header_bytes_);
}

// Counts the bytes held until the handler has the request.
void Http2Stream::account() {
  const auto body_bytes = static_cast<int64_t>(request_.body.capacity());
  const BufferedBytes::Sums sums = received_.hold(base_bytes() + body_bytes);
  const int64_t max = connection_->server().limits.all_body_bytes;
  if (!sums.fit(max)) refuse(too_much_received(sums.of_all > max));
}

void Http2Stream::hand_over() {
  mode_ = Mode::kAnswering;
  if (has_endless_body_) connection_->end_receiving(id_);
  // The code that answers counts the body.
  received_.hold(base_bytes());
  ++connection_->server().answers;
  owes_answer_ = true;
  auto exchange = std::make_shared<PendingExchange>(std::move(request_), weak_from_this(),
                                                    connection_->thread().mailbox());
  waiting_ = exchange;
  connection_->server().handler(std::move(exchange));
}

void Http2Stream::refuse(const Refusal& refusal) {
  if (mode_ != Mode::kReading) return;
  connection_->end_receiving(id_);
  std::string().swap(request_.body);
  received_.hold(0);
  write(connection_->server().refusal(refusal));
}

// ---- Answering ----

void Http2Stream::write(Response response) {
  out_ = std::move(response.body);
  trailers_ = std::move(response.trailers);
  begin(response, !out_.empty());
}

void Http2Stream::respond(std::shared_ptr<PendingExchange> exchange, Response response) {
  if (mode_ != Mode::kAnswering) return;
  exchange_ = std::move(exchange);
  waiting_.reset();
  const bool has_room = connection_->server().has_room_for(response.body.size(), &unsent_);
  write(has_room ? std::move(response) : connection_->server().refusal(too_many_unread()));
  connection_->flush();
}

void Http2Stream::stream(std::shared_ptr<PendingExchange> exchange, const Response& head,
                         std::unique_ptr<BodySource> source) {
  if (mode_ != Mode::kAnswering) return;
  exchange_ = std::move(exchange);
  waiting_.reset();
  source_ = std::move(source);
  exchange_->clear_woken();
  begin(head, /*has_body=*/true);
  connection_->flush();
  // An earlier wake() had no effect; the source may be cut already.
  if (!deferred_) pump();
}

// Without a body and trailers the head is the whole answer.
void Http2Stream::begin(const Response& head, bool has_body) {
  mode_ = Mode::kWriting;
  const Headers headers = head_of(head);
  const std::vector<nghttp2_nv> pairs = pairs_of(headers);
  const nghttp2_data_provider provider = {.source = {.ptr = this}, .read_callback = give_bytes};
  const bool is_whole = !has_body && trailers_.empty();
  nghttp2_submit_response(connection_->session(), id_, pairs.data(), pairs.size(),
                          is_whole ? nullptr : &provider);
  // The client's flow-control windows may be closed from the beginning: then nghttp2 does not call
  // give(), which would set the deadline.
  if (!is_whole) connection_->begin_sending(id_);
}

void Http2Stream::fetch() {
  out_.clear();
  sent_ = 0;
  unsent_.hold(0);
  exchange_->clear_woken();
  if (source_->read(&out_) == BodySource::State::kMore) return;
  trailers_ = source_->trailers();
  source_.reset();
}

ssize_t Http2Stream::give(uint8_t* buffer, size_t size, uint32_t* flags) {
  if (sent_ == out_.size() && source_ != nullptr) {
    fetch();
    // An event may have any size, and stays in out_ while the client reads slowly.
    if (!connection_->server().has_room_for(out_.size(), &unsent_)) {
      return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    }
  }
  const size_t bytes = std::min(size, out_.size() - sent_);
  std::memcpy(buffer, out_.data() + sent_, bytes);
  sent_ += bytes;
  if (sent_ == out_.size() && source_ == nullptr) {
    connection_->end_sending(id_);
    *flags |= NGHTTP2_DATA_FLAG_EOF;
    if (trailers_submitted_ || !trailers_.empty()) *flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
    submit_trailers();
  } else if (bytes == 0) {
    connection_->end_sending(id_);
    deferred_ = true;
    return NGHTTP2_ERR_DEFERRED;
  } else {
    connection_->begin_sending(id_);
  }
  return static_cast<ssize_t>(bytes);
}

void Http2Stream::submit_trailers() {
  if (trailers_submitted_ || trailers_.empty()) return;
  trailers_submitted_ = true;
  const std::vector<nghttp2_nv> pairs = pairs_of(trailers_);
  nghttp2_submit_trailer(connection_->session(), id_, pairs.data(), pairs.size());
}

void Http2Stream::pump() {
  if (mode_ != Mode::kWriting) return;
  if (deferred_) {
    deferred_ = false;
    connection_->begin_sending(id_);
    nghttp2_session_resume_data(connection_->session(), id_);
  } else if (source_ != nullptr) {  // The client's flow-control windows hold the answer back.
    exchange_->clear_woken();
    if (source_->is_cut()) cut();
  }
  connection_->flush();
}

// Drops the bytes that the client does not take. Trailers need no window: they are sent now.
void Http2Stream::cut() {
  trailers_ = source_->trailers();
  source_.reset();
  out_.clear();
  sent_ = 0;
  unsent_.hold(0);
  connection_->end_sending(id_);
  submit_trailers();
}

void Http2Stream::abandon() {
  if (mode_ != Mode::kAnswering) return;
  nghttp2_submit_rst_stream(connection_->session(), NGHTTP2_FLAG_NONE, id_, NGHTTP2_INTERNAL_ERROR);
  connection_->flush();
}

void Http2Stream::keep_connection() { connection_->keep(); }

void Http2Stream::on_end_sent() {
  settle();
  unsent_.hold(0);
  if (exchange_ != nullptr) exchange_->finish();
  // The client need not send the rest of its request: RFC 9113, 8.1.
  if (!request_ended_) {
    nghttp2_submit_rst_stream(connection_->session(), NGHTTP2_FLAG_NONE, id_, NGHTTP2_NO_ERROR);
  }
}

void Http2Stream::close() {
  if (mode_ == Mode::kClosed) return;
  mode_ = Mode::kClosed;
  settle();
  received_.hold(0);
  unsent_.hold(0);
  connection_ = nullptr;
  const auto source = std::move(source_);
  const auto lost = exchange();
  exchange_.reset();
  if (lost != nullptr) lost->lose();  // No effect if the answer was complete.
}

void Http2Stream::settle() {
  if (std::exchange(owes_answer_, false)) --connection_->server().answers;
}

}  // namespace lockstep::http
