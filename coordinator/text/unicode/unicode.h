// SPDX-License-Identifier: Apache-2.0
// UTF-8 and the character properties that tokenizers need, as of Unicode 16, like the reference's
// regular expressions. Free functions without state, for any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace lockstep {

// The general categories, in the order of utf8proc.
enum class Category : uint8_t {
  kCn,
  kLu,
  kLl,
  kLt,
  kLm,
  kLo,
  kMn,
  kMc,
  kMe,
  kNd,
  kNl,
  kNo,
  kPc,
  kPd,
  kPs,
  kPe,
  kPi,
  kPf,
  kPo,
  kSm,
  kSc,
  kSk,
  kSo,
  kZs,
  kZl,
  kZp,
  kCc,
  kCf,
  kCs,
  kCo
};

struct CategoryRange {
  char32_t first;
  char32_t last;
  Category category;
};

struct CodePoint {
  char32_t value;
  size_t bytes;
};

// The first sequence of some bytes: a whole code point; a broken sequence, whose first `bytes`
// bytes are replaced by one U+FFFD; or a sequence that the end of the bytes cuts.
struct Utf8Sequence {
  enum class Kind { kWhole, kBroken, kCut };
  Kind kind;
  size_t bytes;
};

inline constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

// There must be at least one byte.
Utf8Sequence first_sequence(std::string_view bytes);

// One U+FFFD for each broken sequence, or for each byte of it.
enum class Replaces { kSequences, kBytes };

// Removes the whole characters at the front of `bytes` and returns them, with U+FFFD for broken
// ones. A sequence that is cut at the end of `bytes` stays, unless `is_end`: no more bytes follow.
std::string take_characters(std::string* bytes, bool is_end, Replaces replaces);

// The text must be well-formed.
int64_t count_characters(std::string_view text);

// The offset of the first byte that is not part of well-formed UTF-8.
std::optional<size_t> first_invalid_utf8(std::string_view text);

// The code point that begins at `offset`, and the one that ends there. The text must be well-formed
// and have such a code point.
CodePoint code_point_at(std::string_view text, size_t offset);
CodePoint code_point_before(std::string_view text, size_t offset);

void append_utf8(char32_t code_point, std::string* text);

Category category_of(char32_t code_point);

// Whether `name` is a category ("Lu") or a group of them ("L"), and whether a category is in it.
bool is_category_name(std::string_view name);
bool is_in(Category category, std::string_view name);

bool is_letter(char32_t code_point);
bool is_number(char32_t code_point);
bool is_space(char32_t code_point);  // White_Space

// Whether it is a number of Unicode 17. Hugging Face's pre-tokenizer "Digits" splits at these.
bool is_numeric(char32_t code_point);

// \w of the two engines of tokenizers: Rust's for added tokens and Whitespace, Oniguruma's for
// patterns.
bool is_word(char32_t code_point);
bool is_pattern_word(char32_t code_point);

// Whether the pre-tokenizer "Punctuation" splits at it: ASCII punctuation, and category P as of
// Unicode 7.
bool is_punctuation(char32_t code_point);

// Appends the lower-case form, one or two code points.
void append_lowercase(char32_t code_point, std::string* text);

// The text with its control characters escaped, for a message of one line.
std::string one_line(std::string_view text);

// Code points that are unknown to Unicode 14 (Oniguruma's tables), in order.
std::span<const CategoryRange> assigned_after_unicode_14();

// Code points that tokenizers' normalizer leaves unchanged, because its tables are Unicode 9's.
bool is_unknown_to_normalizer(char32_t code_point);

}  // namespace lockstep
