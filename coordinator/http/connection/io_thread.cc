// SPDX-License-Identifier: Apache-2.0
#include "coordinator/http/connection/io_thread.h"

#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "base/status.h"
#include "base/system/out_of_memory.h"

namespace lockstep::http {
namespace {

constexpr size_t kScratchBytes = 64 << 10;
// close_one() looks at this many connections. If a network has half of all connections, the
// probability is 2^-32 that it has none among these.
constexpr int kCloseSamples = 32;
constexpr int kMaxPieces = 8;  // For one connection in a turn; then others are served.

// Deadlines are checked every 5 to 250 ms: they are met within a quarter of the shortest limit.
Clock::duration tick_time_of(const Limits& limits) {
  const auto shortest =
      std::min({limits.header, limits.body, limits.idle, limits.write, limits.linger,
                limits.last_request, limits.silence, limits.ping, limits.lost,
                limits.unproven.has_value() ? limits.unproven->time : limits.header});
  return std::clamp<Clock::duration>(shortest / 4, std::chrono::milliseconds(5),
                                     std::chrono::milliseconds(250));
}

}  // namespace

bool ServerState::has_room_for(size_t answer_bytes, BufferedBytes::Share* share) const {
  if (answer_bytes <= kSmallAnswer) return true;
  if (share->hold(static_cast<int64_t>(answer_bytes)).fit(limits.all_answer_bytes)) return true;
  share->hold(0);
  return false;
}

Admission ServerState::admit(const Request& head, const std::string& network) const {
  Admission admission = gate != nullptr ? gate(head) : Admission();
  if (admission.client.empty()) admission.client = network;
  return admission;
}

void ServerState::log_failed(const std::string& peer, const std::string& problem) {
  const int64_t count = failures.count();
  if (count == 0) return;
  spdlog::warn("{}: the connection of {} failed: {}{}", address, peer, printable(problem),
               count > 1 ? fmt::format(" ({} connections)", count) : "");
}

IoThread::IoThread(ServerState* server)
    : server_(server),
      work_(boost::asio::make_work_guard(context_)),
      mailbox_(std::make_shared<Mailbox>(&context_)),
      ticker_(context_),
      tick_time_(tick_time_of(server->limits)),
      turns_{&IoConnection::take_turn, boost::asio::steady_timer(context_)},
      write_turns_{&IoConnection::take_write_turn, boost::asio::steady_timer(context_)},
      scratch_(kScratchBytes, '\0') {
  tick();
  thread_ = std::thread([this] { run(); });
}

IoThread::~IoThread() {
  mailbox_->post([this] {
    stopping_ = true;
    ticker_.cancel();
    turns_.timer.cancel();
    write_turns_.timer.cancel();
    for_each([](IoConnection& connection) { connection.close(); });
    work_.reset();
  });
  mailbox_->close();  // run() still executes the work posted before.
  thread_.join();
}

void IoThread::adopt(int descriptor, std::string network) {
  mailbox_->post([this, descriptor, network = std::move(network)] { open(descriptor, network); });
}

void IoThread::drain() {
  mailbox_->post([this] { for_each([](IoConnection& connection) { connection.drain(); }); });
}

void IoThread::close_one() {
  mailbox_->post([this] {
    std::shared_ptr<IoConnection> chosen;
    int64_t chosen_count = 0;  // The number of connections of its network that are not kept.
    const auto consider = [&](const std::shared_ptr<IoConnection>& one) {
      if (!one->is_closable()) return;
      const int64_t count = server_->connections.closable_of(one->network());
      if (count <= chosen_count) return;
      chosen = one;
      chosen_count = count;
    };
    const size_t size = connections_.size();
    for (int i = 0; i < kCloseSamples && size > 0; ++i) consider(connections_[random_() % size]);
    for (size_t i = 0; i < size && chosen == nullptr; ++i) consider(connections_[i]);
    if (chosen != nullptr) chosen->close();
  });
}

void IoThread::run() {
  while (!within_memory([this] { return context_.run(), absl::OkStatus(); }).ok()) {
  }
}

void IoThread::open(int descriptor, const std::string& network) {
  std::shared_ptr<IoConnection> connection;
  const absl::Status made = within_memory([&] {
    connection = server_->make_connection(this, descriptor, network);
    connection->set_index(connections_.size());
    connections_.push_back(connection);
    return absl::OkStatus();
  });
  if (made.ok()) return connection->start(descriptor);
  ::close(descriptor);
  server_->connections.remove(network, /*was_kept=*/false);
}

void IoThread::forget(IoConnection* connection) {
  const size_t index = connection->index();
  server_->connections.remove(connection->network(), connection->is_kept());
  connections_.back()->set_index(index);
  std::swap(connections_[index], connections_.back());
  connections_.pop_back();  // May destroy the connection.
}

// Acts on a copy: connections may be removed meanwhile.
template <typename Act>
void IoThread::for_each(const Act& act) {
  const std::vector<std::shared_ptr<IoConnection>> all = connections_;
  for (const auto& connection : all) act(*connection);
}

void IoThread::await_turn(const std::shared_ptr<IoConnection>& connection) {
  turns_.queue.add(connection->network(), connection, connection->is_first_turn());
  run_turns(&turns_);
}

void IoThread::write_in_turn(const std::shared_ptr<IoConnection>& connection) {
  IoConnection::WriteState& state = connection->write_state();
  if (!state.was_long || connection->is_kept()) return write_now(connection);
  if (std::exchange(state.is_awaiting, true)) return;
  write_turns_.queue.add(connection->network(), connection, /*is_first=*/false);
  run_turns(&write_turns_);
}

void IoThread::write_now(const std::shared_ptr<IoConnection>& connection) {
  IoConnection::WriteState& state = connection->write_state();
  state.is_awaiting = false;
  WriteTurn turn(kMaxPieces);
  const bool is_done = connection->write_pieces(&turn);
  state.was_long = turn.is_long();
  if (is_done) return;
  if (state.was_long && !connection->is_kept()) return write_in_turn(connection);
  boost::asio::post(context_, [this, connection] { write_in_turn(connection); });
}

// A timer runs the turns, because Asio handles the sockets that are ready before it.
void IoThread::run_turns(Turns* turns) {
  if (turns->is_armed || stopping_ || turns->queue.time() == Clock::time_point::max()) return;
  turns->is_armed = true;
  turns->timer.expires_at(turns->queue.time());
  turns->timer.async_wait([this, turns](const boost::system::error_code& error) {
    turns->is_armed = false;
    if (error) return;
    turns->queue.run([turns](IoConnection& connection) { (connection.*turns->take)(); });
    run_turns(turns);
  });
}

void IoThread::tick() {
  ticker_.expires_after(tick_time_);
  ticker_.async_wait([this](const boost::system::error_code& error) {
    if (error || stopping_) return;
    tick();
    const Clock::time_point now = Clock::now();
    for_each([now](IoConnection& connection) { connection.tick(now); });
  });
}

}  // namespace lockstep::http
