// SPDX-License-Identifier: Apache-2.0
// The engine's stream of a resumable request has its only reader in this file. The reader never
// falls behind: it moves events to a log, from which clients read. A thread frees logs whose time
// is over.
#include "coordinator/streams/resumable_streams.h"

#include <chrono>
#include <utility>

#include "base/status.h"

namespace lockstep {

void ResumableStream::cancel() {
  std::shared_ptr<Stream> source;
  {
    MutexLock lock(&mutex_);
    cancelled_ = true;
    source = source_;
  }
  if (source != nullptr) engine_->cancel(source);
}

ResumableStreams::ResumableStreams(const ResumableOptions& options, std::function<int64_t()> now_ms)
    : now_ms_(std::move(now_ms)), index_(options), thread_([this] { trim(); }) {}

ResumableStreams::~ResumableStreams() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

absl::StatusOr<std::shared_ptr<ResumableStream>> ResumableStreams::submit(Engine* engine,
                                                                          EngineRequest request,
                                                                          ResumableParams wanted) {
  RETURN_IF_ERROR(check_resumable_id(wanted.name.id));
  auto resumable =
      std::make_shared<ResumableStream>(engine, std::move(wanted.name), std::move(wanted.facts));
  {
    MutexLock lock(&mutex_);
    index_.tick(now_ms_());
    const absl::Status added = index_.add(resumable->name(), resumable, wanted.bytes);
    queue_dropped();
    RETURN_IF_ERROR(added);
  }
  const absl::StatusOr<std::shared_ptr<Stream>> stream = engine->submit(std::move(request));
  if (!stream.ok()) {
    // The request was refused, but a client may have opened the log already.
    resumable->log().close(stream.status());
    MutexLock lock(&mutex_);
    index_.remove(resumable->name());
    return stream.status();
  }
  bool cancelled = false;
  {
    MutexLock lock(&resumable->mutex_);
    resumable->source_ = *stream;
    resumable->permit_ = std::move(wanted.permit);
    cancelled = resumable->cancelled_;
  }
  if (cancelled) engine->cancel(*stream);
  // `resumable`, its stream and the stream's listener own each other in a cycle; end() breaks it.
  (*stream)->set_listener([this, resumable] { follow(*resumable); });
  return resumable;
}

void ResumableStreams::follow(ResumableStream& resumable) {
  std::shared_ptr<Stream> source;
  {
    MutexLock lock(&resumable.mutex_);
    source = resumable.source_;
  }
  if (source == nullptr) return;  // The request has ended already.
  std::vector<StreamEvent> events;
  const bool closed = source->read(resumable.log().size(), &events);
  for (StreamEvent& event : events) {
    const absl::Status room = grow(resumable.name(), bytes_of(event));
    if (!room.ok()) {
      resumable.cancel();
      return end(resumable, room);
    }
    resumable.log().append(std::move(event));
  }
  if (closed) end(resumable, source->status());
}

void ResumableStreams::end(ResumableStream& resumable, const absl::Status& status) {
  std::shared_ptr<Stream> source;  // Both are destroyed after the locks are released.
  std::shared_ptr<Permit> permit;
  {
    MutexLock lock(&resumable.mutex_);
    source.swap(resumable.source_);
    permit.swap(resumable.permit_);
  }
  if (permit != nullptr) permit->end();
  resumable.log().close(status);
  MutexLock lock(&mutex_);
  index_.end(resumable.name(), now_ms_());
  changed_.notify_all();
}

absl::Status ResumableStreams::grow(const ResumableName& name, int64_t bytes) {
  MutexLock lock(&mutex_);
  const absl::Status room = index_.grow(name, bytes);
  queue_dropped();
  return room;
}

absl::StatusOr<std::shared_ptr<ResumableStream>> ResumableStreams::find(const ResumableName& name) {
  MutexLock lock(&mutex_);
  index_.tick(now_ms_());
  queue_dropped();
  return index_.find(name);
}

ResumableCounts ResumableStreams::counts() {
  MutexLock lock(&mutex_);
  index_.tick(now_ms_());
  queue_dropped();
  return index_.counts();
}

void ResumableStreams::queue_dropped() {
  for (std::shared_ptr<ResumableStream>& stream : index_.take_dropped()) {
    to_free_.push_back(std::move(stream));
    changed_.notify_all();
  }
}

void ResumableStreams::trim() {
  using std::chrono::milliseconds;
  std::vector<std::shared_ptr<ResumableStream>> freed;
  for (;;) {
    {
      MutexLock lock(&mutex_);
      index_.tick(now_ms_());
      queue_dropped();
      if (stopping_) return;
      freed.swap(to_free_);
      if (freed.empty()) {
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
    for (const std::shared_ptr<ResumableStream>& stream : freed) stream->log().drop();
    freed.clear();
  }
}

}  // namespace lockstep
