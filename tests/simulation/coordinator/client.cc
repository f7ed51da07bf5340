// SPDX-License-Identifier: Apache-2.0
// Requests of all kinds, and the checks of how they end.
#include "tests/simulation/coordinator/client.h"

#include <algorithm>
#include <utility>

#include "base/status.h"
#include "coordinator/engine/inbox.h"

namespace lockstep::simulation {
namespace {

constexpr int64_t kLongPause = 1'000'000;  // Milliseconds: longer than any simulation.
constexpr int64_t kLongestPause = 15;      // At most 15 steps' events wait: a step takes 1 ms.
constexpr int64_t kStrikes = 3;            // The number of lost groups that may end a request.

bool equal(const std::vector<Logprob>& a, const std::vector<Logprob>& b) {
  return std::ranges::equal(a, b, [](const Logprob& x, const Logprob& y) {
    return x.id == y.id && x.logprob == y.logprob;
  });
}

}  // namespace

Client::Client(World* world, EngineSide* engine, const FakeModel& model, int number, bool patient)
    : world_(*world), engine_(*engine), model_(model), number_(number), patient_(patient) {
  draw_request();
  cancels_ = !patient_ && world_.one_in(4);
  has_deadline_ = !patient_ && world_.one_in(8);
  cancel_after_ = world_.between(0, 300);
  pause_ = world_.between(1, kLongestPause);
  if (!patient_ && world_.one_in(12)) {
    slow_ = true;
    pause_ = kLongPause;
    request_.max_tokens = 40;
  }
  world_.after(patient_ ? 0 : world_.between(0, 6000), [this] { submit(); });
}

void Client::draw_request() {
  const auto random = [this](int64_t high) {
    return static_cast<int32_t>(world_.between(0, high));
  };
  request_.id = std::to_string(number_);
  const int64_t max = world_.one_in(5) ? 40 : 12;
  const int64_t prompt = world_.between(1, max);
  const bool common = world_.one_in(2);  // Half of the prompts begin with the same tokens.
  for (int64_t i = 0; i < prompt; ++i) {
    const bool odd = !common || world_.one_in(30);
    request_.prompt_ids.push_back(odd ? random(model_.vocab - 3) : static_cast<int32_t>(i % 5));
  }
  request_.client = fmt::format("client {}", random(2));
  if (world_.one_in(5)) request_.cache_salt = "salt";
  if (world_.one_in(4)) request_.priority = random(2) - 1;
  poisoned_ = !patient_ && world_.one_in(25);
  if (poisoned_) request_.prompt_ids[0] = model_.poison;
  deadly_ = !patient_ && !poisoned_ && world_.one_in(25);
  if (deadly_) request_.prompt_ids[world_.between(0, prompt - 1)] = model_.deadly;
  request_.max_tokens = random(world_.one_in(5) ? 40 : 12) + (poisoned_ ? 1 : 0);
  request_.min_tokens = world_.one_in(4) ? random(6) : 0;
  request_.n = world_.one_in(4) ? 1 + random(3) : 1;
  request_.seed = static_cast<uint64_t>(world_.between(0, 1 << 30));
  if (world_.one_in(3)) request_.logprobs = random(3);
  if (!deadly_ && world_.one_in(4)) request_.prompt_logprobs = random(2);
  if (world_.one_in(3)) request_.stop_ids = {random(20), random(20), 3, 3, 500};
  SamplingParams& sampling = request_.sampling;
  sampling.temperature = static_cast<float>(random(2)) * 0.7f;
  if (world_.one_in(4)) sampling.top_k = 1 + random(60);
  if (world_.one_in(2)) sampling.top_p = 0.9f;
  if (world_.one_in(5)) sampling.min_p = 0.02f;
  if (world_.one_in(4)) sampling.repetition_penalty = 1.3f;
  if (world_.one_in(4)) sampling.frequency_penalty = 0.4f;
  if (world_.one_in(5)) sampling.logit_bias = {{4, 2.0f}, {9, -1.0f}};
}

void Client::submit() {
  offset_ = 0;
  if (has_deadline_) request_.deadline_ms = world_.now() + world_.between(1, 400);
  choices_.assign(static_cast<size_t>(request_.n), {});
  absl::StatusOr<std::shared_ptr<Stream>> stream = engine_.submit(request_);
  if (!stream.ok()) {
    const absl::StatusCode code = stream.status().code();
    if (code == absl::StatusCode::kInvalidArgument) {
      done_ = true;  // The request can never fit into the KV pages.
    } else if (code == absl::StatusCode::kUnavailable ||
               code == absl::StatusCode::kResourceExhausted) {
      try_again();
    } else {
      world_.broken("client {} was refused: {}", number_, stream.status().ToString());
    }
    return;
  }
  world_.log("client {}: {} tokens, {} choices, {} to draw", number_, request_.prompt_ids.size(),
             request_.n, request_.max_tokens);
  stream_ = *std::move(stream);
  failed_before_ = engine_.groups_failed();
  changed_before_ = engine_.changed();
  check_deadline();
  if (cancels_) {
    world_.after(cancel_after_, [this] {
      if (done_) return;
      world_.log("client {}: cancels", number_);
      cancelled_ = true;
      engine_.cancel(stream_);
    });
  }
  world_.after(world_.between(1, pause_), [this] { read(); });
}

void Client::wake() {
  if (std::exchange(pause_, 1) == kLongPause && stream_ != nullptr) read();
}

void Client::try_again() {
  if (engine_.draining() || (!patient_ && world_.one_in(3))) {
    done_ = true;
    return;
  }
  world_.after(world_.between(20, 500), [this] { submit(); });
}

void Client::read() {
  if (done_ || stream_ == nullptr) return;
  std::vector<StreamEvent> events;
  const bool closed = stream_->read(offset_, &events);
  offset_ += events.size();
  for (const StreamEvent& event : events) take(event);
  if (closed) return close(stream_->status());
  world_.after(world_.between(1, pause_), [this] { read(); });
}

// Checks that the prompt's log-probabilities arrive once, in order, and before any choice's tokens.
void Client::take_scores(const StreamEvent& event) {
  if (event.prompt_logprobs.empty()) return;
  for (const Choice& choice : choices_) {
    if (choice.tokens == 0) continue;
    world_.broken("client {}: the prompt's logprobs come after tokens", number_);
  }
  Choice& choice = choices_.at(static_cast<size_t>(event.index));
  const Alone& alone = alone_.at(static_cast<size_t>(event.index));
  for (const std::vector<Logprob>& token : event.prompt_logprobs) {
    const size_t at = choice.scores++;
    if (at < alone.prompt_logprobs.size() && equal(token, alone.prompt_logprobs[at])) continue;
    world_.broken("client {}: token {} of the prompt has other logprobs than alone", number_, at);
  }
}

void Client::take(const StreamEvent& event) {
  if (alone_.empty()) {
    const PreparedRequest prepared(request_, model_.vocab);
    for (int32_t i = 0; i < request_.n; ++i) alone_.push_back(run_alone(model_, prepared, i));
  }
  Choice& choice = choices_.at(static_cast<size_t>(event.index));
  const Alone& alone = alone_.at(static_cast<size_t>(event.index));
  if (choice.finish_reason != FinishReason::kNone) {
    world_.broken("client {}: an event after the last one of choice {}", number_, event.index);
  }
  take_scores(event);
  for (size_t i = 0; i < event.token_ids.size(); ++i, ++choice.tokens, ++tokens_) {
    if (choice.tokens >= alone.tokens.size() || event.token_ids[i] != alone.tokens[choice.tokens]) {
      return world_.broken("client {}: token {} of choice {} is {}, alone {}", number_,
                           choice.tokens, event.index, event.token_ids[i],
                           choice.tokens < alone.tokens.size() ? alone.tokens[choice.tokens] : -1);
    }
    if (request_.logprobs < 0) continue;
    if (!equal(event.logprobs[i], alone.logprobs[choice.tokens])) {
      world_.broken("client {}: logprobs differ from those alone", number_);
    }
  }
  choice.finish_reason = event.finish_reason;
  const bool whole =
      event.finish_reason == FinishReason::kStop || event.finish_reason == FinishReason::kLength;
  if (whole &&
      (choice.tokens != alone.tokens.size() || choice.scores != alone.prompt_logprobs.size() ||
       event.finish_reason != alone.finish_reason)) {
    world_.broken("client {}: choice {} ended after {} tokens with {}, alone after {} with {}",
                  number_, event.index, choice.tokens, finish_reason_name(event.finish_reason),
                  alone.tokens.size(), finish_reason_name(alone.finish_reason));
  }
}

// Checks that the request ends at its deadline, with or without a group.
void Client::check_deadline() {
  if (!has_deadline_ || slow_) return;
  world_.after(request_.deadline_ms - world_.now() + 2 * kLongestPause, [this, stream = stream_] {
    if (stream_ != stream) return;
    world_.broken("client {}: its stream is still open {} ms after its deadline", number_,
                  world_.now() - request_.deadline_ms);
  });
}

bool Client::expected(const absl::Status& status) const {
  const bool all_finished = std::all_of(choices_.begin(), choices_.end(), [](const Choice& choice) {
    return choice.finish_reason != FinishReason::kNone;
  });
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return all_finished && (cancelled_ || (!poisoned_ && !deadly_));
    case absl::StatusCode::kUnavailable:
      return engine_.changed() > changed_before_;
    case absl::StatusCode::kCancelled:
      return all_finished && engine_.draining();
    case absl::StatusCode::kDeadlineExceeded:
      return has_deadline_ && all_finished && world_.now() >= request_.deadline_ms;
    case absl::StatusCode::kResourceExhausted:
      return slow_;
    case absl::StatusCode::kDataLoss:
      return poisoned_;
    case absl::StatusCode::kInternal:
      return engine_.groups_failed() >= failed_before_ + kStrikes;
    default:
      return false;
  }
}

void Client::close(const absl::Status& status) {
  world_.log("client {}: closed, {}", number_, status.ok() ? "OK" : message_of(status));
  if (status == displaced() && offset_ == 0) {  // This counts as a refusal.
    stream_ = nullptr;
    return try_again();
  }
  if (!expected(status)) world_.broken("client {}: closed with {}", number_, status.ToString());
  ended_by_strikes_ = status.code() == absl::StatusCode::kInternal && !poisoned_;
  const bool whole =
      status.ok() && std::all_of(choices_.begin(), choices_.end(), [](const Choice& choice) {
        return choice.finish_reason != FinishReason::kCancelled;
      });
  served_ = served_ || whole;
  stream_ = nullptr;
  const bool innocent = ended_by_strikes_ && !deadly_;
  if ((innocent || status.code() == absl::StatusCode::kUnavailable) && !cancelled_) {
    return try_again();
  }
  done_ = true;
}

}  // namespace lockstep::simulation
