// SPDX-License-Identifier: Apache-2.0
// One thread accepts strangers and receives from them, and sleeps while there are none. The thread
// never blocks on a connection: messages are smaller than the system's buffers.
#include "worker/data/data_port.h"

#include <poll.h>
#include <spdlog/spdlog.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <utility>

#include "base/sockets/address.h"
#include "base/status.h"
#include "worker/collectives/hosts/tcp_socket.h"

namespace lockstep {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

}  // namespace

absl::StatusOr<std::unique_ptr<DataPort>> DataPort::open(const std::string& address,
                                                         const std::string& advertised_host,
                                                         std::unique_ptr<DataTls> tls) {
  std::unique_ptr<DataPort> port(new DataPort(std::move(tls)));
  ASSIGN_OR_RETURN(port->listener_, listen_tcp(address, kMaxStrangers));
  port->address_ = local_address(port->listener_.get());
  ASSIGN_OR_RETURN(const HostAndPort bound, split_address(port->address_));
  if (is_any_host(bound.host)) port->address_ = join_address(advertised_host, bound.port);
  port->doorbell_ = FileDescriptor(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (!port->doorbell_.valid()) return resource_exhausted("no file descriptor for the data port");
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
  // The write fails only if the counter is full, and a full counter wakes the thread, too.
  static_cast<void>(write(doorbell_.get(), &one, sizeof(one)) < 0);
}

// --- Called by the meeting

absl::StatusOr<std::unique_ptr<DataChannel>> DataPort::dialled(FileDescriptor socket) const {
  if (tls_ == nullptr) return plain_channel(std::move(socket));
  return tls_->open(std::move(socket), DataTls::Side::kDials);
}

void DataPort::begin(DataEpoch epoch) {
  const MutexLock lock(&mutex_);
  epoch_ = std::move(epoch);
  claimed_.clear();
  arrived_.clear();
  wake();  // Ranks of this epoch may have connected already.
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

std::unique_ptr<DataChannel> DataPort::take(int rank) {
  const MutexLock lock(&mutex_);
  const auto found = arrived_.find(rank);
  if (found == arrived_.end()) return {};
  std::unique_ptr<DataChannel> channel = std::move(found->second);
  arrived_.erase(found);
  return channel;
}

void DataPort::wait(milliseconds timeout) {
  const auto deadline = steady_clock::now() + timeout;
  const MutexLock lock(&mutex_);
  while (arrived_.empty() && changed_.wait_until(&mutex_, deadline)) {
  }
}

// --- The thread

void DataPort::run() {
  while (true) {
    std::vector<pollfd> polled = {{.fd = doorbell_.get(), .events = POLLIN, .revents = 0},
                                  {.fd = listener_.get(), .events = POLLIN, .revents = 0}};
    auto next = steady_clock::time_point::max();
    for (const Stranger& stranger : strangers_) {
      // The thread reads nothing after a complete hello until the epoch of that hello begins here.
      const bool waits = stranger.handshake.hello.missing() == 0 && !stranger.handshake.answered();
      polled.push_back({.fd = waits ? -1 : stranger.channel->socket().get(),
                        .events = stranger.channel->events(false, true),
                        .revents = 0});
      next = std::min(next, stranger.deadline);
    }
    const auto left = std::chrono::ceil<milliseconds>(next - steady_clock::now()).count();
    poll(polled.data(), polled.size(),
         strangers_.empty() ? -1 : static_cast<int>(std::clamp<int64_t>(left, 0, 60'000)));
    uint64_t rings = 0;
    static_cast<void>(read(doorbell_.get(), &rings, sizeof(rings)) < 0);
    {
      const MutexLock lock(&mutex_);
      if (stopping_) return;
    }
    accept_strangers();
    std::erase_if(strangers_, [this](Stranger& one) { return receive_from(one) == Fate::kGoes; });
  }
}

void DataPort::accept_strangers() {
  for (size_t accepted = 0; accepted < kMaxStrangers; ++accepted) {
    absl::StatusOr<Stranger> stranger = accept_stranger();
    if (!stranger.ok()) {
      if (const int64_t times = shortages_.count(); times > 0) {
        spdlog::warn("data port: {}; {} times since the last such line",
                     message_of(stranger.status()), times);
      }
      std::this_thread::sleep_for(milliseconds(20));  // Descriptors or memory are short.
      return;
    }
    if (stranger->channel == nullptr) return;
    if (strangers_.size() >= kMaxStrangers) strangers_.erase(strangers_.begin());
    strangers_.push_back(*std::move(stranger));
  }
}

// Returns a stranger without a channel if no connection waits to be accepted.
absl::StatusOr<DataPort::Stranger> DataPort::accept_stranger() const {
  Stranger stranger{.channel = nullptr, .deadline = steady_clock::now() + kStrangerTime};
  ASSIGN_OR_RETURN(FileDescriptor socket, accept_tcp(listener_));
  if (!socket.valid()) return stranger;
  if (tls_ == nullptr) {
    stranger.channel = plain_channel(std::move(socket));
  } else {
    ASSIGN_OR_RETURN(stranger.channel, tls_->open(std::move(socket), DataTls::Side::kListens));
  }
  return stranger;
}

// The channel may already have bytes that follow a hello, and poll() does not see these. So one
// call tries to read both messages.
DataPort::Fate DataPort::receive_from(Stranger& stranger) {
  DataListening& handshake = stranger.handshake;
  const Fate unfinished = steady_clock::now() >= stranger.deadline ? Fate::kGoes : Fate::kStays;
  if (!handshake.answered()) {
    const absl::Status received = receive(*stranger.channel, handshake.hello);
    if (!received.ok()) return on_end(stranger, received);
    if (handshake.hello.missing() > 0 || unfinished == Fate::kGoes) return unfinished;
    const MutexLock lock(&mutex_);
    if (on_hello(stranger) == Fate::kGoes) return Fate::kGoes;
    if (!handshake.answered()) return Fate::kStays;
  }
  const absl::Status received = receive(*stranger.channel, handshake.proof);
  if (!received.ok()) return on_end(stranger, received);
  if (handshake.proof.missing() > 0) return unfinished;
  const MutexLock lock(&mutex_);
  return on_proof(stranger);
}

// A stranger that only disconnects is not logged.
DataPort::Fate DataPort::on_end(const Stranger& stranger, const absl::Status& why) {
  if (absl::IsDataLoss(why)) refuse(stranger, message_of(why));
  return Fate::kGoes;
}

DataPort::Fate DataPort::on_hello(Stranger& stranger) {
  const absl::Status status = stranger.handshake.check_hello();
  if (!status.ok()) {
    refuse(stranger, message_of(status));
    return Fate::kGoes;
  }
  const DataHello& hello = stranger.handshake.hello.message();
  if (hello.epoch > epoch_.epoch) return Fate::kStays;  // This rank is not in that epoch yet.
  const bool fits = hello.epoch == epoch_.epoch && hello.listener == epoch_.rank &&
                    hello.dialler != epoch_.rank && 0 <= hello.dialler &&
                    hello.dialler < epoch_.ranks;
  if (!fits) return Fate::kGoes;
  const auto sent = send(*stranger.channel, stranger.handshake.answer(epoch_.key));
  return sent.ok() && *sent ? Fate::kStays : Fate::kGoes;
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
  const auto sent = send(*stranger.channel, kCounts);
  if (!sent.ok() || !*sent) {
    claimed_.erase(dialler);
    return Fate::kGoes;
  }
  arrived_[dialler] = std::move(stranger.channel);
  changed_.notify_all();
  return Fate::kGoes;
}

void DataPort::refuse(const Stranger& stranger, const std::string& why) {
  if (const int64_t count = refusals_.count(); count > 0) {
    spdlog::warn("data port: refused {}{}: {}", peer_address(stranger.channel->socket().get()),
                 count > 1 ? fmt::format(" and {} others", count - 1) : "", why);
  }
}

}  // namespace lockstep
