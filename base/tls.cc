// SPDX-License-Identifier: Apache-2.0
#include "base/tls.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <cerrno>

#include "base/status.h"

namespace lockstep {
namespace {

// ---- The socket, as OpenSSL reads and writes it: its own way would raise SIGPIPE ----

int descriptor_of(BIO* bio) {
  return static_cast<int>(reinterpret_cast<intptr_t>(BIO_get_data(bio)));
}

int finish(BIO* bio, ssize_t count, int retry) {
  BIO_clear_retry_flags(bio);
  if (count == 0) errno = 0;  // The end, and no error: what errno has is an earlier one's.
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

// A key behind a password is an error, not a question on the terminal.
int no_password(char* /*buffer*/, int /*size*/, int /*writing*/, void* /*user*/) { return 0; }

}  // namespace

std::string take_tls_error() {
  const unsigned long error = ERR_get_error();
  ERR_clear_error();
  const char* text = ERR_reason_error_string(error);
  return text != nullptr ? text : "no reason is known";
}

absl::StatusOr<std::shared_ptr<SSL_CTX>> read_tls_files(const TlsFiles& files) {
  ERR_clear_error();
  std::shared_ptr<SSL_CTX> context(SSL_CTX_new(TLS_method()), SSL_CTX_free);
  if (context == nullptr) return resource_exhausted("TLS: {}", take_tls_error());
  SSL_CTX* raw = context.get();
  SSL_CTX_set_options(raw, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
  SSL_CTX_set_mode(raw, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  SSL_CTX_set_default_passwd_cb(raw, no_password);
  if (SSL_CTX_use_certificate_chain_file(raw, files.cert.c_str()) != 1) {
    return invalid_argument("TLS certificate {}: {}", files.cert, take_tls_error());
  }
  if (SSL_CTX_use_PrivateKey_file(raw, files.key.c_str(), SSL_FILETYPE_PEM) != 1 ||
      SSL_CTX_check_private_key(raw) != 1) {
    return invalid_argument("TLS key {}, for {}: {}", files.key, files.cert, take_tls_error());
  }
  if (files.ca.empty()) return context;
  STACK_OF(X509_NAME)* names = SSL_load_client_CA_file(files.ca.c_str());
  if (names == nullptr || SSL_CTX_load_verify_file(raw, files.ca.c_str()) != 1) {
    return invalid_argument("TLS authority {}: {}", files.ca, take_tls_error());
  }
  SSL_CTX_set_client_CA_list(raw, names);
  SSL_CTX_set_verify(raw, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  return context;
}

TlsFilesVersion version_of(const TlsFiles& files) {
  TlsFilesVersion version = {};
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

std::shared_ptr<SSL> open_tls(SSL_CTX* context, int descriptor) {
  std::shared_ptr<SSL> ssl(SSL_new(context), SSL_free);
  BIO* bio = ssl == nullptr ? nullptr : BIO_new(socket_method());
  if (bio == nullptr) return nullptr;
  // NOLINTNEXTLINE(performance-no-int-to-ptr): it is never followed.
  BIO_set_data(bio, reinterpret_cast<void*>(static_cast<intptr_t>(descriptor)));
  BIO_set_init(bio, 1);
  SSL_set_bio(ssl.get(), bio, bio);
  return ssl;
}

}  // namespace lockstep
