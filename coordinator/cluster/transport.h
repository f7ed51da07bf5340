// SPDX-License-Identifier: Apache-2.0
// Between RemoteCluster and what it commands: streams of workers, and their processes. gRPC and
// Linux are behind these (cluster_server.h, launcher.h); tests put others there.
#pragma once

#include <string>
#include <vector>

#include "coordinator/cluster/cluster_actions.h"
#include "coordinator/cluster/workers/process_end.h"

namespace lockstep {

// Calls come from any thread, must not block, and must not call back before they return.
class WorkerTransport {
 public:
  virtual ~WorkerTransport() = default;
  // Messages to one link go out in order. Links that are gone are passed over.
  virtual void send(const std::vector<LinkId>& links,
                    const cluster::CoordinatorMessage& message) = 0;
  // As cluster_action::Close.
  virtual void close(LinkId link, bool after_sending) = 0;
};

// What the transport reports; for one link never at the same time, closed() last. No lock that a
// call of WorkerTransport takes may be held.
class LinkListener {
 public:
  virtual ~LinkListener() = default;
  virtual void on_opened(LinkId link) = 0;
  virtual void on_message(LinkId link, cluster::WorkerMessage message) = 0;
  virtual void on_closed(LinkId link) = 0;
};

// As WorkerTransport's calls.
class WorkerProcesses {
 public:
  virtual ~WorkerProcesses() = default;
  virtual void start(int index) = 0;
  virtual void kill(int index) = 0;
};

// What becomes of processes. The same promise as LinkListener's.
class ProcessListener {
 public:
  virtual ~ProcessListener() = default;
  virtual void on_started(int index, int pid) = 0;
  virtual void on_exited(int index, const ProcessEnd& end) = 0;
};

}  // namespace lockstep
