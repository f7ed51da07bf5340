// SPDX-License-Identifier: Apache-2.0
#include "tests/support/network/http2_client.h"

#include <nghttp2/nghttp2.h>

#include <algorithm>
#include <vector>

#include "base/check.h"

namespace lockstep::testing {
namespace {

constexpr int32_t kOpenWindow = 1 << 30;

std::string text_of(const uint8_t* bytes, size_t size) {
  return {reinterpret_cast<const char*>(bytes), size};
}

}  // namespace

struct Http2ClientCallbacks {
  static Http2Client& of(void* client) { return *static_cast<Http2Client*>(client); }

  static int on_header(nghttp2_session* /*session*/, const nghttp2_frame* frame,
                       const uint8_t* name, size_t name_bytes, const uint8_t* value,
                       size_t value_bytes, uint8_t /*flags*/, void* client) {
    Http2Answer& answer = of(client).streams_[frame->hd.stream_id].answer;
    const std::string key = text_of(name, name_bytes);
    const std::string text = text_of(value, value_bytes);
    if (key == ":status") {
      answer.status = std::stoi(text);
    } else {
      const bool is_head = frame->headers.cat == NGHTTP2_HCAT_RESPONSE;
      (is_head ? answer.headers : answer.trailers)[key] = text;
    }
    return 0;
  }
  static int on_data(nghttp2_session* /*session*/, uint8_t /*flags*/, int32_t id,
                     const uint8_t* bytes, size_t size, void* client) {
    of(client).streams_[id].answer.body += text_of(bytes, size);
    return 0;
  }
  static int on_frame(nghttp2_session* /*session*/, const nghttp2_frame* frame, void* client) {
    Http2Client& self = of(client);
    const uint8_t flags = frame->hd.flags;
    if (frame->hd.type == NGHTTP2_PING && (flags & NGHTTP2_FLAG_ACK) == 0) ++self.pings_;
    if (frame->hd.type == NGHTTP2_SETTINGS) self.has_settings_ = true;
    if (frame->hd.type == NGHTTP2_GOAWAY) self.going_away_ = true;
    const bool has_end = frame->hd.type == NGHTTP2_HEADERS || frame->hd.type == NGHTTP2_DATA;
    if (has_end && (flags & NGHTTP2_FLAG_END_STREAM) != 0) {
      self.streams_[frame->hd.stream_id].answer.is_whole = true;
    }
    return 0;
  }
  static int on_close(nghttp2_session* /*session*/, int32_t id, uint32_t code, void* client) {
    Http2Client::Stream& stream = of(client).streams_[id];
    stream.is_closed = true;
    if (!stream.answer.is_whole) stream.answer.reset = code;
    return 0;
  }
  static ssize_t give(nghttp2_session* /*session*/, int32_t id, uint8_t* buffer, size_t size,
                      uint32_t* flags, nghttp2_data_source* /*source*/, void* client) {
    Http2Client::Stream& stream = of(client).streams_[id];
    const size_t bytes = std::min(size, stream.out.size() - stream.sent);
    if (bytes == 0 && !stream.out_ends) return NGHTTP2_ERR_DEFERRED;
    stream.out.copy(reinterpret_cast<char*>(buffer), bytes, stream.sent);
    stream.sent += bytes;
    if (stream.sent == stream.out.size() && stream.out_ends) *flags |= NGHTTP2_DATA_FLAG_EOF;
    return static_cast<ssize_t>(bytes);
  }
};

Http2Client::Http2Client(const std::string& address, uint32_t window) : socket_(address) {
  nghttp2_session_callbacks* callbacks = nullptr;
  nghttp2_option* options = nullptr;
  LOCKSTEP_CHECK(nghttp2_session_callbacks_new(&callbacks) == 0);
  LOCKSTEP_CHECK(nghttp2_option_new(&options) == 0);
  nghttp2_option_set_no_auto_window_update(options, 1);
  nghttp2_session_callbacks_set_on_header_callback(callbacks, Http2ClientCallbacks::on_header);
  nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks,
                                                            Http2ClientCallbacks::on_data);
  nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, Http2ClientCallbacks::on_frame);
  nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, Http2ClientCallbacks::on_close);
  LOCKSTEP_CHECK(nghttp2_session_client_new2(&session_, callbacks, this, options) == 0);
  nghttp2_session_callbacks_del(callbacks);
  nghttp2_option_del(options);
  const nghttp2_settings_entry setting = {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, window};
  LOCKSTEP_CHECK(nghttp2_submit_settings(session_, NGHTTP2_FLAG_NONE, &setting, 1) == 0);
  if (window == kOpenWindow) {
    nghttp2_session_set_local_window_size(session_, NGHTTP2_FLAG_NONE, 0, kOpenWindow);
  }
  flush();
  read_until([&] { return has_settings_; });
}

Http2Client::~Http2Client() { nghttp2_session_del(session_); }

int32_t Http2Client::begin(const std::string& method, const std::string& path,
                           const http2::Headers& headers) {
  http2::Headers all = {
      {":method", method}, {":scheme", "http"}, {":path", path}, {":authority", "test"}};
  all.insert(all.end(), headers.begin(), headers.end());
  std::vector<nghttp2_nv> pairs;
  pairs.reserve(all.size());
  for (auto& [name, value] : all) {
    pairs.push_back({reinterpret_cast<uint8_t*>(name.data()),
                     reinterpret_cast<uint8_t*>(value.data()), name.size(), value.size(),
                     NGHTTP2_NV_FLAG_NONE});
  }
  const nghttp2_data_provider body = {.source = {.ptr = nullptr},
                                      .read_callback = Http2ClientCallbacks::give};
  const int32_t id =
      nghttp2_submit_request(session_, nullptr, pairs.data(), pairs.size(),
                             method == "GET" ? nullptr : &body, /*stream_user_data=*/nullptr);
  LOCKSTEP_CHECK(id > 0);
  return id;
}

int32_t Http2Client::get(const std::string& path, const http2::Headers& headers) {
  const int32_t id = begin("GET", path, headers);
  flush();
  return id;
}

int32_t Http2Client::post(const std::string& path, std::string_view body, bool is_last,
                          const http2::Headers& headers) {
  const int32_t id = begin("POST", path, headers);
  send_body(id, body, is_last);
  return id;
}

void Http2Client::send_body(int32_t stream, std::string_view bytes, bool is_last) {
  streams_[stream].out += bytes;
  streams_[stream].out_ends = is_last;
  nghttp2_session_resume_data(session_, stream);  // No effect on a stream that waits for nothing.
  flush();
}

void Http2Client::reset(int32_t stream) {
  nghttp2_submit_rst_stream(session_, NGHTTP2_FLAG_NONE, stream, NGHTTP2_CANCEL);
  flush();
}

void Http2Client::open_windows() {
  const nghttp2_settings_entry setting = {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, kOpenWindow};
  nghttp2_submit_settings(session_, NGHTTP2_FLAG_NONE, &setting, 1);
  nghttp2_session_set_local_window_size(session_, NGHTTP2_FLAG_NONE, 0, kOpenWindow);
  flush();
}

Http2Answer Http2Client::wait(int32_t stream) {
  const Stream& waited = streams_[stream];
  read_until([&] { return waited.is_closed || waited.answer.is_whole; });
  return waited.answer;
}

void Http2Client::wait_until_closed() {
  while (read()) {
  }
}

bool Http2Client::read() {
  const std::string bytes = socket_.receive();
  if (bytes.empty()) return false;
  const ssize_t read = nghttp2_session_mem_recv(
      session_, reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
  LOCKSTEP_CHECK(read == static_cast<ssize_t>(bytes.size()));
  flush();
  return true;
}

void Http2Client::flush() {
  const uint8_t* bytes = nullptr;
  for (ssize_t size = 0; (size = nghttp2_session_mem_send(session_, &bytes)) > 0;) {
    if (!socket_.send(text_of(bytes, static_cast<size_t>(size)))) return;
  }
}

}  // namespace lockstep::testing
