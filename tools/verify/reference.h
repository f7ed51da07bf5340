// SPDX-License-Identifier: Apache-2.0
// What another implementation computes of a prompt: a safetensors file of float32 matrices by the
// names of the other's modules, as tools/verify_reference.py writes it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/system/file.h"
#include "checkpoint/safetensors.h"

namespace lockstep {

// Names in the file: "tokens" is the prompt, int64 [rows]; "logits" [rows, vocabulary]; NAME what
// the module of this name gave; NAME (input) what it was given. All but tokens may be missing.
class Reference {
 public:
  static absl::StatusOr<Reference> open(const std::filesystem::path& path);

  const std::vector<int32_t>& tokens() const { return tokens_; }
  // Null where there is none. What is before a name for all modules alike does not count:
  // "transformer.h.0" is "h.0", "model.language_model.layers.0" is "model.layers.0".
  const TensorInfo* find(std::string_view name) const;
  absl::StatusOr<std::vector<float>> read(const TensorInfo& tensor) const;

 private:
  explicit Reference(File file) : file_(std::move(file)) {}
  absl::Status read_tokens(const TensorInfo& tensor);

  File file_;
  std::map<std::string, TensorInfo> tensors_;  // By the part of the name that counts.
  std::vector<int32_t> tokens_;
};

}  // namespace lockstep
