// SPDX-License-Identifier: Apache-2.0
// The folder of a model: where it is found, and what is said of one that cannot be served. Errors
// are kInvalidArgument, one line that says what is there and the way out. Free functions, for any
// thread.
#pragma once

#include <filesystem>
#include <string>

#include "absl/status/statusor.h"

namespace lockstep {

// The folder that `path` means: a folder with a config.json, that file, `org/name` in the Hugging
// Face cache, or "" for the demo model.
absl::StatusOr<std::filesystem::path> find_model_folder(const std::string& path);

// Whether `path` has the form of `org/name`.
bool looks_like_hub_name(const std::string& path);

// Whether the folder has weights in safetensors; those of an adapter do not count.
bool has_weights(const std::filesystem::path& folder);
// An error where it has none.
absl::Status check_weights(const std::filesystem::path& folder);

// "has no tokenizer.json", and which tokenizer the folder has in its place.
std::string missing_tokenizer(const std::filesystem::path& folder);

}  // namespace lockstep
