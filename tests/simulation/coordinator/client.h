// SPDX-License-Identifier: Apache-2.0
// A client with one request. The seed draws the request's parameters, how fast the client reads,
// and whether it cancels. All that the client reads is compared with the answer that the request
// gets if it runs alone (alone.h).
#pragma once

#include <memory>
#include <vector>

#include "tests/simulation/coordinator/alone.h"
#include "tests/simulation/coordinator/engine_side.h"
#include "tests/simulation/machines/world.h"

namespace lockstep::simulation {

class Client {
 public:
  // A patient client reads fast, never cancels, and retries until it is served.
  Client(World* world, EngineSide* engine, const FakeModel& model, int number, bool patient);

  // Lets a slow client read from now on.
  void wake();
  bool done() const { return done_; }
  bool served() const { return served_; }  // The whole answer was read.
  bool ended_by_strikes() const { return ended_by_strikes_; }
  int64_t tokens() const { return tokens_; }

 private:
  void draw_request();
  void submit();
  void try_again();
  void read();
  void take(const StreamEvent& event);
  void take_scores(const StreamEvent& event);
  void close(const absl::Status& status);
  bool expected(const absl::Status& status) const;
  void check_deadline();

  struct Choice {
    size_t scores = 0;  // The number of prompt tokens whose log-probabilities were read.
    size_t tokens = 0;
    FinishReason finish_reason = FinishReason::kNone;
  };

  World& world_;
  EngineSide& engine_;
  const FakeModel& model_;
  const int number_;
  const bool patient_;
  EngineRequest request_;
  std::vector<Alone> alone_;  // Per choice; filled on first use.
  bool poisoned_ = false;     // All logits after its prompt are NaN: no token can be drawn.
  bool deadly_ = false;       // No worker survives its prompt.
  bool cancels_ = false;
  bool has_deadline_ = false;
  bool slow_ = false;  // Reads nothing until it is woken.
  int64_t cancel_after_ = 0;
  int64_t pause_ = 0;  // The maximum time between two reads, in milliseconds.

  std::shared_ptr<Stream> stream_;
  size_t offset_ = 0;
  std::vector<Choice> choices_;
  int64_t failed_before_ = 0;   // EngineSide::groups_failed() at submission.
  int64_t changed_before_ = 0;  // EngineSide::changed() at submission.
  bool cancelled_ = false;
  bool done_ = false;
  bool served_ = false;
  bool ended_by_strikes_ = false;
  int64_t tokens_ = 0;
};

}  // namespace lockstep::simulation
