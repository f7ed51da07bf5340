// SPDX-License-Identifier: Apache-2.0
// The interfaces between RemoteCluster and the workers' streams and processes. Implemented by gRPC
// and Linux (cluster_server.h, launcher.h); tests have their own.
#pragma once

#include <string>
#include <vector>

#include "coordinator/cluster/cluster_actions.h"
#include "coordinator/cluster/workers/process_end.h"

namespace lockstep {

// Called from any thread; must not block, nor call back before it returns.
class WorkerTransport {
 public:
  virtual ~WorkerTransport() = default;
  // Messages to one link are sent in order. Links that are gone are skipped.
  virtual void send(const std::vector<LinkId>& links,
                    const cluster::CoordinatorMessage& message) = 0;
  // See cluster_action::Close.
  virtual void close(LinkId link, bool after_sending) = 0;
};

// The transport's events; for one link never concurrent, on_closed() last. The caller must not hold
// a lock that a call of WorkerTransport takes.
class LinkListener {
 public:
  virtual ~LinkListener() = default;
  virtual void on_opened(LinkId link) = 0;
  virtual void on_message(LinkId link, cluster::WorkerMessage message) = 0;
  virtual void on_closed(LinkId link) = 0;
};

// The same rules as for WorkerTransport.
class WorkerProcesses {
 public:
  virtual ~WorkerProcesses() = default;
  virtual void start(int index) = 0;
  virtual void kill(int index) = 0;
};

// The processes' events. The same rules as for LinkListener.
class ProcessListener {
 public:
  virtual ~ProcessListener() = default;
  virtual void on_started(int index, int pid) = 0;
  virtual void on_exited(int index, const ProcessEnd& end) = 0;
};

}  // namespace lockstep
