// SPDX-License-Identifier: Apache-2.0
// One thread accepts and hears strangers, and sleeps while there are none. Nothing that it does
// blocks: messages are smaller than what the system buffers.
#include "worker/data_port.h"

#include <poll.h>
#include <spdlog/spdlog.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <utility>

#include "base/status.h"
#include "worker/collectives/tcp_socket.h"

namespace lockstep {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// What has come of a message, and no byte behind it. False: the other side is gone.
template <typename Message>
bool receive(const FileDescriptor& socket, Arriving<Message>& message) {
  if (message.missing() == 0) return true;
  const ssize_t bytes = recv(socket.get(), message.next(), message.missing(), MSG_DONTWAIT);
  if (bytes > 0) message.received(static_cast<size_t>(bytes));
  return bytes > 0 || (bytes < 0 && (errno == EAGAIN || errno == EINTR));
}

template <typename Message>
bool send_whole(const FileDescriptor& socket, const Message& message) {
  return send(socket.get(), &message, sizeof(message), MSG_NOSIGNAL | MSG_DONTWAIT) ==
         static_cast<ssize_t>(sizeof(message));
}

}  // namespace

absl::StatusOr<std::unique_ptr<DataPort>> DataPort::open(const std::string& address,
                                                         const std::string& told_host) {
  std::unique_ptr<DataPort> port(new DataPort);
  ASSIGN_OR_RETURN(port->listener_, listen_tcp(address, kMaxStrangers));
  port->address_ = local_address(port->listener_);
  ASSIGN_OR_RETURN(const HostAndPort bound, split_address(port->address_));
  if (is_any_host(bound.host)) port->address_ = join_address(told_host, bound.port);
  port->bell_ = FileDescriptor(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (!port->bell_.valid()) return resource_exhausted("no file descriptor for the data port");
  port->thread_ = std::thread([raw = port.get()] { raw->run(); });
  return port;
}

DataPort::~DataPort() {
  {
    const MutexLock lock(&mutex_);
    stopping_ = true;
  }
  if (!thread_.joinable()) return;
  wake();
  thread_.join();
}

void DataPort::wake() const {
  const uint64_t one = 1;
  static_cast<void>(write(bell_.get(), &one, sizeof(one)) < 0);  // Full: it is awake already.
}

// --- The meeting's side

void DataPort::begin(DataEpoch epoch) {
  const MutexLock lock(&mutex_);
  epoch_ = std::move(epoch);
  claimed_.clear();
  arrived_.clear();
  wake();  // Those of this epoch may have come already.
}

void DataPort::end() { begin({}); }

bool DataPort::claim(int rank) {
  const MutexLock lock(&mutex_);
  return claimed_.insert(rank).second;
}

void DataPort::unclaim(int rank) {
  const MutexLock lock(&mutex_);
  claimed_.erase(rank);
}

FileDescriptor DataPort::take(int rank) {
  const MutexLock lock(&mutex_);
  const auto found = arrived_.find(rank);
  if (found == arrived_.end()) return {};
  FileDescriptor socket = std::move(found->second);
  arrived_.erase(found);
  return socket;
}

void DataPort::wait(milliseconds at_most) {
  const auto deadline = steady_clock::now() + at_most;
  const MutexLock lock(&mutex_);
  while (arrived_.empty() && changed_.wait_until(&mutex_, deadline)) {
  }
}

// --- The thread

void DataPort::run() {
  while (true) {
    std::vector<pollfd> polled = {{.fd = bell_.get(), .events = POLLIN, .revents = 0},
                                  {.fd = listener_.get(), .events = POLLIN, .revents = 0}};
    auto next = steady_clock::time_point::max();
    for (const Stranger& stranger : strangers_) {
      // A whole hello waits for its epoch: what comes behind it is not heard.
      const bool waits = stranger.handshake.hello.missing() == 0 && !stranger.handshake.answered();
      polled.push_back({.fd = waits ? -1 : stranger.socket.get(), .events = POLLIN, .revents = 0});
      next = std::min(next, stranger.deadline);
    }
    const auto left = std::chrono::ceil<milliseconds>(next - steady_clock::now()).count();
    poll(polled.data(), polled.size(),
         strangers_.empty() ? -1 : static_cast<int>(std::clamp<int64_t>(left, 0, 60'000)));
    uint64_t rings = 0;
    static_cast<void>(read(bell_.get(), &rings, sizeof(rings)) < 0);
    {
      const MutexLock lock(&mutex_);
      if (stopping_) return;
    }
    accept_strangers();
    std::erase_if(strangers_, [this](Stranger& one) { return hear(one) == Fate::kGoes; });
  }
}

void DataPort::accept_strangers() {
  for (size_t accepted = 0; accepted < kMaxStrangers; ++accepted) {
    absl::StatusOr<FileDescriptor> socket = accept_tcp(listener_);
    if (!socket.ok()) {
      spdlog::warn("data port: {}", message_of(socket.status()));
      std::this_thread::sleep_for(milliseconds(20));  // The system is short of something.
      return;
    }
    if (!socket->valid()) return;
    if (strangers_.size() >= kMaxStrangers) strangers_.erase(strangers_.begin());
    strangers_.push_back({*std::move(socket), steady_clock::now() + kStrangerTime, {}});
  }
}

DataPort::Fate DataPort::hear(Stranger& stranger) {
  DataListening& handshake = stranger.handshake;
  const bool late = steady_clock::now() >= stranger.deadline;
  if (!handshake.answered()) {
    if (!receive(stranger.socket, handshake.hello)) return Fate::kGoes;
    if (handshake.hello.missing() > 0) return late ? Fate::kGoes : Fate::kStays;
    const MutexLock lock(&mutex_);
    return late ? Fate::kGoes : on_hello(stranger);
  }
  if (!receive(stranger.socket, handshake.proof)) return Fate::kGoes;
  if (handshake.proof.missing() > 0) return late ? Fate::kGoes : Fate::kStays;
  const MutexLock lock(&mutex_);
  return on_proof(stranger);
}

DataPort::Fate DataPort::on_hello(Stranger& stranger) {
  const absl::Status status = stranger.handshake.check_hello();
  if (!status.ok()) {
    refuse(stranger, message_of(status));
    return Fate::kGoes;
  }
  const DataHello& hello = stranger.handshake.hello.message();
  if (hello.epoch > epoch_.epoch) return Fate::kStays;  // It is ahead of this rank.
  const bool fits = hello.epoch == epoch_.epoch && hello.listener == epoch_.rank &&
                    hello.dialler != epoch_.rank && 0 <= hello.dialler &&
                    hello.dialler < epoch_.ranks;
  if (!fits || !send_whole(stranger.socket, stranger.handshake.answer(epoch_.key))) {
    return Fate::kGoes;
  }
  return Fate::kStays;
}

DataPort::Fate DataPort::on_proof(Stranger& stranger) {
  const DataListening& handshake = stranger.handshake;
  const int dialler = handshake.dialler();
  if (handshake.hello.message().epoch != epoch_.epoch) return Fate::kGoes;
  if (!handshake.is_proved(epoch_.key)) {
    refuse(stranger, "it does not know the key of this epoch");
    return Fate::kGoes;
  }
  if (epoch_.rank < dialler && !claimed_.insert(dialler).second) return Fate::kGoes;
  constexpr char kCounts = 1;
  if (!send_whole(stranger.socket, kCounts)) {
    claimed_.erase(dialler);
    return Fate::kGoes;
  }
  arrived_[dialler] = std::move(stranger.socket);
  changed_.notify_all();
  return Fate::kGoes;
}

void DataPort::refuse(const Stranger& stranger, const std::string& why) {
  if (const int64_t count = refusals_.count(); count > 0) {
    spdlog::warn("data port: refused {}{}: {}", peer_address(stranger.socket),
                 count > 1 ? fmt::format(" and {} others", count - 1) : "", why);
  }
}

}  // namespace lockstep
