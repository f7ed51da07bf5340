// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "coordinator/text/jinja/values/format.h"
#include "coordinator/text/unicode/unicode.h"

namespace lockstep::jinja {
namespace {

// "%(name)-8.3d": reads the parts of a field one after the other.
class PercentFormat {
 public:
  PercentFormat(Runtime& runtime, const Text& format, const Value& values)
      : runtime_(runtime),
        budget_(runtime.budget),
        format_(format),
        values_(values),
        rest_(format.bytes()) {
    const Sequence* sequence = values.sequence();
    const bool is_tuple = sequence != nullptr && sequence->type == Sequence::Type::kTuple;
    given_ = is_tuple ? sequence->items : std::vector<Value>{values};
    // Python's rule: a single value with items may stay unused.
    may_rest_ =
        values.dict() != nullptr || (!is_tuple && (sequence != nullptr || values.is_undefined()));
  }

  Value run() {
    while (!rest_.empty() && budget_.ok()) {
      const size_t next = std::min(rest_.find('%'), rest_.size());
      const size_t at = format_.bytes().size() - rest_.size();
      made_.append(format_.content, at, at + next);
      rest_.remove_prefix(next);
      if (!rest_.empty()) field();
      budget_.spend(1);
      budget_.check_text(made_.bytes.size());
    }
    if (used_ < given_.size() && !may_rest_) {
      return budget_.refuse("not all arguments converted during string formatting");
    }
    return runtime_.text(std::move(made_));
  }

 private:
  char peek() const { return rest_.empty() ? '\0' : rest_[0]; }
  bool peek(std::string_view choices) const {
    return !rest_.empty() && choices.find(rest_[0]) != std::string_view::npos;
  }
  char take() {
    const char c = peek();
    if (!rest_.empty()) rest_.remove_prefix(1);
    return c;
  }

  Value next_value() {
    if (used_ < given_.size()) return given_[used_++];
    return budget_.refuse("not enough arguments for format string");
  }

  // The value of "(name)"; nullopt if there is no name.
  std::optional<Value> keyed_value() {
    if (peek() != '(') return std::nullopt;
    const size_t end = rest_.find(')');
    if (end == std::string_view::npos) return Value(budget_.refuse("incomplete format key"));
    if (values_.dict() == nullptr) return Value(budget_.refuse("format requires a mapping"));
    const std::string_view key = rest_.substr(1, end - 1);
    rest_.remove_prefix(end + 1);
    if (const Value* found = values_.dict()->find(key)) return *found;
    return Value(budget_.refuse("the format's key '{}' is missing", key));
  }

  std::optional<int64_t> take_size() {
    if (peek() != '*') return take_digits(budget_, &rest_);
    take();
    const Value size = next_value();
    if (size.is_integer()) return size.integer();
    budget_.refuse("* wants int");
    return std::nullopt;
  }

  void field() {
    take();
    std::optional<Value> value = keyed_value();
    FormatSpec spec{.align = '>'};
    bool zero = false;
    while (peek("#0- +")) {
      const char flag = take();
      if (flag == '-') spec.align = '<';
      if (flag == '0') zero = true;
      if (flag == '#') spec.alternate = true;
      if (flag == '+' || (flag == ' ' && spec.sign != '+')) spec.sign = flag;
    }
    const int64_t width = take_size().value_or(0);
    spec.width = std::abs(width);
    if (width < 0) spec.align = '<';
    if (peek() == '.') {
      take();
      spec.precision = std::max<int64_t>(take_size().value_or(0), 0);
    }
    if (peek("hlL")) take();
    spec.type = take();
    if (spec.type == '%') return made_.append("%", false);
    if (spec.type == '\0') {
      budget_.refuse("incomplete format");
      return;
    }
    if (!value.has_value()) value = next_value();
    if (zero && spec.align != '<') {
      spec.align = '=';
      spec.fill.assign(1, '0');
    }
    if (budget_.ok()) convert(std::move(spec), *value);
  }

  void convert(FormatSpec spec, const Value& value) {
    const auto is = [&spec](std::string_view types) {
      return types.find(spec.type) != std::string_view::npos;
    };
    const char text_align = spec.align == '<' ? '<' : '>';
    if (is("sra")) {
      append({.align = text_align, .width = spec.width, .precision = spec.precision},
             runtime_.text(is("s") ? str_of(runtime_, value) : repr_of(runtime_, value)));
    } else if (is("c")) {
      append({.align = text_align, .width = spec.width}, character(value));
    } else if (!value.is_number()) {
      budget_.refuse("%{} format: a real number is required, not {}", spec.type, value.type_name());
    } else if (is("oxX") && !value.is_integer()) {
      budget_.refuse("%{} format: an integer is required, not float", spec.type);
    } else if (is("diuoxX")) {
      if (is("iu")) spec.type = 'd';
      whole(spec, value);
    } else if (is("eEfFgG")) {
      append(spec, value.number());
    } else {
      budget_.refuse("unsupported format character '{}'", one_line({&spec.type, 1}));
    }
  }

  // A precision is the min number of digits.
  void whole(FormatSpec spec, const Value& value) {
    if (value.is<double>() && !(std::fabs(value.number()) < 0x1p63)) {
      budget_.refuse("an integer of more than 64 bits");
      return;
    }
    const int64_t integer =
        value.is<double>() ? static_cast<int64_t>(value.number()) : value.integer();
    if (!spec.precision.has_value()) return append(spec, integer);
    FormatSpec digits{.fill = "0",
                      .align = '=',
                      .sign = spec.sign,
                      .alternate = spec.alternate,
                      .width = *spec.precision + (integer < 0 || spec.sign != '-' ? 1 : 0),
                      .type = spec.type};
    append({.align = spec.align == '=' ? '>' : spec.align, .width = spec.width},
           runtime_.text(apply_format(runtime_, digits, integer)));
  }

  Value character(const Value& value) {
    if (value.text() != nullptr && value.text()->length == 1) return value;
    if (!value.is_integer()) return budget_.refuse("%c requires int or char");
    const int64_t c = value.integer();
    if (c < 0 || c > 0x10FFFF || (c >= 0xD800 && c <= 0xDFFF)) {
      return budget_.refuse("%c arg not in range(0x110000)");
    }
    std::string text;
    append_utf8(static_cast<char32_t>(c), &text);
    return runtime_.text(text);
  }

  void append(const FormatSpec& spec, const Value& value) {
    if (budget_.ok()) made_.append(apply_format(runtime_, spec, value));
  }

  Runtime& runtime_;
  Budget& budget_;
  const Text& format_;
  const Value& values_;
  std::string_view rest_;
  std::vector<Value> given_;
  size_t used_ = 0;
  bool may_rest_;  // Whether values may stay unused.
  MarkedText made_;
};

}  // namespace

Value percent_format(Runtime& runtime, const Text& format, const Value& values) {
  return PercentFormat(runtime, format, values).run();
}

}  // namespace lockstep::jinja
