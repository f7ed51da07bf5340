// SPDX-License-Identifier: Apache-2.0
// What a template may use up. A template is a stranger's program: it ends with an error where it
// asks for more than this, whatever it does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/status.h"

namespace lockstep::jinja {

struct Limits {
  size_t template_bytes = size_t{1} << 20;
  int depth = 100;                            // Of syntax, of calls, and of values in each other.
  int64_t steps = 1'000'000;                  // A statement, an operation, an item made or read.
  int64_t text_bytes = int64_t{4} << 20;      // Of the output, and of any text in between.
  int64_t memory_bytes = int64_t{128} << 20;  // Of all values that exist at once.
};

// Charged by everything that takes time or memory. A charge never fails by itself: the error is
// kept in status(), which is asked after each operation and in each loop that makes values.
class Budget {
 public:
  explicit Budget(const Limits& limits) : limits_(limits) {}
  Budget(const Budget&) = delete;
  Budget& operator=(const Budget&) = delete;

  const Limits& limits() const { return limits_; }
  bool ok() const { return error_.ok(); }
  const absl::Status& status() const { return error_; }

  void spend(int64_t steps) { work(steps, kUnitsPerStep); }
  // A step pays for 2 KiB that are copied, or for 64 bytes that are looked at one by one.
  void copy(size_t bytes) { work(static_cast<int64_t>(bytes), 2); }
  void scan(size_t bytes) { work(static_cast<int64_t>(bytes), 64); }

  void fail(absl::Status error) {
    if (ok()) error_ = std::move(error);
  }
  // For a text that is about to have this size: also kResourceExhausted as a value.
  absl::Status check_text(size_t bytes);
  void take(int64_t bytes);
  void give_back(int64_t bytes) { live_bytes_ -= bytes; }

 private:
  static constexpr int64_t kUnitsPerStep = 4096;
  void work(int64_t count, int64_t units_each);

  const Limits limits_;
  int64_t units_ = 0;
  int64_t live_bytes_ = 0;
  absl::Status error_;
};

// The memory of one value; given back with it. A null budget: the value is part of the template.
class Charge {
 public:
  Charge() = default;
  Charge(Budget* budget, int64_t bytes) : budget_(budget), bytes_(bytes) {
    if (budget_ != nullptr) budget_->take(bytes_);
  }
  Charge(Charge&& other) noexcept
      : budget_(std::exchange(other.budget_, nullptr)), bytes_(other.bytes_) {}
  Charge& operator=(Charge&& other) noexcept {
    std::swap(budget_, other.budget_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~Charge() {
    if (budget_ != nullptr) budget_->give_back(bytes_);
  }

 private:
  Budget* budget_ = nullptr;
  int64_t bytes_ = 0;
};

}  // namespace lockstep::jinja
