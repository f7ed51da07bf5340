// SPDX-License-Identifier: Apache-2.0
// What a config.json says of weights that are no plain numbers.
#pragma once

#include <filesystem>
#include <string>

#include "absl/status/statusor.h"
#include "base/json.h"

namespace lockstep {

// The scheme of `lockstep quantize`; "" where weights are plain. Any other method is an error that
// says what it is and the way out.
absl::StatusOr<std::string> read_quantization(const Json& quantization_config);

// An error where the folder has NVIDIA's hf_quant_config.json beside a config.json that says
// nothing of quantization.
absl::Status check_quantization_file(const std::filesystem::path& folder, const Json& json);

}  // namespace lockstep
