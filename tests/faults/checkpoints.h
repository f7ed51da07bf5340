// SPDX-License-Identifier: Apache-2.0
// A model whose folder can get other weights of the same shape at any moment.
#pragma once

#include <array>
#include <string>

#include "tests/support/processes/process.h"

namespace lockstep::faults {

inline constexpr int kVariants = 2;

// How a checkpoint is rewritten: a new file takes the old file's name, or the old file's bytes are
// overwritten, so that a concurrent reader sees bytes of both.
enum class Rewrite { kRename, kOverwrite };

// A folder with the demo model's tokenizer and a Llama of random weights, which is larger than the
// demo model: a load takes some hundred milliseconds, and a step takes a few. With `shape`, a
// folder of config.json and tokenizer.json, the model is that one: workers make random weights, and
// no file of weights is rewritten.
class Checkpoints {
 public:
  explicit Checkpoints(std::string shape);
  const std::string& folder() const { return shape_.empty() ? folder_.path() : shape_; }
  int variants() const { return shape_.empty() ? kVariants : 1; }
  int variant() const { return variant_; }  // The variant in the folder now.
  void put(int variant, Rewrite how);

 private:
  const std::string shape_;
  testing::TemporaryFolder folder_;
  std::array<std::string, kVariants> bytes_;  // The bytes of model.safetensors.
  int variant_ = 0;
};

}  // namespace lockstep::faults
