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
struct GoodTls {
  TlsBytes bytes;
  std::shared_ptr<ssl_ctx_st> context;  // Made from `bytes`.
};

// If a change cannot be used, e.g. while files are copied one after the other, one log line says
// why, and the last good content stays. Thread-safe.
class LastGoodTls {
 public:
  enum class Looks {
    kEverySecond,  // On a background thread, for servers, which must not wait for a disk.
    kWhenAsked,
  };
  struct Options {
    std::string user;                                // For the log: "data connections".
    void (*prepare)(ssl_ctx_st* context) = nullptr;  // Sets the user's options on each context.
    Looks looks = Looks::kEverySecond;
  };

  // kInvalidArgument: one line for a file that cannot be used.
  static absl::StatusOr<std::unique_ptr<LastGoodTls>> load(const TlsFiles& files, Options options);

  // Never null. A new object after each good change.
  std::shared_ptr<const GoodTls> get() ABSL_LOCKS_EXCLUDED(looking_, mutex_);

 private:
  LastGoodTls(const TlsFiles& files, Options options);
  absl::StatusOr<std::shared_ptr<const GoodTls>> make(const TlsBytes& bytes) const;
  void look() ABSL_LOCKS_EXCLUDED(looking_, mutex_);

  const TlsFiles files_;
  const Options options_;
  Mutex looking_;                                            // Locked before mutex_.
  absl::StatusOr<TlsBytes> seen_ ABSL_GUARDED_BY(looking_);  // At the last check, good or not.
  Mutex mutex_;
  std::shared_ptr<const GoodTls> good_ ABSL_GUARDED_BY(mutex_);
  std::jthread watcher_;  // Destroyed first: it uses the other members.
};

}  // namespace lockstep
