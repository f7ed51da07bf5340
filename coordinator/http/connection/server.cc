// SPDX-License-Identifier: Apache-2.0
#include "coordinator/http/connection/server.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <system_error>
#include <vector>

#include "base/sockets/address.h"
#include "base/status.h"
#include "coordinator/http/connection/connection.h"
#include "coordinator/http/connection/http2_connection.h"
#include "coordinator/http/connection/io_thread.h"
#include "coordinator/ports/listener.h"

namespace lockstep::http {

namespace {

constexpr std::chrono::milliseconds kPoll{2};  // The interval of checks in wait().
// The number of connections above the limit that are accepted before others are closed for them.
// During a flood the I/O threads close late, and connections beyond this number are refused.
int64_t max_coming(int64_t max) { return std::max<int64_t>(64, max / 2); }

template <typename Protocol>
std::shared_ptr<IoConnection> make(IoThread* thread, int descriptor, std::string network) {
  return std::make_shared<Protocol>(thread, descriptor, std::move(network));
}

}  // namespace

class Server::Impl {
 public:
  // `max`: for each new connection above this number, each I/O thread closes one.
  Impl(const ServerOptions& options, int64_t max, Handler handler,
       std::unique_ptr<Listener> listener, std::unique_ptr<TlsContext> tls)
      : listener_(std::move(listener)) {
    state_.make_connection =
        options.protocol == TlsProtocol::kHttp2 ? make<Http2Connection> : make<Connection>;
    state_.address = listener_->address();
    state_.tls = std::move(tls);
    state_.limits = options.limits;
    state_.refusal = options.refusal;
    state_.gate = options.gate;
    state_.page_headers = options.page_headers;
    state_.handler = std::move(handler);
    for (int i = 0; i < options.threads; ++i) {
      threads_.push_back(std::make_unique<IoThread>(&state_));
    }
    listener_->start(
        [this, max](int descriptor) {
          std::string network = network_of(peer_address(descriptor));
          if (state_.connections.add(network) > max) close_for_newer(max);
          threads_[next_++ % threads_.size()]->adopt(descriptor, std::move(network));
        },
        [this](const std::string& network) { return state_.connections.of(network); });
  }
  ~Impl() { listener_->stop(); }

  const std::string& address() const { return listener_->address(); }
  int64_t connections() const { return state_.connections.all(); }
  void wait_answered(std::chrono::milliseconds patience) {
    wait(patience, [this] { return state_.answers == 0; });
  }
  void finish(std::chrono::milliseconds patience) {
    drain();
    listener_->stop();
    wait(patience, [this] { return connections() == 0; });
  }
  void drain() {
    state_.draining = true;
    for (const auto& thread : threads_) thread->drain();
  }

 private:
  template <typename Condition>
  static void wait(std::chrono::milliseconds patience, const Condition& condition) {
    const auto deadline = Clock::now() + patience;
    while (!condition() && Clock::now() < deadline) std::this_thread::sleep_for(kPoll);
  }
  void close_for_newer(int64_t max) {
    for (const auto& thread : threads_) thread->close_one();
    if (const int64_t count = closings_.count(); count > 0) {
      spdlog::warn("{}: {} connections closed for newer ones: {} are open, the max", address(),
                   count, max);
    }
  }

  ServerState state_;
  std::unique_ptr<Listener> listener_;
  std::vector<std::unique_ptr<IoThread>> threads_;
  // Used only by the accepting thread.
  size_t next_ = 0;
  LogLimit closings_{std::chrono::seconds(1)};
};

Server::Server(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Server::~Server() = default;

absl::StatusOr<std::unique_ptr<Server>> Server::start(const ServerOptions& options,
                                                      Handler handler) {
  const int64_t connections =
      options.max_connections > 0 ? options.max_connections : connections_within_limit();
  // New connections may exceed the limit for a moment, while idle ones are closed.
  const bool closes = options.when_full == WhenFull::kCloseOther;
  ASSIGN_OR_RETURN(
      auto listener,
      Listener::bind(options.address, connections + (closes ? max_coming(connections) : 0),
                     /*shares=*/options.when_full == WhenFull::kShare));
  std::unique_ptr<TlsContext> tls;
  if (options.tls.given()) {
    ASSIGN_OR_RETURN(tls, TlsContext::load(options.tls, listener->address(), options.protocol));
  }
  try {
    return std::unique_ptr<Server>(new Server(
        std::make_unique<Impl>(options, closes ? connections : INT64_MAX, std::move(handler),
                               std::move(listener), std::move(tls))));
  } catch (const std::system_error& error) {  // From threads, or io_contexts' descriptors.
    return resource_exhausted("could not serve HTTP at {}: {}", options.address, error.what());
  }
}

const std::string& Server::address() const { return impl_->address(); }
void Server::drain() { impl_->drain(); }
void Server::wait_answered(std::chrono::milliseconds patience) { impl_->wait_answered(patience); }
void Server::finish(std::chrono::milliseconds patience) { impl_->finish(patience); }
int64_t Server::connections() const { return impl_->connections(); }

}  // namespace lockstep::http
