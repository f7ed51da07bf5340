// SPDX-License-Identifier: Apache-2.0
// Puts a load on a server with OpenAI's HTTP interface, and records the answers.
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
  std::string api_key;  // Empty: no key is sent.
  Endpoint endpoint = Endpoint::kCompletions;
  std::string model;                 // Empty: the first one that the server lists.
  Json extra = Json::object();       // Added to every request's body.
  int concurrency = 0;               // Requests at a time; 0: each is sent at its arrival time.
  std::optional<double> duration_s;  // No request is sent after this.
  double timeout_s = 600;            // Per request, from sending it.
};

struct LoadProgress {
  double elapsed_s = 0;
  int64_t in_flight = 0;
  int64_t answered = 0;
  int64_t failed = 0;
  int64_t text_events = 0;
};

// One run. Everything happens on the calling thread.
class LoadClient {
 public:
  explicit LoadClient(LoadOptions options);
  ~LoadClient();

  // Call before run(): resolves the host and, without a given model, gets the first model that the
  // server lists. An error names the server: nothing listens there, or it has another interface.
  absl::Status prepare();
  const std::string& model() const;

  // Sends the requests and waits for their ends. `progress` is called ten times per second. The
  // records are in the order in which the requests ended.
  std::vector<LoadRecord> run(Workload& workload,
                              const std::function<void(const LoadProgress&)>& progress);
  // Requests that stop() left unfinished.
  int64_t in_flight() const;

  // Any thread: ends run() soon, without waiting for answers.
  void stop();

 private:
  class Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep
