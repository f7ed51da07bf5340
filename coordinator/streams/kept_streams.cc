// SPDX-License-Identifier: Apache-2.0
// The only reader of each engine's stream is here and always fast: it moves events to a log, from
// which clients read. A thread frees logs whose time is over.
#include "coordinator/streams/kept_streams.h"

#include <chrono>
#include <utility>

#include "base/status.h"

namespace lockstep {

void KeptStream::cancel() {
  std::shared_ptr<Stream> source;
  {
    MutexLock lock(&mutex_);
    cancelled_ = true;
    source = source_;
  }
  if (source != nullptr) engine_->cancel(source);
}

KeptStreams::KeptStreams(const KeptOptions& options, std::function<int64_t()> now_ms)
    : now_ms_(std::move(now_ms)), index_(options), thread_([this] { trim(); }) {}

KeptStreams::~KeptStreams() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

absl::StatusOr<std::shared_ptr<KeptStream>> KeptStreams::submit(Engine* engine, Request request,
                                                                KeptRequest wanted) {
  RETURN_IF_ERROR(check_kept_id(wanted.name.id));
  auto kept = std::make_shared<KeptStream>(engine, std::move(wanted.name), std::move(wanted.facts));
  {
    MutexLock lock(&mutex_);
    index_.tick(now_ms_());
    const absl::Status added = index_.add(kept->name(), kept, wanted.bytes);
    bury_dropped();
    RETURN_IF_ERROR(added);
  }
  const absl::StatusOr<std::shared_ptr<Stream>> stream = engine->submit(std::move(request));
  if (!stream.ok()) {
    // Nothing followed the stream, but a client may have opened its log.
    kept->log().close(stream.status());
    MutexLock lock(&mutex_);
    index_.remove(kept->name());
    return stream.status();
  }
  bool cancelled = false;
  {
    MutexLock lock(&kept->mutex_);
    kept->source_ = *stream;
    kept->pass_ = std::move(wanted.pass);
    cancelled = kept->cancelled_;
  }
  if (cancelled) engine->cancel(*stream);
  // The stream holds the listener, which holds `kept`, until it is closed and released.
  (*stream)->set_listener([this, kept] { follow(*kept); });
  return kept;
}

void KeptStreams::follow(KeptStream& kept) {
  std::shared_ptr<Stream> source;
  {
    MutexLock lock(&kept.mutex_);
    source = kept.source_;
  }
  if (source == nullptr) return;  // It has ended already.
  std::vector<StreamEvent> events;
  const bool closed = source->read(kept.log().size(), &events);
  for (StreamEvent& event : events) {
    const absl::Status room = grow(kept.name(), bytes_of(event));
    if (!room.ok()) {
      kept.cancel();
      return end(kept, room);
    }
    kept.log().append(std::move(event));
  }
  if (closed) end(kept, source->status());
}

void KeptStreams::end(KeptStream& kept, const absl::Status& status) {
  std::shared_ptr<Stream> source;  // Both are destroyed after the locks are released.
  std::shared_ptr<Pass> pass;
  {
    MutexLock lock(&kept.mutex_);
    source.swap(kept.source_);
    pass.swap(kept.pass_);
  }
  if (pass != nullptr) pass->end();
  kept.log().close(status);
  MutexLock lock(&mutex_);
  index_.end(kept.name(), now_ms_());
  changed_.notify_all();
}

absl::Status KeptStreams::grow(const KeptName& name, int64_t bytes) {
  MutexLock lock(&mutex_);
  const absl::Status room = index_.grow(name, bytes);
  bury_dropped();
  return room;
}

absl::StatusOr<std::shared_ptr<KeptStream>> KeptStreams::find(const KeptName& name) {
  MutexLock lock(&mutex_);
  index_.tick(now_ms_());
  bury_dropped();
  return index_.find(name);
}

KeptCounts KeptStreams::counts() {
  MutexLock lock(&mutex_);
  index_.tick(now_ms_());
  bury_dropped();
  return index_.counts();
}

void KeptStreams::bury_dropped() {
  for (std::shared_ptr<KeptStream>& stream : index_.take_dropped()) {
    buried_.push_back(std::move(stream));
    changed_.notify_all();
  }
}

void KeptStreams::trim() {
  using std::chrono::milliseconds;
  std::vector<std::shared_ptr<KeptStream>> buried;
  for (;;) {
    {
      MutexLock lock(&mutex_);
      index_.tick(now_ms_());
      bury_dropped();
      if (stopping_) return;
      buried.swap(buried_);
      if (buried.empty()) {
        const std::optional<int64_t> wake_at = index_.wake_at();
        if (!wake_at.has_value()) {
          changed_.wait(&mutex_);
        } else {
          const auto pause = milliseconds(*wake_at - now_ms_());
          changed_.wait_until(&mutex_, std::chrono::steady_clock::now() + pause);
        }
        continue;
      }
    }
    for (const std::shared_ptr<KeptStream>& stream : buried) stream->log().drop();
    buried.clear();
  }
}

}  // namespace lockstep
