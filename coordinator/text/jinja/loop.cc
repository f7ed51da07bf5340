// SPDX-License-Identifier: Apache-2.0
#include "coordinator/text/jinja/loop.h"

#include <algorithm>

#include "coordinator/text/jinja/operators.h"

namespace lockstep::jinja {

void Loop::start(Budget* budget, std::vector<Value> items, Condition condition, int depth0) {
  charge_ = Charge(budget, static_cast<int64_t>(items.size() * sizeof(Value)));
  items_ = std::move(items);
  condition_ = std::move(condition);
  depth0_ = depth0;
}

void Loop::finish() {
  items_ = {};
  taken_ = 0;
  charge_ = {};
  condition_ = nullptr;
}

absl::Status Loop::peek() {
  if (peeked_) return absl::OkStatus();
  after_.reset();
  while (taken_ < items_.size()) {
    Value item = items_[taken_++];
    if (condition_ != nullptr) {
      ASSIGN_OR_RETURN(const bool accepted, condition_(item));
      if (!accepted) continue;
    }
    after_ = std::move(item);
    break;
  }
  peeked_ = true;
  return absl::OkStatus();
}

absl::StatusOr<std::optional<Value>> Loop::next() {
  RETURN_IF_ERROR(peek());
  peeked_ = false;
  if (!after_.has_value()) return std::optional<Value>();
  ++index0_;
  before_ = std::exchange(current_, std::exchange(after_, std::nullopt));
  return current_;
}

absl::StatusOr<int64_t> Loop::length() {
  RETURN_IF_ERROR(peek());
  if (condition_ != nullptr) {
    std::vector<Value> rest;
    for (; taken_ < items_.size(); ++taken_) {
      ASSIGN_OR_RETURN(const bool accepted, condition_(items_[taken_]));
      if (accepted) rest.push_back(items_[taken_]);
    }
    items_ = std::move(rest);
    taken_ = 0;
    condition_ = nullptr;
  }
  return index0_ + 1 + (after_.has_value() ? 1 : 0) + static_cast<int64_t>(items_.size() - taken_);
}

absl::StatusOr<std::optional<Value>> Loop::attribute(std::string_view name) {
  using Found = std::optional<Value>;
  if (name == "index0") return Found(index0_);
  if (name == "index") return Found(index0_ + 1);
  if (name == "first") return Found(index0_ == 0);
  if (name == "depth0") return Found(int64_t{depth0_});
  if (name == "depth") return Found(int64_t{depth0_ + 1});
  if (name == "last" || name == "nextitem") {
    RETURN_IF_ERROR(peek());
    if (name == "last") return Found(!after_.has_value());
    return Found(after_.has_value() ? *after_ : Value::undefined("there is no next item"));
  }
  if (name == "previtem") {
    return Found(before_.has_value() ? *before_ : Value::undefined("there is no previous item"));
  }
  if (name == "length" || name == "revindex" || name == "revindex0") {
    ASSIGN_OR_RETURN(const int64_t count, length());
    return Found(name == "length" ? count : count - index0_ - (name == "revindex0" ? 1 : 0));
  }
  return Found();
}

absl::StatusOr<bool> Loop::changed(Budget* budget, std::vector<Value> values) {
  const bool same = last_changed_.has_value() && last_changed_->size() == values.size() &&
                    std::ranges::equal(values, *last_changed_, [&](const Value& a, const Value& b) {
                      return equal(budget, a, b);
                    });
  if (!same) last_changed_ = std::move(values);
  return !same;
}

}  // namespace lockstep::jinja
