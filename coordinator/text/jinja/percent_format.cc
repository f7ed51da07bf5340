// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "coordinator/text/jinja/access.h"
#include "coordinator/text/jinja/characters.h"
#include "coordinator/text/jinja/format.h"
#include "coordinator/text/jinja/format_spec.h"
#include "coordinator/text/jinja/operators.h"
#include "coordinator/text/jinja/show.h"
#include "coordinator/text/unicode.h"

namespace lockstep::jinja {
namespace {

// "%(name)-8.3d": one after the other.
class PercentFormat {
 public:
  PercentFormat(Runtime& runtime, const Text& format, const Value& values)
      : runtime_(runtime), format_(format), values_(values), rest_(format.bytes()) {
    const Sequence* sequence = values.sequence();
    if (sequence != nullptr && sequence->type == Sequence::Type::kTuple) {
      given_ = sequence->items;
    } else {
      given_ = {values};
    }
  }

  Result run() {
    while (!rest_.empty()) {
      const size_t next = std::min(rest_.find('%'), rest_.size());
      const size_t at = format_.bytes().size() - rest_.size();
      made_.append(format_.content, at, at + next);
      rest_.remove_prefix(next);
      if (!rest_.empty()) RETURN_IF_ERROR(field());
      runtime_.budget.spend(1);
      RETURN_IF_ERROR(runtime_.budget.check_text(made_.bytes.size()));
    }
    if (used_ < given_.size() && values_.dict() == nullptr) {
      const bool single = values_.sequence() != nullptr || values_.is_undefined();
      if (!(single && !is_tuple())) {
        return invalid_argument("not all arguments converted during string formatting");
      }
    }
    return runtime_.text(std::move(made_));
  }

 private:
  bool is_tuple() const {
    return values_.sequence() != nullptr && values_.sequence()->type == Sequence::Type::kTuple;
  }
  char peek() const { return rest_.empty() ? '\0' : rest_[0]; }
  char take() {
    const char c = peek();
    if (!rest_.empty()) rest_.remove_prefix(1);
    return c;
  }

  Result next_value() {
    if (used_ == given_.size()) {
      return invalid_argument("not enough arguments for format string");
    }
    return given_[used_++];
  }

  // "(name)"
  absl::Status take_key(std::optional<Value>* value) {
    if (peek() != '(') return absl::OkStatus();
    const size_t end = rest_.find(')');
    if (end == std::string_view::npos) return invalid_argument("incomplete format key");
    if (values_.dict() == nullptr) return invalid_argument("format requires a mapping");
    const Value* found = values_.dict()->find(rest_.substr(1, end - 1));
    if (found == nullptr) {
      return invalid_argument("the format's key '{}' is not there", rest_.substr(1, end - 1));
    }
    *value = *found;
    rest_.remove_prefix(end + 1);
    return absl::OkStatus();
  }

  absl::StatusOr<std::optional<int64_t>> take_size() {
    if (peek() != '*') return take_digits(&rest_);
    take();
    ASSIGN_OR_RETURN(const Value size, next_value());
    if (!size.is_integer()) return invalid_argument("* wants int");
    return std::optional<int64_t>(size.integer());
  }

  absl::Status field() {
    take();
    std::optional<Value> value;
    RETURN_IF_ERROR(take_key(&value));
    FormatSpec spec{.align = '>'};
    bool zero = false;
    for (; std::string_view("#0- +").find(peek()) != std::string_view::npos && !rest_.empty();
         take()) {
      if (peek() == '-') spec.align = '<';
      if (peek() == '0') zero = true;
      if (peek() == '#') spec.alternate = true;
      if (peek() == '+' || (peek() == ' ' && spec.sign != '+')) spec.sign = peek();
    }
    ASSIGN_OR_RETURN(const auto width, take_size());
    spec.width = std::abs(width.value_or(0));
    if (width.value_or(0) < 0) spec.align = '<';
    if (peek() == '.') {
      take();
      ASSIGN_OR_RETURN(const auto precision, take_size());
      spec.precision = std::max<int64_t>(precision.value_or(0), 0);
    }
    if (peek() == 'h' || peek() == 'l' || peek() == 'L') take();
    spec.type = take();
    if (spec.type == '%') {
      made_.append("%", false);
      return absl::OkStatus();
    }
    if (spec.type == '\0') return invalid_argument("incomplete format");
    if (!value.has_value()) {
      ASSIGN_OR_RETURN(value, next_value());
    }
    if (zero && spec.align != '<') {
      spec.align = '=';
      spec.fill.assign(1, '0');
    }
    return convert(std::move(spec), *value);
  }

  absl::Status convert(FormatSpec spec, const Value& value) {
    if (spec.type == 's' || spec.type == 'r' || spec.type == 'a') {
      MarkedText text;
      RETURN_IF_ERROR(spec.type == 's' ? append_str(runtime_, value, &text)
                                       : append_repr(runtime_, value, &text));
      if (spec.align == '=') spec.align = '>';
      return append(
          FormatSpec{.align = spec.align, .width = spec.width, .precision = spec.precision},
          runtime_.text(std::move(text)));
    }
    if (spec.type == 'c') return character(spec, value);
    if (!value.is_number()) {
      return invalid_argument("%{} format: a real number is required, not {}", spec.type,
                              type_name(value));
    }
    if (spec.type == 'd' || spec.type == 'i' || spec.type == 'u') {
      spec.type = 'd';
      return whole(spec, value);
    }
    if (std::string_view("oxX").find(spec.type) != std::string_view::npos) {
      if (!value.is_integer()) {
        return invalid_argument("%{} format: an integer is required, not float", spec.type);
      }
      return whole(spec, value);
    }
    if (std::string_view("eEfFgG").find(spec.type) == std::string_view::npos) {
      return invalid_argument("unsupported format character '{}'", one_line({&spec.type, 1}));
    }
    return append(spec, value.number());
  }

  // A precision is the least number of digits.
  absl::Status whole(FormatSpec spec, const Value& value) {
    if (value.is<double>() && !(std::fabs(value.number()) < 0x1p63)) {
      return invalid_argument("an integer of more than 64 bits");
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
    ASSIGN_OR_RETURN(MarkedText text, apply_format(runtime_, digits, integer));
    return append(FormatSpec{.align = spec.align == '=' ? '>' : spec.align, .width = spec.width},
                  runtime_.text(std::move(text)));
  }

  absl::Status character(const FormatSpec& spec, const Value& value) {
    Value shown = value;
    if (value.is_integer()) {
      const int64_t c = value.integer();
      if (c < 0 || c > 0x10FFFF || (c >= 0xD800 && c <= 0xDFFF)) {
        return invalid_argument("%c arg not in range(0x110000)");
      }
      std::string text;
      append_utf8(static_cast<char32_t>(c), &text);
      shown = runtime_.text(text);
    } else if (value.text() == nullptr || value.text()->length != 1) {
      return invalid_argument("%c requires int or char");
    }
    return append(FormatSpec{.align = spec.align == '<' ? '<' : '>', .width = spec.width}, shown);
  }

  absl::Status append(const FormatSpec& spec, const Value& value) {
    ASSIGN_OR_RETURN(const MarkedText text, apply_format(runtime_, spec, value));
    made_.append(text);
    return absl::OkStatus();
  }

  Runtime& runtime_;
  const Text& format_;
  const Value& values_;
  std::string_view rest_;
  std::vector<Value> given_;
  size_t used_ = 0;
  MarkedText made_;
};

}  // namespace

Result percent_format(Runtime& runtime, const Text& format, const Value& values) {
  return PercentFormat(runtime, format, values).run();
}

}  // namespace lockstep::jinja
