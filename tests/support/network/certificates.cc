// SPDX-License-Identifier: Apache-2.0
#include "tests/support/network/certificates.h"

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <atomic>
#include <filesystem>
#include <memory>

#include "base/check.h"

namespace lockstep::testing {
namespace {

using Key = std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)>;
using Certificate = std::unique_ptr<X509, decltype(&X509_free)>;
using Handle = std::unique_ptr<FILE, decltype(&std::fclose)>;

Handle open_file(const std::string& path, const char* mode) {
  Handle file(std::fopen(path.c_str(), mode), std::fclose);
  LOCKSTEP_CHECK(file != nullptr);
  return file;
}

void add_extension(X509* certificate, int kind, const char* value) {
  X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, nullptr, kind, value);
  LOCKSTEP_CHECK(extension != nullptr);
  X509_add_ext(certificate, extension, -1);
  X509_EXTENSION_free(extension);
}

// A certificate that is not signed yet.
Certificate draft(const std::string& name, EVP_PKEY* key, int days) {
  static std::atomic<int> serial{1};
  Certificate certificate(X509_new(), X509_free);
  X509_set_version(certificate.get(), 2);
  ASN1_INTEGER_set(X509_get_serialNumber(certificate.get()), serial++);
  constexpr int kDay = 86'400;
  X509_gmtime_adj(X509_getm_notBefore(certificate.get()), -2 * kDay);
  X509_gmtime_adj(X509_getm_notAfter(certificate.get()), days * kDay);
  X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate.get()), "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1, 0);
  X509_set_pubkey(certificate.get(), key);
  return certificate;
}

void write(const std::string& path, X509* certificate) {
  LOCKSTEP_CHECK(PEM_write_X509(open_file(path, "w").get(), certificate) == 1);
}
void write(const std::string& path, EVP_PKEY* key) {
  LOCKSTEP_CHECK(PEM_write_PrivateKey(open_file(path, "w").get(), key, nullptr, nullptr, 0, nullptr,
                                      nullptr) == 1);
}

}  // namespace

Authority::Authority() {
  const Key key(EVP_EC_gen("P-256"), EVP_PKEY_free);
  const Certificate own = draft("test authority", key.get(), 1);
  X509_set_issuer_name(own.get(), X509_get_subject_name(own.get()));
  add_extension(own.get(), NID_basic_constraints, "critical,CA:TRUE");
  LOCKSTEP_CHECK(X509_sign(own.get(), key.get(), EVP_sha256()) > 0);
  write(path(), own.get());
  write(file("ca.key"), key.get());
}

Authority::Identity Authority::sign(const std::string& name, int days,
                                    const std::string& uses) const {
  const Certificate own(PEM_read_X509(open_file(path(), "r").get(), nullptr, nullptr, nullptr),
                        X509_free);
  const Key own_key(
      PEM_read_PrivateKey(open_file(file("ca.key"), "r").get(), nullptr, nullptr, nullptr),
      EVP_PKEY_free);
  const Key key(EVP_EC_gen("P-256"), EVP_PKEY_free);
  const Certificate certificate = draft(name, key.get(), days);
  X509_set_issuer_name(certificate.get(), X509_get_subject_name(own.get()));
  add_extension(certificate.get(), NID_subject_alt_name, "IP:127.0.0.1,DNS:localhost");
  if (!uses.empty()) add_extension(certificate.get(), NID_ext_key_usage, uses.c_str());
  LOCKSTEP_CHECK(X509_sign(certificate.get(), own_key.get(), EVP_sha256()) > 0);
  Identity identity = {file(name + ".pem"), file(name + ".key")};
  write(identity.cert, certificate.get());
  write(identity.key, key.get());
  return identity;
}

void replace(const Authority::Identity& to, const Authority::Identity& from) {
  for (const auto& [target, source] : {std::pair(to.cert, from.cert), {to.key, from.key}}) {
    std::filesystem::copy_file(source, target + ".new");
    std::filesystem::rename(target + ".new", target);
  }
}

}  // namespace lockstep::testing
