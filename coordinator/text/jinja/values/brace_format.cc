// SPDX-License-Identifier: Apache-2.0
// "{0.name[key]!r:>8}".format(...)
#include <algorithm>

#include "coordinator/text/jinja/values/format.h"
#include "coordinator/text/jinja/values/operators.h"

namespace lockstep::jinja {
namespace {

class BraceFormat {
 public:
  BraceFormat(Runtime& runtime, const Arguments& arguments)
      : runtime_(runtime), budget_(runtime.budget), arguments_(arguments) {}

  // `nested`: the text is the format of a field. It may contain fields, but their formats may not.
  MarkedText run(const MarkedText& format, bool nested) {
    const std::string_view text = format.bytes;
    MarkedText made;
    for (size_t at = 0; at < text.size() && budget_.ok();) {
      const size_t brace = std::min(text.find_first_of("{}", at), text.size());
      made.append(format, at, brace);
      if (brace == text.size()) break;
      const bool doubled = brace + 1 < text.size() && text[brace + 1] == text[brace];
      if (doubled && !nested) {
        made.append(format, brace, brace + 1);
        at = brace + 2;
        continue;
      }
      if (text[brace] == '}') {
        return budget_.refuse("Single '}}' encountered in format string");
      }
      if (nested && depth_ > 1) return budget_.refuse("Max string recursion exceeded");
      const size_t end = field_end(text, brace + 1);
      if (budget_.ok()) made.append(field(format.substr(brace + 1, end)));
      budget_.spend(1);
      budget_.check_text(made.bytes.size());
      at = end + 1;
    }
    return made;
  }

 private:
  // The first byte from `begin` on, outside of [indices], for which `ends` is true; else the size.
  template <typename F>
  static size_t find(std::string_view text, size_t begin, F&& ends) {
    bool in_index = false;
    for (size_t at = begin; at < text.size(); ++at) {
      if (text[at] == '[') in_index = true;
      if (text[at] == ']') in_index = false;
      if (!in_index && ends(text[at])) return at;
    }
    return text.size();
  }

  // The "}" that ends the field that begins at `begin`.
  size_t field_end(std::string_view text, size_t begin) {
    int open = 1;
    const size_t end = find(text, begin, [&open](char c) {
      open += c == '{' ? 1 : c == '}' ? -1 : 0;
      return open == 0;
    });
    if (end == text.size()) budget_.refuse("expected '}}' before end of string");
    return end;
  }

  MarkedText field(const MarkedText& whole) {
    const std::string_view text = whole.bytes;
    size_t at = find(text, 0, [](char c) { return c == '!' || c == ':'; });
    Value value = lookup(text.substr(0, at));
    if (at < text.size() && text[at] == '!') {
      const std::string_view conversion = text.substr(at + 1, 1);
      if (conversion != "r" && conversion != "s" && conversion != "a") {
        return budget_.refuse("Unknown conversion specifier");
      }
      value = runtime_.text(conversion == "s" ? str_of(runtime_, value) : repr_of(runtime_, value));
      at += 2;
    }
    if (at == text.size()) return str_of(runtime_, value);
    if (text[at] != ':') return budget_.refuse("expected ':' after conversion specifier");
    ++depth_;
    const MarkedText spec = run(whole.substr(at + 1, text.size()), true);
    --depth_;
    if (spec.bytes.empty()) return str_of(runtime_, value);
    if (!value.is_number() && value.text() == nullptr) {
      return budget_.refuse("unsupported format string passed to {}.__format__", value.type_name());
    }
    return apply_format(runtime_, parse_format_spec(budget_, spec.bytes), value);
  }

  // "0.name[key]"
  Value lookup(std::string_view name) {
    const size_t first_end = std::min(name.find_first_of(".["), name.size());
    Value value = argument(name.substr(0, first_end));
    name.remove_prefix(first_end);
    while (!name.empty() && budget_.ok()) {
      const bool is_index = name[0] == '[';
      name.remove_prefix(1);
      const size_t end =
          std::min(is_index ? name.find(']') : name.find_first_of(".["), name.size());
      if (is_index && end == name.size()) return budget_.refuse("Missing ']' in format string");
      const std::string_view part = name.substr(0, end);
      if (part.empty()) return budget_.refuse("Empty attribute in format string");
      name.remove_prefix(end + (is_index ? 1 : 0));
      if (is_index) {
        const auto index = index_of(part);
        value = item(runtime_, value, index.has_value() ? Value(*index) : runtime_.text(part));
      } else {
        value = attribute(runtime_, value, part);
      }
    }
    return value;
  }

  // The name as a number, if it is one.
  std::optional<int64_t> index_of(std::string_view name) {
    const auto index = take_digits(budget_, &name);
    return name.empty() ? index : std::nullopt;
  }

  Value argument(std::string_view name) {
    const auto index = index_of(name);
    if (name.empty() || index.has_value()) {
      const bool is_automatic = name.empty();
      if (is_automatic ? manual_ : next_ > 0) {
        return budget_.refuse("cannot switch between automatic and manual field numbering");
      }
      manual_ |= !is_automatic;
      const auto place = static_cast<size_t>(is_automatic ? next_++ : *index);
      if (place < arguments_.positional.size()) return arguments_.positional[place];
      return budget_.refuse("Replacement index {} out of range for positional args tuple", place);
    }
    for (const auto& [key, value] : arguments_.named) {
      if (key == name) return value;
    }
    return budget_.refuse("the format's key '{}' is missing", name);
  }

  Runtime& runtime_;
  Budget& budget_;
  const Arguments& arguments_;
  int64_t next_ = 0;  // The number of the next field without a name.
  bool manual_ = false;
  int depth_ = 0;
};

}  // namespace

Value brace_format(Runtime& runtime, const Text& format, const Arguments& arguments) {
  return runtime.checked_text(BraceFormat(runtime, arguments).run(format.content, false));
}

}  // namespace lockstep::jinja
