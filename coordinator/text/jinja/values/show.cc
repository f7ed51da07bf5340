// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "coordinator/text/jinja/strings/characters.h"
#include "coordinator/text/jinja/strings/transforms.h"
#include "coordinator/text/jinja/values/format.h"
#include "coordinator/text/jinja/values/operators.h"

namespace lockstep::jinja {
namespace {

// Writes like repr(), or like JSON if there is a style.
class Writer {
 public:
  Writer(Runtime& runtime, const JsonStyle* json, MarkedText* text)
      : budget_(runtime.budget), json_(json), text_(text) {}

  void add(const Value& value) {
    budget_.spend(1);
    if (!budget_.check_text(text_->bytes.size())) return;
    // Only a namespace can be deeper: it may even contain itself.
    if (level_ > 2 * budget_.limits().depth) {
      budget_.exhausted("a namespace is too deep to be shown");
    } else if (const Text* text = value.text()) {
      quote(*text);
    } else if (const Dict* dict = value.dict()) {
      add_dict(*dict);
    } else if (const Sequence* sequence = value.sequence(); may_be_list(sequence)) {
      add_sequence(*sequence);
    } else if (const auto* space = value.get_if<Namespace*>();
               space != nullptr && json_ == nullptr) {
      plain("<Namespace ");
      add_dict((*space)->attributes);
      plain(">");
    } else {
      const std::string simple = json_ != nullptr ? simple_json(value) : simple_repr(value);
      if (simple.empty()) {
        budget_.refuse("Object of type {} is not JSON serializable", value.type_name());
      }
      plain(simple);
    }
  }

 private:
  void plain(std::string_view text) { text_->append(text, false); }

  bool may_be_list(const Sequence* sequence) const {
    return sequence != nullptr && (json_ == nullptr || sequence->is_list_or_tuple());
  }

  void new_line() {
    if (json_ == nullptr || !json_->lines) return;
    plain("\n");
    for (int i = 0; i < level_; ++i) plain(json_->indent);
  }

  // Calls add_item(0), add_item(1), ... between the brackets.
  template <typename F>
  void add_all(std::string_view open, size_t count, std::string_view close, F&& add_item) {
    plain(open);
    ++level_;
    for (size_t i = 0; i < count && budget_.ok(); ++i) {
      if (i > 0) plain(json_ != nullptr ? json_->item_separator : ", ");
      new_line();
      add_item(i);
    }
    --level_;
    if (count > 0) new_line();
    plain(close);
  }
  void add_items(std::string_view open, const Sequence& sequence, std::string_view close) {
    add_all(open, sequence.items.size(), close, [&](size_t i) { add(sequence.items[i]); });
  }

  void add_sequence(const Sequence& sequence) {
    switch (sequence.type) {
      case Sequence::Type::kRange:
        return plain(sequence.shown);
      case Sequence::Type::kIterator:
        return plain("<generator object>");
      case Sequence::Type::kTuple:
        if (json_ != nullptr) return add_items("[", sequence, "]");
        return add_items("(", sequence, sequence.items.size() == 1 ? ",)" : ")");
      case Sequence::Type::kList:
        return add_items("[", sequence, "]");
      default:
        return add_items(fmt::format("{}([", sequence.type_name()), sequence, "])");
    }
  }

  void add_dict(const Dict& dict) {
    std::vector<const std::pair<Value, Value>*> entries;
    for (const auto& entry : dict.entries) entries.push_back(&entry);
    if (json_ != nullptr && json_->sort_keys) {
      std::stable_sort(entries.begin(), entries.end(), [&](const auto* a, const auto* b) {
        return budget_.ok() && less(budget_, a->first, b->first);
      });
    }
    add_all("{", entries.size(), "}", [&](size_t i) {
      add_key(entries[i]->first);
      plain(json_ != nullptr ? json_->key_separator : ": ");
      add(entries[i]->second);
    });
  }

  void add_key(const Value& key) {
    if (json_ == nullptr) return add(key);
    if (const Text* text = key.text()) return quote(*text);
    const std::string simple = simple_json(key);
    if (simple.empty()) {
      budget_.refuse("keys must be str, int, float, bool or None, not {}", key.type_name());
    }
    plain(fmt::format("\"{}\"", simple));
  }

  static std::string integer(const Value& value) {
    const auto* wide = value.get_if<Unsigned>();
    return wide == nullptr ? std::to_string(value.integer())
                           : std::to_string(static_cast<uint64_t>(*wide));
  }

  static std::string simple_repr(const Value& value) {
    if (value.is_undefined()) return "Undefined";
    if (value.is_none()) return "None";
    if (value.is<bool>()) return value.integer() != 0 ? "True" : "False";
    if (value.is_integer() || value.is<Unsigned>()) return integer(value);
    if (value.is<double>()) return show_float(value.number());
    if (const auto* macro = value.get_if<const Macro*>()) {
      const std::string& name = (*macro)->syntax->name;
      return name.empty() ? "<Macro anonymous>" : fmt::format("<Macro '{}'>", name);
    }
    return fmt::format("<{} object>", value.type_name());
  }

  // Returns an empty text if JSON has no such value.
  static std::string simple_json(const Value& value) {
    if (value.is_none()) return "null";
    if (value.is<bool>()) return value.integer() != 0 ? "true" : "false";
    if (value.is_integer() || value.is<Unsigned>()) return integer(value);
    if (!value.is<double>()) return "";
    if (std::isnan(value.number())) return "NaN";
    if (std::isinf(value.number())) return value.number() > 0 ? "Infinity" : "-Infinity";
    return show_float(value.number());
  }

  void quote(const Text& text) {
    const std::string& bytes = text.bytes();
    budget_.scan(bytes.size());
    const bool single = bytes.find('\'') == std::string::npos;
    const bool has_double = bytes.find('"') != std::string::npos;
    const char mark = json_ == nullptr && (single || has_double) ? '\'' : '"';
    plain({&mark, 1});
    append_mapped(text.content, text_, [&](const Character& c, std::string* piece) {
      *piece = json_ != nullptr ? json_escape(c.value) : repr_escape(c.value, mark);
    });
    plain({&mark, 1});
  }

  // repr_escape() and json_escape() return an empty text if the character is written unchanged.
  static std::string repr_escape(char32_t c, char mark) {
    if (c == static_cast<unsigned char>(mark)) return {'\\', mark};
    if (c == '\\') return "\\\\";
    if (c == '\n') return "\\n";
    if (c == '\r') return "\\r";
    if (c == '\t') return "\\t";
    if (is_printable(c)) return "";
    const auto value = static_cast<uint32_t>(c);
    if (value < 0x100) return fmt::format("\\x{:02x}", value);
    return value < 0x10000 ? fmt::format("\\u{:04x}", value) : fmt::format("\\U{:08x}", value);
  }

  std::string json_escape(char32_t c) const {
    constexpr std::string_view kNamed = "\"\\\n\r\t\b\f";
    constexpr std::string_view kNames = "\"\\nrtbf";
    const auto value = static_cast<uint32_t>(c);
    const size_t named = c < 0x80 ? kNamed.find(static_cast<char>(c)) : std::string_view::npos;
    if (named != std::string_view::npos) return {'\\', kNames[named]};
    if (c >= ' ' && (c < 0x80 || !json_->ascii_only)) return "";
    if (value < 0x10000) return fmt::format("\\u{:04x}", value);
    const uint32_t rest = value - 0x10000;
    return fmt::format("\\u{:04x}\\u{:04x}", 0xD800 + (rest >> 10), 0xDC00 + (rest & 0x3FF));
  }

  Budget& budget_;
  const JsonStyle* json_;
  MarkedText* text_;
  int level_ = 0;
};

}  // namespace

void append_repr(Runtime& runtime, const Value& value, MarkedText* text) {
  Writer(runtime, nullptr, text).add(value);
  runtime.budget.check_text(text->bytes.size());
}

void append_json(Runtime& runtime, const Value& value, const JsonStyle& style, MarkedText* text) {
  Writer(runtime, &style, text).add(value);
  runtime.budget.check_text(text->bytes.size());
}

void append_str(Runtime& runtime, const Value& value, MarkedText* text) {
  const Text* own = value.text();
  if (value.is_undefined()) return;
  if (own == nullptr) return append_repr(runtime, value, text);
  if (!runtime.budget.check_text(text->bytes.size() + own->bytes().size())) return;
  runtime.budget.copy(own->bytes().size());
  text->append(own->content);
}

MarkedText str_of(Runtime& runtime, const Value& value) {
  MarkedText text;
  append_str(runtime, value, &text);
  return text;
}

MarkedText repr_of(Runtime& runtime, const Value& value) {
  MarkedText text;
  append_repr(runtime, value, &text);
  return text;
}

std::string show_float(double value) {
  if (std::isnan(value)) return "nan";  // The sign is not shown.
  std::string text = fmt::format("{}", value);
  if (text.find_first_of(".en") == std::string::npos) text += ".0";
  return text;
}

}  // namespace lockstep::jinja
