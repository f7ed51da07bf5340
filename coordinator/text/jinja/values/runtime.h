// SPDX-License-Identifier: Apache-2.0
// The budget and the clock of one rendering, and the objects that its values point to. Runtime
// makes all values of the rendering; they must not outlive it. One thread.
#pragma once

#include <ctime>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/text_map.h"
#include "coordinator/text/jinja/values/dict.h"
#include "coordinator/text/jinja/values/syntax.h"

namespace lockstep::jinja {

// Variables by name. A scope sees the variables of the scopes around it; setting a variable never
// changes an outer one.
struct Scope {
  Scope* parent = nullptr;
  // A macro was made in this scope, or in an inner one, and may read the variables later.
  bool captured = false;
  TextMap<std::string_view, Value> variables = {};

  // Null if no scope has the variable.
  const Value* find(std::string_view name) const {
    for (const Scope* scope = this; scope != nullptr; scope = scope->parent) {
      const auto found = scope->variables.find(name);
      if (found != scope->variables.end()) return &found->second;
    }
    return nullptr;
  }
  void capture() {
    for (Scope* scope = this; scope != nullptr && !scope->captured; scope = scope->parent) {
      scope->captured = true;
    }
  }
};

struct Namespace {
  Dict attributes;
};

// Items that are returned one after the other, repeatedly.
struct Cycler {
  std::vector<Value> items;
  size_t place = 0;  // The position of the next item.
};

// A macro, or the body of a call block, with the scope in which it was made.
struct Macro {
  const MacroSyntax* syntax = nullptr;
  Scope* scope = nullptr;
};

// The variable `loop` of a for statement. The loop's condition is evaluated for the next item only
// when needed, as in Jinja: by the loop itself, or earlier by loop.last, nextitem or length.
class Loop {
 public:
  using Condition = std::function<bool(const Value&)>;

  // Without a condition, every item is taken. A null statement: the loop is not recursive.
  Loop(Budget* budget, std::vector<Value> items, Condition condition, const Statement* statement,
       Scope* scope, int depth0);
  // Called when the statement ends: frees the items. The loop may still be used until the rendering
  // ends.
  void finish();

  // Moves to the next item; returns nothing at the end.
  std::optional<Value> next();

  const Statement* const statement;
  Scope* const scope;  // The scope of the statement.
  const int depth0;
  int64_t index0() const { return index0_; }
  int64_t length();
  // The items before and after the current one.
  const std::optional<Value>& before() const { return before_; }
  const std::optional<Value>& after();
  // Whether the values differ from those of the last call.
  bool changed(Budget& budget, std::vector<Value> values);

 private:
  std::vector<Value> items_;
  Charge charge_;
  size_t taken_ = 0;  // The number of items that the loop and after_ have taken.
  Condition condition_;
  int64_t index0_ = -1;
  bool peeked_ = false;
  std::optional<Value> after_;  // Valid if peeked_.
  std::optional<Value> before_;
  std::optional<Value> current_;
  std::optional<std::vector<Value>> last_changed_;
};

class Runtime {
 public:
  Runtime(const Limits& limits, const std::tm& time) : budget(limits), now(time) {}

  Budget budget;
  const std::tm now;  // For strftime_now, the only access to the outside.

  Value text(MarkedText content);
  Value text(std::string_view content) { return text(MarkedText::of(content, false)); }
  // The same; fails if the text is too long.
  Value checked_text(MarkedText content);

  Value sequence(Sequence::Type type, std::vector<Value> items, std::string shown = {},
                 bool is_group = false);
  Value list(std::vector<Value> items) { return sequence(Sequence::Type::kList, std::move(items)); }
  Value tuple(std::vector<Value> items) {
    return sequence(Sequence::Type::kTuple, std::move(items));
  }
  Value iterator(std::vector<Value> items) {
    return sequence(Sequence::Type::kIterator, std::move(items));
  }
  Value dict(Dict dict);
  Value function(const Builtin& builtin, Value self) const;

  // An object that lives until the end of the rendering, so that values may point to it.
  template <typename T>
  T* keep(T object) {
    budget.take(2 * sizeof(T));
    auto kept = std::make_shared<T>(std::move(object));
    kept_.push_back(kept);
    return kept.get();
  }
  Scope* scope(Scope* parent) { return keep(Scope{.parent = parent}); }

 private:
  int depth_with(int depth, const Value& item);

  std::vector<std::shared_ptr<void>> kept_;
};

}  // namespace lockstep::jinja
