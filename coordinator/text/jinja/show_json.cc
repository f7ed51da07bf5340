// SPDX-License-Identifier: Apache-2.0
// json.dumps of Python, as the reference's own filter tojson calls it.
#include <algorithm>
#include <cmath>

#include "coordinator/text/jinja/operators.h"
#include "coordinator/text/jinja/show.h"
#include "coordinator/text/unicode.h"

namespace lockstep::jinja {
namespace {

class JsonWriter {
 public:
  JsonWriter(Runtime& runtime, const JsonStyle& style, MarkedText* text)
      : runtime_(runtime), style_(style), text_(text) {}

  absl::Status add(const Value& value) {
    runtime_.budget.spend(1);
    RETURN_IF_ERROR(runtime_.budget.check_text(text_->bytes.size()));
    if (const Text* text = value.text()) {
      quote(*text);
      return runtime_.budget.status();
    }
    if (const Dict* dict = value.dict()) return add_dict(*dict);
    const Sequence* sequence = value.sequence();
    if (sequence != nullptr && sequence->type <= Sequence::Type::kTuple) {
      return add_list(sequence->items);
    }
    if (const auto simple = scalar(value); simple.has_value()) {
      plain(*simple);
      return absl::OkStatus();
    }
    return invalid_argument("Object of type {} is not JSON serializable", type_name(value));
  }

 private:
  void plain(std::string_view text) { text_->append(text, false); }

  static std::optional<std::string> scalar(const Value& value) {
    if (value.is_none()) return "null";
    if (value.is<bool>()) return value.integer() != 0 ? "true" : "false";
    if (value.is<int64_t>()) return std::to_string(value.integer());
    if (const auto* wide = value.get_if<Unsigned>())
      return std::to_string(static_cast<uint64_t>(*wide));
    if (!value.is<double>()) return std::nullopt;
    if (std::isnan(value.number())) return "NaN";
    if (std::isinf(value.number())) return value.number() > 0 ? "Infinity" : "-Infinity";
    return show_float(value.number());
  }

  void new_line() {
    if (!style_.lines) return;
    plain("\n");
    for (int i = 0; i < level_; ++i) plain(style_.indent);
  }

  absl::Status add_list(const std::vector<Value>& items) {
    plain("[");
    ++level_;
    for (size_t i = 0; i < items.size(); ++i) {
      if (i > 0) plain(style_.item_separator);
      new_line();
      RETURN_IF_ERROR(add(items[i]));
    }
    --level_;
    if (!items.empty()) new_line();
    plain("]");
    return absl::OkStatus();
  }

  absl::Status add_dict(const Dict& dict) {
    plain("{");
    ++level_;
    std::vector<const std::pair<Value, Value>*> entries;
    for (const auto& entry : dict.entries) entries.push_back(&entry);
    if (style_.sort_keys) RETURN_IF_ERROR(sort(&entries));
    bool first = true;
    for (const auto* entry : entries) {
      if (!std::exchange(first, false)) plain(style_.item_separator);
      new_line();
      RETURN_IF_ERROR(add_key(entry->first));
      plain(style_.key_separator);
      RETURN_IF_ERROR(add(entry->second));
    }
    --level_;
    if (!entries.empty()) new_line();
    plain("}");
    return absl::OkStatus();
  }

  absl::Status add_key(const Value& key) {
    if (const Text* text = key.text()) {
      quote(*text);
      return runtime_.budget.status();
    }
    const auto simple = scalar(key);
    if (!simple.has_value()) {
      return invalid_argument("keys must be str, int, float, bool or None, not {}", type_name(key));
    }
    plain(fmt::format("\"{}\"", *simple));
    return absl::OkStatus();
  }

  absl::Status sort(std::vector<const std::pair<Value, Value>*>* entries) {
    absl::Status status;
    std::stable_sort(entries->begin(), entries->end(), [&](const auto* a, const auto* b) {
      if (!status.ok()) return false;
      const auto is_less = less(&runtime_.budget, a->first, b->first);
      if (!is_less.ok()) status = is_less.status();
      return is_less.ok() && *is_less;
    });
    return status;
  }

  void quote(const Text& text) {
    const std::string& bytes = text.bytes();
    runtime_.budget.scan(bytes.size());
    plain("\"");
    MarkCursor marks(text.content);
    for (size_t at = 0; at < bytes.size();) {
      const CodePoint point = code_point_at(bytes, at);
      const std::string_view whole = std::string_view(bytes).substr(at, point.bytes);
      text_->append(escape(point.value, whole), marks.at(at));
      at += point.bytes;
    }
    plain("\"");
  }

  std::string escape(char32_t c, std::string_view whole) const {
    constexpr std::string_view kNamed = "\"\\\n\r\t\b\f";
    constexpr std::string_view kNames = "\"\\nrtbf";
    const auto value = static_cast<uint32_t>(c);
    if (c < 0x80) {
      const size_t named = kNamed.find(static_cast<char>(c));
      if (named != std::string_view::npos) return {'\\', kNames[named]};
      return c < ' ' ? fmt::format("\\u{:04x}", value) : std::string(whole);
    }
    if (!style_.ascii_only) return std::string(whole);
    if (value < 0x10000) return fmt::format("\\u{:04x}", value);
    const uint32_t rest = value - 0x10000;
    return fmt::format("\\u{:04x}\\u{:04x}", 0xD800 + (rest >> 10), 0xDC00 + (rest & 0x3FF));
  }

  Runtime& runtime_;
  const JsonStyle& style_;
  MarkedText* text_;
  int level_ = 0;
};

}  // namespace

absl::Status append_json(Runtime& runtime, const Value& value, const JsonStyle& style,
                         MarkedText* text) {
  RETURN_IF_ERROR(JsonWriter(runtime, style, text).add(value));
  return runtime.budget.check_text(text->bytes.size());
}

}  // namespace lockstep::jinja
