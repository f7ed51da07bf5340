// SPDX-License-Identifier: Apache-2.0
// An answer in one of the formats, in pieces. Its unit test is
// OutputParserTest.AnyTextIsParsedTheSameAtAnyCut.
#include "tests/fuzz/parser_input.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  lockstep::check_parser_input({reinterpret_cast<const char*>(data), size});
  return 0;
}
