// SPDX-License-Identifier: Apache-2.0
// The functions that every template has, of Jinja and of the reference.
#include <algorithm>

#include "coordinator/text/jinja/access.h"
#include "coordinator/text/jinja/builtin.h"
#include "coordinator/text/jinja/operators.h"
#include "coordinator/text/jinja/show.h"

namespace lockstep::jinja {
namespace {

constexpr int64_t kMaxRange = 100'000;  // As in the reference's sandbox.

Result range(Call& call) {
  int64_t bounds[3] = {0, 0, 1};
  ASSIGN_OR_RETURN(bounds[call.has(1) ? 0 : 1], call.integer_or(0, 0));
  ASSIGN_OR_RETURN(bounds[1], call.integer_or(1, bounds[1]));
  ASSIGN_OR_RETURN(bounds[2], call.integer_or(2, 1));
  const auto [start, stop, step] = bounds;
  if (step == 0) return invalid_argument("range() arg 3 must not be zero");
  // As unsigned numbers, which wrap around: the distance may have 64 bits.
  const bool empty = step > 0 ? start >= stop : start <= stop;
  const auto distance = step > 0 ? static_cast<uint64_t>(stop) - static_cast<uint64_t>(start)
                                 : static_cast<uint64_t>(start) - static_cast<uint64_t>(stop);
  const auto stride = step > 0 ? static_cast<uint64_t>(step) : -static_cast<uint64_t>(step);
  const uint64_t count = empty ? 0 : (distance - 1) / stride + 1;
  if (count > static_cast<uint64_t>(kMaxRange)) {
    return invalid_argument("Range too big. No range may have more than {} items.", kMaxRange);
  }
  call.budget().spend(static_cast<int64_t>(count));
  RETURN_IF_ERROR(call.budget().status());
  std::vector<Value> items;
  int64_t value = start;
  for (uint64_t i = 0; i < count; ++i) {
    items.emplace_back(value);
    if (i + 1 < count) value += step;
  }
  std::string shown = step == 1 ? fmt::format("range({}, {})", start, stop)
                                : fmt::format("range({}, {}, {})", start, stop, step);
  return call.runtime.sequence(Sequence::Type::kRange, std::move(items), std::move(shown));
}

// A mapping or pairs, and named arguments.
absl::StatusOr<Dict> make_dict(Call& call) {
  const Arguments& arguments = call.arguments;
  if (arguments.positional.size() > 1) {
    return invalid_argument("{}: takes at most 1 argument without a name", call.builtin.name);
  }
  Dict dict;
  if (!arguments.positional.empty() && arguments.positional[0].dict() != nullptr) {
    for (const auto& [key, value] : arguments.positional[0].dict()->entries) dict.set(key, value);
  } else if (!arguments.positional.empty()) {
    if (arguments.positional[0].is_undefined()) return undefined_error(arguments.positional[0]);
    ASSIGN_OR_RETURN(const std::vector<Value> pairs,
                     items_of(call.runtime, arguments.positional[0]));
    for (const Value& pair : pairs) {
      ASSIGN_OR_RETURN(const std::vector<Value> both, items_of(call.runtime, pair));
      if (both.size() != 2) return invalid_argument("{}: wanted pairs", call.builtin.name);
      if (!is_hashable(&call.budget(), both[0])) {
        return invalid_argument("unhashable type: '{}'", type_name(both[0]));
      }
      dict.set(both[0], both[1]);
      call.budget().spend(1);
      RETURN_IF_ERROR(call.budget().status());
    }
  }
  for (const auto& [name, value] : arguments.named) dict.set(call.runtime.text(name), value);
  return dict;
}

Result dict_function(Call& call) {
  ASSIGN_OR_RETURN(Dict dict, make_dict(call));
  return call.runtime.dict(std::move(dict));
}

Result namespace_function(Call& call) {
  ASSIGN_OR_RETURN(Dict attributes, make_dict(call));
  for (const auto& [key, value] : attributes.entries) {
    if (key.text() != nullptr && key.text()->bytes().starts_with('_')) {
      return invalid_argument("a namespace cannot have an attribute that begins with '_'");
    }
  }
  call.budget().take(static_cast<int64_t>(attributes.entries.size() * 5 * sizeof(Value)));
  return call.runtime.make_namespace(std::move(attributes));
}

// cycler(a, b, ...): each call of next() gives the item that `current` is, and goes on.
Result cycler(Call& call) {
  if (call.arguments.positional.empty() || !call.arguments.named.empty()) {
    return invalid_argument("cycler: wanted items, at least one, and no names");
  }
  return call.runtime.cycler(call.arguments.positional);
}

Result join_again(Call& call) {
  Cycler& cycler = **call.self.get_if<Cycler*>();
  return cycler.items[std::exchange(cycler.place, 1)];
}

// joiner(separator): a function that gives "" the first time and the separator from then on.
Result joiner(Call& call) {
  static constexpr Builtin kJoin = {"joiner", "", join_again};
  Value separator = call.has(0) ? call[0] : call.runtime.text(", ");
  Cycler* cycler = call.runtime.cycler({call.runtime.text(""), std::move(separator)});
  return FunctionRef(std::make_shared<Function>(Function{&kJoin, cycler}));
}

Result raise_exception(Call& call) {
  ASSIGN_OR_RETURN(const MarkedText message, call.str(call[0]));
  return absl::InvalidArgumentError(message.bytes);
}

// Python's strftime of a local time without a zone: %f, %z and %Z are its own affair.
std::string python_format(std::string_view format) {
  std::string made;
  for (size_t i = 0; i < format.size(); ++i) {
    const char next = format[i] == '%' && i + 1 < format.size() ? format[i + 1] : '\0';
    if (next == 'f') made += "000000";
    if (next != 'f' && next != 'z' && next != 'Z') {
      made += format[i];
      if (next == '%') made += next;
    }
    if (next == 'f' || next == 'z' || next == 'Z' || next == '%') ++i;
  }
  return made;
}

Result strftime_now(Call& call) {
  ASSIGN_OR_RETURN(const Text* format, call.text(0));
  if (format->bytes().find('\0') != std::string::npos) {
    return invalid_argument("strftime_now: embedded null character");
  }
  call.budget().scan(format->bytes().size());
  // A blank more: else nothing printed could not be told from too much.
  const std::string padded = python_format(format->bytes()) + " ";
  char shown[4096];
  const size_t size = std::strftime(shown, sizeof(shown), padded.c_str(), &call.runtime.now);
  if (size == 0) return invalid_argument("strftime_now: the text would be too long");
  const bool from_request = !format->content.from_request.empty();
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
