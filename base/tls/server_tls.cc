// SPDX-License-Identifier: Apache-2.0
#include "base/tls/server_tls.h"

#include <openssl/ssl.h>

#include "base/status.h"
#include "base/tls/tls.h"

namespace lockstep {
namespace {

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

void prepare_server(SSL_CTX* context) {
  SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
  SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_set_alpn_select_cb(context, choose_protocol, nullptr);
  static constexpr unsigned char kSessions[] = "lockstep";
  SSL_CTX_set_session_id_context(context, kSessions, sizeof kSessions - 1);
}

}  // namespace

absl::StatusOr<std::unique_ptr<TlsContext>> TlsContext::load(const TlsFiles& files,
                                                             const std::string& address) {
  ASSIGN_OR_RETURN(auto loaded,
                   LastGoodTls::load(files, {.user = address, .prepare = prepare_server}));
  return std::unique_ptr<TlsContext>(new TlsContext(std::move(loaded)));
}

std::shared_ptr<SSL> TlsContext::open(int descriptor) {
  std::shared_ptr<SSL> ssl = open_tls(files_->get()->context.get(), descriptor);
  if (ssl != nullptr) SSL_set_accept_state(ssl.get());
  return ssl;
}

}  // namespace lockstep
