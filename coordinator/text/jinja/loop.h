// SPDX-License-Identifier: Apache-2.0
// The variable `loop` of a for statement. As in Jinja, a loop's condition is asked for the next
// item only when that is needed: by the loop itself, or earlier by loop.last, nextitem or length.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "coordinator/text/jinja/runtime.h"

namespace lockstep::jinja {

class Loop {
 public:
  using Condition = std::function<absl::StatusOr<bool>(const Value&)>;

  // Without a condition every item is taken.
  void start(Budget* budget, std::vector<Value> items, Condition condition, int depth0);
  // The statement is over. The loop may be pointed to until the rendering ends; its items need not.
  void finish();
  // What a call of a recursive loop runs again; null: the loop is not recursive.
  const Statement* statement = nullptr;
  Scope* scope = nullptr;  // In which the statement was run.

  // The next item, or nothing at the end.
  absl::StatusOr<std::optional<Value>> next();

  int depth0() const { return depth0_; }
  // loop.name; nothing where a loop has no such attribute, or it is a method.
  absl::StatusOr<std::optional<Value>> attribute(std::string_view name);
  // Whether the values differ from those of the last call.
  absl::StatusOr<bool> changed(Budget* budget, std::vector<Value> values);
  int64_t index0() const { return index0_; }

 private:
  absl::Status peek();
  absl::StatusOr<int64_t> length();

  std::vector<Value> items_;
  Charge charge_;
  size_t taken_ = 0;  // Of items_, by this loop or for after_.
  Condition condition_;
  int depth0_ = 0;
  int64_t index0_ = -1;
  bool peeked_ = false;
  std::optional<Value> after_;  // The item behind the current one, once peeked.
  std::optional<Value> before_;
  std::optional<Value> current_;
  std::optional<std::vector<Value>> last_changed_;
};

}  // namespace lockstep::jinja
