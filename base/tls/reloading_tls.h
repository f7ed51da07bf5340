// SPDX-License-Identifier: Apache-2.0
// TLS files that may change while in use, and their last good content.
#pragma once

#include <memory>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "base/threads/mutex.h"
#include "base/tls/tls_files.h"

struct ssl_ctx_st;

namespace lockstep {

// Readable files whose key belongs to the certificate.
struct LoadedTls {
  TlsBytes bytes;
  std::shared_ptr<ssl_ctx_st> context;  // Made from `bytes`.
};

// If a change cannot be used, e.g. while files are copied one after the other, one log line says
// why, and the last good content stays. Thread-safe.
class ReloadingTls {
 public:
  enum class Reload {
    kEverySecond,  // On a background thread, for servers, which must not wait for a disk.
    kOnGet,
  };
  struct Options {
    std::string user;                                // For the log: "data connections".
    void (*prepare)(ssl_ctx_st* context) = nullptr;  // Sets the user's options on each context.
    Reload reload = Reload::kEverySecond;
  };

  // kInvalidArgument: one line for a file that cannot be used.
  static absl::StatusOr<std::unique_ptr<ReloadingTls>> load(const TlsFiles& files, Options options);

  // Never null. A new object after each good change.
  std::shared_ptr<const LoadedTls> get() ABSL_LOCKS_EXCLUDED(checking_, mutex_);

 private:
  ReloadingTls(const TlsFiles& files, Options options);
  absl::StatusOr<std::shared_ptr<const LoadedTls>> make(const TlsBytes& bytes) const;
  void check_files() ABSL_LOCKS_EXCLUDED(checking_, mutex_);

  const TlsFiles files_;
  const Options options_;
  Mutex checking_;                                            // Locked before mutex_.
  absl::StatusOr<TlsBytes> seen_ ABSL_GUARDED_BY(checking_);  // Read by the last check.
  Mutex mutex_;
  std::shared_ptr<const LoadedTls> loaded_ ABSL_GUARDED_BY(mutex_);
  std::jthread watcher_;  // Destroyed first: it uses the other members.
};

}  // namespace lockstep
