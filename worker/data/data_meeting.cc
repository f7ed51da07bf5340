// SPDX-License-Identifier: Apache-2.0
#include "worker/data/data_meeting.h"

#include <poll.h>

#include <algorithm>
#include <list>
#include <memory>
#include <optional>
#include <utility>

#include "base/sockets/address.h"
#include "base/status.h"
#include "worker/collectives/hosts/routes.h"
#include "worker/collectives/hosts/tcp_socket.h"

namespace lockstep {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr milliseconds kPoll{10};
constexpr milliseconds kRetryPause{100};     // After a failed try.
constexpr milliseconds kConnectTime{2'000};  // An address that drops packets gives no error.

// Tries to reach one rank, again and again.
class Dialler {
 public:
  Dialler(const DataMeetArgs& args, int rank)
      : args_(args), rank_(rank), address_(args.addresses[rank]) {}

  // Makes progress without waiting. Returns the connection when both ranks have agreed on it; until
  // then, null.
  std::unique_ptr<DataChannel> step(Clock::time_point now);
  // The time since which no try could send its hello; unset: the last try could.
  std::optional<Clock::time_point> failing_since() const { return failing_since_; }
  const std::string& problem() const { return problem_; }

 private:
  enum class State { kPause, kConnecting, kGreeting, kAnswering, kEnding };

  void start(Clock::time_point now);
  void connect(Clock::time_point now);
  void greet(Clock::time_point now);
  void receive_answer(Clock::time_point now);
  bool receive_end(Clock::time_point now);
  void give_up(Clock::time_point now, std::string problem);
  template <typename Message>
  bool receive_whole(Clock::time_point now, Arriving<Message>& message);
  bool decides() const { return args_.epoch.rank < rank_; }

  const DataMeetArgs& args_;
  const int rank_;
  const std::string address_;
  State state_ = State::kPause;
  Clock::time_point next_{};     // kPause: when to try again.
  Clock::time_point started_{};  // Other states: when this try began.
  FileDescriptor socket_;        // For kConnecting; later the channel owns it.
  std::unique_ptr<DataChannel> channel_;
  DataDialling handshake_;
  bool claimed_ = false;
  std::optional<Clock::time_point> failing_since_;
  std::string problem_;
};

std::unique_ptr<DataChannel> Dialler::step(Clock::time_point now) {
  if (state_ == State::kPause && now >= next_) start(now);
  if (state_ == State::kConnecting) connect(now);
  if (state_ == State::kGreeting) greet(now);
  if (state_ == State::kAnswering) receive_answer(now);
  if (state_ == State::kEnding && receive_end(now)) return std::move(channel_);
  return nullptr;
}

void Dialler::start(Clock::time_point now) {
  if (!failing_since_.has_value()) failing_since_ = now;
  started_ = now;
  absl::StatusOr<FileDescriptor> socket = dial_tcp(address_);
  if (!socket.ok()) return give_up(now, message_of(socket.status()));
  socket_ = *std::move(socket);
  state_ = State::kConnecting;
}

void Dialler::connect(Clock::time_point now) {
  pollfd polled{.fd = socket_.get(), .events = POLLOUT, .revents = 0};
  if (poll(&polled, 1, 0) <= 0) {
    if (now - started_ >= kConnectTime) give_up(now, "there is no answer");
    return;
  }
  const int error = connect_error(socket_);
  if (error != 0) return give_up(now, error_text(error));
  auto channel = args_.port->dialled(std::move(socket_));
  if (!channel.ok()) return give_up(now, message_of(channel.status()));
  channel_ = *std::move(channel);
  handshake_ = DataDialling(args_.epoch.epoch, args_.epoch.rank, rank_);
  state_ = State::kGreeting;
}

// Continues TLS until the hello can be sent.
void Dialler::greet(Clock::time_point now) {
  const absl::StatusOr<bool> sent = send(*channel_, handshake_.hello());
  if (!sent.ok()) return give_up(now, message_of(sent.status()));
  if (!*sent) {
    if (now - started_ >= DataPort::kStrangerTime)
      give_up(now, "the process there does not continue the handshake");
    return;
  }
  failing_since_.reset();
  state_ = State::kAnswering;
}

template <typename Message>
bool Dialler::receive_whole(Clock::time_point now, Arriving<Message>& message) {
  const absl::Status status = receive(*channel_, message);
  if (!status.ok()) {
    give_up(now, message_of(status));  // Perhaps that rank is not in the epoch yet.
    return false;
  }
  return message.missing() == 0;
}

void Dialler::receive_answer(Clock::time_point now) {
  if (!receive_whole(now, handshake_.answer)) return;
  if (!handshake_.is_proved(args_.epoch.key)) {
    return give_up(now, "the process there does not know the key of this epoch");
  }
  if (decides()) {
    if (!args_.port->claim(rank_)) {
      return give_up(now, "the connection that the other rank dialled is used");
    }
    claimed_ = true;
  }
  const DataProof proof = handshake_.proof(args_.epoch.key);
  const absl::StatusOr<bool> sent = send(*channel_, proof);
  if (!sent.ok() || !*sent) return give_up(now, "the connection takes no more data");
  state_ = State::kEnding;
}

bool Dialler::receive_end(Clock::time_point now) { return receive_whole(now, handshake_.end); }

void Dialler::give_up(Clock::time_point now, std::string problem) {
  problem_ = std::move(problem);
  socket_ = FileDescriptor();
  channel_.reset();
  state_ = State::kPause;
  next_ = now + kRetryPause;
  if (std::exchange(claimed_, false)) args_.port->unclaim(rank_);
}

// This rank's side of one meeting.
class HostMeeting {
 public:
  explicit HostMeeting(const DataMeetArgs& args)
      : args_(args), start_(Clock::now()), own_(args.epoch.rank) {
    for (const Route& route : routes_of(args.hosts, own_)) {
      missing_.push_back(Missing{route, Dialler(args, route.rank)});
    }
  }

  absl::StatusOr<std::vector<DataLink>> run();

 private:
  struct Missing {
    Route route;
    Dialler dialler;
  };

  void step(Clock::time_point now);
  absl::Status check(Clock::time_point now) const;
  absl::Status unreachable(const Missing& one) const;

  const DataMeetArgs& args_;
  const Clock::time_point start_;
  const int own_;
  std::list<Missing> missing_;
  std::vector<DataLink> links_;
};

absl::StatusOr<std::vector<DataLink>> HostMeeting::run() {
  args_.port->begin(args_.epoch);
  absl::Status status;
  while (status.ok() && !missing_.empty()) {
    const Clock::time_point now = Clock::now();
    step(now);
    if (missing_.empty()) break;
    status = check(now);
    if (status.ok()) args_.port->wait(kPoll);
  }
  args_.port->end();
  RETURN_IF_ERROR(status);
  return std::move(links_);
}

void HostMeeting::step(Clock::time_point now) {
  std::erase_if(missing_, [&](Missing& one) {
    std::unique_ptr<DataChannel> channel = args_.port->take(one.route.rank);
    const bool dials = own_ > one.route.rank || now - start_ >= args_.other_way_after;
    if (channel == nullptr && dials) channel = one.dialler.step(now);
    if (channel == nullptr) return false;
    const std::string address = peer_address(channel->socket().get());
    links_.push_back({one.route, std::move(channel), address});
    return true;
  });
}

absl::Status HostMeeting::check(Clock::time_point now) const {
  if (args_.cancelled != nullptr && args_.cancelled->load(std::memory_order_relaxed)) {
    return absl::CancelledError(
        fmt::format("rank {} stopped meeting other hosts: cancelled", own_));
  }
  std::string ranks;
  for (const Missing& one : missing_) {
    const auto since = one.dialler.failing_since();
    if (since.has_value() && now - *since >= args_.unreachable_after) return unreachable(one);
    const std::string& problem = one.dialler.problem();
    ranks += fmt::format("{}{} at {}{}", ranks.empty() ? "" : ", ", one.route.rank,
                         args_.addresses[one.route.rank],
                         problem.empty() ? "" : fmt::format(" ({})", problem));
  }
  if (now - start_ < args_.timeout) return absl::OkStatus();
  return absl::DeadlineExceededError(fmt::format(
      "rank {} waited {} ms for ranks of other hosts: {}", own_, args_.timeout.count(), ranks));
}

absl::Status HostMeeting::unreachable(const Missing& one) const {
  const int other = one.route.rank;
  return unavailable(
      "ranks {} and {} cannot reach each other: rank {} could not dial {} ({}), and rank {} was "
      "not dialled at {}: allow one of the two connections",
      own_, other, own_, args_.addresses[other], one.dialler.problem(), own_,
      args_.addresses[own_]);
}

}  // namespace

absl::StatusOr<std::vector<DataLink>> meet_other_hosts(const DataMeetArgs& args) {
  return HostMeeting(args).run();
}

}  // namespace lockstep
