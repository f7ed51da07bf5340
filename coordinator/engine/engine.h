// SPDX-License-Identifier: Apache-2.0
// What serves requests: a thread, a cluster and the inbox around EngineCore, which decides
// everything. Other threads hand it messages.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "coordinator/cluster/group.h"
#include "coordinator/engine/engine_options.h"
#include "coordinator/engine/request.h"
#include "coordinator/streams/stream.h"
#include "coordinator/text/tokenizer/tokenizer.h"

namespace lockstep {

class Engine {
 public:
  // Starts the thread. `tokenizer` may be null (prompts by ids only, no text in events); both
  // outlive the engine.
  Engine(Cluster* cluster, const Tokenizer* tokenizer, const EngineOptions& options);
  // stop(), and waits for the end.
  ~Engine();

  // Any thread; does not block. kInvalidArgument: the prompt with max_tokens' first token can never
  // fit the context or the pages, or an id is out of the vocabulary. kResourceExhausted: the queue
  // is full; it names the bound. kUnavailable: there was no group yet, or the server is draining.
  // Groups that are lost change nothing of the answer: the next one goes on with it. Where that
  // cannot be (EngineCore::group_formed, group_lost), the stream closes with kUnavailable or
  // kInternal.
  absl::StatusOr<std::shared_ptr<Stream>> submit(Request request);
  // Whether the smallest request would be taken now, and if not, why: for whoever has work to do
  // before it can submit. Any thread.
  absl::Status accepting() const;
  // The same of a request of this client, which may take another's place in a queue that is full.
  absl::Status accepting(const std::string& client) const;
  // Ends the request soon, frees its pages; its stream ends with finish reason kCancelled and
  // status OK. Without effect on one that has ended. Any thread.
  void cancel(const std::shared_ptr<Stream>& stream);

  EngineStats stats() const;
  // Blocks until a group is formed; an error when none will be. Any thread.
  absl::Status wait_ready();

  // No more requests are taken, those there are go on. What has not ended after this time is
  // cancelled, as with stop(). Any thread; does not block.
  void drain(std::chrono::milliseconds time);
  // Cluster::shutdown(); open streams end with kCancelled, as finish reason of their choices and as
  // status. Any thread; does not block.
  void stop();
  // Blocks until nothing is left to do. OK: it was drained (nobody holds a stream any more, or the
  // time is over), or stopped. An error: no group will be formed any more, and why. Any thread.
  absl::Status wait_end();

 private:
  class Loop;
  std::unique_ptr<Loop> loop_;
};

}  // namespace lockstep
