// SPDX-License-Identifier: Apache-2.0
#include "coordinator/text/jinja/runtime.h"

#include <algorithm>

#include "coordinator/text/jinja/characters.h"
#include "coordinator/text/jinja/loop.h"

namespace lockstep::jinja {
namespace {

template <typename T>
T* keep(std::vector<std::unique_ptr<T>>* all, Budget* budget) {
  budget->take(2 * sizeof(T));  // Never given back: it may be pointed to until the end.
  return all->emplace_back(std::make_unique<T>()).get();
}

}  // namespace

Runtime::Runtime(const Limits& limits, const std::tm& now) : budget(limits), now(now) {}
Runtime::~Runtime() = default;

Value Runtime::text(MarkedText content) {
  const size_t size = content.bytes.size();
  budget.copy(size);
  const int64_t length = count_code_points(content.bytes);
  const auto memory =
      static_cast<int64_t>(sizeof(Text) + size + content.from_request.size() * sizeof(ByteRange));
  return TextRef(std::make_shared<Text>(Text{std::move(content), length, Charge(&budget, memory)}));
}

Result Runtime::checked_text(MarkedText content) {
  RETURN_IF_ERROR(budget.check_text(content.bytes.size()));
  return text(std::move(content));
}

int Runtime::depth_with(int depth, const Value& item) {
  int below = 0;
  if (const Sequence* sequence = item.sequence()) below = sequence->depth;
  if (const Dict* dict = item.dict()) below = dict->depth;
  if (below >= budget.limits().depth) {
    budget.fail(
        resource_exhausted("values are more than {} deep in each other", budget.limits().depth));
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
  made->charge = Charge(&budget, static_cast<int64_t>(memory));
  return SequenceRef(std::move(made));
}

Value Runtime::group(Value key, std::vector<Value> items) {
  return sequence(Sequence::Type::kTuple, {std::move(key), list(std::move(items))}, {},
                  /*is_group=*/true);
}

Value Runtime::dict(Dict dict) {
  for (const auto& [key, value] : dict.entries) {
    dict.depth = depth_with(depth_with(dict.depth, key), value);
  }
  const size_t memory = sizeof(Dict) + dict.entries.size() * 5 * sizeof(Value);
  budget.copy(memory);
  dict.charge = Charge(&budget, static_cast<int64_t>(memory));
  return DictRef(std::make_shared<const Dict>(std::move(dict)));
}

Scope* Runtime::scope(Scope* parent) {
  Scope* made = keep(&scopes_, &budget);
  made->parent = parent;
  return made;
}

Namespace* Runtime::make_namespace(Dict attributes) {
  Namespace* made = keep(&namespaces_, &budget);
  made->attributes = std::move(attributes);
  return made;
}

Cycler* Runtime::cycler(std::vector<Value> items) {
  Cycler* made = keep(&cyclers_, &budget);
  budget.take(static_cast<int64_t>(items.size() * sizeof(Value)));
  made->items = std::move(items);
  return made;
}

Macro* Runtime::macro() { return keep(&macros_, &budget); }
Loop* Runtime::loop() { return keep(&loops_, &budget); }

}  // namespace lockstep::jinja
