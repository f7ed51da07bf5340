// SPDX-License-Identifier: Apache-2.0
#include "coordinator/http/request_reader.h"

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/beast/http/basic_parser.hpp>
#include <cstdint>
#include <utility>

#include "base/check.h"
#include "base/status.h"

namespace lockstep::http {
namespace {

namespace beast = boost::beast;

std::string to_string(beast::string_view text) { return {text.data(), text.size()}; }

Refusal too_large(size_t max_bytes) {
  return {.status = 413,
          .code = "body_too_large",
          .message = fmt::format("the body: must have up to {} bytes", max_bytes)};
}

Refusal body_refusal(const beast::error_code& error, const ReadLimits& limits) {
  if (error == beast::http::error::body_limit) return too_large(limits.body_bytes);
  if (error == beast::http::error::header_limit) {
    return {.status = 431,
            .code = "header_too_large",
            .message = fmt::format("a chunk's line, or trailers: must have up to {} bytes",
                                   limits.header_bytes)};
  }
  return {.code = "malformed_request", .message = error.message()};
}

}  // namespace

// Collects a request's parts as Beast finds them.
class RequestReader::Parser final : public beast::http::basic_parser<true> {
 public:
  Parser() {
    header_limit(UINT32_MAX);  // read_head() checks the size first.
  }

  Request request;
  std::string target;
  int minor = 1;

  // The next part of `rest` to give to Beast: a chunk's data, or a line with a chunk's size. Beast
  // takes the last such line only together with all trailers. `has_line`: Beast got the line alone
  // and took nothing, so the part has the trailers, too. Empty: more bytes are needed, or `error`
  // is set. Beast does not limit lines, and reads the quoted text of an extension past the end of
  // its line. So it gets only whole lines that were checked here.
  std::string_view next_part(std::string_view rest, bool has_line, size_t max_bytes,
                             beast::error_code* error) const {
    if (!chunked()) return rest;
    if (chunk_left_ > 0) return rest.substr(0, chunk_left_);
    const std::string_view within = rest.substr(0, max_bytes + 1);
    const size_t begin = chunks_ > 0 ? 2 : 0;  // Skips the line end of the chunk before.
    const size_t end = within.find("\r\n", begin);
    const size_t all = has_line ? within.find("\r\n\r\n", begin) : end;
    if (all == within.npos) {
      if (within.size() > max_bytes) *error = beast::http::error::header_limit;
      return {};
    }
    const std::string_view line = within.substr(0, end);
    if (std::ranges::count(line, '"') % 2 != 0 || line.find('\\') != line.npos) {
      *error = beast::http::error::bad_chunk_extension;
      return {};
    }
    const std::string_view part = within.substr(0, all + (has_line ? 4 : 2));
    if (part.find("\r\n ") != part.npos || part.find("\r\n\t") != part.npos) {
      *error = beast::http::error::bad_obs_fold;
      return {};
    }
    return part;
  }

 private:
  using Error = beast::error_code;
  using Text = beast::string_view;

  void on_request_impl(beast::http::verb /*verb*/, Text method, Text uri, int version,
                       Error& /*error*/) override {
    request.method = to_string(method);
    target = to_string(uri);
    minor = version % 10;
  }
  void on_response_impl(int /*status*/, Text /*reason*/, int /*version*/,
                        Error& /*error*/) override {}
  void on_field_impl(beast::http::field /*field*/, Text name, Text value,
                     Error& /*error*/) override {
    if (!is_header_done()) request.headers.emplace_back(to_string(name), to_string(value));
  }
  void on_header_impl(Error& /*error*/) override {}
  void on_body_init_impl(const boost::optional<uint64_t>& /*length*/, Error& /*error*/) override {}
  size_t on_body_impl(Text body, Error& /*error*/) override {
    request.body.append(body.data(), body.size());
    return body.size();
  }
  void on_chunk_header_impl(uint64_t size, Text /*extensions*/, Error& /*error*/) override {
    ++chunks_;
    chunk_left_ = size;
  }
  size_t on_chunk_body_impl(uint64_t /*left*/, Text body, Error& error) override {
    chunk_left_ -= body.size();
    return on_body_impl(body, error);
  }
  void on_finish_impl(Error& /*error*/) override {}

  size_t chunks_ = 0;      // The number of chunk lines read.
  size_t chunk_left_ = 0;  // The bytes of the current chunk's data that are not read yet.
};

RequestReader::RequestReader(const ReadLimits& limits, Request blank)
    : limits_(limits), blank_(std::move(blank)) {}
RequestReader::~RequestReader() = default;

size_t RequestReader::bytes() const {
  return buffer_.capacity() + (parser_ != nullptr ? parser_->request.body.capacity() : 0);
}

RequestReader::State RequestReader::feed(std::string_view bytes) {
  if (state_ == State::kRefused) return state_;
  buffer_ += bytes;
  if (state_ == State::kIdle) begin();
  if (state_ == State::kHeader) read_head();
  if (state_ == State::kBody) read_body();
  return state_;
}

void RequestReader::drop() {
  state_ = State::kRefused;
  std::string().swap(buffer_);
  parser_.reset();
}

// Skips empty lines before a request: some clients send one after a body (RFC 9112, section 2.2).
void RequestReader::begin() {
  size_t blank = 0;
  while (std::string_view(buffer_).substr(blank).starts_with("\r\n")) blank += 2;
  buffer_.erase(0, blank);
  if (buffer_.empty() || buffer_ == "\r") return;
  state_ = State::kHeader;
  looked_at_ = 0;
  origin_.clear();
}

void RequestReader::read_head() {
  const size_t from = looked_at_ < 3 ? 0 : looked_at_ - 3;
  const size_t end = buffer_.find("\r\n\r\n", from);
  const size_t bytes = end == buffer_.npos ? buffer_.size() : end + 4;
  looked_at_ = buffer_.size();
  // A line that ends with LF alone is refused at once. If it were the client's last one, the server
  // would wait for a CR LF that never comes.
  const size_t within = std::min(bytes, limits_.header_bytes);
  for (size_t line = buffer_.find('\n', from); line < within; line = buffer_.find('\n', line + 1)) {
    if (line == 0 || buffer_[line - 1] != '\r') {
      return refuse({.code = "malformed_request", .message = "a line: must end with CR LF"});
    }
  }
  if (bytes > limits_.header_bytes) {
    return refuse({.status = 431,
                   .code = "header_too_large",
                   .message = fmt::format("request line and headers: must have up to {} bytes",
                                          limits_.header_bytes)});
  }
  if (end == buffer_.npos) return;
  finish_head(std::string_view(buffer_).substr(0, bytes));
  if (state_ != State::kRefused) buffer_.erase(0, bytes);
}

void RequestReader::finish_head(std::string_view head) {
  if (auto refusal = check_lines(head)) return refuse(*std::move(refusal));
  parser_ = std::make_unique<Parser>();
  parser_->request = blank_;
  parser_->body_limit(limits_.body_bytes);
  beast::error_code error;
  size_t parsed = 0;
  while (!error && parsed < head.size()) {
    parsed += parser_->put({head.data() + parsed, head.size() - parsed}, error);
  }
  Request& request = parser_->request;
  origin_ = request.header("Origin");
  if (error && error != beast::http::error::body_limit) {  // check_headers() reports body_limit.
    return refuse({.code = "malformed_request", .message = error.message()});
  }
  auto refusal = check_headers(request.headers, parser_->minor, limits_.body_bytes, &framing_);
  if (!refusal) refusal = read_target(request.method, parser_->target, &request);
  if (refusal) return refuse(*std::move(refusal));
  continue_wanted_ = framing_.expects_continue;
  max_body_bytes_ = limits_.body_bytes;
  state_ = State::kBody;
}

std::optional<Refusal> RequestReader::parse_body() {
  size_t parsed = 0;
  beast::error_code error;
  bool has_line = false;
  while (!parser_->is_done() && parsed < buffer_.size()) {
    const auto part = parser_->next_part(std::string_view(buffer_).substr(parsed), has_line,
                                         limits_.header_bytes, &error);
    if (part.empty()) break;
    const size_t taken = parser_->put({part.data(), part.size()}, error);
    parsed += taken;
    if (error && error != beast::http::error::need_more) break;
    error = {};
    if (taken > 0) continue;
    if (std::exchange(has_line, true)) {
      error = beast::http::error::bad_chunk;
      break;
    }
  }
  buffer_.erase(0, parsed);
  if (!error) return std::nullopt;
  return body_refusal(error, limits_);
}

void RequestReader::read_body() {
  if (auto refusal = parse_body()) return refuse(*std::move(refusal));
  if (parser_->request.body.size() > max_body_bytes_) return refuse(too_large(max_body_bytes_));
  if (!parser_->is_done()) return;
  keeps_alive_ = framing_.http_1_1 && parser_->keep_alive();
  continue_wanted_ = false;
  request_ = std::move(parser_->request);
  parser_.reset();
  state_ = State::kWhole;
}

const Request& RequestReader::head() const {
  LOCKSTEP_CHECK(state_ == State::kBody);
  return parser_->request;
}

RequestReader::State RequestReader::bound_body(size_t max_bytes) {
  LOCKSTEP_CHECK(state_ == State::kBody);
  max_body_bytes_ = std::min(max_body_bytes_, max_bytes);
  const size_t bytes =
      std::max(static_cast<size_t>(framing_.content_length), parser_->request.body.size());
  if (bytes > max_body_bytes_) refuse(too_large(max_body_bytes_));
  return state_;
}

bool RequestReader::take_continue() { return std::exchange(continue_wanted_, false); }

Request RequestReader::take() {
  LOCKSTEP_CHECK(state_ == State::kWhole);
  state_ = State::kIdle;
  if (buffer_.empty()) std::string().swap(buffer_);  // An idle connection needs little memory.
  return std::move(request_);
}

void RequestReader::refuse(Refusal refusal) {
  state_ = State::kRefused;
  refusal_ = std::move(refusal);
  parser_.reset();
  std::string().swap(buffer_);
}

}  // namespace lockstep::http
