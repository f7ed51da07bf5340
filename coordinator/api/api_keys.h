// SPDX-License-Identifier: Apache-2.0
// Who may call the public ports, and how much at once.
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
#include "coordinator/admission/pass.h"

namespace lockstep {

// A file of lines "NAME KEY [requests=N] [priority=M]": the key's bearer is called NAME, has at
// most N requests under way at once, and gives them priorities of M (0) and above. In place of the
// key itself the file may have "sha256:" and its SHA-256 in 64 hex digits. Blank lines, and those
// that begin with '#', are passed over. Thread-safe; immutable but for the counts.
class ApiKeys {
 public:
  // kInvalidArgument, one line: the file or the line of it, what was wanted, what was found. Never
  // shows a key.
  static absl::StatusOr<std::unique_ptr<ApiKeys>> load(const std::string& path);

  // Counts as a request of its key; may outlive the keys.
  class KeyPass final : public Pass {
   public:
    // `count`: null where it does not.
    KeyPass(std::string name, std::shared_ptr<class ApiKeyCount> count, int32_t least_priority);
    ~KeyPass() override { end(); }
    KeyPass(const KeyPass&) = delete;
    KeyPass& operator=(const KeyPass&) = delete;
    void end() override;
    absl::Status check_priority(int32_t priority) const override;
    // Of the key: who the request is from.
    const std::string& name() const { return name_; }

   private:
    const std::string name_;
    const std::shared_ptr<class ApiKeyCount> count_;
    std::atomic<bool> counts_;
    const int32_t least_priority_;
  };

  // `authorization` is the value of the header or metadata of that name: "Bearer KEY".
  // kUnauthenticated: no key, or none of the file. kResourceExhausted: its requests are all under
  // way. The time that it takes says nothing about keys. `counts`: false for what goes on with a
  // request that counts already.
  absl::StatusOr<std::unique_ptr<KeyPass>> admit(std::string_view authorization,
                                                 bool counts = true) const;

 private:
  using Digest = std::array<unsigned char, 32>;  // SHA-256.
  struct Key {
    std::string name;
    Digest digest = {};
    int64_t max_requests = 0;  // 0: no bound.
    int64_t least_priority = 0;
    std::shared_ptr<class ApiKeyCount> count;
  };
  static absl::StatusOr<Key> parse_line(const std::string& line);

  std::vector<Key> keys_;
};

}  // namespace lockstep
