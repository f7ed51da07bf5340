// SPDX-License-Identifier: Apache-2.0
// A rank's connections to ranks of other hosts, and how parts travel on them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "worker/collectives/barrier.h"
#include "worker/collectives/data_channel.h"
#include "worker/collectives/frame.h"
#include "worker/collectives/routes.h"

namespace lockstep {

// Both ends have proved who they are.
struct DataLink {
  Route route;
  std::unique_ptr<DataChannel> channel;
  std::string address;  // Of the other end, for messages.
};

// exchange() belongs to one thread, interrupt() to any.
class TcpLinks {
 public:
  explicit TcpLinks(std::vector<DataLink> links);

  // What goes to a rank, or where its part goes.
  using RowBytesOf = absl::FunctionRef<RowBytes(int rank)>;

  // Sends out(rank) to each rank that this one sends to, receives in(rank) from each from which it
  // receives, and ends when all that is done: what is to be sent may be written over then. Spins
  // briefly, then sleeps. Where it fails the group has ended on this host, by `barrier`, and on the
  // other ones as soon as they look. kUnavailable: a peer is gone, or its bytes were changed on
  // their way; kInternal: it is in another call; kDeadlineExceeded; or what has ended the group
  // here. Messages name the peer and its address. Adds what it waited to *wait_ns.
  absl::Status exchange(const Call& call, RowBytesOf out, RowBytesOf in, Barrier& barrier,
                        Barrier::Clock::time_point deadline, int64_t* wait_ns);

  // The ranks whose parts come here.
  const std::vector<int>& senders() const { return senders_; }

  // Ends every connection, so that peers do not wait any longer. Never blocks; async-signal-safe.
  void interrupt();

 private:
  struct Link {
    DataLink end;
    FrameWriter writer;
    FrameReader reader;
  };
  enum class Moved { kNothing, kSome };

  absl::StatusOr<Moved> move();
  absl::StatusOr<Moved> send(Link& link);
  absl::StatusOr<Moved> receive(Link& link);
  bool done() const;
  void sleep(Barrier::Clock::duration at_most) const;
  absl::Status ended(const Link& link, const absl::Status& why);
  absl::Status late();
  absl::Status fail(Barrier& barrier, const absl::Status& why);

  std::vector<Link> links_;
  std::vector<int> senders_;
  // Of an error: what it is, and the rank that it is about.
  Failure failure_ = Failure::kNone;
  int culprit_ = -1;
};

}  // namespace lockstep
