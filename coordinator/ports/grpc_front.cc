// SPDX-License-Identifier: Apache-2.0
#include "coordinator/ports/grpc_front.h"

#include <spdlog/spdlog.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <iterator>
#include <optional>
#include <set>
#include <thread>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/log_limit.h"
#include "base/sockets/address.h"
#include "base/status.h"
#include "base/system/descriptors.h"
#include "base/system/out_of_memory.h"
#include "base/threads/mutex.h"
#include "coordinator/ports/fair_turns.h"
#include "coordinator/ports/grpc_connection.h"
#include "coordinator/ports/grpc_pace.h"
#include "proto/handshake.h"

namespace lockstep {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kEvents = 64;  // Per call of epoll_wait: the system reports descriptors round robin.
constexpr std::chrono::seconds kLastBytes{1};
constexpr int64_t kMaxStrangersCalls = 4;  // Before a proof; a worker has one, then another.

// Binds the socket to an abstract name, which its peer can read. False: it failed, errno is set.
bool bind_name(int socket, const std::string& name) {
  sockaddr_un place = {};
  place.sun_family = AF_UNIX;
  if (name.size() >= sizeof place.sun_path) return errno = ENAMETOOLONG, false;
  std::memcpy(place.sun_path + 1, name.data(), name.size());
  const size_t bytes = offsetof(sockaddr_un, sun_path) + 1 + name.size();
  return bind(socket, reinterpret_cast<const sockaddr*>(&place), static_cast<socklen_t>(bytes)) ==
         0;
}

// Whether `peer` is gRPC's name for this socket. gRPC escapes some characters of an address,
// so only the part that is unique to the pair is compared.
bool is_name_of(int socket, std::string_view peer) {
  sockaddr_un place = {};
  socklen_t bytes = sizeof place;
  if (getsockname(socket, reinterpret_cast<sockaddr*>(&place), &bytes) != 0) return false;
  const std::string_view name(place.sun_path + 1, bytes - offsetof(sockaddr_un, sun_path) - 1);
  peer.remove_prefix(std::min(peer.size(), kAbstractPrefix.size()));
  return peer.starts_with(name.substr(0, name.find('/', kRelayedName.size()) + 1));
}

}  // namespace

class GrpcFront::Impl {
 public:
  // Owns both descriptors.
  Impl(const std::string& address, std::unique_ptr<TlsContext> tls, HandOver hand_over,
       bool wants_proof, int64_t max_held_bytes, int epoll, int wake);
  ~Impl();

  void adopt(int client) ABSL_LOCKS_EXCLUDED(mutex_, handing_over_);
  void trust(const std::string& peer) ABSL_LOCKS_EXCLUDED(mutex_);
  void stop() ABSL_LOCKS_EXCLUDED(handing_over_);

 private:
  struct Watched {
    Watched(GrpcConnection::Ends ends, std::unique_ptr<GrpcPace> pace, Clock::time_point now)
        : connection(std::move(ends), std::move(pace), now) {}
    GrpcConnection connection;
    std::optional<uint32_t> client_events;  // Nullopt: the descriptor is not watched.
    std::optional<uint32_t> inner_events;
    std::tuple<Clock::time_point, uint64_t, uint64_t> time{GrpcConnection::kNever, 0, 0};
    uint64_t last_read = 0;
  };
  using Connections = std::unordered_map<uint64_t, Watched>;

  // Any thread. Our end of a new pair, of which gRPC has the other one; -1: it failed.
  int open_inner(int client) ABSL_LOCKS_EXCLUDED(handing_over_);
  void wake() const;
  void log(const std::string& peer, const std::string& problem);

  // Its own thread.
  void run();
  int wait_ms() const;
  void on_event(const epoll_event& event);
  void on_times();
  void on_wake() ABSL_LOCKS_EXCLUDED(mutex_);
  void open(int client, int inner);
  template <typename Act>
  void act_on(Connections::iterator found, const Act& act);
  Connections::iterator remove(Connections::iterator one);
  bool watch(uint64_t id, Watched& watched);
  bool watch(uint64_t key, int descriptor, std::optional<uint32_t> events,
             std::optional<uint32_t>& watched) const;
  void set_time(uint64_t id, Watched& watched, Clock::time_point time);

  const std::string address_;
  const std::unique_ptr<TlsContext> tls_;
  const HandOver hand_over_;
  const bool wants_proof_;
  const std::string name_;  // Unique to this process' pairs.
  const int epoll_;
  const int wake_;
  LogLimit problems_{std::chrono::seconds(1)};

  Mutex handing_over_;
  bool stopped_ ABSL_GUARDED_BY(handing_over_) = false;
  uint64_t pairs_ ABSL_GUARDED_BY(handing_over_) = 0;
  Mutex mutex_;
  std::vector<std::pair<int, int>> adopted_ ABSL_GUARDED_BY(mutex_);  // Client, inner end.
  std::vector<std::string> trusted_ ABSL_GUARDED_BY(mutex_);          // The names that gRPC uses.
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;

  // Used by the thread.
  Clock::time_point now_ = Clock::now();
  GrpcShares shares_;
  std::vector<char> scratch_ = std::vector<char>(GrpcConnection::kMaxReadBytes);
  Connections connections_;
  // Ordered by time, then by the time since the last read.
  std::set<std::tuple<Clock::time_point, uint64_t, uint64_t>> times_;
  FairTurns<uint64_t> handshakes_;
  uint64_t last_id_ = 0;
  uint64_t reads_ = 0;
  Clock::time_point end_ = GrpcConnection::kNever;
  std::thread thread_;
};

GrpcFront::Impl::Impl(const std::string& address, std::unique_ptr<TlsContext> tls,
                      HandOver hand_over, bool wants_proof, int64_t max_held_bytes, int epoll,
                      int wake)
    : address_(address),
      tls_(std::move(tls)),
      hand_over_(std::move(hand_over)),
      wants_proof_(wants_proof),
      name_(fmt::format("{}{}-", kRelayedName, to_hex(draw_nonce().substr(0, 8)))),
      epoll_(epoll),
      wake_(wake),
      shares_(now_, wants_proof ? kMaxStrangersCalls : GrpcShares::kMaxCalls, max_held_bytes) {
  epoll_event event = {.events = EPOLLIN, .data = {.u64 = 0}};
  LOCKSTEP_CHECK(epoll_ctl(epoll_, EPOLL_CTL_ADD, wake_, &event) == 0);
  thread_ = std::thread([this] { run(); });
}

GrpcFront::Impl::~Impl() {
  stop();
  {
    const MutexLock lock(&mutex_);
    ending_ = true;
  }
  wake();
  thread_.join();
  ::close(epoll_);
  ::close(wake_);
}

// ---- Any thread ----

void GrpcFront::Impl::adopt(int client) {
  int inner = -1;
  if (tls_ == nullptr) {
    inner = open_inner(client);
    if (inner < 0) {
      ::close(client);
      return;
    }
  }
  {
    const MutexLock lock(&mutex_);
    adopted_.emplace_back(client, inner);
  }
  wake();
}

void GrpcFront::Impl::trust(const std::string& peer) {
  {
    const MutexLock lock(&mutex_);
    trusted_.push_back(peer);
  }
  wake();
}

void GrpcFront::Impl::stop() {
  const MutexLock lock(&handing_over_);
  stopped_ = true;
}

int GrpcFront::Impl::open_inner(int client) {
  std::string peer = peer_address(client);
  if (peer.empty()) peer = kUnixPrefix;
  const MutexLock lock(&handing_over_);
  if (stopped_) return -1;
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) != 0) {
    log(peer, fmt::format("no sockets: {}; raise the limit (ulimit -n)", error_text(errno)));
    return -1;
  }
  if (!bind_name(pair[0], fmt::format("{}{:x}/{}", name_, ++pairs_, peer))) {
    log(peer, fmt::format("no name for a socket: {}", error_text(errno)));
    ::close(pair[0]);
    ::close(pair[1]);
    return -1;
  }
  hand_over_(pair[1]);
  return pair[0];
}

void GrpcFront::Impl::wake() const {
  const uint64_t one = 1;
  LOCKSTEP_CHECK(write(wake_, &one, sizeof one) == sizeof one);
}

void GrpcFront::Impl::log(const std::string& peer, const std::string& problem) {
  const int64_t count = problems_.count();
  if (count == 0) return;
  spdlog::warn("gRPC: {}: the connection of {} failed: {}{}", address_,
               peer.empty() ? "a client that is gone" : peer, printable(problem),
               count > 1 ? fmt::format(" ({} connections)", count) : "");
}

// ---- Its own thread ----

void GrpcFront::Impl::run() {
  std::array<epoll_event, kEvents> events;
  while (now_ < end_ && (end_ == GrpcConnection::kNever || !connections_.empty())) {
    const int count = epoll_wait(epoll_, events.data(), kEvents, wait_ms());
    now_ = Clock::now();
    // Events that fail for lack of memory are reported again.
    within_memory([&] {
      for (int i = 0; i < count; ++i) on_event(events[static_cast<size_t>(i)]);
      on_times();
      handshakes_.run([this](uint64_t id) {
        const auto found = connections_.find(id);
        if (found == connections_.end()) return;
        act_on(found, [](GrpcConnection& connection, const GrpcConnection::EventContext& context) {
          connection.on_turn(context);
        });
      });
      return absl::OkStatus();
    }).IgnoreError();
  }
  connections_.clear();
}

int GrpcFront::Impl::wait_ms() const {
  const Clock::time_point due = std::min(end_, handshakes_.time());
  const Clock::time_point first =
      times_.empty() ? due : std::min(due, std::get<0>(*times_.begin()));
  if (first == GrpcConnection::kNever) return -1;
  if (first <= now_) return 0;
  return static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(first - now_).count());
}

// The key has the connection's number and which of its ends it is: a connection that is gone is not
// found.
void GrpcFront::Impl::on_event(const epoll_event& event) {
  if (event.data.u64 == 0) return on_wake();
  const auto found = connections_.find(event.data.u64 / 2);
  if (found == connections_.end()) return;
  act_on(found, [&](GrpcConnection& connection, const GrpcConnection::EventContext& context) {
    event.data.u64 % 2 == 0 ? connection.on_client(event.events, context)
                            : connection.on_inner(event.events, context);
  });
}

// Each due connection is served once: those that are due again are served later.
void GrpcFront::Impl::on_times() {
  std::vector<uint64_t> due;
  for (const auto& [time, last_read, id] : times_) {
    if (time > now_) break;
    due.push_back(id);
  }
  for (const uint64_t id : due) {
    act_on(connections_.find(id),
           [](GrpcConnection& connection, const GrpcConnection::EventContext& context) {
             connection.on_time(context);
           });
  }
}

void GrpcFront::Impl::on_wake() {
  uint64_t count = 0;
  LOCKSTEP_CHECK(read(wake_, &count, sizeof count) == sizeof count);
  std::vector<std::pair<int, int>> adopted;
  std::vector<std::string> trusted;
  bool ending = false;
  {
    const MutexLock lock(&mutex_);
    adopted.swap(adopted_);
    trusted.swap(trusted_);
    ending = ending_;
  }
  for (const auto& [client, inner] : adopted) open(client, inner);
  for (const std::string& peer : trusted) {
    const auto found = std::ranges::find_if(connections_, [&peer](const auto& one) {
      return is_name_of(one.second.connection.inner(), peer);
    });
    if (found == connections_.end()) continue;
    act_on(found, [](GrpcConnection& connection, const GrpcConnection::EventContext& context) {
      connection.trust(context.now);
    });
  }
  if (!ending) return;
  end_ = now_ + kLastBytes;
  for (auto one = connections_.begin(); one != connections_.end();) {
    one = one->second.connection.inner() < 0 ? remove(one) : std::next(one);
  }
}

void GrpcFront::Impl::open(int client, int inner) {
  const uint64_t id = ++last_id_;
  GrpcConnection::Ends ends = {.client = client, .inner = inner, .wants_proof = wants_proof_};
  const absl::Status made = within_memory([&]() -> absl::Status {
    if (tls_ != nullptr) {
      ends.tls = tls_->open(client);
      if (ends.tls == nullptr) return out_of_memory();
      ends.open_inner = [this, client] { return open_inner(client); };
    }
    connections_.reserve(connections_.size() + 1);
    auto pace = std::make_unique<GrpcPace>(&shares_, network_of(peer_address(client)), now_);
    connections_.try_emplace(id, std::move(ends), std::move(pace), now_);
    return absl::OkStatus();
  });
  if (!made.ok()) {
    ::close(client);
    if (inner >= 0) ::close(inner);
    return;
  }
  act_on(connections_.find(id), [](GrpcConnection&, const GrpcConnection::EventContext&) {});
}

template <typename Act>
void GrpcFront::Impl::act_on(Connections::iterator found, const Act& act) {
  auto& [id, watched] = *found;
  GrpcConnection& connection = watched.connection;
  const int64_t before = connection.received();
  const bool waited = connection.waits_for_turn();
  const bool goes_on =
      within_memory([&] {
        act(connection, {.now = now_, .scratch = scratch_.data()});
        if (!waited && connection.waits_for_turn()) {
          handshakes_.add(network_of(peer_address(connection.client())), found->first);
        }
        return absl::OkStatus();
      }).ok() &&
      !connection.is_over();
  if (connection.received() != before) watched.last_read = ++reads_;
  if (!connection.problem().empty()) log(peer_address(connection.client()), connection.problem());
  if (goes_on && watch(id, watched)) return set_time(id, watched, connection.time());
  remove(found);
}

GrpcFront::Impl::Connections::iterator GrpcFront::Impl::remove(Connections::iterator one) {
  set_time(one->first, one->second, GrpcConnection::kNever);
  return connections_.erase(one);
}

bool GrpcFront::Impl::watch(uint64_t id, Watched& watched) {
  const GrpcConnection& connection = watched.connection;
  return watch(2 * id, connection.client(), connection.client_events(), watched.client_events) &&
         watch(2 * id + 1, connection.inner(), connection.inner_events(), watched.inner_events);
}

bool GrpcFront::Impl::watch(uint64_t key, int descriptor, std::optional<uint32_t> events,
                            std::optional<uint32_t>& watched) const {
  if (events == watched) return true;
  epoll_event event = {.events = events.value_or(0), .data = {.u64 = key}};
  const int operation = !events.has_value()   ? EPOLL_CTL_DEL
                        : watched.has_value() ? EPOLL_CTL_MOD
                                              : EPOLL_CTL_ADD;
  watched = events;
  return epoll_ctl(epoll_, operation, descriptor, &event) == 0;
}

void GrpcFront::Impl::set_time(uint64_t id, Watched& watched, Clock::time_point time) {
  const std::tuple next{time, watched.last_read, id};
  if (next == watched.time) return;
  times_.erase(watched.time);
  watched.time = next;
  if (time != GrpcConnection::kNever) times_.insert(next);
}

GrpcFront::GrpcFront(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
GrpcFront::~GrpcFront() = default;

absl::StatusOr<std::unique_ptr<GrpcFront>> GrpcFront::start(const std::string& address,
                                                            std::unique_ptr<TlsContext> tls,
                                                            HandOver hand_over, bool wants_proof,
                                                            int64_t max_held_bytes) {
  const int epoll = epoll_create1(EPOLL_CLOEXEC);
  const int wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (epoll < 0 || wake < 0) {
    for (const int descriptor : {epoll, wake}) {
      if (descriptor >= 0) ::close(descriptor);
    }
    return resource_exhausted("{}: out of descriptors, the limit is {}; raise it (ulimit -n)",
                              address, descriptor_limit());
  }
  return std::unique_ptr<GrpcFront>(new GrpcFront(std::make_unique<Impl>(
      address, std::move(tls), std::move(hand_over), wants_proof, max_held_bytes, epoll, wake)));
}

void GrpcFront::adopt(int descriptor) { impl_->adopt(descriptor); }
void GrpcFront::trust(const std::string& peer) { impl_->trust(peer); }
void GrpcFront::stop() { impl_->stop(); }

}  // namespace lockstep
