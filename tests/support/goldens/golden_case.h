// SPDX-License-Identifier: Apache-2.0
// Goldens: small models with the results of the reference (shared/goldens/README.md). These readers
// do not use the checkpoint library, which the tests check.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "tests/support/goldens/interpret.h"

namespace lockstep {

struct GoldenPrompt {
  std::vector<int32_t> ids;
  std::vector<int32_t> greedy;
  std::vector<float> last_logits;
};

struct GoldenCase {
  std::filesystem::path folder;
  std::vector<GoldenPrompt> prompts;
  naive::Tensors tensors;
};

// Loads the folder test_data(name). Ends the test program if a file is wrong.
GoldenCase load_golden_case(const std::string& name);

// Every tensor of a safetensors file, widened to float32.
naive::Tensors load_safetensors(const std::filesystem::path& path);

}  // namespace lockstep
