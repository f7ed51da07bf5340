// SPDX-License-Identifier: Apache-2.0
// Messages have fixed sizes. A peer sends a Hello and gets one Answer. A refusal is sent at once;
// the other Answers, with the memfd, are sent when all ranks have come. Both ends run on one
// machine and check that their versions are equal, so plain structs suffice. Other users of the
// machine can read the socket's name only while the first rank listens, so none of them can take
// the name first. Connections from other users' processes are dropped.
#include "worker/collectives/host/rendezvous.h"

#include <poll.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <string_view>
#include <thread>
#include <vector>

#include "base/check.h"
#include "base/status.h"
#include "worker/collectives/host/region.h"
#include "worker/collectives/host/unix_socket.h"
#include "worker/collectives/single.h"

namespace lockstep {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr uint32_t kVersion = 2;
constexpr std::array<char, 8> kHelloMagic = {'l', 'k', 's', 't', 'e', 'p', '-', 'm'};
constexpr size_t kSecretBytes = 256;
constexpr milliseconds kPoll{20};          // How often a waiting rank reads `cancelled`.
constexpr milliseconds kHelloTime{2'000};  // From a peer's connection to its Hello.
constexpr size_t kMaxUnverified = 64;      // Peers that have not sent a Hello, at one time.

struct RendezvousHello {
  std::array<char, 8> magic = kHelloMagic;
  uint32_t version = kVersion;
  uint32_t secret_bytes = 0;
  int32_t rank = 0;
  int32_t ranks = 0;
  uint64_t epoch = 0;
  ProcessIdentity process;
  std::array<char, kSecretBytes> secret{};
};
static_assert(std::is_trivially_copyable_v<RendezvousHello>);

struct Answer {
  std::array<char, 8> magic = kHelloMagic;
  uint32_t version = kVersion;
  uint32_t code = 0;  // An absl::StatusCode; kOk comes with the memfd.
  std::array<char, 240> message{};
};
static_assert(std::is_trivially_copyable_v<Answer>);

template <typename Message>
std::span<const char> bytes_of(const Message& message) {
  return {reinterpret_cast<const char*>(&message), sizeof(message)};
}

template <typename Message>
std::span<char> bytes_of(Message& message) {
  return {reinterpret_cast<char*>(&message), sizeof(message)};
}

// Runs in constant time.
bool same_secret(const RendezvousHello& a, const RendezvousHello& b) {
  uint32_t difference = a.secret_bytes ^ b.secret_bytes;
  for (size_t i = 0; i < kSecretBytes; ++i) {
    difference |= static_cast<uint32_t>(a.secret[i] ^ b.secret[i]);
  }
  return difference == 0;
}

RendezvousHello hello_of(const MeetArgs& args) {
  RendezvousHello hello{.secret_bytes = static_cast<uint32_t>(args.secret.size()),
                        .rank = args.rank,
                        .ranks = args.ranks,
                        .epoch = args.epoch,
                        .process = this_process()};
  std::copy(args.secret.begin(), args.secret.end(), hello.secret.begin());
  return hello;
}

absl::Status check(const MeetArgs& args) {
  if (args.ranks < 1 || args.ranks > kMaxRegionRanks || args.rank < 0 || args.rank >= args.ranks) {
    return invalid_argument("rank {} of {}: must be 0 <= rank < ranks <= {}", args.rank, args.ranks,
                            kMaxRegionRanks);
  }
  LOCKSTEP_CHECK(args.here.empty() || std::ranges::count(args.here, args.rank) == 1);
  const bool plain = std::all_of(args.group.begin(), args.group.end(), [](char c) {
    return ('0' <= c && c <= '9') || ('a' <= c && c <= 'z') || c == '-';
  });
  if (!plain || args.group.size() < 8 || args.group.size() > 64) {
    return invalid_argument("a group's name must be 8 to 64 of 0-9, a-z and -, found {} bytes",
                            args.group.size());
  }
  if (args.secret.empty() || args.secret.size() > kSecretBytes) {
    return invalid_argument("a group's secret must have 1 to {} bytes, found {}", kSecretBytes,
                            args.secret.size());
  }
  return absl::OkStatus();
}

std::vector<int> ranks_here(const MeetArgs& args) {
  if (!args.here.empty()) return args.here;
  std::vector<int> all(args.ranks);
  std::iota(all.begin(), all.end(), 0);
  return all;
}

// The rank that listens.
int first_rank(const MeetArgs& args) { return args.here.empty() ? 0 : args.here.front(); }

// The name has the epoch, so that a rank that hangs in an old meeting does not disturb the next
// one. It also has the first rank, since one machine may be several hosts (--host-name).
std::string socket_name(const MeetArgs& args) {
  return fmt::format("lockstep-{}-{}-{}", args.group, args.epoch, first_rank(args));
}

RegionShape shape_of(const MeetArgs& args) {
  const std::vector<int> here = ranks_here(args);
  return {.ranks = static_cast<int>(here.size()),
          .epoch = args.epoch,
          .shared_bytes = args.shared_bytes,
          .numbers = here,
          .slots = args.ranks};
}

bool is_cancelled(const MeetArgs& args) {
  return args.cancelled != nullptr && args.cancelled->load(std::memory_order_relaxed);
}

absl::Status cancelled_status(const MeetArgs& args) {
  return absl::CancelledError(
      fmt::format("rank {} stopped meeting the others: cancelled", args.rank));
}

// The first rank's side of one meeting.
class Meeting {
 public:
  explicit Meeting(const MeetArgs& args)
      : args_(args), here_(ranks_here(args)), self_(hello_of(args)) {}

  absl::StatusOr<std::shared_ptr<Region>> run(Clock::time_point deadline);

 private:
  struct Peer {
    FileDescriptor socket;
    Clock::time_point hello_deadline;
    int rank;  // -1: not verified yet.
    ProcessIdentity process;
  };

  void wait_for_input() const;
  absl::Status accept_peers();
  void receive_from_peers();
  bool receive(Peer& peer);  // False: the caller disconnects it.
  absl::Status verify(const RendezvousHello& hello, size_t bytes) const;
  void refuse(const Peer& peer, const absl::Status& status) const;
  bool is_present(int rank) const;
  std::string missing() const;  // "1, 3"; empty if all are there.
  absl::StatusOr<std::shared_ptr<Region>> send_region();

  const MeetArgs& args_;
  const std::vector<int> here_;
  const RendezvousHello self_;
  FileDescriptor listener_;
  std::vector<Peer> peers_;
};

absl::StatusOr<std::shared_ptr<Region>> Meeting::run(Clock::time_point deadline) {
  ASSIGN_OR_RETURN(listener_, listen_at(socket_name(args_), kMaxRegionRanks));
  while (!missing().empty()) {
    if (is_cancelled(args_)) return cancelled_status(args_);
    if (args_.now() >= deadline) {
      const absl::Status status = absl::DeadlineExceededError(
          fmt::format("rank {} waited {} ms for ranks that did not come: {}", args_.rank,
                      args_.timeout.count(), missing()));
      for (const Peer& peer : peers_) refuse(peer, status);
      return status;
    }
    wait_for_input();
    // Drop disconnected peers before accepting: a restarted rank may reconnect.
    receive_from_peers();
    RETURN_IF_ERROR(accept_peers());
  }
  return send_region();
}

void Meeting::wait_for_input() const {
  std::vector<pollfd> polled = {{.fd = listener_.get(), .events = POLLIN, .revents = 0}};
  for (const Peer& peer : peers_) {
    polled.push_back({.fd = peer.socket.get(), .events = POLLIN, .revents = 0});
  }
  poll(polled.data(), polled.size(), static_cast<int>(kPoll.count()));
}

absl::Status Meeting::accept_peers() {
  for (size_t accepted = 0; accepted < kMaxUnverified; ++accepted) {
    ASSIGN_OR_RETURN(FileDescriptor socket, accept_from(listener_));
    if (!socket.valid()) return absl::OkStatus();
    if (!peer_is_same_user(socket)) continue;
    const auto unverified = [](const Peer& peer) { return peer.rank < 0; };
    if (std::count_if(peers_.begin(), peers_.end(), unverified) >= ptrdiff_t{kMaxUnverified}) {
      peers_.erase(std::find_if(peers_.begin(), peers_.end(), unverified));  // The oldest.
    }
    peers_.push_back({std::move(socket), args_.now() + kHelloTime, -1, {}});
  }
  return absl::OkStatus();
}

void Meeting::receive_from_peers() {
  // Verified peers come first, each kind in order of arrival. If a verified peer is gone, the new
  // process of its rank may be among the others.
  std::stable_partition(peers_.begin(), peers_.end(), [](const Peer& p) { return p.rank >= 0; });
  for (size_t i = 0; i < peers_.size();) {
    if (receive(peers_[i])) {
      ++i;
    } else {
      peers_.erase(peers_.begin() + static_cast<ptrdiff_t>(i));
    }
  }
}

bool Meeting::receive(Peer& peer) {
  RendezvousHello hello;
  const Received received = receive_message(peer.socket, bytes_of(hello), nullptr);
  if (received.outcome == Received::kGone) return false;
  if (peer.rank >= 0) return received.outcome == Received::kNothing;  // A peer sends one Hello.
  if (received.outcome == Received::kNothing) return args_.now() < peer.hello_deadline;
  const absl::Status status = verify(hello, received.bytes);
  if (!status.ok()) {
    refuse(peer, status);
    return false;
  }
  peer.rank = hello.rank;
  peer.process = hello.process;
  return receive(peer);  // If this peer is gone, its rank's new process may be later in the list.
}

void Meeting::refuse(const Peer& peer, const absl::Status& status) const {
  Answer answer{.code = static_cast<uint32_t>(status.code())};
  const std::string message = message_of(status);
  message.copy(answer.message.data(), answer.message.size() - 1);
  send_message(peer.socket, bytes_of(std::as_const(answer)), -1);
}

absl::Status Meeting::verify(const RendezvousHello& hello, size_t bytes) const {
  if (bytes != sizeof(RendezvousHello) || hello.magic != kHelloMagic || hello.version != kVersion) {
    return failed_precondition("rank {} uses version {} of the meeting, its peer does not",
                               args_.rank, kVersion);
  }
  if (!same_secret(hello, self_)) {
    return absl::PermissionDeniedError("wrong secret: the ranks have different join tokens");
  }
  if (hello.ranks != args_.ranks || hello.epoch != args_.epoch) {
    return failed_precondition("rank {} expects {} ranks in epoch {}, found {} in epoch {}",
                               args_.rank, args_.ranks, args_.epoch, hello.ranks, hello.epoch);
  }
  if (hello.rank == args_.rank || std::ranges::count(here_, hello.rank) == 0) {
    return invalid_argument("no rank {} in a group of {}{}", hello.rank, args_.ranks,
                            args_.here.empty() ? "" : " on this host");
  }
  if (is_present(hello.rank)) {
    return absl::AlreadyExistsError(fmt::format("rank {} has already joined", hello.rank));
  }
  return absl::OkStatus();
}

bool Meeting::is_present(int rank) const {
  return std::any_of(peers_.begin(), peers_.end(),
                     [rank](const Peer& peer) { return peer.rank == rank; });
}

std::string Meeting::missing() const {
  std::string ranks;
  for (const int rank : here_) {
    if (rank != args_.rank && !is_present(rank))
      ranks += (ranks.empty() ? "" : ", ") + std::to_string(rank);
  }
  return ranks;
}

absl::StatusOr<std::shared_ptr<Region>> Meeting::send_region() {
  int fd = -1;
  ASSIGN_OR_RETURN(std::shared_ptr<Region> region, Region::create(shape_of(args_), &fd));
  const FileDescriptor memory(fd);
  RegionHeader& header = region->header();
  header.processes[0] = self_.process;
  for (const Peer& peer : peers_) {
    if (peer.rank < 0) continue;
    header.processes[std::ranges::find(here_, peer.rank) - here_.begin()] = peer.process;
  }
  const Answer answer{};
  for (const Peer& peer : peers_) {
    if (peer.rank < 0 || send_message(peer.socket, bytes_of(answer), memory.get())) continue;
    // The peer went away a moment ago. Ranks that have already got the region find the failure in
    // it.
    Barrier(header, 0).fail(Failure::kGone, peer.rank);
    return unavailable("rank {} (pid {}) went away during the meeting", peer.rank,
                       peer.process.pid);
  }
  return region;
}

// The other ranks' side: one connection to the first rank. Null, which is not an error: no rank
// listens yet, the first rank has gone, or there is no time left.
absl::StatusOr<std::shared_ptr<Region>> request_region(const MeetArgs& args,
                                                       Clock::time_point deadline) {
  absl::StatusOr<FileDescriptor> socket = connect_to(socket_name(args));
  if (absl::IsNotFound(socket.status()) || absl::IsUnavailable(socket.status())) return nullptr;
  if (!socket.ok()) return socket.status();
  if (!peer_is_same_user(*socket)) {
    return absl::PermissionDeniedError(
        fmt::format("another user's process answers as rank {}", first_rank(args)));
  }
  const RendezvousHello hello = hello_of(args);
  if (!send_message(*socket, bytes_of(hello), -1)) return nullptr;
  while (!is_cancelled(args) && args.now() < deadline) {
    pollfd polled{.fd = socket->get(), .events = POLLIN, .revents = 0};
    poll(&polled, 1, static_cast<int>(kPoll.count()));
    Answer answer;
    FileDescriptor memory;
    const Received received = receive_message(*socket, bytes_of(answer), &memory);
    if (received.outcome == Received::kNothing) continue;
    if (received.outcome == Received::kGone) return nullptr;  // The first rank may be restarted.
    if (received.bytes != sizeof(answer) || answer.magic != kHelloMagic ||
        answer.version != kVersion) {
      return failed_precondition("rank {} does not use version {} of the meeting", first_rank(args),
                                 kVersion);
    }
    if (answer.code != 0) {
      answer.message.back() = '\0';
      return absl::Status(static_cast<absl::StatusCode>(answer.code),
                          fmt::format("rank {} refused rank {}: {}", first_rank(args), args.rank,
                                      std::string_view(answer.message.data())));
    }
    if (received.descriptor_lost) {
      return resource_exhausted("rank {} has no file descriptor left for the shared memory",
                                args.rank);
    }
    return Region::attach(memory.get(), shape_of(args));
  }
  return nullptr;
}

absl::StatusOr<std::shared_ptr<Region>> join_meeting(const MeetArgs& args,
                                                     Clock::time_point deadline) {
  while (!is_cancelled(args) && args.now() < deadline) {
    ASSIGN_OR_RETURN(std::shared_ptr<Region> region, request_region(args, deadline));
    if (region != nullptr) return region;
    std::this_thread::sleep_for(milliseconds(5));
  }
  if (is_cancelled(args)) return cancelled_status(args);
  return absl::DeadlineExceededError(
      fmt::format("rank {0} waited {1} ms for rank {2}, or for ranks that rank {2} waits for",
                  args.rank, args.timeout.count(), first_rank(args)));
}

}  // namespace

absl::StatusOr<std::shared_ptr<Region>> meet_on_host(const MeetArgs& args) {
  RETURN_IF_ERROR(check(args));
  if (ranks_here(args).size() == 1) return Region::in_process(shape_of(args));
  const Clock::time_point deadline = args.now() + args.timeout;
  return args.rank == first_rank(args) ? Meeting(args).run(deadline) : join_meeting(args, deadline);
}

absl::StatusOr<std::unique_ptr<Collective>> meet_in_shared_memory(const MeetArgs& args) {
  RETURN_IF_ERROR(check(args));
  if (args.ranks == 1) return single_collective();
  ASSIGN_OR_RETURN(std::shared_ptr<Region> region, meet_on_host(args));
  return std::make_unique<SharedMemoryCollective>(std::move(region), args.rank,
                                                  args.collective_timeout);
}

}  // namespace lockstep
