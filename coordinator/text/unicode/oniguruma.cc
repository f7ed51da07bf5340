// SPDX-License-Identifier: Apache-2.0
// Oniguruma with the syntax and options of Hugging Face tokenizers, under limits.
#include "coordinator/text/unicode/oniguruma.h"

#include <oniguruma.h>

#include <string>

#include "base/check.h"
#include "coordinator/text/unicode/unicode_properties.h"

namespace lockstep {
namespace {

constexpr unsigned long kRetryLimit = 1'000'000;
constexpr unsigned int kStackLimit = 1'000'000;  // Entries of about 40 bytes.
constexpr unsigned int kDepthLimit = 200;        // For nested groups and classes.

struct FreeRegion {
  void operator()(OnigRegion* region) const { onig_region_free(region, 1); }
};
struct FreeParameters {
  void operator()(OnigMatchParam* parameters) const { onig_free_match_param(parameters); }
};

const OnigUChar* bytes_of(std::string_view text) {
  return reinterpret_cast<const OnigUChar*>(text.data());
}

std::string message_of_code(int code, OnigErrorInfo* info) {
  OnigUChar buffer[ONIG_MAX_ERROR_MESSAGE_LEN];
  const int length = info == nullptr ? onig_error_code_to_str(buffer, code)
                                     : onig_error_code_to_str(buffer, code, info);
  return std::string(reinterpret_cast<const char*>(buffer), static_cast<size_t>(length));
}

}  // namespace

OnigEncodingTypeST* onig_utf8() {
  static const bool ready = [] {
    OnigEncoding encodings[] = {ONIG_ENCODING_UTF8};
    const int code = onig_initialize(encodings, 1);
    onig_set_parse_depth_limit(kDepthLimit);
    define_new_scripts();
    return code == ONIG_NORMAL;
  }();
  LOCKSTEP_CHECK(ready);
  return ONIG_ENCODING_UTF8;
}

void OnigurumaRegex::Free::operator()(re_pattern_buffer* regex) const { onig_free(regex); }

absl::StatusOr<OnigurumaRegex> OnigurumaRegex::compile(std::string_view pattern) {
  regex_t* regex = nullptr;
  OnigErrorInfo info{};
  const OnigUChar* begin = bytes_of(pattern);
  const int code = onig_new(&regex, begin, begin + pattern.size(), ONIG_OPTION_NONE, onig_utf8(),
                            ONIG_SYNTAX_ONIGURUMA, &info);
  if (code != ONIG_NORMAL) return invalid_argument("{}", message_of_code(code, &info));
  return OnigurumaRegex(regex);
}

absl::StatusOr<std::optional<std::pair<size_t, size_t>>> OnigurumaRegex::search(
    std::string_view text, size_t from) const {
  const std::unique_ptr<OnigRegion, FreeRegion> region(onig_region_new());
  const std::unique_ptr<OnigMatchParam, FreeParameters> parameters(onig_new_match_param());
  LOCKSTEP_CHECK(region != nullptr && parameters != nullptr);
  onig_initialize_match_param(parameters.get());
  onig_set_retry_limit_in_search_of_match_param(parameters.get(), kRetryLimit);
  onig_set_match_stack_limit_size_of_match_param(parameters.get(), kStackLimit);
  const OnigUChar* begin = bytes_of(text);
  const OnigUChar* end = begin + text.size();
  const int found = onig_search_with_param(regex_.get(), begin, end, begin + from, end,
                                           region.get(), ONIG_OPTION_NONE, parameters.get());
  if (found == ONIG_MISMATCH) return std::nullopt;
  if (found < 0) {
    return resource_exhausted("searching a pattern at byte {} of the text: {}", from,
                              message_of_code(found, nullptr));
  }
  return std::pair(static_cast<size_t>(region->beg[0]), static_cast<size_t>(region->end[0]));
}

}  // namespace lockstep
