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
  kLeave,       // A complete answer, then the connection is closed without notice.
};

struct FakeAnswer {
  int status = 200;
  std::string content_type = "text/event-stream";
  std::string body;  // If it is not a stream.
  bool usage = true;
  bool byte_by_byte = false;
  FakeFault fault = FakeFault::kNone;
  std::chrono::milliseconds first{0};    // Before the first token.
  std::chrono::milliseconds between{0};  // Before each later token.
};

// Listens on a port of 127.0.0.1, with one thread per connection. Answers have max_tokens tokens.
// The list of models has "fake".
class FakeOpenAi {
 public:
  using Decide = std::function<FakeAnswer(const FakeRequest&)>;

  // `decide` is called on the connections' threads, and may block them. Port 0: a free one.
  explicit FakeOpenAi(Decide decide, uint16_t port = 0);
  ~FakeOpenAi();

  std::string url() const;
  std::vector<FakeRequest> requests() const;  // For answers, not for the list of models.
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
  std::vector<int> descriptors_;      // The accepting thread's; closed when all threads have ended.
  std::vector<std::thread> threads_;  // Also the accepting thread's.
  std::thread acceptor_;
};

}  // namespace lockstep::testing
