// SPDX-License-Identifier: Apache-2.0
// A reader of a request's log: the border between the engine's answers and the code that writes
// them to clients.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "coordinator/engine/engine.h"
#include "coordinator/streams/stream.h"

namespace lockstep {

// One thread at a time, except abandon().
class StreamReader {
 public:
  virtual ~StreamReader() = default;

  // Copies events from `offset` on, at least one if available. Events before `offset` may be freed.
  // True if the log has ended and these events are its last.
  virtual bool read(size_t offset, std::vector<StreamEvent>* events) = 0;
  // The final status; valid after read() returned true.
  virtual absl::Status status() const = 0;
  // The listener is called at once, and then by the notifier's thread after changes of the log. It
  // must not block. nullptr removes it: on return it is not running and will not be called again.
  virtual void set_listener(std::function<void()> listener) = 0;
  // The client is gone: the log will end soon, at least for this reader. Any thread.
  virtual void abandon() = 0;
};

// The only reader of a stream. A request without a reader is cancelled: by abandon(), and by the
// destructor if it has not ended.
class SoleReader final : public StreamReader {
 public:
  // The engine outlives this object.
  SoleReader(Engine* engine, std::shared_ptr<Stream> stream)
      : engine_(engine), stream_(std::move(stream)) {}
  ~SoleReader() override {
    if (!ended_) abandon();
  }

  bool read(size_t offset, std::vector<StreamEvent>* events) override {
    return ended_ = stream_->read(offset, events);
  }
  absl::Status status() const override { return stream_->status(); }
  void set_listener(std::function<void()> listener) override {
    stream_->set_listener(std::move(listener));
  }
  void abandon() override { engine_->cancel(stream_); }

 private:
  Engine* const engine_;
  const std::shared_ptr<Stream> stream_;
  bool ended_ = false;
};

}  // namespace lockstep
