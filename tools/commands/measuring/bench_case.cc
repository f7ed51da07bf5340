// SPDX-License-Identifier: Apache-2.0
// The engine starts sequences in the order of submission, so all sequences decode as soon as the
// last one has its first token. No sequence ends before the last one has all its steps, so every
// timed step has all sequences.
#include "tools/commands/measuring/bench_case.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <limits>
#include <string_view>

#include "base/status.h"

namespace lockstep {
namespace {

using Clock = std::chrono::steady_clock;

// Removes a number of 1 or more from the front; false if there is none.
bool take_number(std::string_view* text, int64_t* number) {
  const auto [stop, error] = std::from_chars(text->data(), text->data() + text->size(), *number);
  if (error != std::errc() || *number < 1) return false;
  text->remove_prefix(static_cast<size_t>(stop - text->data()));
  return true;
}

bool take(std::string_view* text, std::string_view prefix) {
  if (!text->starts_with(prefix)) return false;
  text->remove_prefix(prefix.size());
  return true;
}

absl::StatusOr<BenchCase> parse_case(std::string_view text) {
  BenchCase result{.name = std::string(text)};
  std::string_view rest = text;
  bool good = false;
  if (take(&rest, "prefill:")) {
    good = take_number(&rest, &result.prompt_tokens);
  } else if (take(&rest, "decode:")) {
    good = take_number(&rest, &result.decode_steps);
    if (take(&rest, "@")) good = good && take_number(&rest, &result.prompt_tokens);
  }
  if (take(&rest, "x")) good = good && take_number(&rest, &result.batch);
  if (good && rest.empty()) return result;
  return invalid_argument(
      "--cases: must be a case such as prefill:512, decode:128, decode:128@4096 or decode:128x8, "
      "found \"{}\"",
      result.name);
}

EngineRequest make_request(const BenchCase& bench_case, const Model& model, int64_t index) {
  EngineRequest request;
  request.id = fmt::format("bench-{}", index);
  for (int64_t i = 0; i < bench_case.prompt_tokens; ++i) {
    request.prompt_ids.push_back(
        static_cast<int32_t>((7919 * (i + 1) + 104729 * index) % model.config().vocab_size));
  }
  const int64_t room = model.max_context() - bench_case.prompt_tokens;
  request.max_tokens =
      static_cast<int32_t>(bench_case.decode_steps == 0 ? 1 : std::max<int64_t>(room, 1));
  request.sampling.temperature = 0;
  return request;
}

// Blocks until the stream has `count` tokens.
absl::Status wait_for(Stream& stream, int64_t count) {
  stream.wait(static_cast<size_t>(count - 1));
  std::vector<StreamEvent> events;
  if (!stream.read(0, &events) || static_cast<int64_t>(events.size()) >= count) {
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(stream.status());
  return absl::InternalError(
      fmt::format("bench: a sequence must have {} tokens, found {}", count, events.size()));
}

// Cancels the streams and waits for their ends, so that the next case finds an idle engine.
void end_all(const std::vector<std::shared_ptr<Stream>>& streams, Engine& engine) {
  constexpr size_t kNeverReached = std::numeric_limits<size_t>::max();
  for (const std::shared_ptr<Stream>& stream : streams) engine.cancel(stream);
  for (const std::shared_ptr<Stream>& stream : streams) stream->wait(kNeverReached);
}

// Submits the sequences, in order, and times them. Sequences may still run when it returns.
absl::StatusOr<BenchTimes> time_streams(const BenchCase& bench_case, InferenceService& service,
                                        std::vector<std::shared_ptr<Stream>>* streams) {
  const Clock::time_point start = Clock::now();
  for (int64_t i = 0; i < bench_case.batch; ++i) {
    ASSIGN_OR_RETURN(std::shared_ptr<Stream> stream,
                     service.engine().submit(make_request(bench_case, service.model(), i)));
    streams->push_back(std::move(stream));
  }
  for (const std::shared_ptr<Stream>& stream : *streams) RETURN_IF_ERROR(wait_for(*stream, 1));
  const Clock::time_point first = Clock::now();
  RETURN_IF_ERROR(wait_for(*streams->back(), 1 + bench_case.decode_steps));
  const Clock::time_point end = Clock::now();
  return BenchTimes{std::chrono::duration<double>(first - start).count(),
                    std::chrono::duration<double>(end - first).count()};
}

}  // namespace

absl::StatusOr<std::vector<BenchCase>> parse_bench_cases(const std::string& list) {
  std::vector<BenchCase> cases;
  for (size_t begin = 0; begin <= list.size();) {
    const size_t end = std::min(list.find(',', begin), list.size());
    ASSIGN_OR_RETURN(BenchCase one, parse_case(std::string_view(list).substr(begin, end - begin)));
    cases.push_back(std::move(one));
    begin = end + 1;
  }
  return cases;
}

absl::Status check_fits(const BenchCase& bench_case, const Model& model) {
  const int64_t length = bench_case.prompt_tokens + bench_case.decode_steps + 1;
  if (length > model.max_context()) {
    return invalid_argument(
        "{}: must be a sequence of at most {} positions, found {}; raise --max-context, if the "
        "model allows it",
        bench_case.name, model.max_context(), length);
  }
  if (bench_case.batch > model.options().max_sequences) {
    return invalid_argument(
        "{}: must have at most {} sequences at once, found {}; raise --max-running",
        bench_case.name, model.options().max_sequences, bench_case.batch);
  }
  return absl::OkStatus();
}

absl::StatusOr<BenchTimes> run_case(const BenchCase& bench_case, InferenceService& service) {
  const EngineStats before = service.engine().stats();
  std::vector<std::shared_ptr<Stream>> streams;
  absl::StatusOr<BenchTimes> times = time_streams(bench_case, service, &streams);
  end_all(streams, service.engine());
  RETURN_IF_ERROR(times.status());
  const EngineStats after = service.engine().stats();
  if (after.preemptions > before.preemptions) {
    return resource_exhausted(
        "{}: its keys and values do not fit into memory at once; raise --kv-memory",
        bench_case.name);
  }
  const int64_t wanted = bench_case.batch * bench_case.prompt_tokens;
  const int64_t computed = after.prompt_tokens - before.prompt_tokens;
  if (computed == wanted) return times;
  return absl::InternalError(fmt::format("{}: {} tokens of prompts, of which {} were computed",
                                         bench_case.name, wanted, computed));
}

}  // namespace lockstep
