// SPDX-License-Identifier: Apache-2.0
// The interfaces between RemoteCluster and the workers' streams and processes. Implemented by gRPC
// and Linux (cluster_server.h, launcher.h); tests have their own.
#pragma once

#include <string>
#include <vector>

#include "coordinator/cluster/cluster_actions.h"
#include "coordinator/cluster/workers/process_end.h"

namespace lockstep {

// Called from any thread; must neither block nor call a LinkListener.
class WorkerTransport {
 public:
  virtual ~WorkerTransport() = default;
  // Messages to one link are sent in order. Links that are gone are skipped.
  virtual void send(const std::vector<LinkId>& links,
                    const cluster::CoordinatorMessage& message) = 0;
  // See cluster_action::Close.
  virtual void close(LinkId link, bool after_sending) = 0;
};

// The transport's events. Calls for one link are never concurrent, and on_closed() is the last one.
// The caller must not hold a lock that a call of WorkerTransport takes.
class LinkListener {
 public:
  virtual ~LinkListener() = default;
  virtual void on_opened(LinkId link) = 0;
  virtual void on_message(LinkId link, cluster::WorkerMessage message) = 0;
  virtual void on_closed(LinkId link) = 0;
};

// Called from any thread; must neither block nor call a ProcessListener.
class WorkerProcesses {
 public:
  virtual ~WorkerProcesses() = default;
  virtual void start(int index) = 0;
  virtual void kill(int index) = 0;
};

// The processes' events, by worker. The rules of LinkListener hold here, too.
class ProcessListener {
 public:
  virtual ~ProcessListener() = default;
  virtual void on_started(int index, int pid) = 0;
  virtual void on_exited(int index, const ProcessEnd& end) = 0;
};

}  // namespace lockstep
