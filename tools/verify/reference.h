// SPDX-License-Identifier: Apache-2.0
// Another implementation's values for a prompt: a safetensors file of float32 matrices, named after
// that implementation's modules, as written by tools/verify_reference.py.
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

// Names in the file: "tokens" is the prompt, int64 [rows]; "logits" [rows, vocabulary]; NAME is a
// module's output; NAME (input) its input. All except tokens may be missing.
class Reference {
 public:
  static absl::StatusOr<Reference> open(const std::filesystem::path& path);

  const std::vector<int32_t>& tokens() const { return tokens_; }
  // Null if the file has no such matrix. A prefix common to all modules is ignored:
  // "transformer.h.0" is "h.0", "model.language_model.layers.0" is "model.layers.0".
  const TensorInfo* find(std::string_view name) const;
  absl::StatusOr<std::vector<float>> read(const TensorInfo& tensor) const;

 private:
  explicit Reference(File file) : file_(std::move(file)) {}
  absl::Status read_tokens(const TensorInfo& tensor);

  File file_;
  std::map<std::string, TensorInfo> tensors_;  // By the significant part of the name.
  std::vector<int32_t> tokens_;
};

}  // namespace lockstep
