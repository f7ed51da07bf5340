// SPDX-License-Identifier: Apache-2.0
// The loop that serves: takes requests, lets the scheduler choose a batch, runs it on the group,
// samples, appends, streams. All sequence state belongs to the engine's one thread; everybody else
// hands it messages.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "coordinator/cluster/group.h"
#include "coordinator/request.h"
#include "coordinator/stream.h"
#include "coordinator/text/tokenizer.h"

namespace lockstep {

struct EngineOptions {
  int64_t prefill_chunk = 512;  // Prompt tokens of all sequences in one step, at most.
  int64_t max_running = 256;    // Sequences that hold pages at once.
  int64_t max_waiting = 4096;   // Requests queued; more are refused with kResourceExhausted.
  // How long without work until an empty step shows that every rank still answers; 0: never.
  int64_t idle_step_ms = 1000;
};

// A consistent picture of a moment, for GetModel, metrics and tests.
struct EngineStats {
  bool ready = false;  // A group stands.
  GroupInfo group;     // Of the last group that stood.
  int64_t pages_free = 0;
  int64_t running = 0;  // Choices of requests that hold pages, or are about to.
  int64_t waiting = 0;  // Choices that don't, preempted ones included.
  int64_t preemptions = 0;
  int64_t steps = 0;
  int64_t prompt_tokens = 0;  // Computed, recomputed ones included.
  int64_t completion_tokens = 0;
  int64_t step_ns = 0;         // Time in Group::run.
  int64_t coordinator_ns = 0;  // The engine's own share while it had work.
};

class Engine {
 public:
  // Starts the thread. `tokenizer` may be null (prompts by ids only, no text in events); both
  // outlive the engine.
  Engine(Cluster* cluster, const Tokenizer* tokenizer, const EngineOptions& options);
  // Stops: cluster->shutdown(), open streams end with kCancelled, as finish reason of their choices
  // and as status.
  ~Engine();

  // Any thread; does not block. kInvalidArgument: the prompt with max_tokens' first token can never
  // fit the context or the pages, or an id is out of the vocabulary. kResourceExhausted: the queue
  // is full. kUnavailable: no group stands. A group that is lost while the request runs closes the
  // stream with kUnavailable naming the rank.
  absl::StatusOr<std::shared_ptr<Stream>> submit(Request request);
  // Ends the request soon, frees its pages; its stream ends with finish reason kCancelled and
  // status OK. Without effect on one that has ended. Any thread.
  void cancel(const std::shared_ptr<Stream>& stream);

  EngineStats stats() const;
  // Blocks until a group stands; an error when none ever will. Any thread.
  absl::Status wait_ready();

 private:
  class Loop;
  std::unique_ptr<Loop> loop_;
};

}  // namespace lockstep
