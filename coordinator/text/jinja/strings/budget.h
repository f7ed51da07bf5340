// SPDX-License-Identifier: Apache-2.0
// The limits of a template, and the error with which it ends. A template is an untrusted program:
// it fails if it exceeds a limit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "base/status.h"

namespace lockstep::jinja {

struct Limits {
  size_t template_bytes = size_t{1} << 20;
  int depth = 100;                            // Levels of syntax, of calls, of values.
  int64_t steps = 1'000'000;                  // A statement, an operation, an item made or read.
  int64_t text_bytes = int64_t{4} << 20;      // The output, and all intermediate texts.
  int64_t memory_bytes = int64_t{128} << 20;  // All values that exist at once.
};

// The result of a failed function: converts to an empty value of any type.
struct Failed {
  template <typename T>
  operator T() const {  // NOLINT(google-explicit-constructor)
    return T();
  }
};

// The steps and the memory that a rendering has used: all its work is charged here. The first error
// is kept. After an error, results are meaningless: functions continue with empty values, and loops
// end because ok() is false.
class Budget {
 public:
  explicit Budget(const Limits& limits) : limits_(limits) {}
  Budget(const Budget&) = delete;
  Budget& operator=(const Budget&) = delete;

  const Limits& limits() const { return limits_; }
  bool ok() const { return error_.ok(); }
  const absl::Status& status() const { return error_; }

  Failed fail(absl::Status error) {
    if (ok()) error_ = std::move(error);
    return {};
  }
  // Fails with kInvalidArgument.
  template <typename... Args>
  Failed refuse(fmt::format_string<Args...> format, Args&&... args) {
    return fail(invalid_argument(format, std::forward<Args>(args)...));
  }
  // Fails with kResourceExhausted.
  template <typename... Args>
  Failed exhausted(fmt::format_string<Args...> format, Args&&... args) {
    return fail(resource_exhausted(format, std::forward<Args>(args)...));
  }

  // spend(), copy() and scan() add work and return ok(). Copying 2 KiB, or reading 64 bytes one by
  // one, is as much work as one step.
  bool spend(int64_t steps) { return work(steps, kUnitsPerStep); }
  bool copy(size_t bytes) { return work(static_cast<int64_t>(bytes), 2); }
  bool scan(size_t bytes) { return work(static_cast<int64_t>(bytes), 64); }
  // Checks the size that a text is about to have.
  bool check_text(size_t bytes) {
    if (bytes <= static_cast<size_t>(limits_.text_bytes)) return ok();
    return exhausted("the template makes a text of more than {} bytes", limits_.text_bytes);
  }

  // Counts the memory of values that exist, until give_back(); fails above the limit.
  void take(int64_t bytes) {
    live_bytes_ += bytes;
    if (live_bytes_ <= limits_.memory_bytes) return;
    exhausted("the template's values take more than {} bytes of memory", limits_.memory_bytes);
  }
  void give_back(int64_t bytes) { live_bytes_ -= bytes; }

 private:
  static constexpr int64_t kUnitsPerStep = 4096;
  bool work(int64_t count, int64_t units_each) {
    const int64_t left = limits_.steps * kUnitsPerStep - units_;
    if (count <= left / units_each) {
      units_ += count * units_each;
      return ok();
    }
    units_ += left;
    return exhausted("the template takes more than {} steps", limits_.steps);
  }

  const Limits limits_;
  int64_t units_ = 0;
  int64_t live_bytes_ = 0;
  absl::Status error_;
};

// Gives the bytes of a value back to the budget when the value is destroyed. A value that is part
// of the template has no budget.
struct GiveBack {
  int64_t bytes = 0;
  void operator()(Budget* budget) const { budget->give_back(bytes); }
};
using Charge = std::unique_ptr<Budget, GiveBack>;
inline Charge charge(Budget* budget, int64_t bytes) {
  budget->take(bytes);
  return {budget, {bytes}};
}

// Counts a level while it exists.
class Level {
 public:
  explicit Level(int* count) : count_(count) { ++*count_; }
  Level(const Level&) = delete;
  Level& operator=(const Level&) = delete;
  ~Level() { --*count_; }

 private:
  int* count_;
};

}  // namespace lockstep::jinja
