// SPDX-License-Identifier: Apache-2.0
#include "tools/load/trace.h"

#include <algorithm>

#include "base/json.h"
#include "base/system/file.h"
#include "tools/load/lengths.h"

namespace lockstep {
namespace {

constexpr int64_t kMaxFileBytes = int64_t{1} << 30;
constexpr double kMaxSeconds = 1e6;  // Eleven days.

// The text's lines without their ends, empty ones included.
std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    lines.push_back(line);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

absl::StatusOr<int64_t> get_length(const Json& line, const char* key) {
  ASSIGN_OR_RETURN(const int64_t length, get_int(line, key));
  if (length >= 1 && length <= Lengths::kMax) return length;
  return invalid_argument("{0}: must be 1 to {2}, found {1}", key, length, Lengths::kMax);
}

absl::StatusOr<TraceEntry> parse_entry(std::string_view text) {
  ASSIGN_OR_RETURN(const Json line, parse_json(text, "the line"));
  if (!line.is_object()) return invalid_argument("must be an object, found {}", describe(line));
  TraceEntry entry;
  ASSIGN_OR_RETURN(entry.at_s, get_double(line, "at_s"));
  if (entry.at_s < 0 || entry.at_s > kMaxSeconds) {
    return invalid_argument("at_s: must be 0 to {1} seconds, found {0}", entry.at_s, kMaxSeconds);
  }
  ASSIGN_OR_RETURN(entry.max_tokens, get_length(line, "max_tokens"));
  if (line.contains("prompt") == line.contains("prompt_tokens")) {
    return invalid_argument("must have either prompt or prompt_tokens");
  }
  if (line.contains("prompt")) {
    ASSIGN_OR_RETURN(entry.prompt, get_string(line, "prompt"));
    if (entry.prompt.empty()) return invalid_argument("prompt: must not be empty");
  } else {
    ASSIGN_OR_RETURN(entry.prompt_tokens, get_length(line, "prompt_tokens"));
  }
  return entry;
}

}  // namespace

absl::StatusOr<std::vector<TraceEntry>> parse_trace(std::string_view text, std::string_view what) {
  std::vector<TraceEntry> trace;
  int number = 0;
  for (const std::string_view line : lines_of(text)) {
    ++number;
    if (line.empty()) continue;
    absl::StatusOr<TraceEntry> entry = parse_entry(line);
    if (!entry.ok()) {
      return invalid_argument("{}, line {}: {}", what, number, message_of(entry.status()));
    }
    trace.push_back(*std::move(entry));
  }
  if (trace.empty())
    return invalid_argument("{}: must have at least one request, found none", what);
  std::ranges::stable_sort(trace, {}, &TraceEntry::at_s);
  return trace;
}

absl::StatusOr<std::vector<TraceEntry>> read_trace(const std::filesystem::path& path) {
  ASSIGN_OR_RETURN(const std::string text, read_file(path, kMaxFileBytes));
  return parse_trace(text, path.string());
}

absl::StatusOr<std::vector<std::string>> read_prompts(const std::filesystem::path& path) {
  ASSIGN_OR_RETURN(const std::string text, read_file(path, kMaxFileBytes));
  std::vector<std::string> prompts;
  for (const std::string_view line : lines_of(text)) {
    if (!line.empty()) prompts.emplace_back(line);
  }
  if (prompts.empty())
    return invalid_argument("{}: must have at least one prompt, found none", path.string());
  return prompts;
}

}  // namespace lockstep
