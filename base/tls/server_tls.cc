// SPDX-License-Identifier: Apache-2.0
#include "base/tls/server_tls.h"

#include <openssl/ssl.h>

#include "base/status.h"
#include "base/tls/tls.h"

namespace lockstep {
namespace {

// A server speaks one protocol. A client that offers only other protocols gets an alert.
int choose_protocol(SSL* /*ssl*/, const unsigned char** chosen, unsigned char* size,
                    const unsigned char* offered, unsigned int bytes, void* ours) {
  const auto* name = static_cast<const unsigned char*>(ours);
  unsigned char* found = nullptr;
  if (SSL_select_next_proto(&found, size, name, 1U + name[0], offered, bytes) !=
      OPENSSL_NPN_NEGOTIATED) {
    return SSL_TLSEXT_ERR_ALERT_FATAL;
  }
  *chosen = found;
  return SSL_TLSEXT_ERR_OK;
}

void prepare_server(SSL_CTX* context, const char* protocol) {
  SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
  SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_set_alpn_select_cb(context, choose_protocol, const_cast<char*>(protocol));
  static constexpr unsigned char kSessions[] = "lockstep";
  SSL_CTX_set_session_id_context(context, kSessions, sizeof kSessions - 1);
}

void prepare_http11(SSL_CTX* context) { prepare_server(context, "\x08http/1.1"); }

// HTTP/2 forbids most ciphers of TLS 1.2 (RFC 9113, 9.2.2).
void prepare_http2(SSL_CTX* context) {
  prepare_server(context, "\x02h2");
  SSL_CTX_set_cipher_list(context, "ECDHE+AESGCM:ECDHE+CHACHA20");
}

}  // namespace

absl::StatusOr<std::unique_ptr<TlsContext>> TlsContext::load(const TlsFiles& files,
                                                             const std::string& address,
                                                             TlsProtocol protocol) {
  const bool is_http2 = protocol == TlsProtocol::kHttp2;
  ASSIGN_OR_RETURN(auto loaded, ReloadingTls::load(
                                    files, {.user = address,
                                            .prepare = is_http2 ? prepare_http2 : prepare_http11}));
  return std::unique_ptr<TlsContext>(new TlsContext(std::move(loaded)));
}

std::shared_ptr<SSL> TlsContext::open(int descriptor) {
  std::shared_ptr<SSL> ssl = open_tls(files_->get()->context.get(), descriptor);
  if (ssl != nullptr) SSL_set_accept_state(ssl.get());
  return ssl;
}

}  // namespace lockstep
