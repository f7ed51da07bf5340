// SPDX-License-Identifier: Apache-2.0
// Nested sequences are flattened when read; each step rewrites the whole text.
#include "coordinator/text/tokenizer/normalizer.h"

#include <algorithm>

#include "coordinator/text/tokenizer/spec.h"
#include "coordinator/text/unicode/unicode.h"
#include "coordinator/text/unicode/unicode_9.h"
#include "coordinator/text/unicode/unicode_forms.h"

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

// The text without the characters that `removes` selects. `at_start` becomes false if the first
// character is removed.
template <typename Removes>
std::string without(std::string_view text, Removes removes, bool* at_start) {
  std::string kept;
  for (size_t offset = 0; offset < text.size();) {
    const CodePoint point = code_point_at(text, offset);
    if (!removes(point.value)) {
      kept += text.substr(offset, point.bytes);
    } else if (offset == 0) {
      *at_start = false;
    }
    offset += point.bytes;
  }
  return kept;
}

// Nmt of tokenizers removes control characters; other blanks and invisible characters become
// blanks.
bool is_removed_by_nmt(char32_t c) {
  return (c >= 0x1 && c <= 0x8) || c == 0xB || (c >= 0xE && c <= 0x1F) || c == 0x7F || c == 0x8F ||
         c == 0x9F;
}

std::string with_blanks_of_nmt(std::string_view text) {
  constexpr char32_t kBlanks[] = {0x9,    0xA,    0xC,    0xD,    0x1680, 0x200B, 0x200C, 0x200D,
                                  0x200E, 0x200F, 0x2028, 0x2029, 0x2581, 0xFEFF, 0xFFFD};
  std::string blank;
  for (size_t offset = 0; offset < text.size();) {
    const CodePoint point = code_point_at(text, offset);
    const bool is_blank = std::ranges::find(kBlanks, point.value) != std::end(kBlanks);
    blank += is_blank ? " " : text.substr(offset, point.bytes);
    offset += point.bytes;
  }
  return blank;
}

bool is_continuation(char byte) { return (static_cast<uint8_t>(byte) & 0xC0) == 0x80; }

// The number of bytes that two texts share at the beginning, in whole characters; common_suffix():
// at the end.
size_t common_prefix(std::string_view a, std::string_view b) {
  const size_t limit = std::min(a.size(), b.size());
  size_t same = 0;
  while (same < limit && a[same] == b[same]) ++same;
  while (same > 0 && same < b.size() && is_continuation(b[same])) --same;
  return same;
}

size_t common_suffix(std::string_view a, std::string_view b, size_t limit) {
  limit = std::min({limit, a.size(), b.size()});
  size_t same = 0;
  while (same < limit && a[a.size() - 1 - same] == b[b.size() - 1 - same]) ++same;
  while (same > 0 && is_continuation(b[b.size() - same])) --same;
  return same;
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
  } else if (type == "StripAccents") {
    step.kind = Kind::kStripAccents;
  } else if (type == "Nmt") {
    step.kind = Kind::kNmt;
  } else {
    return invalid_argument(
        "{} is not supported; supported: Sequence, Prepend, Replace, NFC, NFD, NFKC, NFKD, "
        "Lowercase, Strip, StripAccents, Nmt",
        what);
  }
  steps_.push_back(std::move(step));
  return absl::OkStatus();
}

absl::Status Normalizer::normalize(std::string* text, Place place, bool* at_start) const {
  // Chained replacements can grow a text without bound. No Unicode form makes it twenty times as
  // long.
  const size_t limit = text->size() * 64 + 4096;
  bool ignored = false;
  for (const Step& step : steps_) {
    if (text->size() > limit) {
      return resource_exhausted("normalizing makes {} bytes or more of the text; the limit is {}",
                                text->size(), limit);
    }
    switch (step.kind) {
      case Kind::kPrepend:
        if (place.first && !text->empty()) text->insert(0, step.text);
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
        if (place.first && step.strip_left && !text->empty() &&
            is_space(code_point_at(*text, 0).value)) {
          *at_start = false;
        }
        *text = strip(*text, place.first && step.strip_left, place.last && step.strip_right);
        break;
      case Kind::kStripAccents:
        *text = without(*text, is_mark_of_unicode_9, place.first ? at_start : &ignored);
        break;
      case Kind::kNmt:
        *text = with_blanks_of_nmt(
            without(*text, is_removed_by_nmt, place.first ? at_start : &ignored));
        break;
    }
  }
  return absl::OkStatus();
}

namespace {

// Merges two pieces into one that counts as the request's.
void merge_with_next(size_t index, std::vector<MarkedPiece>* pieces) {
  MarkedPiece& first = (*pieces)[index];
  first.end = (*pieces)[index + 1].end;
  first.from_request = true;
  pieces->erase(pieces->begin() + static_cast<ptrdiff_t>(index) + 1);
}

}  // namespace

// Each piece is normalized alone, and each pair of neighbours together (`joint`). `joint` has three
// parts. The longest beginning that it shares with the first piece's own form has the first piece's
// mark. The longest end that it shares with the second piece's own form has the second piece's
// mark. The middle counts as the request's. If a middle would replace more than the form of one
// piece, two pieces are merged, and the work begins again. If the result still differs from the
// normalized whole text, all of that text counts as the request's.
absl::Status Normalizer::normalize(MarkedText* text, bool* at_start) const {
  constexpr int kMaxMerges = 8;  // With more, as in an attack, all pieces are merged into one.
  std::vector<MarkedPiece> pieces = pieces_of(*text, 0, text->bytes.size());
  for (int merges = 0;; ++merges) {
    bool start = *at_start;
    MarkedText made;
    ASSIGN_OR_RETURN(const size_t done, normalize_pieces(*text, pieces, &start, &made));
    if (done == pieces.size()) {
      std::string whole = text->bytes;
      RETURN_IF_ERROR(normalize(&whole, {}, at_start));
      *text = whole == made.bytes ? std::move(made) : MarkedText::of(whole, true);
      return absl::OkStatus();
    }
    merge_with_next(done - 1, &pieces);
    while (merges >= kMaxMerges && pieces.size() > 1) merge_with_next(0, &pieces);
  }
}

// Returns the number of pieces that are in `made`. Stops before a piece that would change more of
// `made` than the `intact` bytes at its end.
absl::StatusOr<size_t> Normalizer::normalize_pieces(const MarkedText& text,
                                                    const std::vector<MarkedPiece>& pieces,
                                                    bool* at_start, MarkedText* made) const {
  const auto normalized = [&](size_t first, size_t last, bool* start) {
    const size_t begin = pieces[first].begin;
    std::string form = text.bytes.substr(begin, pieces[last].end - begin);
    const absl::Status status =
        normalize(&form, {.first = first == 0, .last = last + 1 == pieces.size()}, start);
    return status.ok() ? absl::StatusOr<std::string>(std::move(form)) : status;
  };
  std::string before;  // The previous piece, normalized alone.
  size_t intact = 0;   // `made` ends with this many of the last bytes of `before`.
  for (size_t i = 0; i < pieces.size(); ++i) {
    bool ignored = true;
    ASSIGN_OR_RETURN(std::string form, normalized(i, i, i == 0 ? at_start : &ignored));
    const bool marked = pieces[i].from_request;
    if (i == 0) {
      made->append(form, marked);
      intact = form.size();
    } else {
      ASSIGN_OR_RETURN(const std::string joint, normalized(i - 1, i, &ignored));
      const size_t prefix = common_prefix(before, joint);
      const size_t suffix = common_suffix(form, joint, joint.size() - prefix);
      const size_t changed = before.size() - prefix;
      if (changed > intact) return i;
      made->truncate(made->bytes.size() - changed);
      made->append(std::string_view(joint).substr(prefix, joint.size() - prefix - suffix), true);
      made->append(std::string_view(form).substr(form.size() - suffix), marked);
      intact = suffix;
    }
    before = std::move(form);
  }
  return pieces.size();
}

}  // namespace lockstep
