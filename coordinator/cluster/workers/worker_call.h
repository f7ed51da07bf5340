// SPDX-License-Identifier: Apache-2.0
// A worker's stream: messages are sent in order, received ones are passed on.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "base/threads/mutex.h"
#include "coordinator/http/exchange.h"
#include "proto/cluster.pb.h"

namespace lockstep {

// Thread-safe, except for receive() and end().
class WorkerCall {
 public:
  // Called by the I/O thread; on_end() last, once.
  struct Events {
    std::function<void(cluster::WorkerMessage message)> on_message;
    std::function<void()> on_end;
  };
  // A message with gRPC's prefix.
  using Bytes = std::shared_ptr<const std::string>;

  // `wake`: the exchange's waker().
  WorkerCall(Events events, size_t max_message_bytes, std::function<void()> wake)
      : events_(std::move(events)), max_message_bytes_(max_message_bytes), wake_(std::move(wake)) {}
  // Receives from the exchange, whose body is streamed, and answers it with the messages of send().
  static void begin(const std::shared_ptr<WorkerCall>& call, http::Exchange& exchange);

  // ---- Any thread ----
  // Dropped after close() and cut().
  void send(Bytes message) ABSL_LOCKS_EXCLUDED(mutex_);
  // End the stream with this status: close() sends pending messages first, cut() drops them.
  void close(const absl::Status& status) ABSL_LOCKS_EXCLUDED(mutex_);
  void cut(const absl::Status& status) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  class Source;

  // ---- The I/O thread ----
  void receive(std::string_view bytes, bool is_last);
  // Moves the messages at the beginning of `bytes` to on_message().
  absl::Status take_messages(std::string_view* bytes) const;
  void end();

  const Events events_;
  const size_t max_message_bytes_;
  const std::function<void()> wake_;

  // Used by the I/O thread.
  std::string in_;  // The beginning of a message whose rest has not arrived.
  bool has_ended_ = false;

  Mutex mutex_;
  std::deque<Bytes> outgoing_ ABSL_GUARDED_BY(mutex_);
  size_t sent_ ABSL_GUARDED_BY(mutex_) = 0;  // Bytes of the first message that were sent.
  bool is_closing_ ABSL_GUARDED_BY(mutex_) = false;
  bool is_cut_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace lockstep
