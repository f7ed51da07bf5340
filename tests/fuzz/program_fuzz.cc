// SPDX-License-Identifier: Apache-2.0
// Bytes of a Program: parse, validate, print. Anything may be refused; nothing may crash. Inputs
// grow out of valid programs, which random bytes would not become. What is accepted is bound,
// loaded and run by tests/worker/kernel_choice/binding_fuzz_test.cc.
#include <google/protobuf/stubs/logging.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include "proto/print.h"
#include "proto/validate/validate.h"
#include "tests/support/tiny_program.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned int seed) {
  if (size <= 1) {  // The empty input that every run begins with.
    const std::string valid =
        (seed % 2 == 0 ? lockstep::layer_program() : lockstep::shared_layer_program(0, 2))
            .SerializeAsString();
    if (valid.size() <= max_size) {
      std::memcpy(data, valid.data(), valid.size());
      size = valid.size();
    }
  }
  return LLVMFuzzerMutate(data, size, max_size);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const google::protobuf::LogSilencer quiet;  // Of names that are not UTF-8.
  lockstep::program::Program program;
  if (!program.ParseFromArray(data, static_cast<int>(size))) return 0;
  (void)lockstep::to_text(program);
  (void)lockstep::validate(program);
  return 0;
}
