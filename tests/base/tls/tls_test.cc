// SPDX-License-Identifier: Apache-2.0
// The errors for certificates and keys that cannot be used, and how usable ones are read.
#include "base/tls/tls.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "base/status.h"
#include "tests/support/files/spoiled_files.h"
#include "tests/support/files/temp_folder.h"
#include "tests/support/network/certificates.h"

namespace lockstep {
namespace {

using testing::Authority;
using testing::content_of;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class TlsFilesTest : public ::testing::Test {
 protected:
  std::string write(const std::string& name, const std::string& bytes) const {
    const std::string path = (folder_.path() / name).string();
    std::ofstream(path) << bytes;
    return path;
  }

  static absl::StatusOr<std::shared_ptr<ssl_ctx_st>> use(const TlsFiles& files) {
    const absl::StatusOr<TlsBytes> bytes = read_tls_bytes(files);
    if (!bytes.ok()) return bytes.status();
    return make_tls_context(files, *bytes);
  }
  static std::string error(const TlsFiles& files) {
    const absl::Status status = use(files).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(message_of(status), Not(HasSubstr("\n")));
    return message_of(status);
  }
  std::string cert_error(const std::string& path) const { return error({path, own_.key}); }
  std::string key_error(const std::string& path) const { return error({own_.cert, path}); }

  // The key of own_, encrypted as other programs write it with a passphrase.
  std::string encrypted_key(const std::string& name, bool traditional) const {
    const std::unique_ptr<FILE, decltype(&std::fclose)> from(std::fopen(own_.key.c_str(), "r"),
                                                             std::fclose);
    const std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> key(
        PEM_read_PrivateKey(from.get(), nullptr, nullptr, nullptr), EVP_PKEY_free);
    std::string path = (folder_.path() / name).string();
    const std::unique_ptr<BIO, decltype(&BIO_free)> to(BIO_new_file(path.c_str(), "w"), BIO_free);
    unsigned char secret[] = "secret";
    const auto write =
        traditional ? PEM_write_bio_PrivateKey_traditional : PEM_write_bio_PrivateKey;
    EXPECT_EQ(write(to.get(), key.get(), EVP_aes_128_cbc(), secret, 6, nullptr, nullptr), 1);
    return path;
  }

  const TempFolder folder_;
  const Authority authority_;
  const Authority::Identity own_ = authority_.sign("own");
};

TEST_F(TlsFilesTest, AnUnreadableFileIsNamedWithTheSystemsReason) {
  const std::string none = (folder_.path() / "none.pem").string();
  const std::string reason = none + ": cannot be opened for reading: No such file or directory";
  EXPECT_EQ(cert_error(none), "TLS certificate " + reason);
  EXPECT_EQ(key_error(none), "TLS key " + reason);
  EXPECT_EQ(error({own_.cert, own_.key, none}), "TLS authority " + reason);
  const std::string folder = folder_.path().string();
  EXPECT_EQ(cert_error(folder),
            "TLS certificate " + folder + ": must be a regular file, found a folder");
}

TEST_F(TlsFilesTest, AFileWithoutTheRightPemIsNamedWithTheKindItNeeds) {
  const std::string needs_cert = ": must be PEM (-----BEGIN CERTIFICATE-----), found none";
  const std::string needs_key = ": must be PEM (-----BEGIN PRIVATE KEY-----), found none";
  // The last text contains whole PEM, but gRPC would find none: the text begins with a zero byte.
  for (const std::string& bytes :
       {std::string(), std::string("hello\n"), std::string("\x30\x82\x01\x0a\x02\x82", 6),
        std::string(1, '\0') + "\n" + content_of(own_.cert) + content_of(own_.key)}) {
    const std::string path = write("other", bytes);
    EXPECT_EQ(cert_error(path), "TLS certificate " + path + needs_cert);
    EXPECT_EQ(key_error(path), "TLS key " + path + needs_key);
    EXPECT_EQ(error({own_.cert, own_.key, path}), "TLS authority " + path + needs_cert);
  }
  EXPECT_EQ(cert_error(own_.key), "TLS certificate " + own_.key + needs_cert);
  EXPECT_EQ(key_error(own_.cert), "TLS key " + own_.cert + needs_key);
}

TEST_F(TlsFilesTest, ATruncatedFileIsNamed) {
  for (const double part : {0.3, 0.5, 0.9, 0.98}) {
    const auto cut = [&](const std::string& path) {
      const std::string whole = content_of(path);
      return write("cut", whole.substr(0, static_cast<size_t>(part * whole.size())));
    };
    EXPECT_THAT(cert_error(cut(own_.cert)), StartsWith("TLS certificate "));
    EXPECT_THAT(key_error(cut(own_.key)), HasSubstr("its PEM is cut off, broken or of"));
  }
  // The second certificate of a chain is broken, not missing.
  const std::string chain = content_of(own_.cert) + content_of(authority_.path());
  EXPECT_THAT(cert_error(write("chain", chain.substr(0, chain.size() - 40))),
              HasSubstr("its PEM is cut off or broken: "));
}

TEST_F(TlsFilesTest, AKeyWithAPassphraseIsRefusedAsEncrypted) {
  for (const bool traditional : {false, true}) {
    const std::string path = encrypted_key("secret.key", traditional);
    EXPECT_EQ(key_error(path),
              "TLS key " + path + ": it is encrypted: must be a key without a passphrase");
  }
}

TEST_F(TlsFilesTest, AKeyOfAnotherCertificateIsRefusedByName) {
  const std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> rsa(EVP_RSA_gen(2048), EVP_PKEY_free);
  const std::string of_another_kind = (folder_.path() / "rsa.key").string();
  {
    const std::unique_ptr<BIO, decltype(&BIO_free)> to(BIO_new_file(of_another_kind.c_str(), "w"),
                                                       BIO_free);
    PEM_write_bio_PrivateKey(to.get(), rsa.get(), nullptr, nullptr, 0, nullptr, nullptr);
  }
  for (const std::string& key : {authority_.sign("other").key, of_another_kind}) {
    EXPECT_EQ(key_error(key), "TLS key " + key + ": it does not belong to " + own_.cert);
  }
}

TEST_F(TlsFilesTest, ChainsAndSeveralAuthoritiesAreReadWhole) {
  const Authority second;
  const TlsFiles files = {
      .cert = write("chain.pem", content_of(own_.cert) + content_of(authority_.path())),
      .key = own_.key,
      .ca = write("both.pem",
                  content_of(authority_.path()) + "\n# Another:\n" + content_of(second.path()))};
  const auto context = use(files);
  ASSERT_TRUE(context.ok()) << context.status();
  STACK_OF(X509)* chain = nullptr;
  SSL_CTX_get0_chain_certs(context->get(), &chain);
  EXPECT_EQ(sk_X509_num(chain), 1);
  EXPECT_EQ(sk_X509_NAME_num(SSL_CTX_get_client_CA_list(context->get())), 2);
  EXPECT_EQ(SSL_CTX_get_verify_mode(context->get()),
            SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT);
}

TEST_F(TlsFilesTest, OneFileMayHoldTheCertificateAndTheKey) {
  const std::string both = write("both.pem", content_of(own_.cert) + content_of(own_.key));
  EXPECT_TRUE(use({both, both}).ok()) << use({both, both}).status();
}

}  // namespace
}  // namespace lockstep
