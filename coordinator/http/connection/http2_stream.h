// SPDX-License-Identifier: Apache-2.0
// One request of an HTTP/2 connection and its answer. Private to this folder.
#pragma once

#include <nghttp2/nghttp2.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "coordinator/http/connection/io_thread.h"
#include "coordinator/http/connection/pending_exchange.h"

namespace lockstep::http {

class Http2Connection;

// Its connection owns it, and calls it until close(). Runs only on its IoThread.
class Http2Stream final : public Answerer, public std::enable_shared_from_this<Http2Stream> {
 public:
  // `blank`: a request with the fields that the connection knows.
  Http2Stream(Http2Connection* connection, int32_t id, Request blank);

  // ---- From the connection ----
  // Counts a header of the head or the trailers. False: all headers together are several times as
  // large as allowed, and the connection must end.
  bool count_header(size_t bytes);
  void add_header(std::string_view name, std::string_view value);
  void end_head(bool is_last);
  void add_body(std::string_view bytes);
  void end_body();
  // Fills the buffer with bytes of the answer: see nghttp2_data_source_read_callback.
  ssize_t give(uint8_t* buffer, size_t size, uint32_t* flags);
  void on_end_sent();  // The whole answer was given to the socket.
  // Called once, when the stream is closed. If the answer is not complete, its client counts as
  // gone.
  void close();
  void end_late();  // Its request took too long.

  // ---- From its exchange ----
  void respond(std::shared_ptr<PendingExchange> exchange, Response response) override;
  void stream(std::shared_ptr<PendingExchange> exchange, const Response& head,
              std::unique_ptr<BodySource> source) override;
  void pump() override;
  void abandon() override;
  void keep_connection() override;

 private:
  enum class Mode {
    kReading,    // The request is received.
    kAnswering,  // The handler has not answered yet.
    kWriting,    // The answer is written.
    kClosed,
  };

  int64_t base_bytes() const;
  void account();
  void hand_over();
  std::shared_ptr<PendingExchange> exchange() const;
  void refuse(const Refusal& refusal);
  void write(Response response);
  void begin(const Response& head, bool has_body);
  void fetch();
  void submit_trailers();
  void cut();
  void settle();

  Http2Connection* connection_;  // Null after close().
  const int32_t id_;
  Mode mode_ = Mode::kReading;
  Request request_;
  size_t header_bytes_ = 0;  // The bytes of head and trailers, counted as in RFC 9113.
  bool request_ended_ = false;
  bool streams_body_ = false;
  bool has_endless_body_ = false;
  size_t max_body_bytes_ = 0;
  BufferedBytes::Share received_;
  BufferedBytes::Share unsent_;

  std::weak_ptr<PendingExchange> waiting_;     // Set until the exchange is answered.
  std::shared_ptr<PendingExchange> exchange_;  // Set while its answer is written.
  std::unique_ptr<BodySource> source_;         // Set until it ends.
  bool owes_answer_ = false;                   // Counted in ServerState::answers.
  std::string out_;                            // Bytes to be sent, beginning at sent_.
  size_t sent_ = 0;
  Headers trailers_;
  bool trailers_submitted_ = false;
  bool deferred_ = false;  // nghttp2 waits until the source has more.
};

}  // namespace lockstep::http
