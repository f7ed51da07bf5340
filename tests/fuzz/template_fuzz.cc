// SPDX-License-Identifier: Apache-2.0
// Fuzzes chat templates. An input is a template up to the first NUL byte, and then the JSON of its
// variables. The result is a text with marks that fit it, or an error of one line that names the
// template's line; never a crash, and never more time or memory than the limits allow.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "coordinator/text/jinja/template.h"
#include "coordinator/text/unicode/unicode.h"

namespace {

// A tenth of the usual limits, so that inputs that reach a limit are quick, too.
constexpr lockstep::jinja::Limits kLimits = {
    .steps = 100'000, .text_bytes = 400'000, .memory_bytes = 16 << 20};

void check_error(const absl::Status& status) {
  const std::string message = lockstep::message_of(status);
  LOCKSTEP_CHECK(message.starts_with("line "));
  LOCKSTEP_CHECK(message.find('\n') == std::string::npos);
}

void check_text(const lockstep::MarkedText& text) {
  LOCKSTEP_CHECK(text.bytes.size() <= static_cast<size_t>(kLimits.text_bytes));
  LOCKSTEP_CHECK(!lockstep::first_invalid_utf8(text.bytes).has_value());
  size_t end = 0;
  bool first = true;
  for (const lockstep::ByteRange& range : text.from_request) {
    LOCKSTEP_CHECK(range.begin < range.end && (first ? range.begin >= end : range.begin > end));
    end = range.end;
    first = false;
  }
  LOCKSTEP_CHECK(end <= text.bytes.size());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lockstep;  // The entry point must not be in the namespace.
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t end = input.find('\0');
  const auto parsed = jinja::Template::parse(input.substr(0, end), kLimits);
  if (!parsed.ok()) {
    check_error(parsed.status());
    return 0;
  }
  const auto json =
      parse_ordered_json(end == std::string_view::npos ? "{}" : input.substr(end + 1), "variables");
  std::vector<jinja::Variable> variables;
  if (json.ok() && json->is_object()) {
    for (const auto& [name, value] : json->items()) {
      variables.push_back({name, &value, [](std::string_view, std::string_view) { return true; }});
    }
  }
  const auto text = parsed->render(variables, {.tm_mday = 1});
  if (text.ok()) {
    check_text(*text);
  } else {
    check_error(text.status());
  }
  return 0;
}
