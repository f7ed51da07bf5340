// SPDX-License-Identifier: Apache-2.0
// Sequences are laid flat when read; each step rewrites the whole text.
#include "coordinator/text/normalizer.h"

#include "coordinator/text/spec.h"
#include "coordinator/text/unicode.h"
#include "coordinator/text/unicode_forms.h"

namespace lockstep {
namespace {

std::string lowercase(std::string_view text) {
  std::string lower;
  lower.reserve(text.size());
  for (size_t offset = 0; offset < text.size();) {
    const CodePoint point = code_point_at(text, offset);
    append_lowercase(point.value, &lower);
    offset += point.bytes;
  }
  return lower;
}

std::string strip(std::string_view text, bool left, bool right) {
  size_t begin = 0;
  size_t end = text.size();
  while (left && begin < end) {
    const CodePoint point = code_point_at(text, begin);
    if (!is_space(point.value)) break;
    begin += point.bytes;
  }
  while (right && end > begin) {
    const CodePoint point = code_point_before(text, end);
    if (!is_space(point.value)) break;
    end -= point.bytes;
  }
  return std::string(text.substr(begin, end - begin));
}

}  // namespace

absl::StatusOr<Normalizer> Normalizer::from_json(const Json& spec) {
  Normalizer normalizer;
  if (!spec.is_null()) RETURN_IF_ERROR(normalizer.add(spec));
  return normalizer;
}

absl::Status Normalizer::add(const Json& spec) {
  ASSIGN_OR_RETURN(const std::string type, type_member(spec, "normalizer"));
  const std::string what = fmt::format("normalizer \"{:.60}\"", type);
  if (type == "Sequence") {
    const Json& parts = member(spec, "normalizers");
    if (!parts.is_array()) return invalid_argument("{}: \"normalizers\" must be a list", what);
    for (const Json& part : parts) RETURN_IF_ERROR(add(part));
    return absl::OkStatus();
  }
  Step step{};
  if (type == "Prepend") {
    step.kind = Kind::kPrepend;
    ASSIGN_OR_RETURN(step.text, string_member(spec, "prepend", what));
  } else if (type == "Replace") {
    step.kind = Kind::kReplace;
    ASSIGN_OR_RETURN(step.text, string_member(spec, "content", what));
    ASSIGN_OR_RETURN(step.pattern, Pattern::from_json(member(spec, "pattern"), what));
  } else if (type == "NFC") {
    step.kind = Kind::kNfc;
  } else if (type == "NFD") {
    step.kind = Kind::kNfd;
  } else if (type == "NFKC") {
    step.kind = Kind::kNfkc;
  } else if (type == "NFKD") {
    step.kind = Kind::kNfkd;
  } else if (type == "Lowercase") {
    step.kind = Kind::kLowercase;
  } else if (type == "Strip") {
    step.kind = Kind::kStrip;
    ASSIGN_OR_RETURN(step.strip_left, bool_member(spec, "strip_left", what, std::nullopt));
    ASSIGN_OR_RETURN(step.strip_right, bool_member(spec, "strip_right", what, std::nullopt));
  } else {
    return invalid_argument(
        "{} is not supported; supported: Sequence, Prepend, Replace, NFC, NFD, NFKC, NFKD, "
        "Lowercase, Strip",
        what);
  }
  steps_.push_back(std::move(step));
  return absl::OkStatus();
}

absl::Status Normalizer::normalize(std::string* text, bool* at_start) const {
  // A chain of replacements can grow a text without end; no form of Unicode grows one twentyfold.
  const size_t limit = text->size() * 64 + 4096;
  for (const Step& step : steps_) {
    if (text->size() > limit) {
      return resource_exhausted("normalizing makes {} bytes or more of the text; the limit is {}",
                                text->size(), limit);
    }
    switch (step.kind) {
      case Kind::kPrepend:
        if (!text->empty()) text->insert(0, step.text);
        break;
      case Kind::kReplace: {
        ASSIGN_OR_RETURN(*text, step.pattern->replace_all(*text, step.text, limit));
        break;
      }
      case Kind::kNfc:
        *text = to_unicode_form(*text, UnicodeForm::kNfc);
        break;
      case Kind::kNfd:
        *text = to_unicode_form(*text, UnicodeForm::kNfd);
        break;
      case Kind::kNfkc:
        *text = to_unicode_form(*text, UnicodeForm::kNfkc);
        break;
      case Kind::kNfkd:
        *text = to_unicode_form(*text, UnicodeForm::kNfkd);
        break;
      case Kind::kLowercase:
        *text = lowercase(*text);
        break;
      case Kind::kStrip:
        if (step.strip_left && !text->empty() && is_space(code_point_at(*text, 0).value)) {
          *at_start = false;
        }
        *text = strip(*text, step.strip_left, step.strip_right);
        break;
    }
  }
  return absl::OkStatus();
}

}  // namespace lockstep
