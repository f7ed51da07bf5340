// SPDX-License-Identifier: Apache-2.0
// Meeting over messages of fixed size: a caller's Hello, answered at once by a refusal or, when all
// have come, by an Answer that carries the memfd. Both ends run on one machine and check that they
// were built of one version, so plain structs do.
#include "worker/collectives/rendezvous.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <thread>
#include <vector>

#include "base/status.h"
#include "worker/collectives/local.h"
#include "worker/collectives/region.h"
#include "worker/collectives/unix_socket.h"

namespace lockstep {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr uint32_t kVersion = 1;
constexpr std::array<char, 8> kMagic = {'l', 'k', 's', 't', 'e', 'p', '-', 'm'};
constexpr size_t kTokenBytes = 256;
constexpr milliseconds kLook{20};          // How often a waiting rank looks at `cancelled`.
constexpr milliseconds kHelloTime{2'000};  // For a caller to say who it is.
constexpr size_t kStrangers = 64;          // Callers that have not, at a time.

struct Hello {
  std::array<char, 8> magic = kMagic;
  uint32_t version = kVersion;
  uint32_t token_bytes = 0;
  int32_t rank = 0;
  int32_t ranks = 0;
  uint64_t epoch = 0;
  ProcessIdentity process;
  std::array<char, kTokenBytes> token{};
};
static_assert(std::is_trivially_copyable_v<Hello>);

struct Answer {
  std::array<char, 8> magic = kMagic;
  uint32_t version = kVersion;
  uint32_t code = 0;  // Of absl::StatusCode; with kOk comes the memfd.
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

// Takes as long whatever differs.
bool same_token(const Hello& a, const Hello& b) {
  uint32_t difference = a.token_bytes ^ b.token_bytes;
  for (size_t i = 0; i < kTokenBytes; ++i) {
    difference |= static_cast<uint32_t>(a.token[i] ^ b.token[i]);
  }
  return difference == 0;
}

Hello hello_of(const MeetArgs& args) {
  Hello hello{.token_bytes = static_cast<uint32_t>(args.token.size()),
              .rank = args.rank,
              .ranks = args.ranks,
              .epoch = args.epoch,
              .process = this_process()};
  std::copy(args.token.begin(), args.token.end(), hello.token.begin());
  return hello;
}

absl::Status check(const MeetArgs& args) {
  if (args.ranks < 1 || args.ranks > kMaxRegionRanks || args.rank < 0 || args.rank >= args.ranks) {
    return invalid_argument("rank {} of {}: wanted 0 <= rank < ranks <= {}", args.rank, args.ranks,
                            kMaxRegionRanks);
  }
  const bool plain = std::all_of(args.group.begin(), args.group.end(), [](char c) {
    return ('0' <= c && c <= '9') || ('a' <= c && c <= 'z') || c == '-';
  });
  if (!plain || args.group.size() < 8 || args.group.size() > 64) {
    return invalid_argument("a group's name is 8 to 64 of 0-9, a-z and -, found {} bytes",
                            args.group.size());
  }
  if (args.token.empty() || args.token.size() > kTokenBytes) {
    return invalid_argument("a join token has 1 to {} bytes, found {}", kTokenBytes,
                            args.token.size());
  }
  return absl::OkStatus();
}

// The folders to meet in, best first. Rank 0 takes the first that it can have, the others try all:
// not every rank need have been started with the same environment.
std::vector<std::string> folders(const MeetArgs& args) {
  if (!args.folder.empty()) return {args.folder};
  std::vector<std::string> found;
  const char* runtime = std::getenv("XDG_RUNTIME_DIR");
  if (runtime != nullptr && runtime[0] == '/') found.push_back(fmt::format("{}/lockstep", runtime));
  found.push_back(fmt::format("/tmp/lockstep-{}", geteuid()));
  return found;
}

// The epoch keeps a rank 0 that hangs in an old meeting out of the way of the next.
std::string socket_path(const MeetArgs& args, const std::string& folder) {
  return fmt::format("{}/{}-{}", folder, args.group, args.epoch);
}

bool is_cancelled(const MeetArgs& args) {
  return args.cancelled != nullptr && args.cancelled->load(std::memory_order_relaxed);
}

absl::Status cancelled_status(const MeetArgs& args) {
  return absl::CancelledError(
      fmt::format("rank {} stopped meeting the others: cancelled", args.rank));
}

// Rank 0's side of one meeting.
class Host {
 public:
  explicit Host(const MeetArgs& args) : args_(args), self_(hello_of(args)) {}
  ~Host() {
    if (listener_.valid()) unlink(path_.c_str());
  }

  absl::StatusOr<std::shared_ptr<Region>> meet(Clock::time_point deadline);

 private:
  struct Guest {
    FileDescriptor socket;
    Clock::time_point hello_deadline;
    int rank;  // -1: not known yet.
    ProcessIdentity process;
  };

  absl::Status open();
  absl::Status welcome();
  void hear_guests();
  bool hear(Guest& guest);  // False: let it go.
  absl::Status judge(const Hello& hello, size_t bytes) const;
  void tell(const Guest& guest, const absl::Status& status) const;
  bool has_come(int rank) const;
  std::string missing() const;  // "1, 3"; empty when all have come.
  absl::StatusOr<std::shared_ptr<Region>> hand_out();

  const MeetArgs& args_;
  const Hello self_;
  std::string path_;
  FileDescriptor listener_;
  std::vector<Guest> guests_;
};

absl::Status Host::open() {
  absl::Status status;
  for (const std::string& folder : folders(args_)) {
    status = prepare_private_folder(folder);
    if (!status.ok()) continue;
    path_ = socket_path(args_, folder);
    absl::StatusOr<FileDescriptor> listener = listen_at(path_, kMaxRegionRanks);
    if (!listener.ok()) return listener.status();
    listener_ = std::move(listener).value();
    return absl::OkStatus();
  }
  return status;
}

absl::StatusOr<std::shared_ptr<Region>> Host::meet(Clock::time_point deadline) {
  RETURN_IF_ERROR(open());
  while (!missing().empty()) {
    if (is_cancelled(args_)) return cancelled_status(args_);
    if (Clock::now() >= deadline) {
      const absl::Status status = absl::DeadlineExceededError(fmt::format(
          "rank 0 waited {} ms for ranks that did not come: {}", args_.timeout.count(), missing()));
      for (const Guest& guest : guests_) tell(guest, status);
      return status;
    }
    std::vector<pollfd> polled = {{.fd = listener_.get(), .events = POLLIN, .revents = 0}};
    for (const Guest& guest : guests_) {
      polled.push_back({.fd = guest.socket.get(), .events = POLLIN, .revents = 0});
    }
    poll(polled.data(), polled.size(), static_cast<int>(kLook.count()));
    // Those that went are let go before those that come are heard: the rank may be the same.
    hear_guests();
    RETURN_IF_ERROR(welcome());
  }
  return hand_out();
}

absl::Status Host::welcome() {
  for (size_t calls = 0; calls < kStrangers; ++calls) {
    ASSIGN_OR_RETURN(FileDescriptor socket, accept_from(listener_));
    if (!socket.valid()) return absl::OkStatus();
    const auto stranger = [](const Guest& guest) { return guest.rank < 0; };
    if (std::count_if(guests_.begin(), guests_.end(), stranger) >= ptrdiff_t{kStrangers}) {
      guests_.erase(std::find_if(guests_.begin(), guests_.end(), stranger));  // The oldest.
    }
    if (!peer_is_same_user(socket)) continue;
    guests_.push_back({std::move(socket), Clock::now() + kHelloTime, -1, {}});
  }
  return absl::OkStatus();
}

void Host::hear_guests() {
  // In order of arrival, but first those that are known: one may have gone and its rank come back.
  std::stable_partition(guests_.begin(), guests_.end(), [](const Guest& g) { return g.rank >= 0; });
  for (size_t i = 0; i < guests_.size();) {
    if (hear(guests_[i])) {
      ++i;
    } else {
      guests_.erase(guests_.begin() + static_cast<ptrdiff_t>(i));
    }
  }
}

bool Host::hear(Guest& guest) {
  Hello hello;
  const Received received = receive_message(guest.socket, bytes_of(hello), nullptr);
  if (received.outcome == Received::kGone) return false;
  if (guest.rank >= 0) return received.outcome == Received::kNothing;  // Nothing more to say.
  if (received.outcome == Received::kNothing) return Clock::now() < guest.hello_deadline;
  const absl::Status status = judge(hello, received.bytes);
  if (status.ok()) {
    guest.rank = hello.rank;
    guest.process = hello.process;
    return true;
  }
  tell(guest, status);
  return false;
}

void Host::tell(const Guest& guest, const absl::Status& status) const {
  Answer answer{.code = static_cast<uint32_t>(status.code())};
  const std::string message = message_of(status);
  message.copy(answer.message.data(), answer.message.size() - 1);
  send_message(guest.socket, bytes_of(std::as_const(answer)), -1);
}

absl::Status Host::judge(const Hello& hello, size_t bytes) const {
  if (bytes != sizeof(Hello) || hello.magic != kMagic || hello.version != kVersion) {
    return failed_precondition("rank 0 speaks version {} of the meeting, the caller does not",
                               kVersion);
  }
  if (!same_token(hello, self_)) return absl::PermissionDeniedError("wrong join token");
  if (hello.ranks != args_.ranks || hello.epoch != args_.epoch) {
    return failed_precondition("rank 0 meets {} ranks in epoch {}, not {} in epoch {}", args_.ranks,
                               args_.epoch, hello.ranks, hello.epoch);
  }
  if (hello.rank < 1 || hello.rank >= args_.ranks) {
    return invalid_argument("no rank {} in a group of {}", hello.rank, args_.ranks);
  }
  if (has_come(hello.rank)) {
    return absl::AlreadyExistsError(fmt::format("rank {} has come already", hello.rank));
  }
  return absl::OkStatus();
}

bool Host::has_come(int rank) const {
  return std::any_of(guests_.begin(), guests_.end(),
                     [rank](const Guest& guest) { return guest.rank == rank; });
}

std::string Host::missing() const {
  std::string ranks;
  for (int rank = 1; rank < args_.ranks; ++rank) {
    if (!has_come(rank)) ranks += (ranks.empty() ? "" : ", ") + std::to_string(rank);
  }
  return ranks;
}

absl::StatusOr<std::shared_ptr<Region>> Host::hand_out() {
  int fd = -1;
  ASSIGN_OR_RETURN(std::shared_ptr<Region> region,
                   Region::create(args_.ranks, args_.epoch, args_.shared_bytes, &fd));
  const FileDescriptor memory(fd);
  RegionHeader& header = region->header();
  header.processes[0] = self_.process;
  for (const Guest& guest : guests_) {
    if (guest.rank >= 0) header.processes[guest.rank] = guest.process;
  }
  const Answer answer{};
  for (const Guest& guest : guests_) {
    if (guest.rank < 0 || send_message(guest.socket, bytes_of(answer), memory.get())) continue;
    // It went a moment ago. Those that have the region already learn it from there.
    Barrier(header, 0).fail(Failure::kGone, guest.rank);
    return unavailable("rank {} (pid {}) went away in the meeting", guest.rank, guest.process.pid);
  }
  return region;
}

// The other ranks' side. Empty (not an error) if there is nobody to talk to yet.
absl::StatusOr<std::shared_ptr<Region>> call_on_host(const MeetArgs& args,
                                                     const std::string& folder,
                                                     Clock::time_point deadline) {
  absl::StatusOr<FileDescriptor> socket = connect_to(socket_path(args, folder));
  if (absl::IsNotFound(socket.status()) || absl::IsUnavailable(socket.status())) return nullptr;
  if (!socket.ok()) return socket.status();
  if (!peer_is_same_user(*socket)) {
    return absl::PermissionDeniedError("another user's process answers as rank 0");
  }
  const Hello hello = hello_of(args);
  if (!send_message(*socket, bytes_of(hello), -1)) return nullptr;
  while (!is_cancelled(args) && Clock::now() < deadline) {
    pollfd polled{.fd = socket->get(), .events = POLLIN, .revents = 0};
    poll(&polled, 1, static_cast<int>(kLook.count()));
    Answer answer;
    FileDescriptor memory;
    const Received received = receive_message(*socket, bytes_of(answer), &memory);
    if (received.outcome == Received::kNothing) continue;
    if (received.outcome == Received::kGone) return nullptr;  // Perhaps it is started again.
    if (received.bytes != sizeof(answer) || answer.magic != kMagic || answer.version != kVersion) {
      return failed_precondition("rank 0 does not speak version {} of the meeting", kVersion);
    }
    if (answer.code != 0) {
      answer.message.back() = '\0';
      return absl::Status(static_cast<absl::StatusCode>(answer.code),
                          fmt::format("rank 0 told rank {}: {}", args.rank,
                                      std::string_view(answer.message.data())));
    }
    if (received.descriptor_lost) {
      return resource_exhausted("rank {} has no file descriptor left for the shared memory",
                                args.rank);
    }
    return Region::attach(memory.get(), args.ranks, args.epoch, args.shared_bytes);
  }
  return nullptr;
}

absl::StatusOr<std::shared_ptr<Region>> visit(const MeetArgs& args, Clock::time_point deadline) {
  const std::vector<std::string> places = folders(args);
  while (!is_cancelled(args) && Clock::now() < deadline) {
    for (const std::string& folder : places) {
      // Rank 0 may take any; one that is unfit for this rank is only a reason to try the next.
      const absl::Status fit = prepare_private_folder(folder);
      if (!fit.ok() && folder != places.back()) continue;
      RETURN_IF_ERROR(fit);
      ASSIGN_OR_RETURN(std::shared_ptr<Region> region, call_on_host(args, folder, deadline));
      if (region != nullptr) return region;
    }
    std::this_thread::sleep_for(milliseconds(5));
  }
  if (is_cancelled(args)) return cancelled_status(args);
  return absl::DeadlineExceededError(fmt::format(
      "rank {} waited {} ms for rank 0, or for ranks that it waits for, in {}{}", args.rank,
      args.timeout.count(), places.front(), places.size() > 1 ? " and " + places.back() : ""));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Collective>> meet_in_shared_memory(const MeetArgs& args) {
  RETURN_IF_ERROR(check(args));
  if (args.ranks == 1) return single_collective();
  const Clock::time_point deadline = Clock::now() + args.timeout;
  absl::StatusOr<std::shared_ptr<Region>> region =
      args.rank == 0 ? Host(args).meet(deadline) : visit(args, deadline);
  if (!region.ok()) return region.status();
  return std::make_unique<SharedMemoryCollective>(*std::move(region), args.rank,
                                                  args.collective_timeout);
}

}  // namespace lockstep
