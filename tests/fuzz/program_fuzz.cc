// SPDX-License-Identifier: Apache-2.0
// Bytes of a Program: parse, validate, print, bind. Anything may be refused; nothing may crash.
// Inputs grow out of valid programs, which random bytes would not become.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include "proto/print.h"
#include "proto/validate.h"
#include "tests/support/tiny_program.h"
#include "worker/executor.h"

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
  lockstep::program::Program program;
  if (!program.ParseFromArray(data, static_cast<int>(size))) return 0;
  (void)lockstep::to_text(program);
  if (!lockstep::validate(program).ok()) return 0;
  const auto bindings = lockstep::bind(program, lockstep::cpu_backend());
  if (!bindings.ok()) return 0;
  (void)lockstep::plan_weights(program, *bindings);
  (void)lockstep::buffer_bytes(program, *bindings, 2);
  return 0;
}
