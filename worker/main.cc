// SPDX-License-Identifier: Apache-2.0
// Makes one connection after another and keeps the weights in memory between them.
#include "worker/main.h"

#include <spdlog/spdlog.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <utility>

#include "base/sockets/address.h"
#include "base/status.h"
#include "base/system/topology.h"
#include "base/threads/wait.h"
#include "worker/collectives/hosts/tcp_socket.h"
#include "worker/host/read_rate.h"
#include "worker/session/grpc_link.h"
#include "worker/session/session.h"

namespace lockstep {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kMinPause{100};
constexpr milliseconds kMaxPause{500};
constexpr milliseconds kServed{2000};  // A connection that lasts this long succeeded.

// A launched worker ends when its launcher ends, for any reason.
bool die_with_parent(int parent_pid) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  return getppid() == parent_pid;
}

// A worker whose processors are on several NUMA nodes spreads its memory over all of them. On one
// node nothing is needed: memory is allocated where it is first touched.
void spread_memory(const std::vector<int>& processors) {
  const std::vector<int> nodes =
      nodes_of(locate_processors(processors.empty() ? thread_processors() : processors));
  if (nodes.size() > 1 && !interleave_memory(nodes)) {
    spdlog::warn("memory could not be spread over the {} NUMA nodes of this worker", nodes.size());
  }
}

// Measures the read rate while the worker prepares to join. The result is 0 (not measured) with
// --speed, on a GPU, and for launched workers, which are all equally fast and often must replace a
// lost rank quickly.
std::shared_future<double> start_measuring(const WorkerProcessOptions& options,
                                           const Backend& backend) {
  if (options.parent_pid != 0 || options.speed > 0 || !backend.device->is_host()) {
    std::promise<double> unknown;
    unknown.set_value(0);
    return unknown.get_future().share();
  }
  return std::async(std::launch::async, measure_read_rate, options.threads, options.processor_ids())
      .share();
}

// Null: the cluster has no certificates.
absl::StatusOr<std::unique_ptr<ReloadingTls>> load_tls(const WorkerProcessOptions& options) {
  if (!options.tls.given()) return nullptr;
  return ReloadingTls::load(options.tls, {.user = "the connection to " + options.coordinator,
                                          .reload = ReloadingTls::Reload::kOnGet});
}

// Dials, and serves the connection until it ends. True: the connection has ended. False: no
// connection was made, and `why` says why.
absl::StatusOr<bool> connect_once(const WorkerProcessOptions& options, ReloadingTls* tls,
                                  const Backend& backend,
                                  const std::shared_future<double>& read_rate,
                                  PersistentWorker* persistent, std::string* why) {
  const auto link = dial({.coordinator = options.coordinator,
                          .token = options.token,
                          .tls = tls,
                          .knows_coordinator = options.parent_pid != 0},
                         options.stop);
  if (link.ok()) {
    spdlog::info("connected to {}", options.coordinator);
    WorkerProcessOptions session = options;
    session.read_rate = read_rate.get();
    RETURN_IF_ERROR(Session(session, backend, persistent, **link).run());
    return true;
  }
  if (absl::IsPermissionDenied(link.status())) return link.status();
  *why = message_of(link.status());
  spdlog::debug("{}: {}", options.coordinator, *why);
  return false;
}

// NCCL gets the network interface of the data port. By default it takes the first interface, and
// peers on other hosts may not be reachable through that. Called before the first group: no other
// thread reads the environment yet.
void name_interface_to_nccl(const std::string& data_address) {
  const auto parts = split_address(data_address);
  if (!parts.ok() || is_loopback_host(parts->host)) return;
  const std::string name = interface_of(parts->host);
  if (name.empty()) return;
  setenv("NCCL_SOCKET_IFNAME", ("=" + name).c_str(), 0);  // NOLINT(concurrency-mt-unsafe): above.
  spdlog::debug("NCCL_SOCKET_IFNAME is {}", std::getenv("NCCL_SOCKET_IFNAME"));
}

absl::StatusOr<std::unique_ptr<DataPort>> listen_for_data(const WorkerProcessOptions& options,
                                                          const std::string& address,
                                                          const std::string& advertised_host) {
  std::unique_ptr<DataTls> tls;
  if (options.tls.given()) {
    ASSIGN_OR_RETURN(tls, DataTls::load(options.tls));
  }
  return DataPort::open(address, advertised_host, std::move(tls));
}

}  // namespace

absl::StatusOr<std::unique_ptr<DataPort>> open_data_port(const WorkerProcessOptions& options) {
  const bool may_be_reached = options.tls.given() || !options.insecure.empty();
  if (options.data_listen == "off") return nullptr;
  if (options.data_listen.empty()) {
    if (is_unix_address(options.coordinator) || options.parent_pid != 0 || !may_be_reached)
      return nullptr;
    ASSIGN_OR_RETURN(const std::string host, local_host_towards(options.coordinator));
    if (is_loopback_host(host)) return nullptr;
    return listen_for_data(options, join_address(host, "0"), host);
  }
  const auto parts = split_address(options.data_listen);
  if (!parts.ok()) return invalid_argument("--data-listen {}", message_of(parts.status()));
  if (!may_be_reached && !is_loopback_host(parts->host)) {
    return invalid_argument(
        "--data-listen {}: other machines could reach this port, and its data is in plain text; "
        "give --cluster-cert, --cluster-key and --cluster-ca, use a 127.0.0.1 address, or allow it "
        "with --insecure cluster",
        options.data_listen);
  }
  if (!is_any_host(parts->host)) return listen_for_data(options, options.data_listen, parts->host);
  if (is_unix_address(options.coordinator)) return nullptr;
  ASSIGN_OR_RETURN(const std::string host, local_host_towards(options.coordinator));
  return listen_for_data(options, options.data_listen, host);
}

namespace {

// A worker never joins without the data port that its peers need. False: `why` says why the port
// cannot be opened yet.
absl::StatusOr<bool> has_data_port(WorkerProcessOptions* options, std::unique_ptr<DataPort>* port,
                                   std::string* why) {
  if (*port != nullptr) return true;
  absl::StatusOr<std::unique_ptr<DataPort>> opened = open_data_port(*options);
  if (absl::IsUnavailable(opened.status())) {
    *why = message_of(opened.status());
    return false;
  }
  ASSIGN_OR_RETURN(*port, std::move(opened));
  options->data_port = port->get();
  if (*port == nullptr) return true;
  spdlog::info("data port at {}{}", (*port)->address(), (*port)->speaks_tls() ? ", with TLS" : "");
  name_interface_to_nccl((*port)->address());
  return true;
}

}  // namespace

int worker_main(const WorkerProcessOptions& given) {
  WorkerProcessOptions options = given;
  signal(SIGPIPE, SIG_IGN);  // The reader of the log may go away.
  const bool launched = options.parent_pid != 0;
  if (launched && !die_with_parent(options.parent_pid)) return 0;
  spread_memory(options.processor_ids());
  absl::StatusOr<Backend> backend = open_backend(options.device, options.fast);
  if (!backend.ok()) {
    std::fprintf(stderr, "lockstep worker: %s\n", message_of(backend.status()).c_str());
    return 2;
  }
  if (options.memory_fraction > 0) backend->memory_fraction = options.memory_fraction;
  const absl::StatusOr<std::unique_ptr<ReloadingTls>> tls = load_tls(options);
  if (!tls.ok()) {
    std::fprintf(stderr, "lockstep worker: %s\n", message_of(tls.status()).c_str());
    return 2;
  }
  const std::shared_future<double> read_rate = start_measuring(options, *backend);
  std::unique_ptr<DataPort> port;
  PersistentWorker persistent;
  milliseconds pause = kMinPause;
  bool waiting = false;
  while (true) {
    const auto start = steady_clock::now();
    std::string why = "it went away";
    absl::StatusOr<bool> joined = has_data_port(&options, &port, &why);
    if (joined.ok() && *joined) {
      joined = connect_once(options, tls->get(), *backend, read_rate, &persistent, &why);
    }
    if (!joined.ok()) {
      std::fprintf(stderr, "lockstep worker: %s\n", message_of(joined.status()).c_str());
      return 2;
    }
    if (*joined && steady_clock::now() - start > kServed) pause = kMinPause;
    if (launched || options.stop.stop_requested()) break;
    if (!std::exchange(waiting, true) || *joined) {
      spdlog::info("no coordinator at {} ({}): dialling until there is one{}", options.coordinator,
                   why, persistent.worker != nullptr ? ", weights stay in memory" : "");
    }
    if (!wait(pause, options.stop)) break;
    pause = std::min(2 * pause, kMaxPause);
  }
  if (persistent.worker != nullptr)
    spdlog::debug("time by kernel: {}", persistent.worker->profile());
  return 0;
}

}  // namespace lockstep
