// SPDX-License-Identifier: Apache-2.0
// A folder that only this user can enter, for the socket on which local workers join. It goes with
// its owner; one whose owner was killed is removed when the next is made.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace lockstep {

class PrivateFolder {
 public:
  // In $XDG_RUNTIME_DIR, else in /tmp, under a name that nobody can take first. Removes what is
  // left of owners that are gone.
  static absl::StatusOr<std::unique_ptr<PrivateFolder>> make();
  // As make(), in `parent`.
  static absl::StatusOr<std::unique_ptr<PrivateFolder>> make_in(const std::string& parent);
  ~PrivateFolder();
  PrivateFolder(const PrivateFolder&) = delete;
  PrivateFolder& operator=(const PrivateFolder&) = delete;

  const std::string& path() const { return path_; }

 private:
  PrivateFolder(std::string path, int lock) : path_(std::move(path)), lock_(lock) {}

  const std::string path_;
  const int lock_;  // An open file in it, locked for as long as the owner lives.
};

// Removes those of `parent` that are this user's and whose owner is gone. How many.
int remove_stale_folders(const std::string& parent);

}  // namespace lockstep
