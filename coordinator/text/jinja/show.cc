// SPDX-License-Identifier: Apache-2.0
#include "coordinator/text/jinja/show.h"

#include <cmath>

#include "coordinator/text/jinja/characters.h"
#include "coordinator/text/jinja/loop.h"
#include "coordinator/text/unicode.h"

namespace lockstep::jinja {
namespace {

class Repr {
 public:
  Repr(Runtime& runtime, MarkedText* text) : runtime_(runtime), text_(text) {}

  absl::Status add(const Value& value) {
    runtime_.budget.spend(1);
    RETURN_IF_ERROR(runtime_.budget.check_text(text_->bytes.size()));
    // Only namespaces can be deeper: they may even hold themselves.
    if (depth_ > 2 * runtime_.budget.limits().depth) {
      return resource_exhausted("a namespace is too deep to be shown");
    }
    ++depth_;
    const absl::Status status = dispatch(value);
    --depth_;
    return status;
  }

 private:
  void plain(std::string_view text) { text_->append(text, false); }

  absl::Status dispatch(const Value& value) {
    if (const Text* text = value.text()) {
      quote(*text);
      return runtime_.budget.status();
    }
    if (const Sequence* sequence = value.sequence()) return add_sequence(*sequence);
    if (const Dict* dict = value.dict()) return add_dict(*dict);
    if (const auto* space = value.get_if<Namespace*>()) {
      plain("<Namespace ");
      RETURN_IF_ERROR(add_dict((*space)->attributes));
      plain(">");
      return absl::OkStatus();
    }
    plain(simple(value));
    return absl::OkStatus();
  }

  static std::string simple(const Value& value) {
    if (value.is_undefined()) return "Undefined";
    if (value.is_none()) return "None";
    if (value.is<bool>()) return value.integer() != 0 ? "True" : "False";
    if (value.is<int64_t>()) return std::to_string(value.integer());
    if (const auto* wide = value.get_if<Unsigned>())
      return std::to_string(static_cast<uint64_t>(*wide));
    if (value.is<double>()) return show_float(value.number());
    if (const auto* macro = value.get_if<const Macro*>()) {
      const std::string& name = (*macro)->syntax->name;
      return name.empty() ? "<Macro anonymous>" : fmt::format("<Macro '{}'>", name);
    }
    return fmt::format("<{} object>", type_name(value));
  }

  absl::Status add_items(const std::vector<Value>& items) {
    for (size_t i = 0; i < items.size(); ++i) {
      if (i > 0) plain(", ");
      RETURN_IF_ERROR(add(items[i]));
    }
    return absl::OkStatus();
  }

  absl::Status add_sequence(const Sequence& sequence) {
    using Type = Sequence::Type;
    if (sequence.type == Type::kRange) {
      plain(sequence.shown);
    } else if (sequence.type == Type::kIterator) {
      plain("<generator object>");
    } else if (sequence.type == Type::kTuple) {
      plain("(");
      RETURN_IF_ERROR(add_items(sequence.items));
      plain(sequence.items.size() == 1 ? ",)" : ")");
    } else {
      const bool is_view = sequence.type != Type::kList;
      if (is_view) plain(fmt::format("{}(", type_name(sequence)));
      plain("[");
      RETURN_IF_ERROR(add_items(sequence.items));
      plain(is_view ? "])" : "]");
    }
    return absl::OkStatus();
  }

  absl::Status add_dict(const Dict& dict) {
    plain("{");
    bool first = true;
    for (const auto& [key, value] : dict.entries) {
      if (!std::exchange(first, false)) plain(", ");
      RETURN_IF_ERROR(add(key));
      plain(": ");
      RETURN_IF_ERROR(add(value));
    }
    plain("}");
    return absl::OkStatus();
  }

  void quote(const Text& text) {
    const std::string& bytes = text.bytes();
    runtime_.budget.scan(bytes.size());
    const bool single = bytes.find('\'') == std::string::npos;
    const char mark = single || bytes.find('"') != std::string::npos ? '\'' : '"';
    plain(std::string_view(&mark, 1));
    MarkCursor marks(text.content);
    for (size_t at = 0; at < bytes.size();) {
      const CodePoint point = code_point_at(bytes, at);
      const std::string_view whole = std::string_view(bytes).substr(at, point.bytes);
      text_->append(escape(point.value, mark, whole), marks.at(at));
      at += point.bytes;
    }
    plain(std::string_view(&mark, 1));
  }

  static std::string escape(char32_t c, char mark, std::string_view whole) {
    if (c == static_cast<unsigned char>(mark) || c == '\\') return fmt::format("\\{}", whole);
    if (c == '\n') return "\\n";
    if (c == '\r') return "\\r";
    if (c == '\t') return "\\t";
    if (is_printable(c)) return std::string(whole);
    const auto value = static_cast<uint32_t>(c);
    if (value < 0x100) return fmt::format("\\x{:02x}", value);
    return value < 0x10000 ? fmt::format("\\u{:04x}", value) : fmt::format("\\U{:08x}", value);
  }

  Runtime& runtime_;
  MarkedText* text_;
  int depth_ = 0;
};

}  // namespace

absl::Status append_repr(Runtime& runtime, const Value& value, MarkedText* text) {
  RETURN_IF_ERROR(Repr(runtime, text).add(value));
  return runtime.budget.check_text(text->bytes.size());
}

absl::Status append_str(Runtime& runtime, const Value& value, MarkedText* text) {
  if (value.is_undefined()) return absl::OkStatus();
  const Text* own = value.text();
  if (own == nullptr) return append_repr(runtime, value, text);
  RETURN_IF_ERROR(runtime.budget.check_text(text->bytes.size() + own->bytes().size()));
  runtime.budget.copy(own->bytes().size());
  text->append(own->content);
  return absl::OkStatus();
}

absl::StatusOr<MarkedText> str_of(Runtime& runtime, const Value& value) {
  MarkedText text;
  RETURN_IF_ERROR(append_str(runtime, value, &text));
  return text;
}

std::string show_float(double value) {
  if (std::isnan(value)) return "nan";  // Whatever its sign.
  std::string text = fmt::format("{}", value);
  if (text.find_first_of(".en") == std::string::npos) text += ".0";
  return text;
}

}  // namespace lockstep::jinja
