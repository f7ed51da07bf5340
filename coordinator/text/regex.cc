// SPDX-License-Identifier: Apache-2.0
// PCRE2 with its just-in-time compiler; where that lacks stack for a match, its interpreter does
// it.
#include "coordinator/text/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "base/check.h"
#include "coordinator/text/regex_syntax.h"
#include "coordinator/text/unicode.h"

namespace lockstep {
namespace {

constexpr uint32_t kMatchLimit = 1'000'000;
constexpr uint32_t kHeapLimitKib = 64 * 1024;

struct FreeMatchData {
  void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
};
struct FreeMatchContext {
  void operator()(pcre2_match_context* context) const { pcre2_match_context_free(context); }
};

std::string pcre2_message(int code) {
  PCRE2_UCHAR buffer[256];
  pcre2_get_error_message(code, buffer, sizeof(buffer));
  return reinterpret_cast<const char*>(buffer);
}

}  // namespace

void Regex::Free::operator()(pcre2_real_code_8* code) const { pcre2_code_free(code); }

absl::StatusOr<Regex> Regex::compile(std::string_view pattern) {
  ASSIGN_OR_RETURN(const std::string text, to_pcre2(pattern));
  int error = 0;
  PCRE2_SIZE offset = 0;
  pcre2_code* code = pcre2_compile(
      reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(),
      PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C, &error, &offset, nullptr);
  if (code == nullptr) {
    return invalid_argument("pattern \"{:.80}\": {}", pattern, pcre2_message(error));
  }
  Regex regex(code);
  pcre2_jit_compile(code,
                    PCRE2_JIT_COMPLETE);  // Without it the interpreter runs: slower, the same.
  return regex;
}

absl::StatusOr<std::vector<Span>> Regex::find_all(std::string_view text) const {
  std::vector<Span> spans;
  if (text.empty()) return std::vector<Span>{{0, 0, false}};
  const std::unique_ptr<pcre2_match_data, FreeMatchData> data(
      pcre2_match_data_create_from_pattern(code_.get(), nullptr));
  const std::unique_ptr<pcre2_match_context, FreeMatchContext> context(
      pcre2_match_context_create(nullptr));
  LOCKSTEP_CHECK(data != nullptr && context != nullptr);
  pcre2_set_match_limit(context.get(), kMatchLimit);
  pcre2_set_heap_limit(context.get(), kHeapLimitKib);

  const auto search = [&](size_t from, uint32_t options) {
    return pcre2_match(code_.get(), reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), from,
                       PCRE2_NO_UTF_CHECK | options, data.get(), context.get());
  };
  size_t covered = 0;
  bool matched = false;
  for (size_t from = 0; from <= text.size();) {
    int found = search(from, 0);
    if (found == PCRE2_ERROR_JIT_STACKLIMIT) found = search(from, PCRE2_NO_JIT);
    if (found == PCRE2_ERROR_NOMATCH) break;
    if (found < 0) {
      return resource_exhausted("searching a pattern at byte {} of the text: {}", from,
                                pcre2_message(found));
    }
    const PCRE2_SIZE* place = pcre2_get_ovector_pointer(data.get());
    const size_t begin = place[0];
    const size_t end = place[1];
    // \K in a look-around, the only way to this, is refused by to_pcre2.
    LOCKSTEP_CHECK(begin >= covered && begin <= end);
    if (begin == end && matched && begin == covered) {  // Nothing, directly behind a match.
      from += from < text.size() ? code_point_at(text, from).bytes : 1;
      continue;
    }
    if (covered != begin) spans.push_back({covered, begin, false});
    spans.push_back({begin, end, true});
    matched = true;
    covered = from = end;
  }
  if (covered != text.size()) spans.push_back({covered, text.size(), false});
  return spans;
}

}  // namespace lockstep
