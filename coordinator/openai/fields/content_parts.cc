// SPDX-License-Identifier: Apache-2.0
// Reads a message's content: a string, or a list of parts, as OpenAI's APIs and others write it.
#include <utility>

#include "base/status.h"
#include "coordinator/openai/fields/values.h"

namespace lockstep::openai {
namespace {

struct PartType {
  const char* type;
  const char* member;  // The member with the text: a string, or a list of objects with a "text".
  bool is_thought;
};

constexpr PartType kPartTypes[] = {
    {"text", "text", false},
    {"input_text", "text", false},
    {"output_text", "text", false},
    {"refusal", "refusal", false},
    {"thinking", "thinking", true},
    {"reasoning", "text", true},
    {"reasoning", "reasoning", true},
    {"reasoning", "content", true},
    {"reasoning", "summary", true},
    {"reasoning_text", "text", true},
    {"summary_text", "text", true},
    {"redacted_thinking", "", true},  // It has no text that can be read.
};

void append_line(const std::string& line, std::string* text) {
  if (!text->empty()) *text += '\n';
  *text += line;
}

// A string, or the texts of the objects in a list.
absl::StatusOr<std::string> text_in(const std::string& field, const OrderedJson& value) {
  if (!value.is_array()) return as_string(field, value);
  std::string text;
  for (const OrderedJson& each : value) {
    const OrderedJson* found = each.is_object() ? member(each, "text") : nullptr;
    if (found != nullptr && found->is_string()) append_line(found->get<std::string>(), &text);
  }
  return text;
}

absl::Status read_part(const std::string& field, const OrderedJson& part, ContentText* content) {
  if (part.is_string()) {
    content->texts.push_back(part.get<std::string>());
    return absl::OkStatus();
  }
  if (!part.is_object()) return wrong_value(field, "an object or a string", part);
  const OrderedJson* type = member(part, "type");
  const PartType* known = nullptr;
  for (const PartType& row : kPartTypes) {
    if (type == nullptr || *type != row.type) continue;
    known = &row;
    if (member(part, row.member) != nullptr) break;
  }
  if (known == nullptr) {
    return wrong_value(
        field + ".type",
        "\"text\", \"refusal\" or \"thinking\" (this server reads no images, audio or "
        "files)",
        type == nullptr ? OrderedJson() : *type);
  }
  const OrderedJson* value = member(part, known->member);
  if (value == nullptr && known->is_thought) return absl::OkStatus();
  ASSIGN_OR_RETURN(std::string text,
                   text_in(field + "." + known->member, value == nullptr ? OrderedJson() : *value));
  if (!known->is_thought) {
    content->texts.push_back(std::move(text));
  } else if (!text.empty()) {
    append_line(text, &content->thoughts);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ContentText> read_content(const std::string& field, const OrderedJson& value) {
  ContentText content;
  if (!value.is_array()) {
    ASSIGN_OR_RETURN(content.texts.emplace_back(), as_string(field, value));
    return content;
  }
  for (size_t i = 0; i < value.size(); ++i) {
    RETURN_IF_ERROR(read_part(fmt::format("{}[{}]", field, i), value[i], &content));
  }
  return content;
}

void set_texts(std::vector<std::string> texts, v1::ChatMessage* message) {
  if (texts.size() < 2) return message->set_content(texts.empty() ? "" : std::move(texts[0]));
  for (std::string& text : texts) message->add_content_parts(std::move(text));
}

std::string arguments_text(const OrderedJson* value) {
  if (value == nullptr) return "";
  return value->is_string() ? value->get<std::string>() : write_json(*value);
}

}  // namespace lockstep::openai
