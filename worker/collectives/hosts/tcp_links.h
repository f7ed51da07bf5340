// SPDX-License-Identifier: Apache-2.0
// A rank's connections to ranks of other hosts, and how parts are sent on them.
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

// A connection; both ends have proved who they are.
struct DataLink {
  Route route;
  std::unique_ptr<DataChannel> channel;
  std::string address;  // The other end's address, for messages.
};

// exchange() is for one thread, end() for any.
class TcpLinks {
 public:
  explicit TcpLinks(std::vector<DataLink> links);

  // The bytes to send to a rank, or the place for its part.
  using RowBytesOf = absl::FunctionRef<RowBytes(int rank)>;

  // Sends out(rank) on each route that sends, and receives in(rank) on each route that receives.
  // When it returns, the sent memory may be overwritten. Spins briefly, then sleeps. After an error
  // the group has ended: on this host through `barrier`, on other hosts when they next check.
  // Errors are kUnavailable (a peer is gone, or its bytes were changed on their way), kInternal (a
  // peer is in another call), kAborted (a peer said that the group was aborted), kDeadlineExceeded,
  // or the error that ended the group here. Messages name the peer and its address. Adds the time
  // that it waited to *wait_ns.
  absl::Status exchange(const Call& call, RowBytesOf out, RowBytesOf in, Barrier& barrier,
                        Barrier::Clock::time_point deadline, int64_t* wait_ns);

  // The ranks whose parts are received here.
  const std::vector<int>& senders() const { return senders_; }

  // Called after the group has ended in the barrier. Says goodbye on each connection that takes the
  // message at once, and ends all connections, so that peers stop waiting. Never blocks. If a
  // thread is in exchange(), that thread does all this instead, and first completes the frames that
  // it has begun, for at most 20 ms.
  void end(const Goodbye& goodbye);

 private:
  struct Link {
    DataLink end;
    FrameWriter writer;
    FrameReader reader;
    bool broken = false;    // Nothing can be sent on it any more.
    bool read_all = false;  // Nothing more can be read.
  };
  enum class Moved { kNothing, kSome };

  absl::Status move_all(Barrier& barrier, Barrier::Clock::time_point deadline, int64_t* wait_ns);
  absl::StatusOr<Moved> move();
  absl::StatusOr<Moved> send(Link& link);
  absl::StatusOr<Moved> receive(Link& link);
  bool done() const;
  void sleep(Barrier::Clock::duration timeout) const;
  absl::Status ended(Link& link, const absl::Status& why);
  absl::Status goodbye_status(const Link& link);
  Moved read_final(Link& link);
  Moved send_final(Link& link);
  void send_goodbye(const Goodbye& goodbye, Barrier::Clock::duration timeout);
  void interrupt();
  absl::Status late();
  absl::Status fail(Barrier& barrier, const absl::Status& why);

  std::vector<Link> links_;
  std::vector<int> senders_;
  std::atomic<bool> busy_{false};    // A thread uses the connections, or they have ended.
  std::atomic<bool> ending_{false};  // end() was called.
  const FileDescriptor wake_;        // Wakes exchange() when end() is called.
  // The kind of the error, and the rank that caused it.
  Failure failure_ = Failure::kNone;
  int failed_rank_ = -1;
};

}  // namespace lockstep
