// SPDX-License-Identifier: Apache-2.0
// Bytes of a Program: parse, validate, print, bind. Anything may be refused; nothing may crash.
#include <cstddef>
#include <cstdint>

#include "proto/print.h"
#include "proto/validate.h"
#include "worker/executor.h"

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
