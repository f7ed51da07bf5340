// SPDX-License-Identifier: Apache-2.0
// One direction of a stream: messages arrive in order, some time after they are sent, and the
// network has faults.
#pragma once

#include <algorithm>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "proto/cluster.pb.h"
#include "tests/simulation/machines/process_time.h"

namespace lockstep::simulation {

using ToCoordinator = cluster::WorkerMessage;
using ToWorker = std::shared_ptr<const cluster::CoordinatorMessage>;  // Shared by several workers.

inline uint64_t epoch_of(const ToCoordinator& message) { return message.epoch(); }
inline uint64_t epoch_of(const ToWorker& message) { return message->epoch(); }
inline bool is_beat(const ToCoordinator& message) { return message.has_heartbeat(); }
inline bool is_beat(const ToWorker&) { return false; }

// Events of the simulation refer to this object, so it must outlive them.
template <typename Message>
class Pipe {
 public:
  Pipe(World* world, ProcessTime* receiver) : world_(*world), receiver_(*receiver) {}

  std::function<void(Message)> on_message;
  std::function<void()> on_closed;  // Called once, after all messages.

  void send(Message message) {
    if (ending_) return;
    remember(message);
    push(std::move(message));
  }
  // Ends the stream after the messages that were sent.
  void close() {
    if (std::exchange(ending_, true)) return;
    push(std::nullopt);
  }
  // Messages in flight are lost.
  void cut() {
    if (over_ || cut_) return;
    cut_ = ending_ = true;
    under_way_.clear();
    push(std::nullopt);
  }

  // ---- Faults ----
  // All messages are lost from now on, the stream's end included.
  void drop() {
    if (!dropping_) dropped_at_ = world_.now();
    dropping_ = true;
    under_way_.clear();
  }
  bool drops() const { return dropping_; }
  int64_t dropped_at() const { return dropped_at_; }
  // Ends drop(): the peers noticed the half-open link, so the end that cut() sends will arrive.
  void notice() {
    if (std::exchange(dropping_, false)) cut_ = false;
  }
  void slow_down(int64_t extra_ms) {
    extra_ms_ = extra_ms;
    max_extra_ms_ = std::max(max_extra_ms_, extra_ms);
  }
  // An upper bound of the delay that slow_down() added to any message.
  int64_t max_extra_ms() const { return max_extra_ms_; }
  // A message of this epoch, sometimes its first one, arrives again in the next epoch.
  void echo() {
    echoing_ = true;
    if (world_.one_in(2)) kept_ = first_;
  }

 private:
  using Item = std::optional<Message>;  // Empty: the end.

  void push(Item item) {
    if (dropping_) return;
    const int64_t delay =
        extra_ms_ + (world_.one_in(30) ? world_.between(0, 40) : world_.between(0, 2));
    last_ = std::max(last_, world_.now() + delay);
    under_way_.push_back(std::move(item));
    world_.after(last_ - world_.now(), [this] { arrive(); });
  }

  void arrive() {
    if (under_way_.empty()) return;  // The pipe was cut.
    Item item = std::move(under_way_.front());
    under_way_.pop_front();
    if (receiver_.runs()) return give(std::move(item));
    receiver_.at_once([this, item = std::move(item)] { give(item); });
  }

  void give(Item item) {
    if (over_) return;
    if (item.has_value()) {
      given_epoch_ = std::max(given_epoch_, epoch_of(*item));
      return on_message(*std::move(item));
    }
    over_ = true;
    on_closed();
  }

  void remember(const Message& message) {
    if (is_beat(message) || epoch_of(message) == 0) return;
    if (!first_.has_value() || epoch_of(*first_) != epoch_of(message)) first_ = message;
    if (!echoing_) return;
    if (!kept_.has_value()) {
      kept_ = message;
    } else if (epoch_of(message) > epoch_of(*kept_)) {
      echoing_ = false;
      world_.after(world_.between(1, 300), [this] {
        const bool late = given_epoch_ > epoch_of(*kept_);
        if (late && !ending_ && !dropping_ && receiver_.runs()) give(*kept_);
      });
    }
  }

  World& world_;
  ProcessTime& receiver_;
  std::deque<Item> under_way_;
  int64_t last_ = 0;  // The arrival time of the last message.
  int64_t extra_ms_ = 0;
  int64_t max_extra_ms_ = 0;
  int64_t dropped_at_ = 0;
  bool ending_ = false;  // No message is sent any more.
  bool cut_ = false;
  bool dropping_ = false;
  bool over_ = false;  // The receiver has seen the end.
  bool echoing_ = false;
  uint64_t given_epoch_ = 0;
  std::optional<Message> first_;  // The first message of the last epoch.
  std::optional<Message> kept_;   // The message that arrives again.
};

}  // namespace lockstep::simulation
