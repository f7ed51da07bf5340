// SPDX-License-Identifier: Apache-2.0
// A rank's connections to ranks of other hosts, and how parts travel on them.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "base/sockets/data_channel.h"
#include "worker/collectives/host/barrier.h"
#include "worker/collectives/hosts/frame.h"
#include "worker/collectives/hosts/routes.h"

namespace lockstep {

// Both ends have proved who they are.
struct DataLink {
  Route route;
  std::unique_ptr<DataChannel> channel;
  std::string address;  // Of the other end, for messages.
};

// exchange() belongs to one thread, end() to any.
class TcpLinks {
 public:
  explicit TcpLinks(std::vector<DataLink> links);

  // What goes to a rank, or where its part goes.
  using RowBytesOf = absl::FunctionRef<RowBytes(int rank)>;

  // Sends out(rank) to each rank that this one sends to, receives in(rank) from each from which it
  // receives, and ends when all that is done: what is to be sent may be written over then. Spins
  // briefly, then sleeps. Where it fails the group has ended on this host, by `barrier`, and on the
  // other ones as soon as they look. kUnavailable: a peer is gone, or its bytes were changed on
  // their way; kInternal: it is in another call; kAborted: a peer said that the group was aborted;
  // kDeadlineExceeded; or what has ended the group here. Messages name the peer and its address.
  // Adds what it waited to *wait_ns.
  absl::Status exchange(const Call& call, RowBytesOf out, RowBytesOf in, Barrier& barrier,
                        Barrier::Clock::time_point deadline, int64_t* wait_ns);

  // The ranks whose parts come here.
  const std::vector<int>& senders() const { return senders_; }

  // The group has ended, by `barrier` too: says so on every connection that takes it at once, and
  // ends all of them, so that peers do not wait any longer. Never blocks. A thread that is in
  // exchange() does it in its place, and completes the frames under way if it can within 20 ms.
  void end(const Goodbye& goodbye);

 private:
  struct Link {
    DataLink end;
    FrameWriter writer;
    FrameReader reader;
    bool broken = false;    // Nothing can be sent on it any more.
    bool read_all = false;  // Nothing can be read.
  };
  enum class Moved { kNothing, kSome };

  absl::Status move_all(Barrier& barrier, Barrier::Clock::time_point deadline, int64_t* wait_ns);
  absl::StatusOr<Moved> move();
  absl::StatusOr<Moved> send(Link& link);
  absl::StatusOr<Moved> receive(Link& link);
  bool done() const;
  void sleep(Barrier::Clock::duration at_most) const;
  absl::Status ended(Link& link, const absl::Status& why);
  absl::Status told(const Link& link);
  Moved read_last_words(Link& link);
  Moved say_last_words(Link& link);
  void say_goodbye(const Goodbye& goodbye, Barrier::Clock::duration at_most);
  void interrupt();
  absl::Status late();
  absl::Status fail(Barrier& barrier, const absl::Status& why);

  std::vector<Link> links_;
  std::vector<int> senders_;
  std::atomic<bool> busy_{false};  // Of the connections one thread at a time; for ever at the end.
  std::atomic<bool> ending_{false};  // end() was called.
  const FileDescriptor wake_;        // Wakes exchange() for it.
  // Of an error: what it is, and the rank that it is about.
  Failure failure_ = Failure::kNone;
  int culprit_ = -1;
};

}  // namespace lockstep
