// SPDX-License-Identifier: Apache-2.0
// Serves requests: a thread, a cluster and an inbox around EngineCore, which makes all decisions.
// Other threads send messages to that thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "coordinator/cluster/group.h"
#include "coordinator/engine/engine_options.h"
#include "coordinator/engine/engine_request.h"
#include "coordinator/streams/stream.h"
#include "coordinator/text/tokenizer/tokenizer.h"

namespace lockstep {

class Engine {
 public:
  // Starts the thread. `tokenizer` may be null (prompts by ids only, no text in events). The
  // cluster and the tokenizer outlive the engine.
  Engine(Cluster* cluster, const Tokenizer* tokenizer, const EngineOptions& options);
  // Calls stop() and waits for the end.
  ~Engine();

  // Any thread; does not block. kInvalidArgument: the prompt and the first new token can never fit
  // the context or the pages, or an id is out of the vocabulary. kResourceExhausted: the queue is
  // full; the message names the bound. kUnavailable: no group can serve the request now, or the
  // server is draining or has ended. A lost group does not change the answer: the next group
  // continues it. If that is not possible (EngineCore::group_formed), the stream closes with
  // kUnavailable or kInternal.
  absl::StatusOr<std::shared_ptr<Stream>> submit(EngineRequest request);
  // OK if the smallest request would be accepted now, else the reason; for callers with work to do
  // before they can submit. Any thread.
  absl::Status accepting() const;
  // Like accepting(), for a request of this client: if the queue is full, such a request may still
  // be accepted and displace another client's request.
  absl::Status accepting(const std::string& client) const;
  // Ends the request soon and frees its pages; its stream ends with finish reason kCancelled and
  // status OK. No effect on a request that has ended. Any thread.
  void cancel(const std::shared_ptr<Stream>& stream);

  EngineStats stats() const;
  // Blocks until a group is formed; an error if none will be formed. Any thread.
  absl::Status wait_ready();

  // Accepts no more requests; accepted ones continue. Those that have not ended after `time` are
  // cancelled, as by stop(). Any thread; does not block.
  void drain(std::chrono::milliseconds time);
  // Calls Cluster::shutdown(). Open streams end with status kCancelled, their choices with finish
  // reason kCancelled. Any thread; does not block.
  void stop();
  // Blocks until the engine has ended. OK: it was drained (no client holds a stream any more, or
  // the time is over) or stopped. An error: why no group will be formed any more. Any thread.
  absl::Status wait_end();

 private:
  class Loop;
  std::unique_ptr<Loop> loop_;
};

}  // namespace lockstep
