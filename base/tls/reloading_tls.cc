// SPDX-License-Identifier: Apache-2.0
// Changes are detected by the files' bytes: two versions may have the same modification time.
#include "base/tls/reloading_tls.h"

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

ReloadingTls::ReloadingTls(const TlsFiles& files, Options options)
    : files_(files), options_(std::move(options)), seen_(read_tls_bytes(files)) {}

absl::StatusOr<std::unique_ptr<ReloadingTls>> ReloadingTls::load(const TlsFiles& files,
                                                                 Options options) {
  std::unique_ptr<ReloadingTls> loaded(new ReloadingTls(files, std::move(options)));
  {
    const MutexLock looking(&loaded->checking_);
    RETURN_IF_ERROR(loaded->seen_.status());
    const MutexLock lock(&loaded->mutex_);
    ASSIGN_OR_RETURN(loaded->loaded_, loaded->make(*loaded->seen_));
  }
  if (loaded->options_.reload == Reload::kEverySecond) {
    loaded->watcher_ = std::jthread([raw = loaded.get()](const std::stop_token& stop) {
      while (wait(kInterval, stop)) raw->check_files();
    });
  }
  return loaded;
}

std::shared_ptr<const LoadedTls> ReloadingTls::get() {
  if (options_.reload == Reload::kOnGet) check_files();
  const MutexLock lock(&mutex_);
  return loaded_;
}

absl::StatusOr<std::shared_ptr<const LoadedTls>> ReloadingTls::make(const TlsBytes& bytes) const {
  ASSIGN_OR_RETURN(std::shared_ptr<ssl_ctx_st> context, make_tls_context(files_, bytes));
  if (options_.prepare != nullptr) options_.prepare(context.get());
  return std::make_shared<const LoadedTls>(
      LoadedTls{.bytes = bytes, .context = std::move(context)});
}

void ReloadingTls::check_files() {
  const MutexLock looking(&checking_);
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
  loaded_ = *std::move(made);
}

}  // namespace lockstep
