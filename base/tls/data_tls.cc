// SPDX-License-Identifier: Apache-2.0
#include "base/tls/data_tls.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/status.h"
#include "base/tls/tls.h"

namespace lockstep {
namespace {

constexpr size_t kRecordBytes = SSL3_RT_MAX_PLAIN_LENGTH;
constexpr size_t kReadBytes = 72 * 1024;  // The max bytes of one read from the socket.

class TlsChannel final : public DataChannel {
 public:
  TlsChannel(FileDescriptor socket, std::shared_ptr<SSL> ssl, int64_t records_per_key)
      : DataChannel(std::move(socket)), ssl_(std::move(ssl)), records_per_key_(records_per_key) {}

  absl::StatusOr<size_t> send(std::span<const iovec> parts) override;
  absl::StatusOr<size_t> receive(std::span<const iovec> parts) override;
  short events(bool sends, bool receives) const override {
    return static_cast<short>((sends ? send_events_ : 0) | (receives ? receive_events_ : 0));
  }

 private:
  std::span<const std::byte> record_at(std::span<const iovec> parts, size_t begin);
  void count_record();
  void not_now(short* events);
  std::string problem() const;

  const std::shared_ptr<SSL> ssl_;
  const int64_t records_per_key_;
  int64_t records_ = 0;  // Records since the last key update.
  short send_events_ = POLLOUT;
  short receive_events_ = POLLIN;
  absl::Status end_;  // The error that ended the connection: no call is made after it.
  std::array<std::byte, kRecordBytes> record_;
};

// If a call moved bytes before the connection ended, it returns their number, and the next call
// returns the error.
absl::StatusOr<size_t> TlsChannel::send(std::span<const iovec> parts) {
  size_t sent = 0;
  while (end_.ok()) {
    const std::span<const std::byte> record = record_at(parts, sent);
    if (record.empty()) return sent;
    ERR_clear_error();
    size_t bytes = 0;
    if (SSL_write_ex(ssl_.get(), record.data(), record.size(), &bytes) != 1) {
      not_now(&send_events_);
      break;
    }
    sent += bytes;
    count_record();
  }
  if (sent == 0 && !end_.ok()) return end_;
  return sent;
}

absl::StatusOr<size_t> TlsChannel::receive(std::span<const iovec> parts) {
  size_t received = 0;
  for (const iovec& part : parts) {
    size_t filled = 0;
    while (filled < part.iov_len && end_.ok()) {
      ERR_clear_error();
      size_t bytes = 0;
      auto* next = static_cast<std::byte*>(part.iov_base) + filled;
      if (SSL_read_ex(ssl_.get(), next, part.iov_len - filled, &bytes) != 1) {
        not_now(&receive_events_);
        break;
      }
      filled += bytes;
    }
    received += filled;
    if (filled < part.iov_len) break;
  }
  if (received == 0 && !end_.ok()) return end_;
  return received;
}

// The bytes of the next record: in place if they are contiguous, else copied together. If the
// system did not take a record, the next call returns the same bytes again, and perhaps more.
std::span<const std::byte> TlsChannel::record_at(std::span<const iovec> parts, size_t begin) {
  while (!parts.empty() && begin >= parts.front().iov_len) {
    begin -= parts.front().iov_len;
    parts = parts.subspan(1);
  }
  if (parts.empty()) return {};
  const auto* first = static_cast<const std::byte*>(parts.front().iov_base) + begin;
  const size_t there = parts.front().iov_len - begin;
  if (there >= kRecordBytes || parts.size() == 1) return {first, std::min(there, kRecordBytes)};
  size_t gathered = 0;
  for (const iovec& part : parts) {
    const size_t bytes = std::min(part.iov_len - begin, kRecordBytes - gathered);
    std::memcpy(record_.data() + gathered, static_cast<const std::byte*>(part.iov_base) + begin,
                bytes);
    gathered += bytes;
    begin = 0;
  }
  return {record_.data(), gathered};
}

void TlsChannel::count_record() {
  if (++records_ < records_per_key_) return;
  if (SSL_key_update(ssl_.get(), SSL_KEY_UPDATE_NOT_REQUESTED) == 1) records_ = 0;
}

// Handles a call that moved nothing: sets the events to wait for before a retry, or sets end_.
void TlsChannel::not_now(short* events) {
  const int error = errno;
  switch (SSL_get_error(ssl_.get(), 0)) {
    case SSL_ERROR_WANT_READ:
      *events = POLLIN;
      return;
    case SSL_ERROR_WANT_WRITE:
      *events = POLLOUT;
      return;
    case SSL_ERROR_ZERO_RETURN:
      end_ = unavailable("it closed its connection");
      return;
    case SSL_ERROR_SYSCALL:
      end_ = unavailable("{}", error == 0 ? "it closed its connection" : error_text(error));
      return;
    default:
      end_ = absl::DataLossError(fmt::format("TLS: {}", problem()));
  }
}

std::string TlsChannel::problem() const {
  const std::string reason = take_tls_error();
  const long verified = SSL_get_verify_result(ssl_.get());
  if (verified == X509_V_OK) return reason;
  return fmt::format("its certificate is not valid: {}", X509_verify_cert_error_string(verified));
}

void prepare(SSL_CTX* context) {
  SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION);
  // Each connection verifies certificates. A session ticket that the peer has not read when a
  // connection closes would reset the connection.
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_num_tickets(context, 0);
  SSL_CTX_set_read_ahead(context, 1);
  SSL_CTX_set_default_read_buffer_len(context, kReadBytes);
  // A worker is the server of some connections and the client of others.
  SSL_CTX_set_purpose(context, X509_PURPOSE_ANY);
}

}  // namespace

absl::StatusOr<std::unique_ptr<DataTls>> DataTls::load(const TlsFiles& files,
                                                       int64_t records_per_key) {
  LOCKSTEP_CHECK(!files.cert.empty() && !files.key.empty() && !files.ca.empty());
  ASSIGN_OR_RETURN(auto loaded,
                   ReloadingTls::load(files, {.user = "data connections",
                                              .prepare = prepare,
                                              .reload = ReloadingTls::Reload::kOnGet}));
  return std::unique_ptr<DataTls>(new DataTls(std::move(loaded), records_per_key));
}

absl::StatusOr<std::unique_ptr<DataChannel>> DataTls::open(FileDescriptor socket, Side side) {
  std::shared_ptr<SSL> ssl = open_tls(files_->get()->context.get(), socket.get());
  if (ssl == nullptr) return resource_exhausted("no memory for TLS");
  side == Side::kListens ? SSL_set_accept_state(ssl.get()) : SSL_set_connect_state(ssl.get());
  return std::make_unique<TlsChannel>(std::move(socket), std::move(ssl), records_per_key_);
}

}  // namespace lockstep
