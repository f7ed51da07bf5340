// SPDX-License-Identifier: Apache-2.0
// A small server of OpenAI's HTTP interface whose answers a test chooses.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/json.h"
#include "base/threads/mutex.h"

namespace lockstep::testing {

struct FakeRequest {
  std::string target;  // "/v1/completions"
  std::string head;    // The complete head.
  Json body;
};

enum class FakeFault {
  kNone,
  kCut,         // The connection ends during the answer.
  kErrorEvent,  // An event with an error, then the stream's regular end.
  kSilence,     // No answer at all.
  kNoise,       // Bytes that are not HTTP.
  kLeave,       // A complete answer without "Connection: close", then the connection is closed.
};

struct FakeAnswer {
  int status = 200;
  std::string content_type = "text/event-stream";
  std::string body;  // The whole answer, if it is not a stream.
  bool usage = true;
  bool byte_by_byte = false;
  FakeFault fault = FakeFault::kNone;
  std::chrono::milliseconds first{0};    // Before the first token.
  std::chrono::milliseconds between{0};  // Before each later token.
};

// Listens on a port of 127.0.0.1, with one thread per connection. Answers have max_tokens tokens.
// The only model is "fake".
class FakeOpenAi {
 public:
  using Decide = std::function<FakeAnswer(const FakeRequest&)>;

  // `decide` is called on the connections' threads, and may block them. Port 0 chooses a free one.
  explicit FakeOpenAi(Decide decide, uint16_t port = 0);
  ~FakeOpenAi();

  std::string url() const;
  std::vector<FakeRequest> requests() const;  // Without requests for the list of models.
  int connections() const { return connections_; }

 private:
  void accept_all();
  void serve(int descriptor);
  bool answer(int descriptor, const FakeRequest& request);
  static bool stream(int descriptor, const FakeRequest& request, const FakeAnswer& answer);

  const Decide decide_;
  int listener_ = -1;
  uint16_t port_ = 0;
  std::atomic<int> connections_ = 0;
  mutable Mutex mutex_;
  std::vector<FakeRequest> requests_ ABSL_GUARDED_BY(mutex_);
  std::vector<int> descriptors_;      // Used by acceptor_ until it ends; closed after threads_ end.
  std::vector<std::thread> threads_;  // Used by acceptor_ until it ends.
  std::thread acceptor_;
};

}  // namespace lockstep::testing
