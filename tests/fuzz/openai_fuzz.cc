// SPDX-License-Identifier: Apache-2.0
// The first byte chooses one of three endpoints, the others are a JSON body: parse, check, render,
// tokenize. Its unit test is ApiRequestTest.RandomBodiesAreAcceptedOrRefusedAsTheClientsError.
#include "tests/fuzz/openai_input.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const std::unique_ptr<lockstep::Model> model = [] {
    auto demo = lockstep::Model::open({});
    LOCKSTEP_CHECK(demo.ok());
    return *std::move(demo);
  }();
  if (size == 0) return 0;
  const auto endpoint = data[0] == 'c'   ? lockstep::openai::kCompletions
                        : data[0] == 'r' ? lockstep::openai::kResponses
                                         : lockstep::openai::kChat;
  const std::string body(reinterpret_cast<const char*>(data) + 1, size - 1);
  lockstep::openai::check_openai_input(endpoint, body, *model);
  return 0;
}
