// SPDX-License-Identifier: Apache-2.0
#include "coordinator/tls.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <spdlog/spdlog.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <array>
#include <cerrno>
#include <chrono>

#include "base/status.h"

namespace lockstep {
namespace {

constexpr std::chrono::seconds kInterval{1};  // Between looks for changed files.

using Context = std::shared_ptr<SSL_CTX>;

// ---- The socket, as OpenSSL reads and writes it: its own way would raise SIGPIPE ----

int descriptor_of(BIO* bio) {
  return static_cast<int>(reinterpret_cast<intptr_t>(BIO_get_data(bio)));
}

int finish(BIO* bio, ssize_t count, int retry) {
  BIO_clear_retry_flags(bio);
  if (count < 0 && (errno == EAGAIN || errno == EINTR))
    BIO_set_flags(bio, retry | BIO_FLAGS_SHOULD_RETRY);
  return static_cast<int>(count);
}

int write_socket(BIO* bio, const char* bytes, int size) {
  const ssize_t count = send(descriptor_of(bio), bytes, static_cast<size_t>(size), MSG_NOSIGNAL);
  return finish(bio, count, BIO_FLAGS_WRITE);
}

int read_socket(BIO* bio, char* bytes, int size) {
  const ssize_t count = recv(descriptor_of(bio), bytes, static_cast<size_t>(size), 0);
  return finish(bio, count, BIO_FLAGS_READ);
}

long control(BIO* /*bio*/, int command, long /*number*/, void* /*pointer*/) {
  return command == BIO_CTRL_FLUSH ? 1 : 0;
}

BIO_METHOD* socket_method() {
  static BIO_METHOD* const method = [] {
    BIO_METHOD* made =
        BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "non-blocking socket");
    BIO_meth_set_write(made, write_socket);
    BIO_meth_set_read(made, read_socket);
    BIO_meth_set_ctrl(made, control);
    return made;
  }();
  return method;
}

// ---- Files ----

// The first error that OpenSSL has in store, which is the cause of the others.
std::string reason() {
  const unsigned long error = ERR_get_error();
  ERR_clear_error();
  const char* text = ERR_reason_error_string(error);
  return text != nullptr ? text : "no reason is known";
}

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

// A key behind a password is an error, not a question on the terminal.
int no_password(char* /*buffer*/, int /*size*/, int /*writing*/, void* /*user*/) { return 0; }

absl::StatusOr<Context> read(const TlsFiles& files) {
  ERR_clear_error();
  Context context(SSL_CTX_new(TLS_server_method()), SSL_CTX_free);
  if (context == nullptr) return resource_exhausted("TLS: {}", reason());
  SSL_CTX* raw = context.get();
  SSL_CTX_set_min_proto_version(raw, TLS1_2_VERSION);
  SSL_CTX_set_options(raw, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
  SSL_CTX_set_mode(raw, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                            SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_set_alpn_select_cb(raw, choose_protocol, nullptr);
  SSL_CTX_set_default_passwd_cb(raw, no_password);
  static constexpr unsigned char kSessions[] = "lockstep";
  SSL_CTX_set_session_id_context(raw, kSessions, sizeof kSessions - 1);
  if (SSL_CTX_use_certificate_chain_file(raw, files.cert.c_str()) != 1) {
    return invalid_argument("TLS certificate {}: {}", files.cert, reason());
  }
  if (SSL_CTX_use_PrivateKey_file(raw, files.key.c_str(), SSL_FILETYPE_PEM) != 1 ||
      SSL_CTX_check_private_key(raw) != 1) {
    return invalid_argument("TLS key {}, for {}: {}", files.key, files.cert, reason());
  }
  if (files.ca.empty()) return context;
  STACK_OF(X509_NAME)* names = SSL_load_client_CA_file(files.ca.c_str());
  if (names == nullptr || SSL_CTX_load_verify_file(raw, files.ca.c_str()) != 1) {
    return invalid_argument("TLS authority {}: {}", files.ca, reason());
  }
  SSL_CTX_set_client_CA_list(raw, names);
  SSL_CTX_set_verify(raw, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  return context;
}

// Changes with each of the files, replaced or rewritten.
using Version = std::array<int64_t, 12>;

Version version_of(const TlsFiles& files) {
  Version version = {};
  size_t next = 0;
  for (const std::string& path : {files.cert, files.key, files.ca}) {
    struct stat status = {};
    if (!path.empty()) stat(path.c_str(), &status);
    version[next++] = static_cast<int64_t>(status.st_ino);
    version[next++] = status.st_size;
    version[next++] = status.st_mtim.tv_sec;
    version[next++] = status.st_mtim.tv_nsec;
  }
  return version;
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
  Version loaded = {};  // What was loaded before may be older than the files: once more.
  while (true) {
    if (const Version now = version_of(files_); now != loaded) {
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
  std::shared_ptr<SSL> ssl(SSL_new(context.get()), SSL_free);
  BIO* bio = ssl == nullptr ? nullptr : BIO_new(socket_method());
  if (bio == nullptr) return nullptr;
  // NOLINTNEXTLINE(performance-no-int-to-ptr): it is never followed.
  BIO_set_data(bio, reinterpret_cast<void*>(static_cast<intptr_t>(descriptor)));
  BIO_set_init(bio, 1);
  SSL_set_bio(ssl.get(), bio, bio);
  SSL_set_accept_state(ssl.get());
  return ssl;
}

}  // namespace lockstep
