// SPDX-License-Identifier: Apache-2.0
// A stream's events, the place of the cut, and the client's request to resume. Its unit test
// is ResumptionTest.RandomStreamsAreJoinedAtRandomCuts.
#include "tests/fuzz/resume_input.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  lockstep::openai::check_resume_input({reinterpret_cast<const char*>(data), size});
  return 0;
}
