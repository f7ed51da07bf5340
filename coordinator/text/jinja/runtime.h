// SPDX-License-Identifier: Apache-2.0
// What one rendering owns: its budget, its clock, and the objects that can be pointed to from
// everywhere. Makes all values of a rendering, which must not outlive it. One thread.
#pragma once

#include <ctime>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "coordinator/text/jinja/scope.h"
#include "coordinator/text/jinja/value.h"

namespace lockstep::jinja {

class Runtime {
 public:
  Runtime(const Limits& limits, const std::tm& now);
  ~Runtime();

  Budget budget;
  const std::tm now;  // What strftime_now shows: nothing else of the outside is reachable.

  Value text(MarkedText content);
  Value text(std::string_view content) { return text(MarkedText::of(content, false)); }

  // The same for a text that may have become too long, which is an error.
  Result checked_text(MarkedText content);

  Value sequence(Sequence::Type type, std::vector<Value> items, std::string shown = {},
                 bool is_group = false);
  Value list(std::vector<Value> items) { return sequence(Sequence::Type::kList, std::move(items)); }
  Value tuple(std::vector<Value> items) {
    return sequence(Sequence::Type::kTuple, std::move(items));
  }
  Value iterator(std::vector<Value> items) {
    return sequence(Sequence::Type::kIterator, std::move(items));
  }
  // A pair of groupby.
  Value group(Value key, std::vector<Value> items);
  Value dict(Dict dict);

  Scope* scope(Scope* parent);
  Namespace* make_namespace(Dict attributes);
  Cycler* cycler(std::vector<Value> items);
  Macro* macro();
  Loop* loop();

  // Of a sequence or dict with this item in it; too deep fails the budget.
  int depth_with(int depth, const Value& item);

 private:
  std::vector<std::unique_ptr<Scope>> scopes_;
  std::vector<std::unique_ptr<Namespace>> namespaces_;
  std::vector<std::unique_ptr<Cycler>> cyclers_;
  std::vector<std::unique_ptr<Macro>> macros_;
  std::vector<std::unique_ptr<Loop>> loops_;
};

}  // namespace lockstep::jinja
