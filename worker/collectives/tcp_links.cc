// SPDX-License-Identifier: Apache-2.0
// One thread moves bytes on all connections, both ways at once: a peer that first sends all that it
// has never waits for one that does the same.
#include "worker/collectives/tcp_links.h"

#include <poll.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <utility>

#include "base/status.h"

namespace lockstep {
namespace {

using Clock = Barrier::Clock;

// See the barrier. Nothing is yielded meanwhile: on a busy machine who yields comes after everybody
// else, but who sleeps comes first when bytes arrive.
constexpr auto kSpin = std::chrono::microseconds(50);
// How often a sleeping rank looks whether its group has ended.
constexpr auto kLook = std::chrono::milliseconds(20);
constexpr size_t kParts = 64;  // Runs of memory per system call.

}  // namespace

TcpLinks::TcpLinks(std::vector<DataLink> links) {
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
  for (Link& link : links_) {
    const Route& route = link.end.route;
    if (route.receives) link.reader.expect(call, in(route.rank));
    if (route.sends) link.writer.begin(call, out(route.rank));
  }
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
    if (now - idle_since >= kSpin) sleep(std::min<Clock::duration>(deadline - now, kLook));
  }
}

absl::StatusOr<TcpLinks::Moved> TcpLinks::move() {
  Moved moved = Moved::kNothing;
  for (Link& link : links_) {
    culprit_ = link.end.route.rank;
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

// One frame at most, so that both ways go on alike.
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
  for (int reads = 0; reads < 2 && !link.reader.done(); ++reads) {  // A header, and what follows.
    std::array<iovec, kParts> parts;
    const absl::StatusOr<size_t> bytes =
        link.end.channel->receive(std::span(parts).first(link.reader.next(parts)));
    if (!bytes.ok()) return ended(link, bytes.status());
    if (*bytes == 0) return moved;
    const absl::Status status = link.reader.received(*bytes);
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

// Until there is something to move, or a connection has ended.
void TcpLinks::sleep(Clock::duration at_most) const {
  std::array<pollfd, 2 * kMaxRegionRanks> polled;
  nfds_t count = 0;
  for (const Link& link : links_) {
    const DataChannel& channel = *link.end.channel;
    const short events = channel.events(!link.writer.done(), !link.reader.done());
    if (events != 0) polled[count++] = {.fd = channel.socket().get(), .events = events};
  }
  const auto ms = std::chrono::ceil<std::chrono::milliseconds>(at_most).count();
  poll(polled.data(), count, static_cast<int>(ms));
}

absl::Status TcpLinks::ended(const Link& link, const absl::Status& why) {
  failure_ = absl::IsDataLoss(why) ? Failure::kDamaged : Failure::kLeft;
  return unavailable("rank {} at {} is gone: {}", link.end.route.rank, link.end.address,
                     message_of(why));
}

absl::Status TcpLinks::late() {
  failure_ = Failure::kDeadline;
  std::string missing;
  for (const Link& link : links_) {
    if (link.writer.done() && link.reader.done()) continue;
    missing +=
        fmt::format("{}rank {} at {} {}", missing.empty() ? "" : ", ", link.end.route.rank,
                    link.end.address, link.reader.done() ? "took too little" : "sent too little");
  }
  return absl::DeadlineExceededError(fmt::format("waited to its deadline: {}", missing));
}

// What this rank saw first; an abort closes the connections, too.
absl::Status TcpLinks::fail(Barrier& barrier, const absl::Status& why) {
  RETURN_IF_ERROR(barrier.failure());
  const bool own = failure_ == Failure::kDeadline || failure_ == Failure::kMismatch;
  barrier.fail(failure_, own ? barrier.number() : culprit_);
  interrupt();
  return why;
}

}  // namespace lockstep
