// SPDX-License-Identifier: Apache-2.0
// Decomposes by utf8proc's tables, sorts marks itself (utf8proc's swaps of neighbours are quadratic
// in the length of a run of marks), and composes by utf8proc.
#include "coordinator/text/unicode/unicode_forms.h"

#include <utf8proc.h>

#include <algorithm>
#include <vector>

#include "base/check.h"
#include "coordinator/text/unicode/unicode.h"

namespace lockstep {
namespace {

int combining_class(utf8proc_int32_t c) { return utf8proc_get_property(c)->combining_class; }

// A decomposed stretch of text between characters that Hugging Face tokenizers do not know.
class Stretch {
 public:
  Stretch(UnicodeForm form, std::string* out)
      : compose_(form == UnicodeForm::kNfc || form == UnicodeForm::kNfkc), out_(out) {
    const bool compatible = form == UnicodeForm::kNfkc || form == UnicodeForm::kNfkd;
    options_ = UTF8PROC_DECOMPOSE | (compatible ? UTF8PROC_COMPAT : 0);
  }

  void add(char32_t c) {
    constexpr int kLongest = 32;  // The longest decomposition has 18.
    utf8proc_int32_t buffer[kLongest];
    const auto count = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(c), buffer, kLongest,
                                               static_cast<utf8proc_option_t>(options_), nullptr);
    LOCKSTEP_CHECK(count > 0 && count <= kLongest);
    points_.insert(points_.end(), buffer, buffer + count);
  }

  // Sorts and composes the stretch, appends it to the result, and begins the next stretch.
  void flush() {
    sort_marks();
    auto count = static_cast<utf8proc_ssize_t>(points_.size());
    if (compose_ && count > 0) {
      constexpr auto kOptions = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE);
      count = utf8proc_normalize_utf32(points_.data(), count, kOptions);
      LOCKSTEP_CHECK(count >= 0);
    }
    for (utf8proc_ssize_t i = 0; i < count; ++i) {
      append_utf8(static_cast<char32_t>(points_[static_cast<size_t>(i)]), out_);
    }
    points_.clear();
  }

 private:
  void sort_marks() {
    const auto is_starter = [](utf8proc_int32_t c) { return combining_class(c) == 0; };
    for (auto begin = points_.begin(); begin != points_.end();) {
      begin = std::find_if_not(begin, points_.end(), is_starter);
      const auto end = std::find_if(begin, points_.end(), is_starter);
      std::stable_sort(begin, end, [](utf8proc_int32_t a, utf8proc_int32_t b) {
        return combining_class(a) < combining_class(b);
      });
      begin = end;
    }
  }

  int options_ = 0;
  bool compose_;
  std::string* out_;
  std::vector<utf8proc_int32_t> points_;
};

}  // namespace

std::string to_unicode_form(std::string_view text, UnicodeForm form) {
  // Bytes below CC belong to characters below U+0300, which NFC leaves unchanged.
  const unsigned char first_affected = form == UnicodeForm::kNfc ? 0xCC : 0x80;
  const bool is_plain = std::all_of(text.begin(), text.end(), [&](char byte) {
    return static_cast<unsigned char>(byte) < first_affected;
  });
  std::string out;
  if (is_plain) return std::string(text);
  out.reserve(text.size());
  Stretch stretch(form, &out);
  for (size_t offset = 0; offset < text.size();) {
    const CodePoint point = code_point_at(text, offset);
    offset += point.bytes;
    if (is_unknown_to_normalizer(point.value)) {
      stretch.flush();
      append_utf8(point.value, &out);
    } else {
      stretch.add(point.value);
    }
  }
  stretch.flush();
  return out;
}

}  // namespace lockstep
