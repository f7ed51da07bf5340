// SPDX-License-Identifier: Apache-2.0
#include "tests/support/network/tls_client.h"

#include <openssl/ssl.h>

#include <csignal>

#include "base/check.h"

namespace lockstep::testing {

TlsClient::TlsClient(const std::string& address, const TlsClientOptions& options)
    : socket_(address) {
  std::signal(SIGPIPE, SIG_IGN);  // OpenSSL may write to a closed connection.
  const std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context(SSL_CTX_new(TLS_client_method()),
                                                                  SSL_CTX_free);
  SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER, nullptr);
  LOCKSTEP_CHECK(SSL_CTX_load_verify_file(context.get(), options.ca.c_str()) == 1);
  if (options.version != 0) {
    SSL_CTX_set_min_proto_version(context.get(), options.version);
    SSL_CTX_set_max_proto_version(context.get(), options.version);
    SSL_CTX_set_security_level(context.get(), 0);  // The default would forbid old versions here.
  }
  if (!options.identity.cert.empty()) {
    SSL_CTX_use_certificate_file(context.get(), options.identity.cert.c_str(), SSL_FILETYPE_PEM);
    SSL_CTX_use_PrivateKey_file(context.get(), options.identity.key.c_str(), SSL_FILETYPE_PEM);
  }
  if (!options.protocol.empty()) {
    const std::string list = static_cast<char>(options.protocol.size()) + options.protocol;
    SSL_CTX_set_alpn_protos(context.get(), reinterpret_cast<const unsigned char*>(list.data()),
                            static_cast<unsigned>(list.size()));
  }
  tls_ = std::shared_ptr<SSL>(SSL_new(context.get()), SSL_free);
  SSL_set_fd(tls_.get(), socket_.descriptor());
  SSL_set1_host(tls_.get(), "localhost");
  connected_ = SSL_connect(tls_.get()) == 1;
}

std::string TlsClient::request(std::string_view bytes) {
  if (!connected_ || SSL_write(tls_.get(), bytes.data(), static_cast<int>(bytes.size())) <= 0) {
    return "";
  }
  std::string answer;
  while (true) {
    const size_t head = answer.find("\r\n\r\n");
    const size_t length = answer.find("Content-Length: ");
    if (head != std::string::npos && length < head &&
        answer.size() >= head + 4 + std::stoul(answer.substr(length + 16))) {
      return answer;
    }
    char piece[16384];
    const int count = SSL_read(tls_.get(), piece, sizeof piece);
    if (count <= 0) return "";
    answer.append(piece, static_cast<size_t>(count));
  }
}

void TlsClient::update_keys(int count) {
  for (int i = 0; i < count; ++i) {
    if (SSL_key_update(tls_.get(), SSL_KEY_UPDATE_NOT_REQUESTED) != 1) return;
    if (SSL_do_handshake(tls_.get()) != 1) return;
  }
}

std::string TlsClient::server_name() const {
  const std::unique_ptr<X509, decltype(&X509_free)> certificate(
      SSL_get1_peer_certificate(tls_.get()), X509_free);
  if (certificate == nullptr) return "";
  char name[256] = "";
  X509_NAME_get_text_by_NID(X509_get_subject_name(certificate.get()), NID_commonName, name,
                            sizeof name);
  return name;
}

std::string TlsClient::protocol() const {
  const unsigned char* name = nullptr;
  unsigned size = 0;
  SSL_get0_alpn_selected(tls_.get(), &name, &size);
  return {reinterpret_cast<const char*>(name), size};
}

}  // namespace lockstep::testing
