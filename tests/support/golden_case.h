// SPDX-License-Identifier: Apache-2.0
// Reference models with what the reference computes from them (shared/goldens/README.md), for tests
// that run a model without a checkpoint library.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "tests/support/interpret.h"

namespace lockstep {

// $LOCKSTEP_TEST_DATA, else ../shared of the source tree, if it is there: else skip, with a word.
std::optional<std::filesystem::path> test_data();

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

// `folder` is relative to test_data(). Ends the test program where a file is not as it should be.
GoldenCase load_golden_case(const std::string& folder);

// Every tensor of a safetensors file, widened to float32.
naive::Tensors load_safetensors(const std::filesystem::path& path);

}  // namespace lockstep
