// SPDX-License-Identifier: Apache-2.0
#include "coordinator/tls.h"

#include <openssl/ssl.h>
#include <spdlog/spdlog.h>

#include <chrono>

#include "base/status.h"
#include "base/tls.h"

namespace lockstep {
namespace {

constexpr std::chrono::seconds kInterval{1};  // Between looks for changed files.

using Context = std::shared_ptr<SSL_CTX>;

// 1.1 alone: a client that wants other protocols only is told so.
int choose_protocol(SSL* /*ssl*/, const unsigned char** chosen, unsigned char* size,
                    const unsigned char* offered, unsigned int bytes, void* /*argument*/) {
  static constexpr unsigned char kOurs[] = "\x08http/1.1";
  unsigned char* found = nullptr;
  if (SSL_select_next_proto(&found, size, kOurs, sizeof kOurs - 1, offered, bytes) !=
      OPENSSL_NPN_NEGOTIATED) {
    return SSL_TLSEXT_ERR_ALERT_FATAL;
  }
  *chosen = found;
  return SSL_TLSEXT_ERR_OK;
}

absl::StatusOr<Context> read(const TlsFiles& files) {
  ASSIGN_OR_RETURN(Context context, read_tls_files(files));
  SSL_CTX* raw = context.get();
  SSL_CTX_set_min_proto_version(raw, TLS1_2_VERSION);
  SSL_CTX_set_mode(raw, SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_set_alpn_select_cb(raw, choose_protocol, nullptr);
  static constexpr unsigned char kSessions[] = "lockstep";
  SSL_CTX_set_session_id_context(raw, kSessions, sizeof kSessions - 1);
  return context;
}

}  // namespace

absl::StatusOr<std::unique_ptr<TlsContext>> TlsContext::load(const TlsFiles& files) {
  ASSIGN_OR_RETURN(Context context, read(files));
  std::unique_ptr<TlsContext> loaded(new TlsContext(files));
  {
    MutexLock lock(&loaded->mutex_);
    loaded->context_ = std::move(context);
  }
  loaded->watcher_ = std::thread([raw = loaded.get()] { raw->watch(); });
  return loaded;
}

TlsContext::~TlsContext() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  if (watcher_.joinable()) watcher_.join();
}

void TlsContext::watch() {
  TlsFilesVersion loaded = {};  // What was loaded before may be older than the files: once more.
  while (true) {
    if (const TlsFilesVersion now = version_of(files_); now != loaded) {
      loaded = now;
      absl::StatusOr<Context> context = read(files_);
      if (!context.ok()) {
        spdlog::warn("{}; the last good certificate stays", message_of(context.status()));
      }
      MutexLock lock(&mutex_);
      if (context.ok()) context_ = *std::move(context);
    }
    MutexLock lock(&mutex_);
    const auto next = std::chrono::steady_clock::now() + kInterval;
    while (!stopping_ && changed_.wait_until(&mutex_, next)) {
    }
    if (stopping_) return;
  }
}

std::shared_ptr<SSL> TlsContext::open(int descriptor) {
  Context context;
  {
    MutexLock lock(&mutex_);
    context = context_;
  }
  std::shared_ptr<SSL> ssl = open_tls(context.get(), descriptor);
  if (ssl != nullptr) SSL_set_accept_state(ssl.get());
  return ssl;
}

}  // namespace lockstep
