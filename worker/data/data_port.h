// SPDX-License-Identifier: Apache-2.0
// The port where ranks of other hosts connect for the data of collectives. The port exists as long
// as the worker's process. A process that connects is a stranger until it has proved that it knows
// the epoch's key. From a stranger the port uses only the messages below, and it reads no byte that
// follows the proof. With certificates the whole exchange is inside TLS (data_tls.h).
//
//   dialling rank                       listening rank
//   DataHello (epoch, ranks, nonce) ->
//                                   <-  DataAnswer (nonce, proof)
//   DataProof                       ->
//                                   <-  one byte: this connection is used
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "base/log_limit.h"
#include "base/sockets/data_channel.h"
#include "base/sockets/file_descriptor.h"
#include "base/threads/mutex.h"
#include "base/tls/data_tls.h"
#include "worker/data/data_handshake.h"

namespace lockstep {

// The epoch whose ranks may connect.
struct DataEpoch {
  uint64_t epoch = 0;
  std::string key;
  int rank = 0;  // This rank.
  int ranks = 0;
};

class DataPort {
 public:
  static constexpr std::chrono::milliseconds kStrangerTime{5'000};  // From connecting to the proof.
  static constexpr size_t kMaxStrangers = 64;                       // The oldest is dropped first.

  // Listens at `address` ("10.0.0.2:0": a free port). kInvalidArgument: it cannot listen there.
  // Peers dial `advertised_host` if the address is that of all interfaces ("0.0.0.0"). `tls` may be
  // null: connections are in plain text.
  static absl::StatusOr<std::unique_ptr<DataPort>> open(const std::string& address,
                                                        const std::string& advertised_host,
                                                        std::unique_ptr<DataTls> tls = nullptr);
  ~DataPort();

  // The address that peers dial: "10.0.0.2:40123".
  const std::string& address() const { return address_; }
  bool speaks_tls() const { return tls_ != nullptr; }

  // A connection to a peer's port; it uses TLS if this port does.
  absl::StatusOr<std::unique_ptr<DataChannel>> dialled(FileDescriptor socket) const;

  // From now on only this epoch's ranks may connect.
  void begin(DataEpoch epoch) ABSL_LOCKS_EXCLUDED(mutex_);
  void end() ABSL_LOCKS_EXCLUDED(mutex_);

  // Two ranks may have made two connections. The lower rank decides which of them is used: the
  // first one that claims the peer's rank. True: the caller's connection is the first. If this
  // connection fails later, unclaim() lets another one claim the rank.
  bool claim(int rank) ABSL_LOCKS_EXCLUDED(mutex_);
  void unclaim(int rank) ABSL_LOCKS_EXCLUDED(mutex_);

  // The connection of a rank that has proved who it is; null: there is none yet.
  std::unique_ptr<DataChannel> take(int rank) ABSL_LOCKS_EXCLUDED(mutex_);
  // Waits until a rank has connected, but at most this long.
  void wait(std::chrono::milliseconds timeout) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Stranger {
    std::unique_ptr<DataChannel> channel;
    std::chrono::steady_clock::time_point deadline;
    DataListening handshake;
  };
  enum class Fate { kStays, kGoes };

  explicit DataPort(std::unique_ptr<DataTls> tls) : tls_(std::move(tls)) {}
  void run();
  void accept_strangers();
  absl::StatusOr<Stranger> accept_stranger() const;
  Fate receive_from(Stranger& stranger) ABSL_LOCKS_EXCLUDED(mutex_);
  Fate on_hello(Stranger& stranger) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Fate on_proof(Stranger& stranger) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Fate on_end(const Stranger& stranger, const absl::Status& why);
  void refuse(const Stranger& stranger, const std::string& why);
  void wake() const;

  const std::unique_ptr<DataTls> tls_;
  FileDescriptor listener_;
  FileDescriptor doorbell_;  // Wakes the thread: an epoch has begun or ended, or the port closes.
  std::string address_;
  std::thread thread_;

  // Used by the thread alone.
  std::vector<Stranger> strangers_;
  LogLimit refusals_{std::chrono::seconds(10)};
  LogLimit shortages_{std::chrono::seconds(10)};  // Shortages of descriptors or memory.

  Mutex mutex_;
  ConditionVariable changed_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  DataEpoch epoch_ ABSL_GUARDED_BY(mutex_);  // 0: none.
  std::set<int> claimed_ ABSL_GUARDED_BY(mutex_);
  std::map<int, std::unique_ptr<DataChannel>> arrived_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace lockstep
