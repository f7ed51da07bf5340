// SPDX-License-Identifier: Apache-2.0
#include "coordinator/text/jinja/values/runtime.h"

#include <algorithm>

#include "coordinator/text/jinja/values/builtin.h"
#include "coordinator/text/jinja/values/operators.h"
#include "coordinator/text/unicode/unicode.h"

namespace lockstep::jinja {

Loop::Loop(Budget* budget, std::vector<Value> items, Condition condition, const Statement* of,
           Scope* within, int depth)
    : statement(of),
      scope(within),
      depth0(depth),
      items_(std::move(items)),
      charge_(charge(budget, static_cast<int64_t>(items_.size() * sizeof(Value)))),
      condition_(std::move(condition)) {}

void Loop::finish() {
  items_ = {};
  taken_ = 0;
  charge_ = {};
  condition_ = nullptr;
}

const std::optional<Value>& Loop::after() {
  if (peeked_) return after_;
  after_.reset();
  while (taken_ < items_.size() && !after_.has_value()) {
    Value item = items_[taken_++];
    if (condition_ == nullptr || condition_(item)) after_ = std::move(item);
  }
  peeked_ = true;
  return after_;
}

std::optional<Value> Loop::next() {
  if (!after().has_value()) return std::nullopt;
  peeked_ = false;
  ++index0_;
  before_ = std::exchange(current_, std::exchange(after_, std::nullopt));
  return current_;
}

int64_t Loop::length() {
  after();
  if (condition_ != nullptr) {
    std::vector<Value> rest;
    std::copy_if(items_.begin() + static_cast<ptrdiff_t>(taken_), items_.end(),
                 std::back_inserter(rest), condition_);
    items_ = std::move(rest);
    taken_ = 0;
    condition_ = nullptr;
  }
  return index0_ + 1 + (after_.has_value() ? 1 : 0) + static_cast<int64_t>(items_.size() - taken_);
}

bool Loop::changed(Budget& budget, std::vector<Value> values) {
  const bool same = last_changed_.has_value() && last_changed_->size() == values.size() &&
                    std::ranges::equal(values, *last_changed_, [&](const Value& a, const Value& b) {
                      return equal(budget, a, b);
                    });
  if (!same) last_changed_ = std::move(values);
  return !same;
}

Value Runtime::text(MarkedText content) {
  const size_t size = content.bytes.size();
  budget.copy(size);
  const int64_t length = count_characters(content.bytes);
  const auto memory =
      static_cast<int64_t>(sizeof(Text) + size + content.from_request.size() * sizeof(ByteRange));
  return TextRef(std::make_shared<Text>(Text{std::move(content), length, charge(&budget, memory)}));
}

Value Runtime::checked_text(MarkedText content) {
  if (!budget.check_text(content.bytes.size())) return {};
  return text(std::move(content));
}

// The depth of a sequence or dict that contains this item.
int Runtime::depth_with(int depth, const Value& item) {
  int below = 0;
  if (const Sequence* sequence = item.sequence()) below = sequence->depth;
  if (const Dict* dict = item.dict()) below = dict->depth;
  if (below >= budget.limits().depth) {
    budget.exhausted("values are nested more than {} deep", budget.limits().depth);
  }
  return std::max(depth, below + 1);
}

Value Runtime::sequence(Sequence::Type type, std::vector<Value> items, std::string shown,
                        bool is_group) {
  auto made = std::make_shared<Sequence>();
  made->type = type;
  for (const Value& item : items) made->depth = depth_with(made->depth, item);
  made->items = std::move(items);
  made->shown = std::move(shown);
  made->is_group = is_group;
  const size_t memory = sizeof(Sequence) + made->items.size() * sizeof(Value);
  budget.copy(memory);
  made->charge = charge(&budget, static_cast<int64_t>(memory));
  return SequenceRef(std::move(made));
}

Value Runtime::dict(Dict dict) {
  for (const auto& [key, value] : dict.entries) {
    dict.depth = depth_with(depth_with(dict.depth, key), value);
  }
  const size_t memory = sizeof(Dict) + dict.entries.size() * 5 * sizeof(Value);
  budget.copy(memory);
  dict.charge = charge(&budget, static_cast<int64_t>(memory));
  return DictRef(std::make_shared<const Dict>(std::move(dict)));
}

Value Runtime::function(const Builtin& builtin, Value self) const {
  return FunctionRef(std::make_shared<Function>(Function{&builtin, std::move(self)}));
}

}  // namespace lockstep::jinja
