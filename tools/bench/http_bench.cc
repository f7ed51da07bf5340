// SPDX-License-Identifier: Apache-2.0
// The cost of the HTTP port alone: many event streams, each with the same number of events per
// second, read by a separate process. Prints the server's CPU time per event and its memory.
//   http_bench [STREAMS [EVENTS_PER_SECOND [SECONDS]]]
#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "base/check.h"
#include "base/system/descriptors.h"
#include "base/threads/mutex.h"
#include "coordinator/http/connection/server.h"
#include "coordinator/http/event_stream.h"

namespace {

using namespace lockstep;  // NOLINT: one program.
using Clock = std::chrono::steady_clock;

// An event as long as a chunk of a chat completion.
const std::string kEvent =
    R"({"id":"chatcmpl-0123456789abcdef","object":"chat.completion.chunk","created":1700000000,)"
    R"("model":"demo","choices":[{"index":0,"delta":{"content":" lighthouse"},)"
    R"("finish_reason":null}]})";

struct Stream {
  std::shared_ptr<http::Exchange> exchange;
  std::atomic<int> due{0};
  std::atomic<bool> ended{false};
};

class PacedSource final : public http::EventSource {
 public:
  explicit PacedSource(std::shared_ptr<Stream> stream) : stream_(std::move(stream)) {}
  State read(std::string* bytes) override {
    const bool ended = stream_->ended;
    for (const int due = stream_->due; given_ < due; ++given_) {
      http::append_event(kEvent, static_cast<uint64_t>(given_), bytes);
    }
    return ended ? State::kEnd : State::kMore;
  }

 private:
  const std::shared_ptr<Stream> stream_;
  int given_ = 0;
};

// Reads `streams` answers to their ends and exits: 0 if each had `events` events.
[[noreturn]] void read_all(int port, size_t streams, int64_t events) {
  const std::string request = "GET / HTTP/1.1\r\nHost: bench\r\nConnection: close\r\n\r\n";
  sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(static_cast<uint16_t>(port))};
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  std::vector<pollfd> open;
  for (size_t i = 0; i < streams; ++i) {
    const int one = socket(AF_INET, SOCK_STREAM, 0);
    LOCKSTEP_CHECK(connect(one, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
    LOCKSTEP_CHECK(send(one, request.data(), request.size(), 0) > 0);
    open.push_back({.fd = one, .events = POLLIN});
  }
  int64_t seen = 0;
  std::vector<char> bytes(1 << 16);
  while (!open.empty()) {
    poll(open.data(), open.size(), -1);
    std::erase_if(open, [&](const pollfd& one) {
      if (one.revents == 0) return false;
      const ssize_t count = recv(one.fd, bytes.data(), bytes.size(), 0);
      if (count <= 0) return close(one.fd) == 0;
      for (ssize_t i = 0; i < count; ++i) seen += bytes[static_cast<size_t>(i)] == '{' ? 1 : 0;
      return false;
    });
  }
  constexpr int64_t kBraces = 3;  // Per event.
  _exit(seen == kBraces * events * static_cast<int64_t>(streams) ? 0 : 1);
}

double processor_seconds() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

double resident_mb() {
  std::ifstream file("/proc/self/statm");
  int64_t all = 0;
  int64_t resident = 0;
  file >> all >> resident;
  return static_cast<double>(resident * sysconf(_SC_PAGESIZE)) / 1e6;
}

}  // namespace

int main(int argc, char** argv) {
  const size_t streams = argc > 1 ? std::strtoul(argv[1], nullptr, 10) : 2000;
  const int rate = argc > 2 ? std::atoi(argv[2]) : 50;
  const int events = rate * (argc > 3 ? std::atoi(argv[3]) : 10);
  raise_descriptor_limit();
  int port_pipe[2];
  LOCKSTEP_CHECK(pipe(port_pipe) == 0);
  const pid_t clients = fork();  // Before there are threads.
  int port = 0;
  if (clients == 0) {
    LOCKSTEP_CHECK(read(port_pipe[0], &port, sizeof port) == sizeof port);
    read_all(port, streams, events);
  }

  Mutex mutex;
  std::vector<std::shared_ptr<Stream>> all;
  std::atomic<size_t> begun{0};
  const double memory = resident_mb();
  auto server = http::Server::start(
      {.address = "127.0.0.1:0"}, [&](const std::shared_ptr<http::Exchange>& exchange) {
        auto stream = std::make_shared<Stream>();
        stream->exchange = exchange;
        exchange->stream(http::event_stream_head(), std::make_unique<PacedSource>(stream));
        MutexLock lock(&mutex);
        all.push_back(std::move(stream));
        ++begun;
      });
  LOCKSTEP_CHECK(server.ok());
  port = std::atoi((*server)->address().substr((*server)->address().rfind(':') + 1).c_str());
  LOCKSTEP_CHECK(write(port_pipe[1], &port, sizeof port) == sizeof port);
  while (begun < streams) std::this_thread::sleep_for(std::chrono::milliseconds(1));

  const double before = processor_seconds();
  auto next = Clock::now();
  for (int event = 0; event < events; ++event) {
    for (const auto& stream : all) {
      ++stream->due;
      if (event + 1 == events) stream->ended = true;
      stream->exchange->wake();
    }
    std::this_thread::sleep_until(next += std::chrono::microseconds(1'000'000 / rate));
  }
  const double peak = resident_mb();
  int status = 0;
  waitpid(clients, &status, 0);
  const double total = static_cast<double>(streams) * events;
  fmt::print(
      "{} streams x {} events/s: {} events, {}; {:.2f} us of CPU per event; {:.1f} MB more\n",
      streams, rate, total, status == 0 ? "all read" : "SOME LOST",
      (processor_seconds() - before) / total * 1e6, peak - memory);
  return status == 0 ? 0 : 1;
}
