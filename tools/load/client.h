// SPDX-License-Identifier: Apache-2.0
// Puts a load on a server that speaks OpenAI's HTTP interface, and records what comes back.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tools/load/openai.h"
#include "tools/load/record.h"
#include "tools/load/url.h"
#include "tools/load/workload.h"

namespace lockstep {

struct LoadOptions {
  Url url;
  std::string api_key;  // Empty: none is sent.
  Endpoint endpoint = Endpoint::kCompletions;
  std::string model;                 // Empty: the first one that the server lists.
  Json extra = Json::object();       // Members of every request's body.
  int concurrency = 0;               // Requests at a time; 0: each at the time when it arrives.
  std::optional<double> duration_s;  // Nothing new is sent after it.
  double timeout_s = 600;            // Of one request, from being sent.
};

struct LoadProgress {
  double elapsed_s = 0;
  int64_t in_flight = 0;
  int64_t answered = 0;
  int64_t failed = 0;
  int64_t text_events = 0;
};

// One run. All of it happens on the thread that calls.
class LoadClient {
 public:
  explicit LoadClient(LoadOptions options);
  ~LoadClient();

  // Before run(): finds the host, and asks for the first model that the server lists where none was
  // named. An error names the server: nothing listens there, or it speaks another interface.
  absl::Status prepare();
  const std::string& model() const;

  // Sends the requests and waits for their ends. `progress` is called ten times per second. The
  // records are in order of their ends.
  std::vector<LoadRecord> run(Workload& workload,
                              const std::function<void(const LoadProgress&)>& progress);
  // Requests that stop() left without an end.
  int64_t in_flight() const;

  // Any thread: ends run() soon, without waiting for answers.
  void stop();

 private:
  class Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep
