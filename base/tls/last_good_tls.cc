// SPDX-License-Identifier: Apache-2.0
// Changes are detected by the files' bytes: two versions may have the same modification time.
#include "base/tls/last_good_tls.h"

#include <spdlog/spdlog.h>

#include <chrono>
#include <utility>

#include "base/status.h"
#include "base/threads/wait.h"
#include "base/tls/tls.h"

namespace lockstep {
namespace {

constexpr std::chrono::seconds kInterval{1};  // Between checks.

}  // namespace

LastGoodTls::LastGoodTls(const TlsFiles& files, Options options)
    : files_(files), options_(std::move(options)), seen_(read_tls_bytes(files)) {}

absl::StatusOr<std::unique_ptr<LastGoodTls>> LastGoodTls::load(const TlsFiles& files,
                                                               Options options) {
  std::unique_ptr<LastGoodTls> loaded(new LastGoodTls(files, std::move(options)));
  {
    const MutexLock looking(&loaded->looking_);
    RETURN_IF_ERROR(loaded->seen_.status());
    const MutexLock lock(&loaded->mutex_);
    ASSIGN_OR_RETURN(loaded->good_, loaded->make(*loaded->seen_));
  }
  if (loaded->options_.looks == Looks::kEverySecond) {
    loaded->watcher_ = std::jthread([raw = loaded.get()](const std::stop_token& stop) {
      while (wait(kInterval, stop)) raw->look();
    });
  }
  return loaded;
}

std::shared_ptr<const GoodTls> LastGoodTls::get() {
  if (options_.looks == Looks::kWhenAsked) look();
  const MutexLock lock(&mutex_);
  return good_;
}

absl::StatusOr<std::shared_ptr<const GoodTls>> LastGoodTls::make(const TlsBytes& bytes) const {
  ASSIGN_OR_RETURN(std::shared_ptr<ssl_ctx_st> context, make_tls_context(files_, bytes));
  if (options_.prepare != nullptr) options_.prepare(context.get());
  return std::make_shared<const GoodTls>(GoodTls{.bytes = bytes, .context = std::move(context)});
}

void LastGoodTls::look() {
  const MutexLock looking(&looking_);
  absl::StatusOr<TlsBytes> now = read_tls_bytes(files_);
  if (now == seen_) return;
  seen_ = std::move(now);
  auto made = seen_.ok() ? make(*seen_) : seen_.status();
  if (!made.ok()) {
    spdlog::warn("{}; the last good certificate is still used for {}", message_of(made.status()),
                 options_.user);
    return;
  }
  const MutexLock lock(&mutex_);
  good_ = *std::move(made);
}

}  // namespace lockstep
