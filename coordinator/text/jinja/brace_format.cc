// SPDX-License-Identifier: Apache-2.0
// "{0.name[key]!r:>8}".format(...)
#include <algorithm>

#include "coordinator/text/jinja/access.h"
#include "coordinator/text/jinja/format.h"
#include "coordinator/text/jinja/format_spec.h"
#include "coordinator/text/jinja/operators.h"
#include "coordinator/text/jinja/show.h"

namespace lockstep::jinja {
namespace {

class BraceFormat {
 public:
  BraceFormat(Runtime& runtime, const Arguments& arguments)
      : runtime_(runtime), arguments_(arguments) {}

  // `nested`: the text is itself the format of a field, and may hold fields, but no deeper ones.
  absl::StatusOr<MarkedText> run(const MarkedText& format, bool nested) {
    const std::string_view text = format.bytes;
    MarkedText made;
    for (size_t at = 0; at < text.size();) {
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
        return invalid_argument("Single '}}' encountered in format string");
      }
      if (nested && depth_ > 1) return invalid_argument("Max string recursion exceeded");
      ASSIGN_OR_RETURN(const size_t end, field_end(text, brace + 1));
      ASSIGN_OR_RETURN(const MarkedText shown, field(format.substr(brace + 1, end)));
      made.append(shown);
      runtime_.budget.spend(1);
      RETURN_IF_ERROR(runtime_.budget.check_text(made.bytes.size()));
      at = end + 1;
    }
    return made;
  }

 private:
  // The "}" that ends the field that begins at `begin`.
  static absl::StatusOr<size_t> field_end(std::string_view text, size_t begin) {
    int open = 1;
    bool in_index = false;
    for (size_t at = begin; at < text.size(); ++at) {
      if (text[at] == '[') in_index = true;
      if (text[at] == ']') in_index = false;
      if (in_index) continue;
      if (text[at] == '{') ++open;
      if (text[at] == '}' && --open == 0) return at;
    }
    return invalid_argument("expected '}}' before end of string");
  }

  absl::StatusOr<MarkedText> field(const MarkedText& whole) {
    const std::string_view text = whole.bytes;
    size_t name_end = 0;
    for (bool in_index = false; name_end < text.size(); ++name_end) {
      if (text[name_end] == '[') in_index = true;
      if (text[name_end] == ']') in_index = false;
      if (!in_index && (text[name_end] == '!' || text[name_end] == ':')) break;
    }
    ASSIGN_OR_RETURN(Value value, lookup(text.substr(0, name_end)));
    size_t spec_begin = name_end;
    if (spec_begin < text.size() && text[spec_begin] == '!') {
      const std::string_view conversion = text.substr(spec_begin + 1, 1);
      if (conversion != "r" && conversion != "s" && conversion != "a") {
        return invalid_argument("Unknown conversion specifier");
      }
      MarkedText shown;
      RETURN_IF_ERROR(conversion == "s" ? append_str(runtime_, value, &shown)
                                        : append_repr(runtime_, value, &shown));
      value = runtime_.text(std::move(shown));
      spec_begin += 2;
    }
    if (spec_begin == text.size()) return str_of(runtime_, value);
    if (text[spec_begin] != ':') return invalid_argument("expected ':' after conversion specifier");
    ++depth_;
    auto spec_text = run(whole.substr(spec_begin + 1, text.size()), true);
    --depth_;
    RETURN_IF_ERROR(spec_text.status());
    if (spec_text->bytes.empty()) return str_of(runtime_, value);
    if (!value.is_number() && value.text() == nullptr) {
      return invalid_argument("unsupported format string passed to {}.__format__",
                              type_name(value));
    }
    ASSIGN_OR_RETURN(const FormatSpec spec, parse_format_spec(spec_text->bytes));
    return apply_format(runtime_, spec, value);
  }

  // "0.name[key]"
  Result lookup(std::string_view name) {
    const size_t first_end = std::min(name.find_first_of(".["), name.size());
    ASSIGN_OR_RETURN(Value value, argument(name.substr(0, first_end)));
    name.remove_prefix(first_end);
    while (!name.empty()) {
      const bool is_index = name[0] == '[';
      name.remove_prefix(1);
      const size_t end =
          std::min(is_index ? name.find(']') : name.find_first_of(".["), name.size());
      if (is_index && end == name.size()) return invalid_argument("Missing ']' in format string");
      std::string_view part = name.substr(0, end);
      if (part.empty()) return invalid_argument("Empty attribute in format string");
      name.remove_prefix(end + (is_index ? 1 : 0));
      if (!is_index) {
        ASSIGN_OR_RETURN(value, attribute(runtime_, value, part));
        continue;
      }
      std::string_view digits = part;
      ASSIGN_OR_RETURN(const auto index, take_digits(&digits));
      const Value key = index.has_value() && digits.empty() ? Value(*index) : runtime_.text(part);
      ASSIGN_OR_RETURN(value, item(runtime_, value, key));
    }
    return value;
  }

  Result argument(std::string_view name) {
    std::string_view digits = name;
    ASSIGN_OR_RETURN(const auto index, take_digits(&digits));
    if (name.empty() || (index.has_value() && digits.empty())) {
      const bool is_automatic = name.empty();
      if (is_automatic ? manual_ : next_ > 0) {
        return invalid_argument("cannot switch between automatic and manual field numbering");
      }
      manual_ |= !is_automatic;
      const auto place = static_cast<size_t>(is_automatic ? next_++ : *index);
      if (place < arguments_.positional.size()) return arguments_.positional[place];
      return invalid_argument("Replacement index {} out of range for positional args tuple", place);
    }
    const auto named = std::ranges::find(arguments_.named, name, [](const auto& argument) {
      return std::string_view(argument.first);
    });
    if (named == arguments_.named.end()) {
      return invalid_argument("the format's key '{}' is not there", name);
    }
    return named->second;
  }

  Runtime& runtime_;
  const Arguments& arguments_;
  int64_t next_ = 0;  // The next field without a name.
  bool manual_ = false;
  int depth_ = 0;
};

}  // namespace

Result brace_format(Runtime& runtime, const Text& format, const Arguments& arguments) {
  ASSIGN_OR_RETURN(MarkedText made, BraceFormat(runtime, arguments).run(format.content, false));
  return runtime.checked_text(std::move(made));
}

}  // namespace lockstep::jinja
