// SPDX-License-Identifier: Apache-2.0
// The clients that may call the public ports, and the limits of each.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "base/threads/mutex.h"
#include "coordinator/admission/permit.h"

namespace lockstep {

// A file of lines "NAME KEY [requests=N] [priority=M]": a client with this key is called NAME, may
// have at most N requests running at once, and may give them priorities of M (default 0) or more.
// The file may have "sha256:" and the key's SHA-256 in 64 hex digits in place of the key. Blank
// lines and lines that begin with '#' are skipped. Thread-safe; immutable except for the counts.
class ApiKeys {
 public:
  // kInvalidArgument, one line: names the file or its line, what it must be, and what was found.
  // Never shows a key.
  static absl::StatusOr<std::unique_ptr<ApiKeys>> load(const std::string& path);

  // Counts as a request of its key until end(); may outlive the ApiKeys.
  class KeyPermit final : public Permit {
   public:
    // `count`: null if this permit does not count.
    KeyPermit(std::string name, std::shared_ptr<class ApiKeyCount> count, int32_t min_priority);
    ~KeyPermit() override { end(); }
    KeyPermit(const KeyPermit&) = delete;
    KeyPermit& operator=(const KeyPermit&) = delete;
    void end() override;
    absl::Status check_priority(int32_t priority) const override;
    // The key's name, which identifies the client.
    const std::string& name() const { return name_; }

   private:
    const std::string name_;
    const std::shared_ptr<class ApiKeyCount> count_;
    std::atomic<bool> counts_;
    const int32_t min_priority_;
  };

  // `authorization` is the value of the header or metadata of that name: "Bearer KEY".
  // kUnauthenticated: there is no key, or it is not in the file. kResourceExhausted: the key
  // already has its maximum of running requests. The time taken reveals nothing about keys.
  // `counts`: false for a call that continues a request which is already counted.
  absl::StatusOr<std::unique_ptr<KeyPermit>> admit(std::string_view authorization,
                                                   bool counts = true) const;

 private:
  using Digest = std::array<unsigned char, 32>;  // SHA-256.
  struct Key {
    std::string name;
    Digest digest = {};
    int64_t max_requests = 0;  // 0: no limit.
    int64_t min_priority = 0;
    std::shared_ptr<class ApiKeyCount> count;
  };
  static absl::StatusOr<Key> parse_line(const std::string& line);

  std::vector<Key> keys_;
};

}  // namespace lockstep
