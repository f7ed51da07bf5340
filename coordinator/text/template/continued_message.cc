// SPDX-License-Identifier: Apache-2.0
#include "coordinator/text/template/continued_message.h"

#include <algorithm>
#include <vector>

#include "coordinator/text/jinja/strings/characters.h"
#include "coordinator/text/text_search.h"

namespace lockstep {
namespace {

// The blank at the end shows whether the template trims messages.
constexpr std::string_view kTag = "CONTINUE_FINAL_MESSAGE_TAG ";

std::string_view trimmed(std::string_view text) {
  const size_t begin = jinja::blanks_end(text, 0);
  return text.substr(begin, std::max(jinja::blanks_begin(text), begin) - begin);
}

// The fields to tag: reasoning has several names, to which with_reasoning_names() copied it.
std::vector<std::string> fields_of(const std::string& field, const OrderedJson& message) {
  const std::vector<std::string> reasoning = {"reasoning_content", "thinking", "reasoning"};
  if (std::ranges::find(reasoning, field) == reasoning.end()) return {field};
  std::vector<std::string> fields;
  for (const std::string& name : reasoning) {
    if (message.contains(name) && message[name] == message[field]) fields.push_back(name);
  }
  return fields;
}

// The string to which the tag is appended: the field's value, or the text of its last block that
// has one.
OrderedJson* text_of(OrderedJson* value) {
  if (value->is_string()) return value;
  if (!value->is_array()) return nullptr;
  for (auto block = value->rbegin(); block != value->rend(); ++block) {
    if (block->is_object() && block->contains("text") && (*block)["text"].is_string()) {
      return &(*block)["text"];
    }
  }
  return nullptr;
}

}  // namespace

bool continues(const OrderedJson& continue_final_message) {
  return continue_final_message.is_string() ? !continue_final_message.empty()
                                            : continue_final_message == true;
}

absl::StatusOr<ContinuedMessage> ContinuedMessage::mark(const OrderedJson& continue_final_message,
                                                        std::string_view source,
                                                        OrderedJson* messages) {
  if (messages->empty()) return invalid_argument("continue_final_message: there is no message");
  const std::string field = continue_final_message.is_string()
                                ? continue_final_message.get<std::string>()
                                : std::string("content");
  OrderedJson& message = messages->back();
  if (!message.contains(field) || message[field].is_null()) {
    return invalid_argument("continue_final_message: the last message has no \"{}\"",
                            printable(field));
  }
  const std::vector<std::string> fields = fields_of(field, message);
  const bool is_read = std::ranges::any_of(
      fields, [&](const std::string& name) { return source.find(name) != std::string_view::npos; });
  if (!is_read) {
    return invalid_argument("continue_final_message: the template does not read \"{}\"",
                            printable(field));
  }
  ContinuedMessage continued;
  for (const std::string& name : fields) {
    OrderedJson* text = text_of(&message[name]);
    if (text == nullptr) {
      return invalid_argument("continue_final_message: the last message has no text to continue");
    }
    continued.words_ = text->get<std::string>();
    *text = continued.words_ + std::string(kTag);
  }
  return continued;
}

absl::Status ContinuedMessage::cut(MarkedText* text) const {
  const size_t tag = text->bytes.rfind(trimmed(kTag));
  if (tag == std::string::npos || find_text(text->bytes, trimmed(words_)) == std::string::npos) {
    return invalid_argument(
        "continue_final_message: the last message is not in the template's prompt");
  }
  const bool trims = !std::string_view(text->bytes).substr(tag).starts_with(kTag);
  text->truncate(tag);
  if (trims) text->truncate(jinja::blanks_begin(text->bytes));
  return absl::OkStatus();
}

}  // namespace lockstep
