// SPDX-License-Identifier: Apache-2.0
// Reference models with the reference's results (shared/goldens/README.md), for tests that run a
// model without a checkpoint library.
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
