// SPDX-License-Identifier: Apache-2.0
// Quantized weights in a config.json.
#pragma once

#include <filesystem>
#include <string>

#include "absl/status/statusor.h"
#include "base/json.h"

namespace lockstep {

// The scheme of `lockstep quantize`; "" for plain weights. Any other method is an error that names
// the method and a way out.
absl::StatusOr<std::string> read_quantization(const Json& quantization_config);

// An error if the folder has NVIDIA's hf_quant_config.json and its config.json does not mention
// quantization.
absl::Status check_quantization_file(const std::filesystem::path& folder, const Json& json);

}  // namespace lockstep
