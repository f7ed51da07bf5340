// SPDX-License-Identifier: Apache-2.0
// One thread moves bytes on all connections, in both directions at once: two peers that both have
// much to send never wait for each other.
#include "worker/collectives/hosts/tcp_links.h"

#include <poll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <utility>

#include "base/status.h"

namespace lockstep {
namespace {

using Clock = Barrier::Clock;

// How long a thread spins before it sleeps. The thread does not yield: on a busy machine a thread
// that yields runs last, but one that sleeps runs first when bytes arrive.
constexpr auto kSpin = std::chrono::microseconds(50);
// How often a sleeping rank checks whether its group has ended.
constexpr auto kEndPoll = std::chrono::milliseconds(20);
constexpr size_t kParts = 64;  // Runs of memory per system call.
constexpr auto kGoodbyeTime = std::chrono::milliseconds(20);
// After all goodbyes were sent, reading ends when no byte has arrived for this long.
constexpr auto kGoodbyeQuiet = std::chrono::milliseconds(2);

}  // namespace

TcpLinks::TcpLinks(std::vector<DataLink> links) : wake_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  for (DataLink& link : links) {
    if (link.route.receives) senders_.push_back(link.route.rank);
    links_.push_back({.end = std::move(link)});
  }
}

void TcpLinks::interrupt() {
  for (const Link& link : links_) link.end.channel->interrupt();
}

absl::Status TcpLinks::exchange(const Call& call, RowBytesOf out, RowBytesOf in, Barrier& barrier,
                                Clock::time_point deadline, int64_t* wait_ns) {
  if (busy_.exchange(true)) {
    RETURN_IF_ERROR(barrier.failure());
    return unavailable("the connections to other hosts have ended");
  }
  for (Link& link : links_) {
    const Route& route = link.end.route;
    if (route.receives) link.reader.expect(call, in(route.rank));
    if (route.sends) link.writer.begin(call, out(route.rank));
  }
  const absl::Status status = move_all(barrier, deadline, wait_ns);
  if (!status.ok()) {
    send_goodbye(barrier.goodbye(), kGoodbyeTime);
    return status;
  }
  busy_ = false;
  if (ending_) end(barrier.goodbye());
  return absl::OkStatus();
}

absl::Status TcpLinks::move_all(Barrier& barrier, Clock::time_point deadline, int64_t* wait_ns) {
  Clock::time_point idle_since{};
  while (true) {
    const absl::StatusOr<Moved> moved = move();
    if (!moved.ok()) return fail(barrier, moved.status());
    const bool all = done();
    if ((all || *moved == Moved::kSome) && idle_since != Clock::time_point{}) {
      *wait_ns += (Clock::now() - std::exchange(idle_since, {})).count();
    }
    if (all) return absl::OkStatus();
    if (*moved == Moved::kSome) continue;
    RETURN_IF_ERROR(barrier.failure());
    const Clock::time_point now = Clock::now();
    if (idle_since == Clock::time_point{}) idle_since = now;
    if (now >= deadline) return fail(barrier, late());
    if (now - idle_since >= kSpin) {
      sleep(std::min<Clock::duration>(deadline - now, kEndPoll));
    }
  }
}

absl::StatusOr<TcpLinks::Moved> TcpLinks::move() {
  Moved moved = Moved::kNothing;
  for (Link& link : links_) {
    failed_rank_ = link.end.route.rank;
    if (!link.writer.done()) {
      ASSIGN_OR_RETURN(const Moved sent, send(link));
      moved = std::max(moved, sent);
    }
    if (!link.reader.done()) {
      ASSIGN_OR_RETURN(const Moved received, receive(link));
      moved = std::max(moved, received);
    }
  }
  return moved;
}

// Sends at most one frame, so that both directions progress at the same rate.
absl::StatusOr<TcpLinks::Moved> TcpLinks::send(Link& link) {
  std::array<iovec, kParts> parts;
  const absl::StatusOr<size_t> bytes =
      link.end.channel->send(std::span(parts).first(link.writer.next(parts)));
  if (!bytes.ok()) return ended(link, bytes.status());
  if (*bytes == 0) return Moved::kNothing;
  link.writer.sent(*bytes);
  return Moved::kSome;
}

absl::StatusOr<TcpLinks::Moved> TcpLinks::receive(Link& link) {
  Moved moved = Moved::kNothing;
  for (int reads = 0; reads < 2 && !link.reader.done(); ++reads) {  // For a header, then its bytes.
    std::array<iovec, kParts> parts;
    const absl::StatusOr<size_t> bytes =
        link.end.channel->receive(std::span(parts).first(link.reader.next(parts)));
    if (!bytes.ok()) return ended(link, bytes.status());
    if (*bytes == 0) return moved;
    const absl::Status status = link.reader.received(*bytes);
    link.read_all = !status.ok();
    if (link.reader.goodbye().has_value()) return goodbye_status(link);
    if (!status.ok()) {
      failure_ = absl::IsInternal(status) ? Failure::kMismatch : Failure::kDamaged;
      return absl::Status(status.code(), fmt::format("rank {} at {} {}", link.end.route.rank,
                                                     link.end.address, message_of(status)));
    }
    moved = Moved::kSome;
  }
  return moved;
}

bool TcpLinks::done() const {
  return std::ranges::all_of(
      links_, [](const Link& link) { return link.writer.done() && link.reader.done(); });
}

// Sleeps until there is something to move, or a connection has ended.
void TcpLinks::sleep(Clock::duration timeout) const {
  std::array<pollfd, 2 * kMaxRegionRanks + 1> polled;
  nfds_t count = 0;
  if (!ending_) polled[count++] = {.fd = wake_.get(), .events = POLLIN, .revents = 0};
  for (const Link& link : links_) {
    const DataChannel& channel = *link.end.channel;
    const short events =
        channel.events(!link.writer.done() && !link.broken, !link.reader.done() && !link.read_all);
    if (events != 0) polled[count++] = {.fd = channel.socket().get(), .events = events};
  }
  const auto ms = std::chrono::ceil<std::chrono::milliseconds>(timeout).count();
  poll(polled.data(), count, static_cast<int>(ms));
}

absl::Status TcpLinks::ended(Link& link, const absl::Status& why) {
  link.broken = true;
  read_final(link);
  if (link.reader.goodbye().has_value()) return goodbye_status(link);
  failure_ = absl::IsDataLoss(why) ? Failure::kDamaged : Failure::kLeft;
  return unavailable("rank {} at {} is gone: {}", link.end.route.rank, link.end.address,
                     message_of(why));
}

// Reads all that has arrived: a send often fails because the peer has ended, and the peer may have
// sent the reason first.
TcpLinks::Moved TcpLinks::read_final(Link& link) {
  Moved moved = Moved::kNothing;
  while (!link.read_all) {
    if (link.reader.done()) link.reader.expect({}, {});  // No call: only a goodbye fits.
    std::array<iovec, kParts> parts;
    const absl::StatusOr<size_t> bytes =
        link.end.channel->receive(std::span(parts).first(link.reader.next(parts)));
    if (bytes.ok() && *bytes == 0) break;
    link.read_all = !bytes.ok() || !link.reader.received(*bytes).ok();
    moved = Moved::kSome;
  }
  return moved;
}

absl::Status TcpLinks::goodbye_status(const Link& link) {
  const Goodbye& goodbye = *link.reader.goodbye();
  failure_ = goodbye.failure;
  failed_rank_ = static_cast<int>(goodbye.number);
  const bool aborted = goodbye.failure == Failure::kAborted;
  return absl::Status(aborted ? absl::StatusCode::kAborted : absl::StatusCode::kUnavailable,
                      fmt::format("rank {} at {} says that rank {} {}", link.end.route.rank,
                                  link.end.address, failed_rank_,
                                  aborted                             ? "aborted the group"
                                  : goodbye.failure == Failure::kGone ? "is gone"
                                                                      : "has left the group"));
}

absl::Status TcpLinks::late() {
  failure_ = Failure::kDeadline;
  std::string missing;
  for (const Link& link : links_) {
    if (link.writer.done() && link.reader.done()) continue;
    missing +=
        fmt::format("{}rank {} at {} {}", missing.empty() ? "" : ", ", link.end.route.rank,
                    link.end.address, link.reader.done() ? "read too little" : "sent too little");
  }
  return absl::DeadlineExceededError(fmt::format("timed out: {}", missing));
}

// Ends the group for the reason `why`. If the group has ended already, returns the error that ended
// it.
absl::Status TcpLinks::fail(Barrier& barrier, const absl::Status& why) {
  RETURN_IF_ERROR(barrier.failure());
  const bool own = failure_ == Failure::kDeadline || failure_ == Failure::kMismatch;
  barrier.fail(failure_, own ? barrier.number() : failed_rank_);
  return why;
}

void TcpLinks::end(const Goodbye& goodbye) {
  ending_ = true;
  if (!busy_.exchange(true)) return send_goodbye(goodbye, {});
  constexpr uint64_t kOne = 1;
  [[maybe_unused]] const ssize_t written = write(wake_.get(), &kOne, sizeof(kOne));
}

// The last work on the connections, by the thread that uses them. Also reads arriving bytes: unread
// bytes would reset the connection, and the goodbye on its way would be lost.
void TcpLinks::send_goodbye(const Goodbye& goodbye, Clock::duration timeout) {
  for (Link& link : links_) link.writer.send_goodbye(goodbye);
  const Clock::time_point deadline = Clock::now() + timeout;
  Clock::time_point moved_at = Clock::now();
  while (true) {
    Moved moved = Moved::kNothing;
    bool left = false;
    for (Link& link : links_) {
      moved = std::max({moved, send_final(link), read_final(link)});
      left |= !link.broken && !link.writer.done();
    }
    const Clock::time_point now = Clock::now();
    if (moved == Moved::kSome) moved_at = now;
    if (now >= deadline || (!left && now - moved_at >= kGoodbyeQuiet)) break;
    if (moved == Moved::kNothing) sleep(std::min<Clock::duration>(deadline - now, kGoodbyeQuiet));
  }
  interrupt();
}

TcpLinks::Moved TcpLinks::send_final(Link& link) {
  if (link.broken || link.writer.done()) return Moved::kNothing;
  std::array<iovec, kParts> parts;
  const absl::StatusOr<size_t> bytes =
      link.end.channel->send(std::span(parts).first(link.writer.next(parts)));
  link.broken = !bytes.ok();
  if (!bytes.ok() || *bytes == 0) return Moved::kNothing;
  link.writer.sent(*bytes);
  return Moved::kSome;
}

}  // namespace lockstep
