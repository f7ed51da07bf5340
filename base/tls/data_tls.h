// SPDX-License-Identifier: Apache-2.0
// TLS 1.3 for data connections. Both sides show a certificate of the cluster's authority. The names
// and key usages in a certificate are not checked: the handshake under the epoch's key, inside TLS
// (data_port.h), identifies a rank.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "base/sockets/data_channel.h"
#include "base/tls/reloading_tls.h"

namespace lockstep {

// Thread-safe.
class DataTls {
 public:
  enum class Side { kListens, kDials };

  // AES-GCM needs a new key before 2^24.5 records (RFC 8446, 5.5).
  static constexpr int64_t kRecordsPerKey = int64_t{1} << 23;

  // Needs all three files. kInvalidArgument: one cannot be read, or they do not fit each other.
  static absl::StatusOr<std::unique_ptr<DataTls>> load(const TlsFiles& files,
                                                       int64_t records_per_key = kRecordsPerKey);

  // The first send or receive does the handshake, with the files as they are now. If they do not
  // fit each other, a log line says so, and the last good files are used.
  absl::StatusOr<std::unique_ptr<DataChannel>> open(FileDescriptor socket, Side side);

 private:
  DataTls(std::unique_ptr<ReloadingTls> files, int64_t records_per_key)
      : files_(std::move(files)), records_per_key_(records_per_key) {}

  const std::unique_ptr<ReloadingTls> files_;
  const int64_t records_per_key_;
};

}  // namespace lockstep
