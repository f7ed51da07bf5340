// SPDX-License-Identifier: Apache-2.0
// The digest of a presented key is compared with all digests of the file, in constant time. So
// neither time nor memory accesses show how close the key is to a valid one.
#include "coordinator/api/api_keys.h"

#include <openssl/crypto.h>
#include <openssl/sha.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <fstream>
#include <set>
#include <sstream>
#include <utility>

#include "absl/strings/ascii.h"
#include "base/field_error.h"
#include "base/status.h"
#include "proto/handshake.h"

namespace lockstep {

// Counts the running requests of one key.
class ApiKeyCount {
 public:
  bool take(int64_t max) ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    if (max > 0 && requests_ >= max) return false;
    ++requests_;
    return true;
  }
  void give_back() ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    --requests_;
  }

 private:
  Mutex mutex_;
  int64_t requests_ ABSL_GUARDED_BY(mutex_) = 0;
};

namespace {

constexpr std::string_view kDigestPrefix = "sha256:";
constexpr int64_t kMaxPriority = 1'000;  // The same as in limits.cc.
constexpr size_t kMinKeyBytes = 16;
constexpr size_t kMaxKeyBytes = 512;

template <typename Digest>
void digest_of(std::string_view key, Digest* digest) {
  SHA256(reinterpret_cast<const unsigned char*>(key.data()), key.size(), digest->data());
}

bool read_limit(std::string_view text, std::string_view name, int64_t min, int64_t* value) {
  if (!text.starts_with(name)) return false;
  const char* end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data() + name.size(), end, *value);
  return error == std::errc() && stopped == end && min <= *value && *value <= INT32_MAX;
}

}  // namespace

absl::StatusOr<ApiKeys::Key> ApiKeys::parse_line(const std::string& line) {
  std::istringstream words(line);
  Key key;
  std::string secret;
  if (!(words >> key.name >> secret)) {
    return invalid_argument("must be NAME KEY [requests=N] [priority=M]");
  }
  const auto all_of = [](std::string_view text, std::string_view marks) {
    return std::ranges::all_of(text, [marks](char c) {
      return absl::ascii_isalnum(static_cast<unsigned char>(c)) || marks.find(c) != marks.npos;
    });
  };
  if (!all_of(key.name, "._@-")) {
    return invalid_argument("NAME must have only letters, digits and ._@-, found {}",
                            printable(key.name));
  }
  if (!all_of(secret, "._~+/=-:")) {  // The characters of RFC 6750, and the colon of a digest.
    return invalid_argument("KEY must have only letters, digits and ._~+/=-");
  }
  if (std::string_view(secret).starts_with(kDigestPrefix)) {
    const auto digest = from_hex(absl::AsciiStrToLower(secret.substr(kDigestPrefix.size())));
    if (!digest.has_value() || digest->size() != key.digest.size()) {
      return invalid_argument("KEY must have 64 hex digits after sha256:");
    }
    std::ranges::copy(*digest, key.digest.begin());
  } else if (secret.size() < kMinKeyBytes || secret.size() > kMaxKeyBytes) {
    return invalid_argument("KEY must have {} to {} bytes, found {}", kMinKeyBytes, kMaxKeyBytes,
                            secret.size());
  } else {
    digest_of(secret, &key.digest);
  }
  for (std::string limit; words >> limit;) {
    const bool known = read_limit(limit, "requests=", 1, &key.max_requests) ||
                       read_limit(limit, "priority=", -kMaxPriority, &key.min_priority);
    if (!known) {
      return invalid_argument("a limit must be requests=N with N from 1, or priority=M, found {}",
                              printable(limit));
    }
  }
  key.count = std::make_shared<ApiKeyCount>();
  return key;
}

absl::StatusOr<std::unique_ptr<ApiKeys>> ApiKeys::load(const std::string& path) {
  errno = 0;
  std::ifstream file(path);
  if (!file) {
    return invalid_argument(
        "--api-keys {}: must be a file that can be read, found none ({}); its lines are NAME KEY",
        printable(path), error_text(errno));
  }
  std::unique_ptr<ApiKeys> keys(new ApiKeys);
  std::set<std::string> names;
  std::set<Digest> digests;
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    const size_t begin = line.find_first_not_of(" \t\r");
    if (begin == line.npos || line[begin] == '#') continue;
    absl::StatusOr<Key> key = parse_line(line);
    if (key.ok() && !names.insert(key->name).second) {
      key = invalid_argument("NAME must be unique, found {} twice", printable(key->name));
    }
    if (key.ok() && !digests.insert(key->digest).second) {
      key = invalid_argument("KEY must be unique, found that of {} twice", printable(key->name));
    }
    if (!key.ok()) {
      return invalid_argument("--api-keys {}, line {}: {}", printable(path), number,
                              message_of(key.status()));
    }
    keys->keys_.push_back(*std::move(key));
  }
  if (keys->keys_.empty()) {
    return invalid_argument("--api-keys {}: must have at least one line NAME KEY", printable(path));
  }
  return keys;
}

ApiKeys::KeyPermit::KeyPermit(std::string name, std::shared_ptr<ApiKeyCount> count,
                              int32_t min_priority)
    : name_(std::move(name)),
      count_(std::move(count)),
      counts_(count_ != nullptr),
      min_priority_(min_priority) {}

void ApiKeys::KeyPermit::end() {
  if (counts_.exchange(false)) count_->give_back();
}

absl::Status ApiKeys::KeyPermit::check_priority(int32_t priority) const {
  if (priority >= min_priority_) return absl::OkStatus();
  return field_error("priority", "requests with the API key of {} must have {} or more, found {}",
                     name_, min_priority_, priority);
}

absl::StatusOr<std::unique_ptr<ApiKeys::KeyPermit>> ApiKeys::admit(std::string_view authorization,
                                                                   bool counts) const {
  constexpr std::string_view kScheme = "bearer ";  // The case does not matter: RFC 9110, 11.1.
  const bool has_scheme =
      absl::AsciiStrToLower(std::string(authorization.substr(0, kScheme.size()))) == kScheme;
  Digest digest;
  digest_of(has_scheme ? authorization.substr(kScheme.size()) : authorization, &digest);
  const Key* found = nullptr;
  for (const Key& key : keys_) {
    if (CRYPTO_memcmp(digest.data(), key.digest.data(), digest.size()) == 0) found = &key;
  }
  if (!has_scheme || found == nullptr) {
    return absl::UnauthenticatedError(
        "Authorization: must be \"Bearer KEY\" with an API key of this server");
  }
  const auto min_priority = static_cast<int32_t>(found->min_priority);
  if (!counts) return std::make_unique<KeyPermit>(found->name, nullptr, min_priority);
  if (!found->count->take(found->max_requests)) {
    return resource_exhausted("the API key of {} already has {} running, its limit", found->name,
                              count_of(found->max_requests, "request"));
  }
  return std::make_unique<KeyPermit>(found->name, found->count, min_priority);
}

}  // namespace lockstep
