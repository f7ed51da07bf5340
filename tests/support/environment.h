// SPDX-License-Identifier: Apache-2.0
// Environment variables that a test sets or removes for some time.
#pragma once

#include <cstdlib>
#include <optional>
#include <string>

namespace lockstep {

// Sets a variable, or removes it for nullopt, until the end of the scope. No other thread may read
// the environment meanwhile.
class ScopedVariable {
 public:
  ScopedVariable(const char* name, const std::optional<std::string>& value) : name_(name) {
    if (const char* before = std::getenv(name)) before_ = before;
    set(value);
  }
  ~ScopedVariable() { set(before_); }
  ScopedVariable(const ScopedVariable&) = delete;
  ScopedVariable& operator=(const ScopedVariable&) = delete;

 private:
  void set(const std::optional<std::string>& value) {
    // NOLINTBEGIN(concurrency-mt-unsafe): see above.
    if (value.has_value()) {
      setenv(name_, value->c_str(), 1);
    } else {
      unsetenv(name_);
    }
    // NOLINTEND(concurrency-mt-unsafe)
  }

  const char* const name_;
  std::optional<std::string> before_;
};

}  // namespace lockstep
