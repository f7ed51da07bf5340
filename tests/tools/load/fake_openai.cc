// SPDX-License-Identifier: Apache-2.0
#include "tests/tools/load/fake_openai.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>

#include "base/check.h"

namespace lockstep::testing {
namespace {

// Returns false if the peer has closed.
bool send_all(int descriptor, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(descriptor, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) return false;
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
  return true;
}

bool receive(int descriptor, std::string* bytes) {
  char piece[16384];
  const ssize_t count = recv(descriptor, piece, sizeof piece, 0);
  if (count > 0) bytes->append(piece, static_cast<size_t>(count));
  return count > 0;
}

// Moves one request out of `bytes`, and receives more bytes until it is complete. Returns false if
// the peer has closed.
bool take_request(int descriptor, std::string* bytes, FakeRequest* request) {
  size_t end = 0;
  while ((end = bytes->find("\r\n\r\n")) == std::string::npos) {
    if (!receive(descriptor, bytes)) return false;
  }
  request->head = bytes->substr(0, end + 2);
  const size_t blank = request->head.find(' ') + 1;
  request->target = request->head.substr(blank, request->head.find(' ', blank) - blank);
  size_t length = 0;
  const size_t field = request->head.find("Content-Length: ");
  if (field != std::string::npos) length = std::stoul(request->head.substr(field + 16));
  while (bytes->size() < end + 4 + length) {
    if (!receive(descriptor, bytes)) return false;
  }
  if (length > 0) request->body = Json::parse(bytes->substr(end + 4, length));
  bytes->erase(0, end + 4 + length);
  return true;
}

std::string whole(int status, const std::string& type, const std::string& body) {
  return fmt::format("HTTP/1.1 {} -\r\nContent-Type: {}\r\nContent-Length: {}\r\n\r\n{}", status,
                     type, body.size(), body);
}

std::string chunk(const std::string& bytes) {
  return fmt::format("{:x}\r\n{}\r\n", bytes.size(), bytes);
}

std::string event(const Json& data) { return "data: " + data.dump() + "\n\n"; }

Json choice(bool chat, const std::string& text, bool finished) {
  Json one = {{"index", 0}};
  if (chat) {
    one["delta"] = {{"content", text}};
  } else {
    one["text"] = text;
  }
  one["finish_reason"] = finished ? Json("length") : Json();
  return {{"choices", {one}}};
}

// The answer's last events.
std::string ending(const FakeRequest& request, const FakeAnswer& answer, int64_t tokens) {
  if (answer.fault == FakeFault::kErrorEvent) {
    return event({{"error", {{"message", "lost rank 1"}}}}) + "data: [DONE]\n\n";
  }
  std::string events = event(choice(request.body.contains("messages"), "", true));
  if (answer.usage) {
    events += event({{"choices", Json::array()},
                     {"usage", {{"prompt_tokens", 7}, {"completion_tokens", tokens}}}});
  }
  return events + "data: [DONE]\n\n";
}

}  // namespace

FakeOpenAi::FakeOpenAi(Decide decide, uint16_t port) : decide_(std::move(decide)) {
  listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{.sin_family = AF_INET, .sin_port = htons(port)};
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  LOCKSTEP_CHECK(bind(listener_, generic, sizeof address) == 0);
  LOCKSTEP_CHECK(listen(listener_, SOMAXCONN) == 0);
  socklen_t length = sizeof address;
  LOCKSTEP_CHECK(getsockname(listener_, generic, &length) == 0);
  port_ = ntohs(address.sin_port);
  acceptor_ = std::thread([this] { accept_all(); });
}

FakeOpenAi::~FakeOpenAi() {
  shutdown(listener_, SHUT_RDWR);
  acceptor_.join();
  for (const int descriptor : descriptors_) shutdown(descriptor, SHUT_RDWR);
  for (std::thread& thread : threads_) thread.join();
  for (const int descriptor : descriptors_) close(descriptor);
  close(listener_);
}

std::string FakeOpenAi::url() const { return fmt::format("http://127.0.0.1:{}", port_); }

std::vector<FakeRequest> FakeOpenAi::requests() const {
  MutexLock lock(&mutex_);
  return requests_;
}

void FakeOpenAi::accept_all() {
  int descriptor = 0;
  while ((descriptor = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC)) >= 0) {
    ++connections_;
    descriptors_.push_back(descriptor);
    threads_.emplace_back([this, descriptor] { serve(descriptor); });
  }
}

void FakeOpenAi::serve(int descriptor) {
  std::string bytes;
  FakeRequest request;
  bool open = true;
  while (open && take_request(descriptor, &bytes, &request)) {
    if (request.target == "/v1/models") {
      open = send_all(descriptor, whole(200, "application/json", R"({"data": [{"id": "fake"}]})"));
    } else {
      open = answer(descriptor, request);
    }
    request = {};
  }
  shutdown(descriptor, SHUT_RDWR);
}

bool FakeOpenAi::answer(int descriptor, const FakeRequest& request) {
  const FakeAnswer answer = [&] {
    {
      MutexLock lock(&mutex_);
      requests_.push_back(request);
    }
    return decide_(request);
  }();
  std::string ignored;
  switch (answer.fault) {
    case FakeFault::kNoise:
      return send_all(descriptor, "220 mail ready\r\n\r\n") && false;
    case FakeFault::kSilence:
      return receive(descriptor, &ignored);  // Until the client gives up.
    default:
      break;
  }
  if (answer.status != 200 || answer.content_type != "text/event-stream") {
    return send_all(descriptor, whole(answer.status, answer.content_type, answer.body));
  }
  return stream(descriptor, request, answer) && answer.fault != FakeFault::kLeave;
}

bool FakeOpenAi::stream(int descriptor, const FakeRequest& request, const FakeAnswer& answer) {
  const auto send = [&](const std::string& bytes) {
    const size_t piece = answer.byte_by_byte ? 1 : bytes.size();
    bool open = true;
    for (size_t at = 0; open && at < bytes.size(); at += piece) {
      open = send_all(descriptor, std::string_view(bytes).substr(at, piece));
    }
    return open;
  };
  if (!send("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n"
            "Transfer-Encoding: chunked\r\n\r\n")) {
    return false;
  }
  const bool chat = request.body.contains("messages");
  const auto tokens = request.body["max_tokens"].get<int64_t>();
  for (int64_t token = 0; token < tokens; ++token) {
    // Tests leave both times at 0.
    std::this_thread::sleep_for(token == 0 ? answer.first : answer.between);
    if (!send(chunk(event(choice(chat, " word", false))))) return false;
    if (answer.fault == FakeFault::kCut) return false;
  }
  return send(chunk(ending(request, answer, tokens)) + "0\r\n\r\n");
}

}  // namespace lockstep::testing
