// SPDX-License-Identifier: Apache-2.0
// The functions that every template has: Jinja's and the reference's.
#include "absl/strings/str_replace.h"
#include "coordinator/text/jinja/values/builtin.h"
#include "coordinator/text/jinja/values/operators.h"

namespace lockstep::jinja {
namespace {

constexpr int64_t kMaxRange = 100'000;  // The limit of Jinja's sandbox.

Value range(Call& call) {
  const int64_t first = call.integer_or(0, 0);
  const int64_t start = call.has(1) ? first : 0;
  const int64_t stop = call.integer_or(1, first);
  const int64_t step = call.integer_or(2, 1);
  if (step == 0) return call.budget.refuse("range() arg 3 must not be zero");
  const uint64_t count = range_length(start, stop, step);
  if (count > static_cast<uint64_t>(kMaxRange)) {
    return call.budget.refuse("Range too big. No range may have more than {} items.", kMaxRange);
  }
  if (!call.budget.spend(static_cast<int64_t>(count))) return {};
  std::vector<Value> items;
  for (int64_t i = 0; i < static_cast<int64_t>(count); ++i) items.emplace_back(start + i * step);
  std::string shown = step == 1 ? fmt::format("range({}, {})", start, stop)
                                : fmt::format("range({}, {}, {})", start, stop, step);
  return call.runtime.sequence(Sequence::Type::kRange, std::move(items), std::move(shown));
}

// Makes a dict of a mapping or pairs, and of named arguments.
Dict make_dict(Call& call) {
  const auto& [positional, named] = call.arguments;
  if (positional.size() > 1) {
    return call.budget.refuse("{}: takes at most 1 argument without a name", call.builtin.name);
  }
  Dict dict;
  if (!positional.empty() && positional[0].dict() != nullptr) {
    for (const auto& [key, value] : positional[0].dict()->entries) dict.set(key, value);
  } else if (!positional.empty()) {
    if (positional[0].is_undefined()) return call.budget.fail(positional[0].undefined_error());
    for (const Value& pair : items_of(call.runtime, positional[0])) {
      const std::vector<Value> both = items_of(call.runtime, pair);
      if (both.size() != 2) return call.budget.refuse("{}: must be pairs", call.builtin.name);
      if (!check_hashable(call.budget, both[0])) return {};
      dict.set(both[0], both[1]);
      call.budget.spend(1);
    }
  }
  for (const auto& [name, value] : named) dict.set(call.runtime.text(name), value);
  return dict;
}

Value dict_function(Call& call) { return call.runtime.dict(make_dict(call)); }

Value namespace_function(Call& call) {
  Dict attributes = make_dict(call);
  for (const auto& [key, value] : attributes.entries) {
    if (key.text() != nullptr && key.text()->bytes().starts_with('_')) {
      return call.budget.refuse("a namespace cannot have an attribute that begins with '_'");
    }
  }
  call.budget.take(static_cast<int64_t>(attributes.entries.size() * 5 * sizeof(Value)));
  return call.runtime.keep(Namespace{std::move(attributes)});
}

Cycler* make_cycler(Call& call, std::vector<Value> items) {
  call.budget.take(static_cast<int64_t>(items.size() * sizeof(Value)));
  return call.runtime.keep(Cycler{std::move(items)});
}

// cycler(a, b, ...): each call of next() returns the item `current` and moves to the next one.
Value cycler(Call& call) {
  if (call.arguments.positional.empty() || !call.arguments.named.empty()) {
    return call.budget.refuse("cycler: must have at least one item, and no named arguments");
  }
  return make_cycler(call, call.arguments.positional);
}

Value join_again(Call& call) {
  Cycler& cycler = **call.self.get_if<Cycler*>();
  return cycler.items[std::exchange(cycler.place, 1)];
}

// joiner(separator): a function that returns "" the first time, and then the separator.
Value joiner(Call& call) {
  static constexpr Builtin kJoin = {"joiner", "", join_again};
  Value separator = call.has(0) ? call[0] : call.runtime.text(", ");
  return call.runtime.function(kJoin,
                               make_cycler(call, {call.runtime.text(""), std::move(separator)}));
}

Value raise_exception(Call& call) {
  return call.budget.fail(absl::InvalidArgumentError(call.str(call[0]).bytes));
}

Value strftime_now(Call& call) {
  const Text& format = call.text(0);
  if (format.bytes().find('\0') != std::string::npos) {
    return call.budget.refuse("strftime_now: embedded null character");
  }
  call.budget.scan(format.bytes().size());
  // A blank is added: strftime returns 0 for an empty result and for one that is too long. In
  // Python, %f is the microseconds, and %z and %Z are empty for a time without a zone.
  const std::string padded =
      absl::StrReplaceAll(format.bytes(),
                          {{"%%", "%%"}, {"%f", "000000"}, {"%z", ""}, {"%Z", ""}}) +
      " ";
  char shown[4096];
  const size_t size = std::strftime(shown, sizeof(shown), padded.c_str(), &call.runtime.now);
  if (size == 0) return call.budget.refuse("strftime_now: the text would be too long");
  const bool from_request = !format.content.from_request.empty();
  return call.runtime.text(MarkedText::of(std::string_view(shown, size - 1), from_request));
}

constexpr Builtin kFunctions[] = {
    {"cycler", "*", cycler},
    {"dict", "*", dict_function},
    {"joiner", "sep?", joiner},
    {"namespace", "*", namespace_function},
    {"raise_exception", "message", raise_exception},
    {"range", "start stop? step?", range},
    {"strftime_now", "format", strftime_now},
};

}  // namespace

const Builtin* find_function(std::string_view name) { return find_builtin(kFunctions, name); }

}  // namespace lockstep::jinja
