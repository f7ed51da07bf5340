// SPDX-License-Identifier: Apache-2.0
// The effect of a long prompt on a server's other streams, and the gain by the prefix cache:
//   lockstep serve SHAPE --random-weights 1 --quantize q8 --threads 2 --grpc 127.0.0.1:50051 &
//   latency_bench --grpc 127.0.0.1:50051 [--streams 8] [--prompt 4000] [--shared 2000]
// Prints JSON, times in ms: between two tokens of a stream, while the streams are alone and while
// the long prompt is computed; the long prompt's first token; the first token of a prompt, and of
// another one that begins with the same tokens.
#include <fmt/format.h>
#include <grpcpp/grpcpp.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

#include "proto/generate.grpc.pb.h"

namespace lockstep::bench {
namespace {

using Clock = std::chrono::steady_clock;

struct Flags {
  std::string address = "127.0.0.1:50051";
  int streams = 8;
  int prompt = 4000;
  int shared = 2000;
  int alone = 64;  // Tokens of each stream before the long prompt.
};

double ms_between(Clock::time_point begin, Clock::time_point end) {
  return std::chrono::duration<double, std::milli>(end - begin).count();
}

v1::GenerateRequest request_of(int seed, int prompt, int max_tokens) {
  v1::GenerateRequest request;
  for (int i = 0; i < prompt; ++i) {
    request.mutable_prompt_ids()->add_ids(10 + (seed * 7919 + i * 31 + i / 17) % 400);
  }
  request.set_max_tokens(max_tokens);
  request.set_ignore_eos(true);
  request.set_temperature(0);
  return request;
}

// A started call and the times of its tokens.
class Call {
 public:
  Call(const std::string& address, const v1::GenerateRequest& request)
      : stub_(v1::Generation::NewStub(
            grpc::CreateChannel(address, grpc::InsecureChannelCredentials()))),
        begin_(Clock::now()),
        reader_(stub_->Generate(&context_, request)),
        thread_([this] { read(); }) {}
  ~Call() {
    context_.TryCancel();
    thread_.join();
  }

  size_t tokens() const {
    const std::scoped_lock lock(mutex_);
    return times_.size();
  }
  void wait(size_t tokens) const {
    while (!over_ && this->tokens() < tokens)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  double first_token_ms() const {
    wait(1);
    const std::scoped_lock lock(mutex_);
    return times_.empty() ? -1 : ms_between(begin_, times_[0]);
  }
  // Times between two tokens, if the second arrived in (begin, end].
  std::vector<double> gaps(Clock::time_point begin, Clock::time_point end) const {
    const std::scoped_lock lock(mutex_);
    std::vector<double> found;
    for (size_t i = 1; i < times_.size(); ++i) {
      if (times_[i] <= begin || times_[i] > end) continue;
      found.push_back(ms_between(times_[i - 1], times_[i]));
    }
    return found;
  }

 private:
  void read() {
    v1::GenerateResponse response;
    while (reader_->Read(&response)) {
      const std::scoped_lock lock(mutex_);
      times_.insert(times_.end(), static_cast<size_t>(response.token_ids_size()), Clock::now());
    }
    const grpc::Status status = reader_->Finish();
    if (!status.ok() && status.error_code() != grpc::StatusCode::CANCELLED) {
      fmt::print(stderr, "latency_bench: {}\n", status.error_message());
    }
    over_ = true;
  }

  std::unique_ptr<v1::Generation::Stub> stub_;
  grpc::ClientContext context_;
  Clock::time_point begin_;
  std::unique_ptr<grpc::ClientReader<v1::GenerateResponse>> reader_;
  mutable std::mutex mutex_;
  std::vector<Clock::time_point> times_;
  std::atomic<bool> over_ = false;
  std::thread thread_;
};

nlohmann::json summary(std::vector<double> values) {
  if (values.empty()) return nullptr;
  std::sort(values.begin(), values.end());
  const auto at = [&](double share) {
    return values[static_cast<size_t>(share * static_cast<double>(values.size() - 1))];
  };
  return {{"p50", at(0.5)}, {"p99", at(0.99)}, {"max", at(1)}, {"count", values.size()}};
}

nlohmann::json measure_long_prompt(const Flags& flags) {
  std::vector<std::unique_ptr<Call>> streams;
  streams.reserve(static_cast<size_t>(flags.streams));
  for (int i = 0; i < flags.streams; ++i) {
    streams.push_back(std::make_unique<Call>(flags.address, request_of(i, 32, 4000)));
  }
  for (const auto& stream : streams) stream->wait(4);
  const auto gaps = [&](Clock::time_point begin) {
    std::vector<double> all;
    for (const auto& stream : streams) {
      const std::vector<double> some = stream->gaps(begin, Clock::now());
      all.insert(all.end(), some.begin(), some.end());
    }
    return summary(std::move(all));
  };
  const Clock::time_point alone = Clock::now();
  for (const auto& stream : streams) stream->wait(static_cast<size_t>(flags.alone));
  nlohmann::json result = {{"alone_ms", gaps(alone)}};
  const Clock::time_point beside = Clock::now();
  const Call long_prompt(flags.address, request_of(100, flags.prompt, 1));
  result["prompt_first_token_ms"] = long_prompt.first_token_ms();
  result["beside_prompt_ms"] = gaps(beside);
  return result;
}

// The second prompt has a different end.
nlohmann::json measure_shared(const Flags& flags) {
  v1::GenerateRequest request = request_of(200, flags.shared, 1);
  request.mutable_prompt_ids()->add_ids(5);
  const auto stub = v1::Generation::NewStub(
      grpc::CreateChannel(flags.address, grpc::InsecureChannelCredentials()));
  std::vector<double> times;
  for (int i = 0; i < 2; ++i) {  // Both on one connection, as one client.
    request.mutable_prompt_ids()->set_ids(flags.shared, 5 + i);
    grpc::ClientContext context;
    v1::GenerateResponse response;
    const Clock::time_point begin = Clock::now();
    const auto reader = stub->Generate(&context, request);
    while (reader->Read(&response) && response.token_ids_size() == 0) {
    }
    times.push_back(ms_between(begin, Clock::now()));
    while (reader->Read(&response)) {
    }
    reader->Finish();
  }
  return {{"first_ms", times[0]}, {"second_ms", times[1]}, {"share", times[1] / times[0]}};
}

}  // namespace
}  // namespace lockstep::bench

int main(int argc, char** argv) {
  CLI::App app("Times between tokens during a long prompt, and after a shared one.");
  lockstep::bench::Flags flags;
  app.add_option("--grpc", flags.address, "The server's address")->capture_default_str();
  app.add_option("--streams", flags.streams, "Streams that decode")->capture_default_str();
  app.add_option("--prompt", flags.prompt, "Tokens of the long prompt")->capture_default_str();
  app.add_option("--shared", flags.shared, "Tokens at the beginning of two prompts")
      ->capture_default_str();
  app.add_option("--alone", flags.alone, "Tokens of each stream before the long prompt")
      ->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  nlohmann::json result = lockstep::bench::measure_shared(flags);
  result = {{"shared", result}, {"long_prompt", lockstep::bench::measure_long_prompt(flags)}};
  fmt::print("{}\n", result.dump());
  return 0;
}
