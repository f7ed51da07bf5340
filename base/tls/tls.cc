// SPDX-License-Identifier: Apache-2.0
#include "base/tls/tls.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include <cerrno>
#include <utility>
#include <vector>

#include "base/status.h"
#include "base/system/file.h"

namespace lockstep {
namespace {

// ---- The socket as OpenSSL reads and writes it; OpenSSL's own BIO would raise SIGPIPE ----

// The max number of records that are not data, and the number of received bytes that allow one
// more. A handshake has about six such records. After the handshake only key updates are useful,
// one in several gigabytes. OpenSSL reads such records one after the other within one call, and
// reading a record takes longer than sending it.
constexpr int64_t kMaxOthers = 256;
constexpr int64_t kBytesPerOther = 4096;
// A call that has received this many bytes asks to be repeated. Otherwise OpenSSL would read on as
// long as data records are empty.
constexpr int64_t kBytesPerCall = 256 << 10;

struct TlsSocket {
  int descriptor = -1;
  int64_t others = 0;  // Received records that are not data.
  int64_t received = 0;
  int64_t pause_at = kBytesPerCall;  // A value of `received`.
};

TlsSocket& socket_of(BIO* bio) { return *static_cast<TlsSocket*>(BIO_get_data(bio)); }

// Called for each record that OpenSSL receives. The header has the record's type. For a record that
// TLS 1.3 encrypts, that type is data, and a second call gives the inner type.
void count_others(int written, int /*version*/, int type, const void* bytes, size_t size,
                  SSL* /*ssl*/, void* argument) {
  const bool is_kind = type == SSL3_RT_HEADER || type == SSL3_RT_INNER_CONTENT_TYPE;
  if (written != 0 || size == 0 || !is_kind) return;
  if (*static_cast<const unsigned char*>(bytes) != SSL3_RT_APPLICATION_DATA) {
    ++static_cast<TlsSocket*>(argument)->others;
  }
}

int finish(BIO* bio, ssize_t count, int retry) {
  BIO_clear_retry_flags(bio);
  if (count == 0) errno = 0;  // End of the stream, not an error: errno is from an earlier call.
  if (count < 0 && (errno == EAGAIN || errno == EINTR))
    BIO_set_flags(bio, retry | BIO_FLAGS_SHOULD_RETRY);
  return static_cast<int>(count);
}

int write_socket(BIO* bio, const char* bytes, int size) {
  const ssize_t count =
      send(socket_of(bio).descriptor, bytes, static_cast<size_t>(size), MSG_NOSIGNAL);
  return finish(bio, count, BIO_FLAGS_WRITE);
}

int read_socket(BIO* bio, char* bytes, int size) {
  TlsSocket& socket = socket_of(bio);
  if (socket.others > kMaxOthers + socket.received / kBytesPerOther) {
    BIO_clear_retry_flags(bio);
    errno = EPROTO;
    return -1;
  }
  if (socket.received >= socket.pause_at) {
    socket.pause_at = socket.received + kBytesPerCall;
    errno = EAGAIN;
    return finish(bio, -1, BIO_FLAGS_READ);
  }
  const ssize_t count = recv(socket.descriptor, bytes, static_cast<size_t>(size), 0);
  if (count > 0) socket.received += count;
  return finish(bio, count, BIO_FLAGS_READ);
}

long control(BIO* /*bio*/, int command, long /*number*/, void* /*pointer*/) {
  return command == BIO_CTRL_FLUSH ? 1 : 0;
}

int free_socket(BIO* bio) {
  delete &socket_of(bio);
  return 1;
}

BIO_METHOD* socket_method() {
  static BIO_METHOD* const method = [] {
    BIO_METHOD* made =
        BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "non-blocking socket");
    BIO_meth_set_write(made, write_socket);
    BIO_meth_set_read(made, read_socket);
    BIO_meth_set_ctrl(made, control);
    BIO_meth_set_destroy(made, free_socket);
    return made;
  }();
  return method;
}

// ---- Certificates and keys ----

constexpr int64_t kMaxFileBytes = 4 << 20;  // A system's authorities are a fraction of a MiB.

using Bio = std::unique_ptr<BIO, decltype(&BIO_free)>;
using Certificate = std::unique_ptr<X509, decltype(&X509_free)>;
using Key = std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)>;

Bio bio_of(const std::string& bytes) {
  return {BIO_new_mem_buf(bytes.data(), static_cast<int>(bytes.size())), BIO_free};
}

// A key with a passphrase is an error, not a question on the terminal.
int refuse_passphrase(char* /*buffer*/, int /*size*/, int /*writing*/, void* was_asked) {
  *static_cast<bool*>(was_asked) = true;
  return 0;
}

// Returns at least one certificate. Refuses a NUL, which ends the text for code that reads it as a
// C string.
absl::StatusOr<std::vector<Certificate>> certificates_in(const std::string& bytes) {
  const Bio bio = bio_of(bytes);
  std::vector<Certificate> found;
  while (X509* next = PEM_read_bio_X509_AUX(bio.get(), nullptr, nullptr, nullptr)) {
    found.emplace_back(next, X509_free);
  }
  const bool at_end = ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
  const std::string reason = take_tls_error();
  if (!at_end) return invalid_argument("its PEM is cut off or broken: {}", reason);
  if (found.empty() || bytes.find('\0') != std::string::npos) {
    return invalid_argument("must be PEM (-----BEGIN CERTIFICATE-----), found none");
  }
  return found;
}

// Checks the text itself: OpenSSL's reason is always "unsupported".
absl::StatusOr<Key> key_in(const std::string& bytes) {
  const Bio bio = bio_of(bytes);
  bool is_encrypted = false;
  Key key(PEM_read_bio_PrivateKey(bio.get(), nullptr, refuse_passphrase, &is_encrypted),
          EVP_PKEY_free);
  ERR_clear_error();
  if (is_encrypted) return invalid_argument("it is encrypted: must be a key without a passphrase");
  if (bytes.find(" PRIVATE KEY-----") == std::string::npos ||
      bytes.find('\0') != std::string::npos) {
    return invalid_argument("must be PEM (-----BEGIN PRIVATE KEY-----), found none");
  }
  if (key == nullptr) return invalid_argument("its PEM is cut off, broken or of an unknown kind");
  return key;
}

// Uses the first certificate as this side's own, and the others as its chain to an authority.
absl::Status use_chain(SSL_CTX* context, const std::string& bytes) {
  ASSIGN_OR_RETURN(std::vector<Certificate> chain, certificates_in(bytes));
  if (SSL_CTX_use_certificate(context, chain[0].get()) != 1) {
    return invalid_argument("{}", take_tls_error());
  }
  for (size_t i = 1; i < chain.size(); ++i) {
    if (SSL_CTX_add1_chain_cert(context, chain[i].get()) != 1) {
      return invalid_argument("{}", take_tls_error());
    }
  }
  return absl::OkStatus();
}

absl::Status use_key(SSL_CTX* context, const TlsFiles& files, const std::string& bytes) {
  ASSIGN_OR_RETURN(const Key key, key_in(bytes));
  if (X509_check_private_key(SSL_CTX_get0_certificate(context), key.get()) != 1) {
    return invalid_argument("it does not belong to {}", files.cert);
  }
  if (SSL_CTX_use_PrivateKey(context, key.get()) != 1) {
    return invalid_argument("{}", take_tls_error());
  }
  return absl::OkStatus();
}

absl::Status use_authorities(SSL_CTX* context, const std::string& bytes) {
  ASSIGN_OR_RETURN(const std::vector<Certificate> authorities, certificates_in(bytes));
  for (const Certificate& authority : authorities) {
    if (X509_STORE_add_cert(SSL_CTX_get_cert_store(context), authority.get()) != 1 ||
        SSL_CTX_add_client_CA(context, authority.get()) != 1) {
      return invalid_argument("{}", take_tls_error());
    }
  }
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  return absl::OkStatus();
}

// "TLS key k.pem: it is encrypted: must be a key without a passphrase".
absl::Status about(const char* what, const std::string& path, const absl::Status& status) {
  if (status.ok()) return status;
  return invalid_argument("TLS {} {}: {}", what, path, message_of(status));
}

absl::StatusOr<std::string> read(const char* what, const std::string& path) {
  absl::StatusOr<std::string> bytes = read_file(path, kMaxFileBytes);
  if (bytes.ok()) return bytes;
  const std::string why = message_of(bytes.status());
  return invalid_argument("TLS {} {}", what, why);  // `why` begins with the path.
}

}  // namespace

std::string take_tls_error() {
  const unsigned long error = ERR_get_error();
  ERR_clear_error();
  const char* text = ERR_reason_error_string(error);
  return text != nullptr ? text : "unknown reason";
}

absl::StatusOr<TlsBytes> read_tls_bytes(const TlsFiles& files) {
  TlsBytes bytes;
  ASSIGN_OR_RETURN(bytes.cert, read("certificate", files.cert));
  ASSIGN_OR_RETURN(bytes.key, read("key", files.key));
  if (files.ca.empty()) return bytes;
  ASSIGN_OR_RETURN(bytes.ca, read("authority", files.ca));
  return bytes;
}

absl::StatusOr<std::shared_ptr<SSL_CTX>> make_tls_context(const TlsFiles& files,
                                                          const TlsBytes& bytes) {
  ERR_clear_error();
  std::shared_ptr<SSL_CTX> context(SSL_CTX_new(TLS_method()), SSL_CTX_free);
  if (context == nullptr) return resource_exhausted("TLS: {}", take_tls_error());
  SSL_CTX* raw = context.get();
  SSL_CTX_set_options(raw, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
  SSL_CTX_set_mode(raw, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  RETURN_IF_ERROR(about("certificate", files.cert, use_chain(raw, bytes.cert)));
  RETURN_IF_ERROR(about("key", files.key, use_key(raw, files, bytes.key)));
  if (files.ca.empty()) return context;
  RETURN_IF_ERROR(about("authority", files.ca, use_authorities(raw, bytes.ca)));
  return context;
}

std::shared_ptr<SSL> open_tls(SSL_CTX* context, int descriptor) {
  std::shared_ptr<SSL> ssl(SSL_new(context), SSL_free);
  BIO* bio = ssl == nullptr ? nullptr : BIO_new(socket_method());
  if (bio == nullptr) return nullptr;
  auto* socket = new TlsSocket{.descriptor = descriptor};
  BIO_set_data(bio, socket);  // The BIO frees it.
  BIO_set_init(bio, 1);
  SSL_set_bio(ssl.get(), bio, bio);
  SSL_set_msg_callback(ssl.get(), count_others);
  SSL_set_msg_callback_arg(ssl.get(), socket);
  return ssl;
}

}  // namespace lockstep
