// SPDX-License-Identifier: Apache-2.0
// Fuzzes tokenizer.json and its use. An input is a tokenizer.json up to the first NUL byte, which
// no JSON has, and then a text. The result is a Status or an answer, never a crash.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "coordinator/text/detokenizer/detokenizer.h"
#include "coordinator/text/tokenizer/tokenizer.h"
#include "coordinator/text/unicode/unicode.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lockstep;  // The entry point must not be in the namespace.
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t end = input.find('\0');
  const std::string_view text = end == std::string_view::npos ? "" : input.substr(end + 1);
  const auto tokenizer = Tokenizer::parse(input.substr(0, end));
  if (!tokenizer.ok()) {
    LOCKSTEP_CHECK(message_of(tokenizer.status()).find('\n') == std::string::npos);
    return 0;
  }
  for (const bool parse_special : {false, true}) {
    const auto ids = (*tokenizer)->encode(text, {.parse_special = parse_special});
    if (!ids.ok()) continue;
    for (const int32_t id : *ids) LOCKSTEP_CHECK(id >= 0 && id < (*tokenizer)->vocab_size());
    Detokenizer stream(tokenizer->get(), false);
    std::string joined;
    for (const int32_t id : *ids) joined += stream.push(id);
    joined += stream.finish();
    LOCKSTEP_CHECK(joined == (*tokenizer)->decode(*ids));
    LOCKSTEP_CHECK(!first_invalid_utf8(joined).has_value());
  }
  return 0;
}
