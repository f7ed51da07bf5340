// SPDX-License-Identifier: Apache-2.0
// Bytes of a GenerateRequest: parse, check, convert. An accepted input is within the limits. The
// unit test is GenerateRequestTest.MutatedBytesAreRefusedOrKeepTheLimits.
#include "tests/fuzz/generate_request_input.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const std::unique_ptr<lockstep::Model> model = [] {
    auto demo = lockstep::Model::open({});
    LOCKSTEP_CHECK(demo.ok());
    return *std::move(demo);
  }();
  lockstep::check_generate_request_input(std::string(reinterpret_cast<const char*>(data), size),
                                         *model);
  return 0;
}
