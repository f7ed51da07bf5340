// SPDX-License-Identifier: Apache-2.0
// The options of a worker process, and its flags.
#pragma once

#include <functional>
#include <stop_token>
#include <string>
#include <vector>

#include "base/flag.h"
#include "base/system/topology.h"
#include "base/tls/tls_files.h"
#include "worker/weights/packed_cache.h"

namespace lockstep {

class DataPort;

struct WorkerProcessOptions {
  std::string coordinator;      // "host:port" or "unix-abstract:name".
  std::string token;            // The join token; ranks of one host also verify each other with it.
  TlsFiles tls;                 // For all connections; not given: plain text.
  int threads = 0;              // 0: one for each usable core.
  std::string processors = {};  // "0-3,8": threads are bound to these; "": not bound.
  std::string device = "auto";  // For open_backend(); "auto" is resolved before.
  bool fast = false;            // For open_backend().
  double memory_fraction = 0;   // See Backend; 0: the device's default.
  std::string weight_cache = "auto";  // For packed_cache_options().
  int64_t weight_cache_limit = kPackedCacheLimit;
  int preferred_rank = -1;  // The rank to ask for; -1: any.
  bool spare = false;       // Waits until a rank is lost, and replaces it.
  double speed = 0;         // The value of --speed, in any unit; 0: none.
  // Distinguishes hosts that share a kernel; "": only namespaces and users distinguish them.
  std::string host_name = {};
  // The port where ranks of other hosts connect: "10.0.0.2:50053" or "off". "": if `tls` or
  // `insecure` is given, a free port at the address by which this worker reaches the coordinator.
  // There is no port if neither is given, or if that address is a loopback address.
  std::string data_listen = {};
  std::vector<std::string> insecure = {};  // "cluster": data ports need no TLS.
  std::string health = "off";              // "HOST:PORT" for probes, or "off".
  // The launcher's process id: the worker dies with its launcher, and does not wait for another
  // coordinator. 0: a user started the worker.
  int parent_pid = 0;
  std::string log_level = "info";
  std::string log_format = "text";
  // The process sets these; they are not flags.
  double read_rate = 0;           // The measured bytes per second; 0: not measured.
  DataPort* data_port = nullptr;  // Outlives the session. Null: other hosts cannot connect.
  std::stop_token stop = {};      // Ends the worker between two steps.
  // Called when SessionCore::ready() changes, by any thread, but never by two threads at once.
  // Null: unused.
  std::function<void(bool ready)> on_ready = nullptr;

  std::vector<int> processor_ids() const {
    return parse_processors(processors).value_or(std::vector<int>());
  }
  // Commands that start workers have these flags, too, and pass them on.
  std::vector<Flag> shared_flags();
  std::vector<Flag> flags();
};

// --cluster-cert, --cluster-key and --cluster-ca, of coordinator and worker.
std::vector<Flag> cluster_tls_flags(TlsFiles& tls);

inline std::vector<Flag> WorkerProcessOptions::shared_flags() {
  return {
      {"--memory-fraction", &memory_fraction,
       "The KV cache may take this share of the memory that is left after loading the weights "
       "(default: 0.8 on CPUs, 0.9 on GPUs)",
       FlagValues{.min = 1e-6, .max = 1}},
      {"--weight-cache", &weight_cache,
       "Folder in which each worker stores its weights in the layout of its kernels, so that the "
       "next start is fast: FOLDER, auto (the folder lockstep in the user's cache folder, for "
       "weights of at least 64 MiB) or off",
       FlagValues{.form = "FOLDER|auto|off"}},
      {"--weight-cache-limit", &weight_cache_limit,
       "Max size of the folder of --weight-cache; beyond it the least recently used files are "
       "deleted (default: 50 GB)",
       FlagValues{.is_size = true}},
      {"--log-level", &log_level,
       "debug (when a worker ends, it prints the time of each kernel), info, warning or error",
       FlagValues{.form = "debug|info|warning|error"}},
  };
}

inline std::vector<Flag> cluster_tls_flags(TlsFiles& tls) {
  return {
      {"--cluster-cert", &tls.cert,
       "PEM file of this process's certificate, for the port where workers join and for data "
       "ports; the coordinator and each worker need one. The file is read again when it changes",
       FlagValues{.form = "FILE"}},
      {"--cluster-key", &tls.key, "PEM file of the certificate's key", FlagValues{.form = "FILE"}},
      {"--cluster-ca", &tls.ca,
       "PEM file of the authority that signed the certificates of the coordinator and of all "
       "workers",
       FlagValues{.form = "FILE"}},
  };
}

inline std::vector<Flag> WorkerProcessOptions::flags() {
  std::vector<Flag> own = {
      {"--coordinator", &coordinator, "The address of --cluster of `lockstep serve`",
       FlagValues{.form = "HOST:PORT"}},
      {"--threads", &threads,
       "Threads (default: all usable cores; with AMX, one thread per physical core)",
       FlagValues{.min = 0, .max = 1024}},
      {"--processors", &processors,
       "Processors to which the threads are bound, one processor per thread, e.g. 0-3,8 (default: "
       "threads are not bound)"},
      {"--device", &device,
       "The device to compute on: cpu; cuda, the GPU whose number is --rank; cuda:N, GPU N; auto, "
       "cuda if this machine has a GPU, else cpu",
       FlagValues{.form = "cpu|cuda|cuda:N|auto"}},
      {"--fast", &fast,
       "Compute in the fast numeric class of GPUs (see `serve --fast`); all ranks of a group need "
       "the same class"},
      {"--data-listen", &data_listen,
       "ADDRESS:PORT where ranks of other hosts connect; port 0: any free port, off: none "
       "(default: a free port at the address from which the worker reaches the coordinator, if "
       "--cluster-cert or --insecure cluster is given; else off)",
       FlagValues{.form = "ADDRESS:PORT|off"}},
      {"--health", &health,
       "HOST:PORT for probes in plain text: grpc.health.v1.Health with two services, named live "
       "and ready; off: none",
       FlagValues{.form = "HOST:PORT|off"}},
      {"--host-name", &host_name,
       "The host's name: workers with different names count as on different hosts",
       FlagValues{.check = [](const std::string& name) -> std::string {
         return name.size() <= 64 ? "" : "up to 64 bytes";
       }}},
      {"--insecure", &insecure,
       "cluster: other machines may reach the data port without --cluster-cert",
       FlagValues{.words = {"cluster"}, .has_commas = true}},
      {"--rank", &preferred_rank, "The rank that the worker asks for (default: any free rank)",
       FlagValues{.min = 0, .max = 65'535}},
      {"--spare", &spare,
       "Hold the weights of a rank until that rank is lost, and then take its place"},
      {"--speed", &speed,
       "The worker's relative speed, used if all workers have this flag: speed 8 gets twice the "
       "part of speed 4 (default: how fast the worker reads memory)",
       FlagValues{.min = 1e-6, .max = 1e15}},
      {"--parent-pid", &parent_pid},
      {"--log-format", &log_format,
       "The form of the log: text, or json, where each line is one object",
       FlagValues{.form = "text|json"}},
  };
  return join(join(std::move(own), shared_flags()), cluster_tls_flags(tls));
}

}  // namespace lockstep
