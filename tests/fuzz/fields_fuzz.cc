// SPDX-License-Identifier: Apache-2.0
// Names and values of a body's fields, for two servers without workers. Its unit test is
// FieldTableTest.NoRandomFieldIsLostOnAnyEndpoint.
#include <spdlog/spdlog.h>

#include "base/check.h"
#include "tests/fuzz/fields_input.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  spdlog::set_level(spdlog::level::warn);
  static auto* const check = new lockstep::openai::FieldsCheck;
  const std::string fault = check->fault_of({reinterpret_cast<const char*>(data), size});
  if (!fault.empty()) std::fprintf(stderr, "%s\n", fault.c_str());
  LOCKSTEP_CHECK(fault.empty());
  return 0;
}
