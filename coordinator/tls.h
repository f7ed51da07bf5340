// SPDX-License-Identifier: Apache-2.0
// A server's certificate for TLS 1.2 and above, read anew when its files change.
#pragma once

#include <memory>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "base/tls_files.h"

struct ssl_ctx_st;
struct ssl_st;

namespace lockstep {

// Thread-safe.
class TlsContext {
 public:
  // One line for a file that cannot be read, or a key that does not fit. Looks for changes every
  // second; one that cannot be loaded is logged, and the last good certificate stays.
  static absl::StatusOr<std::unique_ptr<TlsContext>> load(const TlsFiles& files);
  ~TlsContext();

  // The server's side of a connection over the socket, with the certificate of this moment. It
  // stays valid whatever is loaded later. Null where OpenSSL has no memory. ALPN: http/1.1.
  std::shared_ptr<ssl_st> open(int descriptor) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  explicit TlsContext(const TlsFiles& files) : files_(files) {}
  void watch() ABSL_LOCKS_EXCLUDED(mutex_);

  const TlsFiles files_;
  Mutex mutex_;
  ConditionVariable changed_;  // stopping_
  std::shared_ptr<ssl_ctx_st> context_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread watcher_;
};

}  // namespace lockstep
