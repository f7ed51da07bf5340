// SPDX-License-Identifier: Apache-2.0
// Finds a model's folder, and explains why a folder cannot be served. Errors are kInvalidArgument:
// one line that says what was found and how to fix it. Any thread may call these functions.
#pragma once

#include <filesystem>
#include <string>

#include "absl/status/statusor.h"

namespace lockstep {

// Resolves `path`: a folder with a config.json, that file, `org/name` in the Hugging Face cache, or
// "" for the demo model.
absl::StatusOr<std::filesystem::path> find_model_folder(const std::string& path);

// Whether `path` has the form `org/name`.
bool looks_like_hub_name(const std::string& path);

// Whether the folder has weights in safetensors, not counting an adapter's.
bool has_weights(const std::filesystem::path& folder);
// An error if the folder has no such weights.
absl::Status check_weights(const std::filesystem::path& folder);

// "has no tokenizer.json", and the tokenizer that the folder has instead.
std::string missing_tokenizer(const std::filesystem::path& folder);

}  // namespace lockstep
