// SPDX-License-Identifier: Apache-2.0
// A thread with its own io_context, and the connections that it serves. A connection stays with its
// thread, so it needs neither locks nor strands. Private to this folder, so that few files compile
// Asio's headers.
#pragma once

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/log_limit.h"
#include "base/threads/mutex.h"
#include "base/tls/server_tls.h"
#include "coordinator/http/connection/connection_counts.h"
#include "coordinator/http/connection/io_connection.h"
#include "coordinator/http/connection/server.h"
#include "coordinator/ports/buffered_bytes.h"
#include "coordinator/ports/fair_turns.h"

namespace lockstep::http {

class IoThread;

// The state that all connections of a server share. Outlives its threads.
struct ServerState {
  // Makes a connection of the server's protocol.
  using MakeConnection = std::shared_ptr<IoConnection> (*)(IoThread* thread, int descriptor,
                                                           std::string network);
  std::shared_ptr<ssl_st> open_tls(int descriptor) const {
    return tls != nullptr ? tls->open(descriptor) : nullptr;
  }

  MakeConnection make_connection = nullptr;
  // An answer of this size is always accepted.
  static constexpr size_t kSmallAnswer = 64 << 10;
  // Whether an answer of this size may wait in memory until its client takes it. If so, and it is
  // above kSmallAnswer, `unsent` counts it.
  bool has_room_for(size_t answer_bytes, BufferedBytes::Share* unsent) const;
  // The gate's decision about a request. Its client is the network unless the gate names one.
  Admission admit(const Request& head, const std::string& network) const;
  // Logs that a connection failed, at most once per second. Any thread.
  void log_failed(const std::string& peer, const std::string& problem);

  std::string address;  // The address of the port, for the log.
  LogLimit failures{std::chrono::seconds(1)};
  Limits limits;
  Handler handler;
  RenderRefusal refusal;
  Gate gate;
  PageHeaders page_headers;
  std::unique_ptr<TlsContext> tls;  // Null: plain TCP.
  BufferedBytes received;
  BufferedBytes unsent;
  ConnectionCounts connections;
  std::atomic<int64_t> answers{0};  // Requests that the handler got, whose answer is incomplete.
  std::atomic<bool> draining{false};
};

// Posts work to an I/O thread that may have ended. Thread-safe.
class Mailbox {
 public:
  explicit Mailbox(boost::asio::io_context* context) : context_(context) {}

  // False: the thread has ended, and the work is dropped.
  template <typename Work>
  bool post(Work work) ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    if (context_ == nullptr) return false;
    boost::asio::post(*context_, std::move(work));
    return true;
  }
  void close() ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    context_ = nullptr;
  }

 private:
  Mutex mutex_;
  boost::asio::io_context* context_ ABSL_GUARDED_BY(mutex_);
};

class IoThread {
 public:
  explicit IoThread(ServerState* server);
  // Closes its connections.
  ~IoThread();

  // Any thread. Owns the descriptor, which ServerState::connections already counts.
  void adopt(int descriptor, std::string network);
  void drain();
  // Closes one of the connections that may be closed: one of the network that has the most of them.
  // It is drawn at random, so that no client can determine which one.
  void close_one();

  // For its own thread.
  ServerState& server() { return *server_; }
  boost::asio::io_context& context() { return context_; }
  const std::shared_ptr<Mailbox>& mailbox() const { return mailbox_; }
  // A buffer into which every connection reads, so that idle connections need none.
  std::string& scratch() { return scratch_; }
  void forget(IoConnection* connection);
  // Calls the connection's take_turn() when it has its turn (FairTurns).
  void await_turn(const std::shared_ptr<IoConnection>& connection);
  // Lets the connection write. After a long turn it waits in a queue, unless it is_kept(): answers
  // that take long to write get at most half of the thread's time, and ready sockets come first.
  void write_in_turn(const std::shared_ptr<IoConnection>& connection);
  // For take_write_turn(): lets the connection write now. May close it.
  void write_now(const std::shared_ptr<IoConnection>& connection);

 private:
  template <typename Act>
  void for_each(const Act& act);
  void open(int descriptor, const std::string& network);
  // The thread's function. Work that runs out of memory is dropped. It concerned one connection,
  // which ends when its client closes, or at its deadline.
  void run();
  void tick();
  // Connections that wait for a turn, and the call that is their turn.
  struct Turns {
    void (IoConnection::*take)();
    boost::asio::steady_timer timer;
    FairTurns<IoConnection> queue = {};
    bool is_armed = false;
  };
  void run_turns(Turns* turns);

  ServerState* const server_;
  boost::asio::io_context context_{1};
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_;
  const std::shared_ptr<Mailbox> mailbox_;
  // Checks all deadlines: with thousands of streams this costs less than one timer for each.
  boost::asio::steady_timer ticker_;
  const Clock::duration tick_time_;
  Turns turns_;
  Turns write_turns_;
  std::string scratch_;
  std::vector<std::shared_ptr<IoConnection>> connections_;
  std::minstd_rand random_{std::random_device{}()};
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace lockstep::http
