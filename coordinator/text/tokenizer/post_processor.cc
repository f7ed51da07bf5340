// SPDX-License-Identifier: Apache-2.0
// A template is a list of special tokens around "Sequence A"; successive templates wrap one
// another.
#include "coordinator/text/tokenizer/post_processor.h"

#include "coordinator/text/tokenizer/spec.h"

namespace lockstep {

absl::StatusOr<PostProcessor> PostProcessor::from_json(const Json& spec, int32_t vocabulary_size) {
  PostProcessor processor;
  if (!spec.is_null()) RETURN_IF_ERROR(processor.add(spec, vocabulary_size));
  return processor;
}

absl::Status PostProcessor::add(const Json& spec, int32_t vocabulary_size) {
  ASSIGN_OR_RETURN(const std::string type, type_member(spec, "post_processor"));
  if (type == "TemplateProcessing") return add_template(spec, vocabulary_size);
  if (type == "BertProcessing" || type == "RobertaProcessing") {
    return add_pair(spec, type, vocabulary_size);
  }
  if (type == "ByteLevel") return absl::OkStatus();  // It changes offsets, never ids.
  if (type == "Sequence") {
    const Json& parts = member(spec, "processors");
    if (!parts.is_array()) {
      return invalid_argument("post_processor \"Sequence\": \"processors\" must be a list");
    }
    for (const Json& part : parts) RETURN_IF_ERROR(add(part, vocabulary_size));
    return absl::OkStatus();
  }
  return invalid_argument(
      "post_processor \"{:.60}\" is not supported; supported: Sequence, TemplateProcessing, "
      "BertProcessing, RobertaProcessing, ByteLevel",
      type);
}

// {"cls": [text, id], "sep": [text, id]}: one token before and one after.
absl::Status PostProcessor::add_pair(const Json& spec, const std::string& type,
                                     int32_t vocabulary_size) {
  const auto id_of = [&](const char* key) -> absl::StatusOr<int32_t> {
    const Json& token = member(spec, key);
    if (!token.is_array() || token.size() != 2 || !token[1].is_number_integer() || token[1] < 0 ||
        token[1] >= vocabulary_size) {
      return invalid_argument("post_processor \"{}\": \"{}\" must be [text, id of a token]", type,
                              key);
    }
    return token[1].get<int32_t>();
  };
  ASSIGN_OR_RETURN(const int32_t begin, id_of("cls"));
  ASSIGN_OR_RETURN(const int32_t end, id_of("sep"));
  before_.insert(before_.begin(), begin);
  after_.push_back(end);
  return absl::OkStatus();
}

absl::Status PostProcessor::add_template(const Json& spec, int32_t vocabulary_size) {
  const std::string what = "post_processor \"TemplateProcessing\"";
  const Json& single = member(spec, "single");
  if (!single.is_array()) return invalid_argument("{}: \"single\" must be a list", what);
  std::vector<int32_t> before;
  std::vector<int32_t> after;
  bool in_front = true;
  for (const Json& part : single) {
    if (member(member(part, "Sequence"), "id") == "A" && in_front) {
      in_front = false;
      continue;
    }
    const Json& name = member(member(part, "SpecialToken"), "id");
    if (!name.is_string()) {
      return invalid_argument("{}: \"single\" must be special tokens around one sequence A", what);
    }
    const std::string& text = name.get_ref<const std::string&>();
    const Json& ids = member(member(member(spec, "special_tokens"), text.c_str()), "ids");
    if (!ids.is_array()) {
      return invalid_argument("{}: \"special_tokens\" has no ids for \"{:.60}\"", what, text);
    }
    for (const Json& id : ids) {
      if (!id.is_number_integer() || id < 0 || id >= vocabulary_size) {
        return invalid_argument("{}: an id of \"{:.60}\" is not in the vocabulary", what, text);
      }
      (in_front ? before : after).push_back(id.get<int32_t>());
    }
  }
  if (in_front) return invalid_argument("{}: \"single\" has no sequence A", what);
  before_.insert(before_.begin(), before.begin(), before.end());
  after_.insert(after_.end(), after.begin(), after.end());
  return absl::OkStatus();
}

void PostProcessor::add_special(std::vector<int32_t>* ids) const {
  ids->insert(ids->begin(), before_.begin(), before_.end());
  ids->insert(ids->end(), after_.begin(), after_.end());
}

std::optional<int32_t> PostProcessor::first() const {
  return before_.empty() ? std::nullopt : std::optional(before_.front());
}

std::optional<int32_t> PostProcessor::last() const {
  return after_.empty() ? std::nullopt : std::optional(after_.back());
}

}  // namespace lockstep
